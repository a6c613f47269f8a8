-- One page of a tenant's actions, newest first, without input and result.
-- Locks: none. Role: aip_data. Plan: the newest-first index, from the page's place on.
SELECT a.action_id, a.tenant_id, a.capability_id, a.principal, NULL::bytea, coalesce(a.idempotency_key, ''), a.mode, a.content_digest, a.created_at,
       s.revision, s.state, s.runs, s.fence, s.unsettled, s.cancel_requested, s.owner, s.timeout_us, s.deadline, s.evidence_digest, s.problem, s.updated_at,
       NULL::bytea
FROM aip.action a
JOIN aip.action_state s USING (action_id)
WHERE a.tenant_id = $1
  AND ($2::text[] IS NULL OR s.state = ANY ($2))
  AND (a.created_at, a.action_id) < ($3::timestamptz, $4::text COLLATE "C")
ORDER BY a.created_at DESC, a.action_id DESC
LIMIT $5
