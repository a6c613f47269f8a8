-- aip.expire_attempts settles, as one set, attempts of offline or superseded epochs as
-- lease_expired and overdue ones as outcome_unknown, each with its reconciliation record
-- (G12, G42). Neither touches a circuit except to return a probe's slot.
--
-- Lock order: actions by key -> replicas by id -> scopes by kind and key -> writes. The
-- reservations are read again after the action locks: one that was settled meanwhile is not ours.
-- One leader at a time, by try-lock; the others return null.
-- Role: data. Plan: one scan of reservation, which holds only what is in flight.
CREATE OR REPLACE FUNCTION aip.expire_attempts(p_limit integer, OUT o_expired integer, OUT o_overdue integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_due     text[];
    v_ids     text[];
    v_overdue boolean[];
    v_now     timestamptz;
BEGIN
    IF NOT pg_try_advisory_xact_lock(4871, 3) THEN
        RETURN;
    END IF;
    v_now := aip.clock();
    SELECT array_agg(d.action_id) INTO v_due
    FROM (SELECT r.action_id FROM aip.reservation r
          JOIN aip.replica_live l ON l.replica_id = r.replica_id
          WHERE l.status = 'offline' OR l.lease_epoch <> r.lease_epoch OR r.deadline <= v_now
          ORDER BY r.action_id LIMIT p_limit) d;
    o_expired := 0;
    o_overdue := 0;
    IF v_due IS NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(k.key)
    FROM (SELECT hashtextextended(u.id, 0) AS key FROM unnest(v_due) AS u (id) ORDER BY 1) k;

    SELECT array_agg(r.action_id), array_agg(NOT (l.status = 'offline' OR l.lease_epoch <> r.lease_epoch))
    INTO v_ids, v_overdue
    FROM aip.reservation r JOIN aip.replica_live l ON l.replica_id = r.replica_id
    WHERE r.action_id = ANY (v_due)
      AND (l.status = 'offline' OR l.lease_epoch <> r.lease_epoch OR r.deadline <= v_now);
    IF v_ids IS NULL THEN
        RETURN;
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
    SELECT r.action_id, r.fence,
           CASE WHEN u.overdue THEN 'outcome_unknown' ELSE 'lease_expired' END,
           CASE WHEN u.overdue THEN 'settle.overdue' ELSE 'settle.lease_expired' END,
           '', false, '', v_now
    FROM unnest(v_ids, v_overdue) AS u (id, overdue) JOIN aip.reservation r ON r.action_id = u.id;
    INSERT INTO aip.reconciliation (action_id, fence, tenant_id, capability_id, instance_id, replica_id,
                                    state, cause, opened_at, next_probe_at)
    SELECT r.action_id, r.fence, t.tenant_id, t.capability_id, t.instance_id, t.replica_id, 'open',
           CASE WHEN u.overdue THEN 'settle.overdue' ELSE 'settle.lease_expired' END, v_now, v_now
    FROM unnest(v_ids, v_overdue) AS u (id, overdue)
    JOIN aip.reservation r ON r.action_id = u.id
    JOIN aip.route t ON t.action_id = u.id;
    DELETE FROM aip.reservation WHERE action_id = ANY (v_ids);
    SELECT count(*) FILTER (WHERE NOT u.late), count(*) FILTER (WHERE u.late)
    INTO o_expired, o_overdue FROM unnest(v_overdue) AS u (late);
END
$$;
GRANT EXECUTE ON FUNCTION aip.expire_attempts(integer) TO aip_data;
