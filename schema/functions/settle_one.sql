-- aip.settle_one ends the reservation of exactly the given assignment. p_route and p_attempt
-- are whole rows: every column is compared, so that a column added later is compared
-- without anybody remembering to. p_settled is the settlement that the caller already holds,
-- or null; it must then be the stored one.
--
-- Lock order: action -> replica, waited for -> scopes -> inserts.
-- Role: data. Plan: primary keys.
--
-- o_status: settled (o_first tells whether by this call), fence_lost.
CREATE OR REPLACE FUNCTION aip.settle_one(
    p_route aip.route, p_attempt aip.attempt, p_settled json,
    p_outcome text, p_code text, p_verdict text, p_peer_fault boolean, p_evidence text,
    OUT o_status text, OUT o_first boolean, OUT o_settlement json, OUT o_live json)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_live       aip.replica_live;
    v_settlement aip.attempt_settlement;
    v_equal      boolean;
BEGIN
    o_first := false;
    IF NOT pg_try_advisory_xact_lock(hashtextextended(p_route.action_id, 0)) THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(p_route.action_id, 0));
    END IF;
    IF p_outcome IN ('completed', 'cancelled') AND NOT p_peer_fault AND p_settled IS NULL AND NOT p_attempt.probe THEN
        SELECT l.* INTO v_live
        FROM aip.reservation v
        JOIN aip.route r ON r.action_id = v.action_id
        JOIN aip.attempt a ON a.action_id = v.action_id AND a.fence = v.fence
        JOIN aip.replica_live l ON l.replica_id = v.replica_id
        WHERE v.action_id = p_route.action_id AND r = p_route AND a = p_attempt
          AND l.circuit_state = 'closed' AND l.circuit_unknowns = 0 AND l.circuit_openings = 0
        FOR NO KEY UPDATE OF l;
        IF FOUND THEN -- nothing of the circuit moves: one statement does all
            WITH scopes AS (
                UPDATE aip.scope_counter s SET current = s.current - 1 -- as aip.give_scopes
                WHERE s.kind = ANY (p_attempt.scope_kinds) AND s.key = ANY (p_attempt.scope_keys)
                  AND s.key = p_attempt.scope_keys[array_position(p_attempt.scope_kinds, s.kind)]
            ), live AS (
                UPDATE aip.replica_live l SET active = l.active - 1 WHERE l.replica_id = p_route.replica_id
            ), gone AS (
                DELETE FROM aip.reservation v WHERE v.action_id = p_route.action_id
            ), settled AS (
                INSERT INTO aip.attempt_settlement AS s (action_id, fence, outcome, code, verdict, peer_fault, evidence_digest, settled_at)
                VALUES (p_attempt.action_id, p_attempt.fence, p_outcome, p_code, p_verdict, false, p_evidence, aip.clock())
                RETURNING s
            )
            SELECT 'settled', true, to_json(s), json_build_object('circuit_state', 'closed', 'circuit_opened_at', v_live.circuit_opened_at)
            INTO o_status, o_first, o_settlement, o_live
            FROM settled;
            RETURN;
        END IF;
    END IF;
    SELECT r = p_route AND a = p_attempt INTO v_equal
    FROM aip.route r JOIN aip.attempt a ON a.action_id = r.action_id
    WHERE r.action_id = p_route.action_id ORDER BY a.fence DESC LIMIT 1;
    IF v_equal IS NOT TRUE THEN
        o_status := 'fence_lost';
        RETURN;
    END IF;
    SELECT * INTO v_settlement FROM aip.attempt_settlement
    WHERE action_id = p_attempt.action_id AND fence = p_attempt.fence;
    IF p_settled IS NOT NULL
       AND v_settlement IS DISTINCT FROM json_populate_record(NULL::aip.attempt_settlement, p_settled) THEN
        o_status := 'fence_lost';
        RETURN;
    END IF;
    IF v_settlement.action_id IS NOT NULL THEN
        SELECT * INTO v_live FROM aip.replica_live WHERE replica_id = p_route.replica_id;
    ELSE
        v_live := aip.release(p_route, p_attempt, p_outcome, p_code, p_verdict, p_peer_fault, p_evidence);
        SELECT * INTO v_settlement FROM aip.attempt_settlement
        WHERE action_id = p_attempt.action_id AND fence = p_attempt.fence;
        o_first := true;
    END IF;
    o_status := 'settled';
    o_settlement := to_json(v_settlement);
    o_live := to_json(v_live);
END
$$;
GRANT EXECUTE ON FUNCTION aip.settle_one(aip.route, aip.attempt, json, text, text, text, boolean, text) TO aip_data;
