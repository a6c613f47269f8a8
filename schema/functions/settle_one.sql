-- aip.settle_one ends the reservation of exactly the given assignment. p_route and p_attempt
-- are whole rows as JSON: every column is compared, so that a column added later is compared
-- without anybody remembering to. p_settled is the settlement that the caller already holds,
-- or null; it must then be the stored one.
--
-- Lock order: action -> replica, waited for -> scopes -> inserts.
-- Role: data. Plan: primary keys.
--
-- o_status: settled (o_first tells whether by this call), fence_lost.
CREATE OR REPLACE FUNCTION aip.settle_one(
    p_route json, p_attempt json, p_settled json,
    p_outcome text, p_code text, p_verdict text, p_peer_fault boolean, p_evidence text,
    OUT o_status text, OUT o_first boolean, OUT o_settlement json, OUT o_live json)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_given      aip.route := json_populate_record(NULL::aip.route, p_route);
    v_given_try  aip.attempt := json_populate_record(NULL::aip.attempt, p_attempt);
    v_route      aip.route;
    v_attempt    aip.attempt;
    v_live       aip.replica_live;
    v_settlement aip.attempt_settlement;
    v_held       aip.attempt_settlement := json_populate_record(NULL::aip.attempt_settlement, p_settled);
BEGIN
    o_first := false;
    PERFORM pg_advisory_xact_lock(hashtextextended(v_given.action_id, 0));
    SELECT * INTO v_route FROM aip.route WHERE action_id = v_given.action_id;
    SELECT * INTO v_attempt FROM aip.attempt WHERE action_id = v_given.action_id ORDER BY fence DESC LIMIT 1;
    IF v_route IS DISTINCT FROM v_given OR v_attempt IS DISTINCT FROM v_given_try OR v_attempt.action_id IS NULL THEN
        o_status := 'fence_lost';
        RETURN;
    END IF;
    SELECT * INTO v_settlement FROM aip.attempt_settlement
    WHERE action_id = v_attempt.action_id AND fence = v_attempt.fence;
    IF p_settled IS NOT NULL AND v_settlement IS DISTINCT FROM v_held THEN
        o_status := 'fence_lost';
        RETURN;
    END IF;
    IF v_settlement.action_id IS NOT NULL THEN
        SELECT * INTO v_live FROM aip.replica_live WHERE replica_id = v_route.replica_id;
    ELSE
        v_live := aip.release(v_route, v_attempt, p_outcome, p_code, p_verdict, p_peer_fault, p_evidence);
        SELECT * INTO v_settlement FROM aip.attempt_settlement
        WHERE action_id = v_attempt.action_id AND fence = v_attempt.fence;
        o_first := true;
    END IF;
    o_status := 'settled';
    o_settlement := to_json(v_settlement);
    o_live := to_json(v_live);
END
$$;
GRANT EXECUTE ON FUNCTION aip.settle_one(json, json, json, text, text, text, boolean, text) TO aip_data;
