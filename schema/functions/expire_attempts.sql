-- aip.expire_attempts settles one batch as one set: attempts of offline, expired or
-- superseded epochs as lease_expired, or (p_overdue) those past their deadline as
-- outcome_unknown, each with its reconciliation record (G12, G42). Neither touches a circuit
-- except to return a probe's slot. It returns how many; null when another session leads.
--
-- Lock order: actions by key -> replicas by id -> scopes by kind and key -> writes. The
-- reservations are read again after the action locks: one that was settled meanwhile is not ours.
-- Role: data. Plan: one scan of reservation, which holds only what is in flight.
CREATE OR REPLACE FUNCTION aip.expire_attempts(p_limit integer, p_overdue boolean) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_due     text[];
    v_ids     text[];
    v_outcome text := CASE WHEN p_overdue THEN 'outcome_unknown' ELSE 'lease_expired' END;
    v_code    text := CASE WHEN p_overdue THEN 'settle.overdue' ELSE 'settle.lease_expired' END;
    v_now     timestamptz;
BEGIN
    IF NOT pg_try_advisory_xact_lock(4871, 3) THEN
        RETURN NULL;
    END IF;
    v_now := aip.clock();
    SELECT array_agg(d.action_id) INTO v_due
    FROM (SELECT r.action_id FROM aip.reservation r
          JOIN aip.replica_live l ON l.replica_id = r.replica_id
          WHERE CASE WHEN p_overdue THEN r.deadline <= v_now
                ELSE l.status = 'offline' OR l.lease_epoch <> r.lease_epoch OR l.lease_expires_at <= v_now END
          ORDER BY r.action_id LIMIT p_limit) d;
    IF v_due IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM pg_advisory_xact_lock(k.key)
    FROM (SELECT hashtextextended(u.id, 0) AS key FROM unnest(v_due) AS u (id) ORDER BY 1) k;

    SELECT array_agg(r.action_id) INTO v_ids
    FROM aip.reservation r JOIN aip.replica_live l ON l.replica_id = r.replica_id
    WHERE r.action_id = ANY (v_due)
      AND CASE WHEN p_overdue THEN r.deadline <= v_now
          ELSE l.status = 'offline' OR l.lease_epoch <> r.lease_epoch OR l.lease_expires_at <= v_now END;
    IF v_ids IS NULL THEN
        RETURN 0;
    END IF;

    PERFORM FROM (SELECT l.replica_id FROM aip.replica_live l
                  WHERE l.replica_id IN (SELECT r.replica_id FROM aip.reservation r WHERE r.action_id = ANY (v_ids))
                  ORDER BY l.replica_id FOR NO KEY UPDATE) x;
    PERFORM FROM (SELECT s.kind FROM aip.scope_counter s
                  WHERE (s.kind, s.key) IN (SELECT u.kind, u.key
                                            FROM aip.reservation r
                                            JOIN aip.attempt a ON a.action_id = r.action_id AND a.fence = r.fence
                                            CROSS JOIN unnest(a.scope_kinds, a.scope_keys) AS u (kind, key)
                                            WHERE r.action_id = ANY (v_ids))
                  ORDER BY s.kind, s.key FOR NO KEY UPDATE) x;
    v_now := aip.clock();

    UPDATE aip.replica_live l
    SET active = l.active - d.held, circuit_probes_out = greatest(l.circuit_probes_out - d.probes, 0)
    FROM (SELECT r.replica_id, count(*) AS held, count(*) FILTER (WHERE a.probe) AS probes
          FROM aip.reservation r JOIN aip.attempt a ON a.action_id = r.action_id AND a.fence = r.fence
          WHERE r.action_id = ANY (v_ids) GROUP BY r.replica_id) d
    WHERE l.replica_id = d.replica_id;
    UPDATE aip.scope_counter s
    SET current = s.current - d.held
    FROM (SELECT u.kind, u.key, count(*) AS held
          FROM aip.reservation r
          JOIN aip.attempt a ON a.action_id = r.action_id AND a.fence = r.fence
          CROSS JOIN unnest(a.scope_kinds, a.scope_keys) AS u (kind, key)
          WHERE r.action_id = ANY (v_ids) GROUP BY u.kind, u.key) d
    WHERE s.kind = d.kind AND s.key = d.key;
    INSERT INTO aip.attempt_settlement (action_id, fence, outcome, code, verdict, peer_fault, evidence_digest, settled_at)
    SELECT r.action_id, r.fence, v_outcome, v_code, '', false, '', v_now
    FROM aip.reservation r WHERE r.action_id = ANY (v_ids);
    INSERT INTO aip.reconciliation (action_id, fence, tenant_id, capability_id, instance_id, replica_id,
                                    state, cause, opened_at, next_probe_at)
    SELECT r.action_id, r.fence, t.tenant_id, t.capability_id, t.instance_id, t.replica_id, 'open', v_code, v_now, v_now
    FROM aip.reservation r JOIN aip.route t ON t.action_id = r.action_id
    WHERE r.action_id = ANY (v_ids);
    DELETE FROM aip.reservation WHERE action_id = ANY (v_ids);
    RETURN cardinality(v_ids);
END
$$;
GRANT EXECUTE ON FUNCTION aip.expire_attempts(integer, boolean) TO aip_data;
