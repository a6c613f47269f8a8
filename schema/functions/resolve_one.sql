-- aip.resolve_one decides or returns the route of one action, in one round trip.
--
-- o_route and o_attempt are whole rows.
--
-- Lock order: action -> publication (shared) -> replica -> scopes -> inserts. A replica is
-- taken by SKIP LOCKED; only with p_wait, and then only one, is it waited for.
-- Order of steps as in the contract of Router.Resolve. READ COMMITTED and VOLATILE: every
-- read is a statement later than the lock that protects it.
-- Role: data. Plan: candidates by primary key range of route_candidate, replicas by
-- replica_live_ready and replica_load_order, top-N sort; the rest are keys.
--
-- The common case is two statements of few columns: most of their cost is setting them up. It
-- takes only a replica of the version drawn first and of the tenant's best priority, with a closed
-- circuit, so that passing over a locked row never changes the account. When it leads to a crowd,
-- its best replica is found in two statements of their own, and then is taken as any other.
-- Everything else is decided by the last part, which looks at all of it.
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
-- completed (the action has its definite result), pinned (re-reservation refused, o_detail: the reason), lost (its replica is retired).
CREATE OR REPLACE FUNCTION aip.resolve_one(
    p_action text, p_tenant text, p_capability text,
    p_region text, p_zone text, p_class text, p_forbid_cross_region boolean,
    p_ring bigint, p_draw bigint, p_token text, p_life_micros bigint,
    p_look boolean, p_wait boolean,
    OUT o_status text, OUT o_detail text, OUT o_route aip.route, OUT o_attempt aip.attempt, OUT o_earlier json)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_route    aip.route;
    v_attempt  aip.attempt;
    v_live     aip.replica_live;
    v_head     record;
    v_made     record;
    v_pick     record;
    v_first    record;
    v_open     boolean;
    v_any      CONSTANT bigint := 9223372036854775807; -- probes: any half-open replica is a candidate, and then is decided below
    v_now      timestamptz := aip.clock();
    v_full     text;
    v_seen     boolean := false;
    v_locked   boolean := false;
    v_plain    boolean := false; -- v_pick is a locked replica of the first choice, with a closed circuit
    v_common   CONSTANT boolean := NOT p_look AND NOT p_wait;
BEGIN
    o_detail := '';
    IF NOT pg_try_advisory_xact_lock(hashtextextended(p_action, 0)) THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(p_action, 0));
    END IF;
    v_open := pg_try_advisory_xact_lock_shared(4871, 1);
    IF v_open AND v_common THEN
        SELECT CASE WHEN cardinality(c.draw_weights) = 1 THEN 0 -- what is sorted by comes first: it is at a fixed place of the row
                    ELSE aip.draw_rank((p_draw + c.draw_offset) % 2147483648, c.draw_weights, c.draw_index) END AS draw_rank,
               (c.priority << 2) | CASE WHEN l.region = p_region THEN 0 ELSE 2 END | CASE WHEN l.zone = p_zone THEN 0 ELSE 1 END AS tier,
               l.active::bigint AS active, (l.ring - p_ring) & 2147483647 AS distance, l.replica_id, c.instance_id,
               c.ctid AS chain, l.lease_epoch, l.journal_id, l.lease_expires_at AS expires, l.circuit_state = 'closed' AS closed
        INTO v_pick
        FROM aip.route_candidate c
        JOIN aip.replica_live l ON l.instance_id = c.instance_id AND l.version_id = c.version_id
        WHERE c.tenant_id = p_tenant AND c.capability_id = p_capability AND c.weight > 0 AND c.foremost AND NOT c.wide
          AND aip.admits(l, v_now, v_any) AND NOT l.crowded -- replica_live_ready
          AND (p_class = '' OR l.capacity_class = p_class)
          AND (NOT p_forbid_cross_region OR p_region = '' OR l.region = p_region)
          AND NOT EXISTS (SELECT FROM aip.route o WHERE o.action_id = p_action)
          AND NOT EXISTS (SELECT FROM aip.tombstone o WHERE o.action_id = p_action)
        ORDER BY draw_rank, tier, active, distance, instance_id, replica_id
        LIMIT 1
        FOR NO KEY UPDATE OF l SKIP LOCKED;
        v_plain := v_pick.draw_rank = 0 AND v_pick.closed;
    END IF;
    IF v_plain IS NOT TRUE THEN
        FOR v_look IN 1 .. 2 LOOP
            SELECT r AS route, r.action_id IS NOT NULL AS routed, t.action_id IS NOT NULL AS archived,
                   t.tenant_id = p_tenant AND t.capability_id = p_capability AS ours,
                   c.revision, q.type_limit, aip.clock() AS now
            INTO v_head
            FROM aip.catalog_revision c
            CROSS JOIN aip.quota_effective q
            LEFT JOIN aip.route r ON r.action_id = p_action
            LEFT JOIN aip.tombstone t ON t.action_id = p_action
            WHERE c.one AND q.ref = 'deployment';
            IF v_head.routed THEN
                v_route := v_head.route;
                SELECT * INTO v_pick FROM aip.reuse_route(v_route, p_tenant, p_capability, p_token, p_life_micros);
                o_status := v_pick.o_status;
                o_detail := v_pick.o_detail;
                o_route := v_route;
                o_attempt := v_pick.o_attempt;
                o_earlier := v_pick.o_earlier;
                RETURN;
            END IF;
            IF v_head.archived THEN
                o_status := CASE WHEN v_head.ours THEN 'archived' ELSE 'conflict' END;
                RETURN;
            END IF;
            EXIT WHEN v_open;
            PERFORM pg_advisory_xact_lock_shared(4871, 1);
            v_open := true;
        END LOOP;
        v_now := v_head.now;
        IF v_common THEN
            SELECT k.draw_rank, k.tier, k.active, k.distance, k.replica_id, k.instance_id, k.chain,
                   0::aip.tally AS lease_epoch, ''::text AS journal_id, v_now AS expires -- set under its lock
            INTO v_pick
            FROM aip.crowd_pick(p_tenant, p_capability, p_region, p_zone, p_class, p_forbid_cross_region, p_ring, p_draw, v_now) k;
            IF v_pick.draw_rank = 0 THEN
                SELECT l.active::bigint AS active, l.lease_epoch, l.journal_id, l.lease_expires_at AS expires INTO v_made
                FROM aip.replica_live l
                WHERE l.replica_id = v_pick.replica_id AND aip.admits(l, v_now, v_any) AND l.circuit_state = 'closed'
                FOR NO KEY UPDATE SKIP LOCKED;
                v_plain := FOUND;
                v_pick.active := v_made.active;
                v_pick.lease_epoch := v_made.lease_epoch;
                v_pick.journal_id := v_made.journal_id;
                v_pick.expires := v_made.expires;
            END IF;
        END IF;
    END IF;
    IF v_plain THEN
        v_now := aip.clock();
        WITH live AS (
            UPDATE aip.replica_live l SET active = l.active + 1 WHERE l.replica_id = v_pick.replica_id
        ), scopes AS (
            UPDATE aip.scope_counter s SET current = s.current + 1 -- in the given order, which is the lock order
            FROM aip.route_candidate c
            CROSS JOIN LATERAL unnest(c.scope_kinds, c.scope_keys, c.scope_limits) AS u (kind, key, lim)
            WHERE c.ctid = v_pick.chain AND s.kind = u.kind AND s.key = u.key
            RETURNING s.current <= u.lim AS room
        ), route AS (
            INSERT INTO aip.route AS o
            SELECT p_action, c.capability_id, c.tenant_id, c.instance_id, r.id, r.endpoint, r.region, r.zone, r.capacity_class,
                   r.peer_principal_id, r.peer_principal_kind, r.peer_did, r.trust_domain, r.transport_profile,
                   c.version_id, c.manifest_digest, c.artifact_digest, h.revision, c.policy_revision,
                   c.credential_revision_ref, c.quota_policy_ref, c.quota_revision, c.priority,
                   v_pick.tier & 2 = 0, v_pick.tier & 1 = 0, v_pick.active, v_now
            FROM aip.route_candidate c CROSS JOIN aip.replica r CROSS JOIN aip.catalog_revision h
            WHERE c.ctid = v_pick.chain AND r.id = v_pick.replica_id AND h.one
            RETURNING o AS route
        ), attempt AS (
            INSERT INTO aip.attempt AS o
            SELECT p_action, 1, p_token, v_pick.lease_epoch, v_pick.journal_id, c.scope_kinds, c.scope_keys, c.scope_limits,
                   c.circuit_threshold, c.circuit_open_millis, c.circuit_probes, false, v_now,
                   v_now + p_life_micros * interval '1 microsecond'
            FROM aip.route_candidate c
            WHERE c.ctid = v_pick.chain
            RETURNING o AS attempt
        ), reservation AS (
            INSERT INTO aip.reservation (action_id, fence, replica_id, lease_epoch, deadline)
            VALUES (p_action, 1, v_pick.replica_id, v_pick.lease_epoch, v_now + p_life_micros * interval '1 microsecond')
        )
        SELECT route.route, attempt.attempt,
               (SELECT count(*) = cardinality((attempt.attempt).scope_kinds) AND COALESCE(bool_and(room), true) FROM scopes) AS done
        INTO v_made
        FROM route CROSS JOIN attempt;
        IF v_made.done AND v_pick.expires > v_now THEN
            o_status := 'assigned';
            o_route := v_made.route;
            o_attempt := v_made.attempt;
            RETURN;
        END IF;
        -- A counter is missing or full, or the chain was changed. All of it is undone, and the caller asks with p_look.
        RAISE EXCEPTION 'a scope is not plain' USING ERRCODE = 'AIP01';
    END IF;

    FOR v_pick IN
        SELECT * FROM aip.ranked_candidates(p_tenant, p_capability, p_region, p_zone, p_class, p_forbid_cross_region, p_ring, p_draw,
                                            p_look, v_head.type_limit, v_now, 16)
    LOOP
        IF NOT v_seen THEN
            v_seen := true;
            v_first := v_pick;
        END IF;
        EXIT WHEN v_pick.draw_rank <> v_first.draw_rank OR v_pick.priority <> v_first.priority;
        SELECT * INTO v_live FROM aip.replica_live l
        WHERE l.replica_id = v_pick.replica_id
          AND aip.admits(l, v_now, v_pick.circuit_probes)
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
          AND l.lease_expires_at > aip.clock() AND aip.admits(l, v_now, v_pick.circuit_probes)
        FOR NO KEY UPDATE;
        v_locked := FOUND;
    END IF;
    IF NOT v_locked THEN
        o_status := 'contended';
        RETURN;
    END IF;

    v_now := aip.clock();
    SELECT ROW(p_action, p_capability, p_tenant, v_pick.instance_id, r.id, r.endpoint, r.region, r.zone, r.capacity_class,
               r.peer_principal_id, r.peer_principal_kind, r.peer_did, r.trust_domain, r.transport_profile,
               c.version_id, c.manifest_digest, c.artifact_digest, v_head.revision, c.policy_revision,
               c.credential_revision_ref, c.quota_policy_ref, c.quota_revision, c.priority, v_pick.region_match, v_pick.zone_match,
               v_live.active, v_now)::aip.route AS route,
           ROW(p_action, 1, p_token, v_live.lease_epoch, v_live.journal_id, c.scope_kinds, c.scope_keys, c.scope_limits,
               c.circuit_threshold, c.circuit_open_millis, c.circuit_probes, v_live.circuit_state <> 'closed', v_now,
               v_now + p_life_micros * interval '1 microsecond')::aip.attempt AS attempt
    INTO v_first
    FROM aip.replica r CROSS JOIN aip.route_candidate c
    WHERE r.id = v_pick.replica_id AND c.tenant_id = p_tenant AND c.capability_id = p_capability
      AND c.instance_id = v_pick.instance_id AND c.version_id = v_pick.version_id;
    v_route := v_first.route;
    v_attempt := v_first.attempt;
    IF p_look THEN
        v_full := aip.take_scopes(v_attempt.scope_kinds, v_attempt.scope_keys, v_attempt.scope_limits);
    ELSIF aip.take_scopes_at_once(v_attempt.scope_kinds, v_attempt.scope_keys, v_attempt.scope_limits) THEN
        v_full := '';
    ELSE
        v_full := 'binding'; -- or another: with p_look it is found out
    END IF;
    IF v_full IN ('binding', 'connector_type', 'instance') THEN
        o_status := 'contended';
        o_detail := 'scope';
        RETURN;
    ELSIF v_full <> '' THEN
        o_status := 'capacity';
        o_detail := v_full;
        RETURN;
    END IF;
    IF v_live.lease_expires_at <= aip.clock() THEN
        PERFORM aip.give_scopes(v_attempt.scope_kinds, v_attempt.scope_keys);
        o_status := 'contended';
        RETURN;
    END IF;
    v_attempt := aip.reserve(v_attempt, v_live);
    INSERT INTO aip.route VALUES (v_route.*);

    o_status := 'assigned';
    o_route := v_route;
    o_attempt := v_attempt;
END
$$;
GRANT EXECUTE ON FUNCTION aip.resolve_one(text, text, text, text, text, text, boolean, bigint, bigint, text, bigint, boolean, boolean)
    TO aip_data;
