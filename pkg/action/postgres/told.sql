-- Notes that hosts heard of the end of actions.
-- Locks: rows of aip.action_archive. Role: aip_data. Plan: primary-key probes.
UPDATE aip.action_archive SET told_at = aip.clock() WHERE action_id = ANY ($1::text[]) AND told_at IS NULL
