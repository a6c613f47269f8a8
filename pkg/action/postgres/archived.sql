-- What stays of an archived action of one tenant.
-- Locks: none. Role: aip_data. Plan: two primary-key probes.
SELECT x.state, a.content_digest FROM aip.action_archive x JOIN aip.action a ON a.action_id = x.action_id
WHERE x.action_id = $1 AND a.tenant_id = $2
