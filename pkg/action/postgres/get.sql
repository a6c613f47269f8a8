-- One action of one tenant, whole.
-- Locks: none. Role: aip_data. Plan: three primary-key probes.
SELECT a.action_id, a.tenant_id, a.capability_id, a.principal, a.input, coalesce(a.idempotency_key, ''), a.mode, a.content_digest, a.created_at,
       s.revision, s.state, s.runs, s.fence, s.unsettled, s.cancel_requested, s.owner, s.timeout_us, s.deadline, s.evidence_digest, s.problem, s.updated_at,
       r.document
FROM aip.action a
JOIN aip.action_state s USING (action_id)
LEFT JOIN aip.action_result r USING (action_id)
WHERE a.action_id = $1 AND a.tenant_id = $2
