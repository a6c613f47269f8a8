-- Inserts a submission and its first state; nothing if its id or its key is taken.
-- Locks: unique entries of aip.action, for the duration of the statement.
-- Role: aip_data. Plan: three inserts; the conflict check probes two unique indexes.
WITH fresh AS (
    INSERT INTO aip.action (action_id, tenant_id, capability_id, principal, input, idempotency_key, mode, content_digest, created_at)
    VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, $8, aip.clock())
    ON CONFLICT DO NOTHING
    RETURNING action_id, created_at
)
INSERT INTO aip.action_state (action_id, revision, state, runs, fence, unsettled, cancel_requested, owner, timeout_us, deadline, evidence_digest, problem, updated_at)
SELECT action_id, 1, 'accepted', 1, 0, false, false, $9, $10, $11, '', '', created_at FROM fresh
RETURNING updated_at
