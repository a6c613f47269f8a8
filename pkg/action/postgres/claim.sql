-- Gives an owner what dead owners left. Rows that another claimer holds are passed over.
-- Locks: the claimed rows of aip.action_state, skip-locked, so that no claimer waits.
-- Role: aip_data. Plan: the partial index of unfinished rows, anti-joined with the few owners.
WITH orphan AS (
    SELECT s.action_id FROM aip.action_state s
    WHERE (s.unsettled OR s.state IN ('accepted', 'queued', 'dispatched'))
      AND NOT EXISTS (SELECT FROM aip.action_owner o WHERE o.owner = s.owner AND o.lease_until > aip.clock())
    ORDER BY s.owner
    LIMIT $2
    FOR NO KEY UPDATE OF s SKIP LOCKED
), claimed AS (
    UPDATE aip.action_state s
    SET owner = $1, revision = s.revision + 1, updated_at = aip.clock()
    FROM orphan WHERE s.action_id = orphan.action_id
    RETURNING s.*
)
SELECT a.action_id, a.tenant_id, a.capability_id, a.principal, a.input, coalesce(a.idempotency_key, ''), a.mode, a.content_digest, a.created_at,
       s.revision, s.state, s.runs, s.fence, s.unsettled, s.cancel_requested, s.owner, s.timeout_us, s.deadline, s.evidence_digest, s.problem, s.updated_at,
       r.document
FROM claimed s
JOIN aip.action a USING (action_id)
LEFT JOIN aip.action_result r USING (action_id)
