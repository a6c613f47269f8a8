-- aip.resolve_one decides or returns the route of one action, in one round trip.
--
-- Lock order: action -> publication (shared) -> replica -> scopes -> inserts. A replica is
-- taken by SKIP LOCKED; only with p_wait, and then only one, is it waited for.
-- Order of steps as in the contract of Router.Resolve. READ COMMITTED and VOLATILE: every
-- read is a statement later than the lock that protects it.
-- Role: data. Plan: candidates by primary key range of route_candidate, replicas by
-- replica_live_by_instance, top-N sort; the rest are primary keys.
--
-- The rules are those of packages routing, settlement and lease; the places on the ring are
-- computed by package routing alone (p_ring, p_draw and the stored ones).
-- Candidates are looked at without locks and in order; then the first that can be locked and
-- is still eligible is taken. Only the best draw rank and priority are tried: another account
-- is never chosen because a row happens to be locked.
--
-- o_status: assigned, reserved (existing), again (a stale reservation was settled: call again),
-- conflict, archived, binding_unavailable, replica_unavailable, contended (o_detail: scope when
-- a scope of the candidate was full: call again with p_look), capacity (o_detail: the scope),
-- completed (the action has its definite result), pinned (re-reservation refused, o_detail: the reason).
CREATE OR REPLACE FUNCTION aip.resolve_one(
    p_action text, p_tenant text, p_capability text,
    p_region text, p_zone text, p_class text, p_forbid_cross_region boolean,
    p_ring bigint, p_draw bigint, p_token text, p_life_micros bigint,
    p_look boolean, p_wait boolean,
    OUT o_status text, OUT o_detail text, OUT o_route json, OUT o_attempt json, OUT o_earlier json)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_route      aip.route;
    v_attempt    aip.attempt;
    v_live       aip.replica_live;
    v_quota      aip.quota_effective;
    v_deployment aip.quota_effective;
    v_replica    aip.replica;
    v_pick       record;
    v_first      record;
    v_revision   bigint;
    v_now        timestamptz;
    v_full       text;
    v_seen       boolean := false;
    v_locked     boolean := false;
BEGIN
    o_detail := '';
    PERFORM pg_advisory_xact_lock(hashtextextended(p_action, 0));
    SELECT * INTO v_route FROM aip.route WHERE action_id = p_action;
    IF FOUND THEN
        SELECT * INTO o_status, o_detail, o_route, o_attempt, o_earlier
        FROM aip.reuse_route(v_route, p_tenant, p_capability, p_token, p_life_micros);
        RETURN;
    END IF;
    SELECT CASE WHEN tenant_id = p_tenant AND capability_id = p_capability THEN 'archived' ELSE 'conflict' END
    INTO o_status FROM aip.tombstone WHERE action_id = p_action;
    IF FOUND THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(4871, 1);
    SELECT revision INTO v_revision FROM aip.catalog_revision WHERE one;
    SELECT * INTO v_deployment FROM aip.quota_effective WHERE ref = 'deployment';
    v_now := aip.clock();

    FOR v_pick IN
        WITH chain AS MATERIALIZED (
            SELECT c.instance_id, c.version_id, c.type_id, c.priority, c.policy_revision, c.credential_revision_ref,
                   c.quota_policy_ref, c.manifest_digest, c.artifact_digest, q.circuit_probes,
                   CASE WHEN cardinality(c.draw_weights) = 1 THEN 0
                        ELSE aip.draw_rank((p_draw + c.draw_offset) % 2147483648, c.draw_weights, c.draw_index)
                   END AS draw_rank
            FROM aip.route_candidate c
            JOIN aip.quota_effective q ON q.ref = c.quota_policy_ref
            WHERE c.tenant_id = p_tenant AND c.capability_id = p_capability AND c.weight > 0
              AND (NOT p_look OR NOT aip.looks_full(c.tenant_id, c.capability_id, c.instance_id, c.type_id,
                                                    q.binding_limit, q.instance_limit, v_deployment.type_limit))
        )
        SELECT c.*, l.replica_id,
               (p_region <> '' AND l.region = p_region) AS region_match,
               (p_zone <> '' AND l.zone = p_zone) AS zone_match
        FROM chain c
        JOIN aip.replica_live l ON l.instance_id = c.instance_id AND l.version_id = c.version_id
        WHERE l.status = 'ready' AND l.intent = 'run' AND l.healthy AND l.lease_expires_at > v_now
          AND l.active < l.capacity
          AND (l.circuit_state = 'closed'
               OR l.circuit_state = 'open' AND l.circuit_open_until <= v_now
               OR l.circuit_state = 'half_open' AND l.circuit_probes_out < greatest(c.circuit_probes, 1))
          AND (p_class = '' OR l.capacity_class = p_class)
          AND (NOT p_forbid_cross_region OR p_region = '' OR l.region = p_region)
        ORDER BY c.draw_rank, c.priority, region_match DESC, zone_match DESC, l.active,
                 (l.ring - p_ring + 2147483648) % 2147483648, c.instance_id, l.replica_id
        LIMIT 16
    LOOP
        IF NOT v_seen THEN
            v_seen := true;
            v_first := v_pick;
        END IF;
        EXIT WHEN v_pick.draw_rank <> v_first.draw_rank OR v_pick.priority <> v_first.priority;
        SELECT * INTO v_live FROM aip.replica_live l
        WHERE l.replica_id = v_pick.replica_id
          AND l.status = 'ready' AND l.intent = 'run' AND l.healthy AND l.lease_expires_at > v_now
          AND l.active < l.capacity
          AND (l.circuit_state = 'closed'
               OR l.circuit_state = 'open' AND l.circuit_open_until <= v_now
               OR l.circuit_state = 'half_open' AND l.circuit_probes_out < greatest(v_pick.circuit_probes, 1))
        FOR NO KEY UPDATE SKIP LOCKED;
        v_locked := FOUND;
        EXIT WHEN v_locked;
    END LOOP;

    IF NOT v_seen THEN
        o_status := CASE WHEN EXISTS (SELECT FROM aip.route_candidate
                                      WHERE tenant_id = p_tenant AND capability_id = p_capability)
                         THEN 'replica_unavailable' ELSE 'binding_unavailable' END;
        RETURN;
    END IF;
    IF NOT v_locked AND p_wait THEN
        v_pick := v_first;
        SELECT * INTO v_live FROM aip.replica_live l
        WHERE l.replica_id = v_pick.replica_id
          AND l.status = 'ready' AND l.intent = 'run' AND l.healthy AND l.lease_expires_at > aip.clock()
          AND l.active < l.capacity
          AND (l.circuit_state = 'closed'
               OR l.circuit_state = 'open' AND l.circuit_open_until <= v_now
               OR l.circuit_state = 'half_open' AND l.circuit_probes_out < greatest(v_pick.circuit_probes, 1))
        FOR NO KEY UPDATE;
        v_locked := FOUND;
    END IF;
    IF NOT v_locked THEN
        o_status := 'contended';
        RETURN;
    END IF;

    SELECT * INTO v_quota FROM aip.quota_effective WHERE ref = v_pick.quota_policy_ref;
    SELECT * INTO v_replica FROM aip.replica WHERE id = v_pick.replica_id;
    v_attempt := aip.scopes_of(v_attempt, p_tenant, p_capability, v_pick.instance_id, v_pick.type_id,
                               v_quota, v_deployment, false);
    v_full := aip.take_scopes(v_attempt.scope_kinds, v_attempt.scope_keys, v_attempt.scope_limits);
    IF v_full IN ('binding', 'connector_type', 'instance') THEN
        o_status := 'contended';
        o_detail := 'scope';
        RETURN;
    ELSIF v_full <> '' THEN
        o_status := 'capacity';
        o_detail := v_full;
        RETURN;
    END IF;
    v_now := aip.clock();
    IF v_live.lease_expires_at <= v_now THEN
        PERFORM aip.give_scopes(v_attempt.scope_kinds, v_attempt.scope_keys);
        o_status := 'contended';
        RETURN;
    END IF;

    v_attempt.action_id := p_action;
    v_attempt.fence := 1;
    v_attempt.token := p_token;
    v_attempt.lease_epoch := v_live.lease_epoch;
    v_attempt.journal_id := v_live.journal_id;
    v_attempt.circuit_threshold := v_quota.circuit_threshold;
    v_attempt.circuit_open_millis := v_quota.circuit_open_millis;
    v_attempt.circuit_probes := v_quota.circuit_probes;
    v_attempt.reserved_at := v_now;
    v_attempt.deadline := v_now + p_life_micros * interval '1 microsecond';
    v_attempt := aip.reserve(v_attempt, v_live);

    v_route.action_id := p_action;
    v_route.capability_id := p_capability;
    v_route.tenant_id := p_tenant;
    v_route.instance_id := v_pick.instance_id;
    v_route.replica_id := v_pick.replica_id;
    v_route.endpoint := v_replica.endpoint;
    v_route.region := v_replica.region;
    v_route.zone := v_replica.zone;
    v_route.capacity_class := v_replica.capacity_class;
    v_route.peer_principal_id := v_replica.peer_principal_id;
    v_route.peer_principal_kind := v_replica.peer_principal_kind;
    v_route.peer_did := v_replica.peer_did;
    v_route.trust_domain := v_replica.trust_domain;
    v_route.transport_profile := v_replica.transport_profile;
    v_route.version_id := v_pick.version_id;
    v_route.manifest_digest := v_pick.manifest_digest;
    v_route.artifact_digest := v_pick.artifact_digest;
    v_route.catalog_revision := v_revision;
    v_route.binding_policy_revision := v_pick.policy_revision;
    v_route.credential_revision_ref := v_pick.credential_revision_ref;
    v_route.quota_policy_ref := v_pick.quota_policy_ref;
    v_route.quota_policy_revision := v_quota.revision;
    v_route.key_priority := v_pick.priority;
    v_route.key_region_match := v_pick.region_match;
    v_route.key_zone_match := v_pick.zone_match;
    v_route.key_active_before := v_live.active;
    v_route.assigned_at := v_now;
    INSERT INTO aip.route VALUES (v_route.*);

    o_status := 'assigned';
    o_route := to_json(v_route);
    o_attempt := to_json(v_attempt);
    o_earlier := '[]'::json;
END
$$;
GRANT EXECUTE ON FUNCTION aip.resolve_one(text, text, text, text, text, text, boolean, bigint, bigint, text, bigint, boolean, boolean)
    TO aip_data;
