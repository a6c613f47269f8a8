-- Who has an id, or the key of a tenant and capability: the id's holder comes first.
-- Locks: none. Role: aip_data. Plan: two unique-index probes.
SELECT action_id, tenant_id FROM (
    SELECT a.action_id, a.tenant_id, 1 AS place FROM aip.action a WHERE a.action_id = $1
    UNION ALL
    SELECT a.action_id, a.tenant_id, 2 FROM aip.action a
    WHERE a.tenant_id = $2 AND a.capability_id = $3 AND a.idempotency_key = $4
) holders
ORDER BY place
LIMIT 1
