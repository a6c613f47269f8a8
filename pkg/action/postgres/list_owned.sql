-- One page of what one owner still has to bring to rest, newest first, without input
-- and result.
-- Locks: none. Role: aip_data. Plan: the partial index of unfinished rows, by owner.
SELECT a.action_id, a.tenant_id, a.capability_id, a.principal, NULL::bytea, coalesce(a.idempotency_key, ''), a.mode, a.content_digest, a.created_at,
       s.revision, s.state, s.runs, s.fence, s.unsettled, s.cancel_requested, s.owner, s.timeout_us, s.deadline, s.evidence_digest, s.problem, s.updated_at,
       NULL::bytea
FROM aip.action_state s
JOIN aip.action a USING (action_id)
WHERE s.owner = $1 AND (s.unsettled OR s.state IN ('accepted', 'queued', 'dispatched'))
  AND (a.created_at, a.action_id) < ($2::timestamptz, $3::text COLLATE "C")
ORDER BY a.created_at DESC, a.action_id DESC
LIMIT $4
