-- What is archived can be listed, newest first, by a page that costs the same however much
-- there is. The operator's tool says of an action where its archived route went.
-- Serves: 90
--
-- +goose Up

-- Read backwards. What is archived comes in the order of its time: it is appended at the right
-- end, where pages are filled; an index that falls would be left half empty.
CREATE INDEX tombstone_newest ON aip.tombstone (archived_at, action_id DESC);
CREATE INDEX action_archive_newest ON aip.action_archive (archived_at, action_id DESC);
GRANT SELECT ON aip.archive TO aip_control;

-- +goose Down

REVOKE SELECT ON aip.archive FROM aip_control;
DROP INDEX aip.tombstone_newest, aip.action_archive_newest;
