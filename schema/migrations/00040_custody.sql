-- What an operator says about a replica whose host cannot speak for its past: another
-- journal is accepted, or the identity is retired for ever (G25, G38).
--
-- +goose Up

-- A journal that a host came with while the registry knew another one. It waits for an
-- operator; a registration with the known journal forgets it.
CREATE TABLE aip.journal_offer (
    replica_id text COLLATE "C" PRIMARY KEY REFERENCES aip.replica,
    journal_id text NOT NULL,
    offered_at timestamptz NOT NULL
);
GRANT SELECT, INSERT, UPDATE (journal_id, offered_at), DELETE ON aip.journal_offer TO aip_lifecycle;
GRANT SELECT ON aip.journal_offer TO aip_control, aip_data, aip_readonly;

ALTER DOMAIN aip.replica_status DROP CONSTRAINT replica_status_check;
ALTER DOMAIN aip.replica_status ADD CONSTRAINT replica_status_check CHECK (VALUE IN ('ready', 'draining', 'offline', 'retired'));

-- +goose Down

-- A retired replica is offline for programs that do not know the word; its host could
-- come back.
UPDATE aip.replica_live SET status = 'offline' WHERE status = 'retired';
ALTER DOMAIN aip.replica_status DROP CONSTRAINT replica_status_check;
ALTER DOMAIN aip.replica_status ADD CONSTRAINT replica_status_check CHECK (VALUE IN ('ready', 'draining', 'offline'));
DROP TABLE aip.journal_offer;
