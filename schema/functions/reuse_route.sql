-- aip.reuse_route is the rest of aip.resolve_one for an action that has a route: return the
-- living reservation, settle a stale one, or reserve the same replica again (G09). It never
-- selects.
--
-- Lock order: action (held) -> publication (shared) -> the one replica, waited for -> scopes.
-- Role: data. Plan: primary keys.
CREATE OR REPLACE FUNCTION aip.reuse_route(
    p_route aip.route, p_tenant text, p_capability text, p_token text, p_life_micros bigint,
    OUT o_status text, OUT o_detail text, OUT o_attempt aip.attempt, OUT o_earlier json)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_attempt    aip.attempt;
    v_live       aip.replica_live;
    v_quota      aip.quota_effective;
    v_deployment aip.quota_effective;
    v_chain      record;
    v_now        timestamptz;
    v_full       text;
BEGIN
    o_detail := '';
    IF p_route.tenant_id <> p_tenant OR p_route.capability_id <> p_capability THEN
        o_status := 'conflict';
        RETURN;
    END IF;
    SELECT * INTO v_attempt FROM aip.attempt WHERE action_id = p_route.action_id ORDER BY fence DESC LIMIT 1;

    PERFORM FROM aip.reservation WHERE action_id = p_route.action_id;
    IF FOUND THEN
        SELECT * INTO v_live FROM aip.replica_live WHERE replica_id = p_route.replica_id;
        v_now := aip.clock();
        IF v_live.lease_epoch = v_attempt.lease_epoch AND v_live.status <> 'offline' AND v_live.lease_expires_at > v_now THEN
            IF EXISTS (SELECT FROM aip.version_status WHERE version_id = p_route.version_id AND status = 'revoked') THEN
                o_status := 'pinned';
                o_detail := 'version_not_routable';
                RETURN;
            END IF;
            o_status := 'reserved';
            o_attempt := v_attempt;
            o_earlier := aip.earlier_attempts(p_route.action_id, v_attempt.fence);
            RETURN;
        END IF;
        PERFORM aip.release(p_route, v_attempt, 'lease_expired', 'settle.lease_expired', '', false, '');
        o_status := 'again';
        RETURN;
    END IF;

    IF EXISTS (SELECT FROM aip.attempt_settlement WHERE action_id = p_route.action_id AND outcome = 'completed')
       OR EXISTS (SELECT FROM aip.reconciliation
                  WHERE action_id = p_route.action_id AND resolution IN ('completed', 'happened')) THEN
        o_status := 'completed';
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(4871, 1);
    SELECT i.enabled AS instance_enabled, t.enabled AS type_enabled, i.type_id, s.status AS version_status,
           b.quota_policy_ref
    INTO v_chain
    FROM aip.connector_instance i
    JOIN aip.connector_type t ON t.id = i.type_id
    JOIN aip.version_status s ON s.version_id = p_route.version_id
    JOIN aip.binding b ON b.tenant_id = p_route.tenant_id AND b.capability_id = p_route.capability_id
        AND b.instance_id = i.id
    WHERE i.id = p_route.instance_id;
    SELECT * INTO v_quota FROM aip.quota_effective WHERE ref = v_chain.quota_policy_ref;
    SELECT * INTO v_deployment FROM aip.quota_effective WHERE ref = 'deployment';

    SELECT * INTO v_live FROM aip.replica_live WHERE replica_id = p_route.replica_id FOR NO KEY UPDATE;
    v_now := aip.clock();
    o_detail := CASE
        WHEN NOT v_chain.instance_enabled THEN 'instance_disabled'
        WHEN NOT v_chain.type_enabled THEN 'type_disabled'
        WHEN v_chain.version_status NOT IN ('active', 'deprecated', 'quarantined') THEN 'version_not_routable'
        WHEN v_live.status = 'retired' THEN 'retired'
        WHEN v_live.status = 'offline' THEN 'offline'
        WHEN v_live.lease_expires_at <= v_now THEN 'lease_expired'
        WHEN v_live.circuit_state = 'open' AND v_live.circuit_open_until > v_now
            OR v_live.circuit_state = 'half_open'
               AND v_live.circuit_probes_out >= greatest(v_quota.circuit_probes, 1) THEN 'circuit_open'
        WHEN v_live.active >= v_live.capacity THEN 'at_capacity'
        ELSE '' END;
    IF o_detail <> '' THEN
        o_status := CASE WHEN o_detail = 'retired' AND NOT EXISTS (
            SELECT FROM aip.reconciliation WHERE action_id = p_route.action_id AND state <> 'resolved')
            THEN 'lost' ELSE 'pinned' END;
        RETURN;
    END IF;

    v_attempt := aip.scopes_of(v_attempt, p_route.tenant_id, p_route.capability_id, p_route.instance_id,
                               v_chain.type_id, v_quota, v_deployment, true);
    v_full := aip.take_scopes(v_attempt.scope_kinds, v_attempt.scope_keys, v_attempt.scope_limits);
    IF v_full <> '' THEN
        o_status := 'capacity';
        o_detail := v_full;
        RETURN;
    END IF;
    v_now := aip.clock();
    IF v_live.lease_expires_at <= v_now THEN
        PERFORM aip.give_scopes(v_attempt.scope_kinds, v_attempt.scope_keys);
        o_status := 'pinned';
        o_detail := 'lease_expired';
        RETURN;
    END IF;

    v_attempt.fence := v_attempt.fence + 1;
    v_attempt.token := p_token;
    v_attempt.lease_epoch := v_live.lease_epoch;
    v_attempt.journal_id := v_live.journal_id;
    v_attempt.circuit_threshold := v_quota.circuit_threshold;
    v_attempt.circuit_open_millis := v_quota.circuit_open_millis;
    v_attempt.circuit_probes := v_quota.circuit_probes;
    v_attempt.reserved_at := v_now;
    v_attempt.deadline := v_now + p_life_micros * interval '1 microsecond';
    v_attempt := aip.reserve(v_attempt, v_live);
    o_status := 'assigned';
    o_attempt := v_attempt;
    o_earlier := aip.earlier_attempts(p_route.action_id, v_attempt.fence);
END
$$;
GRANT EXECUTE ON FUNCTION aip.reuse_route(aip.route, text, text, text, bigint) TO aip_data;
