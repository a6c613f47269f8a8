-- aip.settle_one ends the reservation of exactly the given assignment. p_route and p_attempt
-- are whole rows: every column is compared, so that a column added later is compared
-- without anybody remembering to. p_settled is the settlement that the caller already holds,
-- or null; it must then be the stored one.
--
-- p_issued says that the caller holds the assignment as this database gave it out, compared
-- field by field: route and attempt are never changed, so its action and fence are the whole
-- of it, the rows are not sent, and p_kinds and p_keys are its counters. What then ends
-- definitely, without fault or probe, on a replica whose circuit is closed and clean, moves no
-- circuit: one statement does all.
--
-- Lock order: action -> replica, waited for -> scopes -> inserts.
-- Role: data. Plan: primary keys.
--
-- o_status: plain (o_at when, o_opened the circuit's last opening; it was this call),
-- settled (o_first tells whether by this call; o_settlement, o_live), fence_lost.
CREATE OR REPLACE FUNCTION aip.settle_one(
    p_action text, p_fence bigint, p_issued boolean, p_kinds text[], p_keys text[],
    p_route aip.route, p_attempt aip.attempt, p_settled json,
    p_outcome text, p_code text, p_verdict text, p_peer_fault boolean, p_evidence text,
    OUT o_status text, OUT o_at timestamptz, OUT o_opened timestamptz, OUT o_first boolean, OUT o_settlement json, OUT o_live json)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_live       aip.replica_live;
    v_settlement aip.attempt_settlement;
    v_rows       record;
    v_equal      boolean;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(p_action, 0)) THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(p_action, 0));
    END IF;
    IF p_issued AND p_outcome IN ('completed', 'cancelled') AND NOT p_peer_fault THEN
        WITH gone AS (
            DELETE FROM aip.reservation v WHERE v.action_id = p_action AND v.fence = p_fence RETURNING v.replica_id
        ), live AS (
            UPDATE aip.replica_live l SET active = l.active - 1
            FROM gone WHERE l.replica_id = gone.replica_id
              AND l.circuit_state = 'closed' AND l.circuit_unknowns = 0 AND l.circuit_openings = 0
            RETURNING l.circuit_opened_at AS opened
        ), scopes AS (
            UPDATE aip.scope_counter s SET current = s.current - 1 -- in the given order, which is the lock order
            FROM live CROSS JOIN unnest(p_kinds, p_keys) AS u (kind, key)
            WHERE s.kind = u.kind AND s.key = u.key
        ), settled AS (
            INSERT INTO aip.attempt_settlement (action_id, fence, outcome, code, verdict, peer_fault, evidence_digest, settled_at)
            SELECT p_action, p_fence, p_outcome, p_code, p_verdict, false, p_evidence, aip.clock() FROM live
            RETURNING settled_at
        )
        SELECT 'plain', settled.settled_at, live.opened INTO o_status, o_at, o_opened FROM live CROSS JOIN settled;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    o_first := false;
    IF p_issued THEN
        SELECT r AS route, a AS attempt INTO v_rows
        FROM aip.route r JOIN aip.attempt a ON a.action_id = r.action_id
        WHERE r.action_id = p_action AND a.fence = p_fence;
        p_route := v_rows.route;
        p_attempt := v_rows.attempt;
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
GRANT EXECUTE ON FUNCTION aip.settle_one(text, bigint, boolean, text[], text[], aip.route, aip.attempt, json, text, text, text, boolean, text)
    TO aip_data;
