-- The end of an action's keeping: its input, state and result go, its id, idempotency key and
-- content digest stay where the unique indexes hold them, and the verdict is kept here. Its
-- host is told, until it has heard (G38, G44).
--
-- +goose Up

CREATE TABLE aip.action_archive (
    action_id       text COLLATE "C" PRIMARY KEY,
    state           text NOT NULL CHECK (state IN ('completed', 'failed', 'cancelled')),
    evidence_digest text NOT NULL,
    result_digest   text NOT NULL,
    ended_at        timestamptz NOT NULL,
    archived_at     timestamptz NOT NULL,
    tells           bigint NOT NULL DEFAULT 0 CHECK (tells >= 0),
    tell_at         timestamptz NOT NULL,
    told_at         timestamptz              -- NULL: its host has not heard yet
);
CREATE INDEX action_archive_untold ON aip.action_archive (tell_at) WHERE told_at IS NULL;
GRANT SELECT, UPDATE (tells, tell_at, told_at) ON aip.action_archive TO aip_data;
GRANT SELECT ON aip.action_archive TO aip_control, aip_readonly;

-- What may be archived one day, the longest ended first.
CREATE INDEX action_state_ended ON aip.action_state (updated_at)
    WHERE NOT unsettled AND state IN ('completed', 'failed', 'cancelled');

-- +goose Down

DROP INDEX aip.action_state_ended;
DROP TABLE aip.action_archive;
