-- One page of every tenant's uncertain actions, for the reconciler.
-- Locks: none. Role: aip_data. Plan: the partial index of uncertain rows, which is small.
SELECT a.action_id, a.tenant_id, a.capability_id, a.principal, NULL::bytea, coalesce(a.idempotency_key, ''), a.mode, a.content_digest, a.created_at,
       s.revision, s.state, s.runs, s.fence, s.unsettled, s.cancel_requested, s.owner, s.timeout_us, s.deadline, s.evidence_digest, s.problem, s.updated_at,
       NULL::bytea
FROM aip.action_state s
JOIN aip.action a USING (action_id)
WHERE s.state = 'uncertain'
  AND (a.created_at, a.action_id) < ($1::timestamptz, $2::text COLLATE "C")
ORDER BY a.created_at DESC, a.action_id DESC
LIMIT $3
