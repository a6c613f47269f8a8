-- Compare and set: moves the state if revision, tenant, present state and fence allow
-- it, and keeps a result that comes with it. A final action keeps the result it has.
-- Locks: one row of aip.action_state. Role: aip_data. Plan: primary-key probes.
WITH moved AS (
    UPDATE aip.action_state s
    SET revision = s.revision + 1, state = $5, runs = $6, fence = $7, unsettled = $8, cancel_requested = $9, owner = $10,
        timeout_us = $11, deadline = $12, evidence_digest = $13, problem = $14, updated_at = aip.clock()
    FROM aip.action a
    WHERE s.action_id = $1 AND a.action_id = s.action_id AND a.tenant_id = $2
      AND s.revision = $3 AND s.state = ANY ($4::text[]) AND s.fence <= $7
      AND (s.state NOT IN ('completed', 'failed', 'cancelled')
           OR EXISTS (SELECT FROM aip.action_result r WHERE r.action_id = s.action_id AND r.document = $15))
    RETURNING s.action_id, s.revision, s.updated_at
), kept AS (
    INSERT INTO aip.action_result (action_id, document)
    SELECT action_id, $15 FROM moved WHERE $15::bytea IS NOT NULL
    ON CONFLICT (action_id) DO NOTHING
)
SELECT revision, updated_at FROM moved
