-- Claims archived actions whose hosts are to be told, and moves their next turn on.
-- Locks: the claimed rows of aip.action_archive, skip-locked. Role: aip_data.
-- Plan: the partial index of what is not told, then primary keys.
WITH due AS (
    SELECT x.action_id FROM aip.action_archive x
    WHERE x.told_at IS NULL AND x.tells < $3 AND x.tell_at <= aip.clock()
    ORDER BY x.tell_at LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE aip.action_archive x
SET tells = x.tells + 1,
    tell_at = aip.clock() + least($2::bigint * (1::bigint << least(x.tells, 20)::integer), $4::bigint) * interval '1 microsecond'
FROM due d JOIN aip.action a ON a.action_id = d.action_id
WHERE x.action_id = d.action_id
RETURNING x.action_id, a.tenant_id
