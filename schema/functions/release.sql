-- aip.release ends one reservation whose action lock is held: counters, replica, circuit,
-- settlement row and, without a definite outcome, the reconciliation record (G42). It returns
-- the replica's state afterwards. The circuit follows settlement.Circuit: a probe's slot is
-- always returned; then only a completion resets and only an unknown or a peer fault counts;
-- an attempt not newer than the last opening, and an overdue one, change nothing.
--
-- Lock order: action (held) -> replica, waited for -> scopes -> inserts.
-- Role: data. Plan: primary keys.
CREATE OR REPLACE FUNCTION aip.release(
    p_route aip.route, p_attempt aip.attempt,
    p_outcome text, p_code text, p_verdict text, p_peer_fault boolean, p_evidence text) RETURNS aip.replica_live
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_live aip.replica_live;
    v_was  text;
    v_now  timestamptz;
    v_open numeric;
BEGIN
    SELECT * INTO v_live FROM aip.replica_live WHERE replica_id = p_route.replica_id FOR NO KEY UPDATE;
    UPDATE aip.scope_counter s SET current = s.current - 1 -- as aip.give_scopes
    WHERE s.kind = ANY (p_attempt.scope_kinds) AND s.key = ANY (p_attempt.scope_keys)
      AND s.key = p_attempt.scope_keys[array_position(p_attempt.scope_kinds, s.kind)];
    v_now := aip.clock();
    v_was := v_live.circuit_state;
    v_live.active := v_live.active - 1;
    IF p_attempt.probe AND v_live.circuit_probes_out > 0 THEN
        v_live.circuit_probes_out := v_live.circuit_probes_out - 1;
    END IF;
    IF p_attempt.circuit_threshold > 0 AND p_code <> 'settle.overdue'
       AND p_attempt.reserved_at > v_live.circuit_opened_at THEN
        IF p_peer_fault OR p_outcome = 'outcome_unknown' THEN
            v_live.circuit_unknowns := v_live.circuit_unknowns + 1;
            IF v_live.circuit_state = 'half_open' OR v_live.circuit_unknowns >= p_attempt.circuit_threshold THEN
                v_live.circuit_openings := v_live.circuit_openings + 1;
                v_live.circuit_state := 'open';
                v_live.circuit_opened_at := v_now;
                v_open := least(p_attempt.circuit_open_millis * 2::numeric ^ least(v_live.circuit_openings - 1, 40),
                                greatest(600000, p_attempt.circuit_open_millis));
                v_live.circuit_open_until := v_now + v_open::bigint * interval '1 millisecond';
            END IF;
        ELSIF p_outcome = 'completed' THEN
            v_live.circuit_state := 'closed';
            v_live.circuit_unknowns := 0;
            v_live.circuit_openings := 0;
            v_live.circuit_open_until := '0001-01-01 00:00:00+00';
        END IF;
    END IF;
    UPDATE aip.replica_live
    SET active = v_live.active, circuit_state = v_live.circuit_state, circuit_unknowns = v_live.circuit_unknowns,
        circuit_open_until = v_live.circuit_open_until, circuit_opened_at = v_live.circuit_opened_at,
        circuit_openings = v_live.circuit_openings, circuit_probes_out = v_live.circuit_probes_out
    WHERE replica_id = v_live.replica_id;
    INSERT INTO aip.attempt_settlement (action_id, fence, outcome, code, verdict, peer_fault, evidence_digest, settled_at)
    VALUES (p_attempt.action_id, p_attempt.fence, p_outcome, p_code, p_verdict, p_peer_fault, p_evidence, v_now);
    DELETE FROM aip.reservation WHERE action_id = p_attempt.action_id;
    IF p_outcome NOT IN ('completed', 'cancelled') THEN
        INSERT INTO aip.reconciliation (action_id, fence, tenant_id, capability_id, instance_id, replica_id,
                                        state, cause, opened_at, next_probe_at, evidence_digest)
        VALUES (p_attempt.action_id, p_attempt.fence, p_route.tenant_id, p_route.capability_id, p_route.instance_id,
                p_route.replica_id, 'open', COALESCE(NULLIF(p_code, ''), p_outcome), v_now, v_now, p_evidence);
    END IF;
    IF v_was <> v_live.circuit_state THEN
        INSERT INTO aip.event (at, revision, kind, subject, actor, reason, detail)
        SELECT v_now, revision, 'circuit', v_live.replica_id, 'registry', p_code, v_was || ' to ' || v_live.circuit_state
        FROM aip.catalog_revision WHERE one;
    END IF;
    RETURN v_live;
END
$$;
GRANT EXECUTE ON FUNCTION aip.release(aip.route, aip.attempt, text, text, text, boolean, text) TO aip_data;
