-- aip.tick settles and resolves many actions in one transaction. It does the plain cases, and
-- leaves everything else out of its answer: the caller sends that to settle_one or resolve_one,
-- which say what is wrong. Plain is: the first settlement of the current attempt, completed or
-- cancelled without peer fault, on a replica whose circuit is closed and clean; and the first
-- route of an action whose best candidate has a closed circuit and whose counters exist and have
-- room. No action may be named twice.
--
-- The order of all resolves of a tick is that of one look at the fleet, taken when the action
-- locks are held and before its settlements count; each replica takes only as many as it has
-- room for, the surplus goes to the item's next candidate of the same draw and priority.
--
-- Lock order: actions by key -> publication (shared, by try: else the resolves are left out) ->
-- replicas by id that are waited for (settlements; with p_wait also the first choices) -> other
-- replicas, skipping busy ones -> scopes by kind and key -> inserts. Every counter and replica is
-- changed once, by the net of all items.
-- Role: data. Plan: primary keys, nested loops from the given arrays; scopes by ctid.
--
-- o_kind: settled (o_at when, o_opened the circuit's last opening), assigned (o_route, o_attempt),
-- busy (others hold the candidates: ask again). o_item counts from 1 within its kind of items.
CREATE OR REPLACE FUNCTION aip.tick(
    p_settle text[], p_routes aip.route[], p_attempts aip.attempt[],
    p_outcomes text[], p_codes text[], p_verdicts text[], p_evidence text[],
    p_actions text[], p_tenants text[], p_capabilities text[],
    p_regions text[], p_zones text[], p_classes text[], p_forbids boolean[],
    p_rings bigint[], p_draws bigint[], p_tokens text[], p_lives bigint[], p_wait boolean)
RETURNS TABLE (o_kind text, o_item bigint, o_at timestamptz, o_opened timestamptz, o_route text, o_attempt text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now      timestamptz;
    v_revision bigint;
    v_global   bigint;
    v_tenant   bigint;
    v_type     bigint;
    v_left     bigint;
    v_at       integer;
    v_wants    text[];
    v_busy     bigint[];
    v_out      bigint[];
    -- settlements: item, replica
    v_d_item bigint[]; v_d_replica text[]; v_d_opened timestamptz[];
    -- candidates, by item and order
    v_c_item bigint[]; v_c_replica text[]; v_c_instance text[]; v_c_version text[]; v_c_tier numeric[];
    v_c_region boolean[]; v_c_zone boolean[];
    -- locked replicas
    v_l_id text[] := '{}'; v_l_active bigint[] := '{}'; v_l_room bigint[] := '{}'; v_l_epoch bigint[] := '{}';
    v_l_journal text[] := '{}'; v_l_state text[] := '{}'; v_l_expires timestamptz[] := '{}';
    v_l_opened timestamptz[] := '{}';
    v_l_clean boolean[] := '{}';
    -- placed resolves: item, place among the candidates and among the locked, load before
    v_p_item bigint[] := '{}'; v_p_candidate integer[] := '{}'; v_p_lock integer[] := '{}'; v_p_before bigint[] := '{}';
    v_placed bigint := 0;
    v_routes aip.route[]; v_attempts aip.attempt[]; v_items bigint[]; v_replicas text[];
    -- scopes
    v_s_kind text[]; v_s_key text[]; v_s_tid tid[]; v_s_net bigint[]; v_s_over bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock(k.key)
    FROM (SELECT DISTINCT hashtextextended(u.id, 0) AS key FROM unnest(p_settle || p_actions) AS u (id) ORDER BY 1) k;

    IF cardinality(p_settle) > 0 THEN
        SELECT array_agg(s.i), array_agg(r.replica_id) INTO v_d_item, v_d_replica
        FROM unnest(p_settle) WITH ORDINALITY AS s (id, i)
        JOIN aip.reservation v ON v.action_id = s.id
        JOIN aip.route r ON r.action_id = s.id
        JOIN aip.attempt a ON a.action_id = s.id AND a.fence = v.fence
        WHERE NOT a.probe AND r = p_routes[s.i] AND a = p_attempts[s.i];
    END IF;
    IF cardinality(p_actions) > 0 AND pg_try_advisory_xact_lock_shared(4871, 1) THEN
        v_now := aip.clock();
        SELECT c.revision, q.global_limit, q.tenant_limit, q.type_limit INTO v_revision, v_global, v_tenant, v_type
        FROM aip.catalog_revision c CROSS JOIN aip.quota_effective q WHERE c.one AND q.ref = 'deployment';
        SELECT array_agg(q.i), array_agg(c.replica_id), array_agg(c.instance_id), array_agg(c.version_id),
               array_agg(c.draw_rank * 4294967296::numeric + c.priority), array_agg(c.region_match), array_agg(c.zone_match)
        INTO v_c_item, v_c_replica, v_c_instance, v_c_version, v_c_tier, v_c_region, v_c_zone
        FROM unnest(p_actions, p_tenants, p_capabilities, p_regions, p_zones, p_classes, p_forbids, p_rings, p_draws)
             WITH ORDINALITY AS q (action, tenant, capability, region, zone, class, forbid, ring, draw, i)
        CROSS JOIN LATERAL aip.ranked_candidates(q.tenant, q.capability, q.region, q.zone, q.class, q.forbid, q.ring, q.draw,
                                                 false, v_type, v_now, 4) c
        WHERE NOT EXISTS (SELECT FROM aip.route r WHERE r.action_id = q.action)
          AND NOT EXISTS (SELECT FROM aip.tombstone t WHERE t.action_id = q.action);
    END IF;

    -- Step 0 waits for the replicas of settlements, 1 takes the first choices, 2 the others.
    FOR v_step IN 0 .. 2 LOOP
        v_wants := '{}';
        IF v_step = 0 THEN
            v_wants := v_d_replica;
        END IF;
        IF v_c_item IS NOT NULL AND (v_step > 0 OR p_wait) THEN
            FOR k IN 1 .. cardinality(v_c_item) LOOP
                IF (CASE WHEN v_step < 2 THEN k = 1 OR v_c_item[k - 1] <> v_c_item[k]
                         ELSE NOT v_c_item[k] = ANY (v_p_item) END) AND NOT v_c_replica[k] = ANY (v_l_id) THEN
                    v_wants := v_wants || v_c_replica[k];
                END IF;
            END LOOP;
        END IF;
        IF v_step = 0 AND cardinality(v_wants) > 0 THEN
            SELECT v_l_id || array_agg(x.replica_id), v_l_active || array_agg(x.active), v_l_room || array_agg(x.capacity - x.active),
                   v_l_epoch || array_agg(x.lease_epoch), v_l_journal || array_agg(x.journal_id), v_l_expires || array_agg(x.lease_expires_at),
                   v_l_state || array_agg(x.state), v_l_opened || array_agg(x.circuit_opened_at), v_l_clean || array_agg(x.clean)
            INTO v_l_id, v_l_active, v_l_room, v_l_epoch, v_l_journal, v_l_expires, v_l_state, v_l_opened, v_l_clean
            FROM (SELECT l.replica_id, l.active::bigint, l.capacity::bigint, l.lease_epoch::bigint, l.journal_id, l.lease_expires_at, l.circuit_opened_at,
                         CASE WHEN l.circuit_state <> 'closed' THEN 'probe' WHEN aip.admits(l, v_now, 1) THEN 'ok' ELSE 'no' END AS state,
                         l.circuit_state = 'closed' AND l.circuit_unknowns = 0 AND l.circuit_openings = 0 AS clean
                  FROM aip.replica_live l WHERE l.replica_id = ANY (v_wants)
                  ORDER BY l.replica_id FOR NO KEY UPDATE) x;
        ELSIF cardinality(v_wants) > 0 THEN
            SELECT v_l_id || array_agg(x.replica_id), v_l_active || array_agg(x.active), v_l_room || array_agg(x.capacity - x.active),
                   v_l_epoch || array_agg(x.lease_epoch), v_l_journal || array_agg(x.journal_id), v_l_expires || array_agg(x.lease_expires_at),
                   v_l_state || array_agg(x.state), v_l_opened || array_agg(x.circuit_opened_at), v_l_clean || array_agg(x.clean)
            INTO v_l_id, v_l_active, v_l_room, v_l_epoch, v_l_journal, v_l_expires, v_l_state, v_l_opened, v_l_clean
            FROM (SELECT l.replica_id, l.active::bigint, l.capacity::bigint, l.lease_epoch::bigint, l.journal_id, l.lease_expires_at, l.circuit_opened_at,
                         CASE WHEN l.circuit_state <> 'closed' THEN 'probe' WHEN aip.admits(l, v_now, 1) THEN 'ok' ELSE 'no' END AS state,
                         l.circuit_state = 'closed' AND l.circuit_unknowns = 0 AND l.circuit_openings = 0 AS clean
                  FROM aip.replica_live l WHERE l.replica_id = ANY (v_wants)
                  ORDER BY l.replica_id FOR NO KEY UPDATE SKIP LOCKED) x;
        END IF;
        CONTINUE WHEN v_step = 0 OR v_c_item IS NULL;
        v_at := 0; -- first candidate of the item
        FOR k IN 1 .. cardinality(v_c_item) LOOP
            IF k = 1 OR v_c_item[k - 1] <> v_c_item[k] THEN
                v_at := k;
            END IF;
            CONTINUE WHEN v_placed > 0 AND v_p_item[v_placed] = v_c_item[k] OR v_step = 2 AND v_c_item[k] = ANY (v_p_item)
                OR v_c_tier[k] <> v_c_tier[v_at];
            CONTINUE WHEN v_step = 1 AND k <> v_at;
            v_left := array_position(v_l_id, v_c_replica[k]);
            CONTINUE WHEN v_left IS NULL OR v_l_state[v_left] = 'no' OR v_l_room[v_left] < 1;
            v_placed := v_placed + 1;
            v_p_item[v_placed] := v_c_item[k];
            v_p_candidate[v_placed] := CASE WHEN v_l_state[v_left] = 'probe' THEN 0 ELSE k END;
            v_p_lock[v_placed] := v_left;
            v_p_before[v_placed] := v_l_active[v_left];
            v_l_active[v_left] := v_l_active[v_left] + 1;
            v_l_room[v_left] := v_l_room[v_left] - 1;
        END LOOP;
    END LOOP;

    IF v_c_item IS NOT NULL THEN
        SELECT array_agg(DISTINCT u.i) INTO v_busy FROM unnest(v_c_item) AS u (i) WHERE NOT u.i = ANY (v_p_item);
    END IF;
    v_now := aip.clock();
    IF v_d_item IS NOT NULL THEN
        SELECT array_agg(d.i), array_agg(d.id), array_agg(l.opened) INTO v_d_item, v_d_replica, v_d_opened
        FROM unnest(v_d_item, v_d_replica) AS d (i, id)
        JOIN unnest(v_l_id, v_l_opened, v_l_clean) AS l (id, opened, clean) ON l.id = d.id AND l.clean;
    END IF;
    IF v_placed > 0 THEN
        SELECT array_agg(p.i), array_agg(r.id),
               array_agg(ROW(p_actions[p.i], k.capability_id, k.tenant_id, k.instance_id, r.id, r.endpoint, r.region, r.zone,
                             r.capacity_class, r.peer_principal_id, r.peer_principal_kind, r.peer_did, r.trust_domain,
                             r.transport_profile, k.version_id, k.manifest_digest, k.artifact_digest, v_revision,
                             k.policy_revision, k.credential_revision_ref, k.quota_policy_ref, e.revision, k.priority,
                             v_c_region[p.k], v_c_zone[p.k], p.before, v_now)::aip.route),
               array_agg(ROW(p_actions[p.i], 1, p_tokens[p.i], v_l_epoch[p.l], v_l_journal[p.l],
                             array_remove(ARRAY[CASE WHEN e.binding_limit IS NOT NULL THEN 'binding' END,
                                                CASE WHEN v_type IS NOT NULL THEN 'connector_type' END,
                                                CASE WHEN v_global IS NOT NULL THEN 'global' END,
                                                CASE WHEN e.instance_limit IS NOT NULL THEN 'instance' END,
                                                CASE WHEN v_tenant IS NOT NULL THEN 'tenant' END], NULL),
                             array_remove(ARRAY[CASE WHEN e.binding_limit IS NOT NULL
                                                     THEN k.tenant_id || '|' || k.capability_id || '|' || k.instance_id END,
                                                CASE WHEN v_type IS NOT NULL THEN k.type_id END,
                                                CASE WHEN v_global IS NOT NULL THEN 'global' END,
                                                CASE WHEN e.instance_limit IS NOT NULL THEN k.instance_id END,
                                                CASE WHEN v_tenant IS NOT NULL THEN k.tenant_id END], NULL),
                             array_remove(ARRAY[e.binding_limit, v_type, v_global, e.instance_limit, v_tenant], NULL),
                             e.circuit_threshold, e.circuit_open_millis, e.circuit_probes, false, v_now,
                             v_now + p_lives[p.i] * interval '1 microsecond')::aip.attempt)
        INTO v_items, v_replicas, v_routes, v_attempts
        FROM unnest(v_p_item, v_p_candidate, v_p_lock, v_p_before) AS p (i, k, l, before)
        JOIN aip.route_candidate k ON k.tenant_id = p_tenants[p.i] AND k.capability_id = p_capabilities[p.i]
            AND k.instance_id = v_c_instance[p.k] AND k.version_id = v_c_version[p.k]
        JOIN aip.quota_effective e ON e.ref = k.quota_policy_ref
        JOIN aip.replica r ON r.id = v_c_replica[p.k]
        WHERE p.k > 0 AND v_l_expires[p.l] > v_now;
    END IF;

    SELECT array_agg(x.kind), array_agg(x.key), array_agg(x.tid), array_agg(x.taken - x.given),
           array_agg(CASE WHEN x.tid IS NULL THEN x.taken ELSE x.current + x.taken - x.given - x.lim END)
    INTO v_s_kind, v_s_key, v_s_tid, v_s_net, v_s_over
    FROM (
        SELECT u.kind, u.key, u.taken, u.given, u.lim, c.tid, c.current
        FROM (SELECT s.kind, s.key, count(s.lim) AS taken, count(*) - count(s.lim) AS given, min(s.lim) AS lim
              FROM (SELECT t.kind, t.key, t.lim FROM unnest(v_items) WITH ORDINALITY AS p (i, n)
                    CROSS JOIN LATERAL unnest((v_attempts[p.n]).scope_kinds, (v_attempts[p.n]).scope_keys,
                                              (v_attempts[p.n]).scope_limits) AS t (kind, key, lim)
                    UNION ALL
                    SELECT t.kind, t.key, NULL FROM unnest(v_d_item) AS d (i)
                    CROSS JOIN LATERAL unnest((p_attempts[d.i]).scope_kinds, (p_attempts[d.i]).scope_keys) AS t (kind, key)) s
              GROUP BY s.kind, s.key ORDER BY s.kind COLLATE "C", s.key COLLATE "C") u
        LEFT JOIN LATERAL (SELECT o.ctid AS tid, o.current FROM aip.scope_counter o
                           WHERE o.kind = u.kind AND o.key = u.key FOR NO KEY UPDATE) c ON true
    ) x;
    v_now := aip.clock();

    -- What does not fit a scope is left out, the last first; what lost its lease by waiting, too.
    FOR k IN 1 .. COALESCE(cardinality(v_items), 0) LOOP
        IF v_l_expires[array_position(v_l_id, v_replicas[k])] <= v_now THEN
            v_out := v_out || v_items[k];
        END IF;
    END LOOP;
    FOR s IN 1 .. COALESCE(cardinality(v_s_kind), 0) LOOP
        CONTINUE WHEN COALESCE(v_s_over[s], 0) < 1;
        FOR k IN REVERSE cardinality(v_items) .. 1 LOOP
            EXIT WHEN v_s_over[s] < 1;
            IF v_s_key[s] = ANY ((v_attempts[k]).scope_keys) AND v_s_kind[s] = ANY ((v_attempts[k]).scope_kinds)
               AND (v_attempts[k]).scope_keys[array_position((v_attempts[k]).scope_kinds, v_s_kind[s])] = v_s_key[s] THEN
                v_s_over[s] := v_s_over[s] - 1;
                v_out := v_out || v_items[k];
            END IF;
        END LOOP;
    END LOOP;
    IF v_out IS NOT NULL THEN
        SELECT array_agg(n.net ORDER BY s.n) INTO v_s_net
        FROM unnest(v_s_kind, v_s_key, v_s_net) WITH ORDINALITY AS s (kind, key, net, n)
        CROSS JOIN LATERAL (
            SELECT s.net - count(*) AS net
            FROM unnest(v_items) WITH ORDINALITY AS p (i, n)
            CROSS JOIN LATERAL unnest((v_attempts[p.n]).scope_kinds, (v_attempts[p.n]).scope_keys) AS t (kind, key)
            WHERE p.i = ANY (v_out) AND t.kind = s.kind AND t.key = s.key
        ) n;
        SELECT array_agg(p.i), array_agg(p.id), array_agg(v_routes[p.n]), array_agg(v_attempts[p.n])
        INTO v_items, v_replicas, v_routes, v_attempts
        FROM unnest(v_items, v_replicas) WITH ORDINALITY AS p (i, id, n) WHERE NOT p.i = ANY (v_out);
    END IF;

    UPDATE aip.replica_live l SET active = l.active + d.n
    FROM (SELECT u.id, sum(u.n)::bigint AS n
          FROM (SELECT t.id, 1 AS n FROM unnest(v_replicas) AS t (id)
                UNION ALL SELECT t.id, -1 FROM unnest(v_d_replica) AS t (id)) u
          GROUP BY u.id) d
    WHERE l.replica_id = d.id AND d.n <> 0;
    UPDATE aip.scope_counter c SET current = c.current + u.net
    FROM unnest(v_s_tid, v_s_net) AS u (tid, net)
    WHERE c.ctid = u.tid AND u.net <> 0;
    GET DIAGNOSTICS v_left = ROW_COUNT;
    IF v_left <> (SELECT count(*) FROM unnest(v_s_net) AS u (net) WHERE u.net <> 0) THEN
        RAISE EXCEPTION 'a locked counter moved' USING ERRCODE = 'serialization_failure';
    END IF;
    IF v_items IS NOT NULL THEN
        INSERT INTO aip.route SELECT * FROM unnest(v_routes);
        INSERT INTO aip.attempt SELECT * FROM unnest(v_attempts);
        INSERT INTO aip.reservation (action_id, fence, replica_id, lease_epoch, deadline)
        SELECT a.action_id, a.fence, a.replica_id, a.lease_epoch, a.deadline
        FROM ROWS FROM (unnest(v_attempts), unnest(v_replicas)) AS a (
            action_id, fence, token, lease_epoch, journal_id, scope_kinds, scope_keys, scope_limits, circuit_threshold,
            circuit_open_millis, circuit_probes, probe, reserved_at, deadline, replica_id);
    END IF;
    IF v_d_item IS NOT NULL THEN
        INSERT INTO aip.attempt_settlement (action_id, fence, outcome, code, verdict, peer_fault, evidence_digest, settled_at)
        SELECT p_settle[d.i], (p_attempts[d.i]).fence, p_outcomes[d.i], p_codes[d.i], p_verdicts[d.i], false, p_evidence[d.i], v_now
        FROM unnest(v_d_item) AS d (i);
        DELETE FROM aip.reservation v USING unnest(v_d_item) AS d (i) WHERE v.action_id = p_settle[d.i];
    END IF;

    RETURN QUERY
        SELECT 'settled'::text, d.i, v_now, d.opened, NULL::text, NULL::text FROM unnest(v_d_item, v_d_opened) AS d (i, opened)
        UNION ALL
        SELECT 'assigned', p.i, NULL, NULL, v_routes[p.n]::text, v_attempts[p.n]::text
        FROM unnest(v_items) WITH ORDINALITY AS p (i, n)
        UNION ALL
        SELECT 'busy', b.i, NULL, NULL, NULL, NULL FROM unnest(v_busy) AS b (i);
END
$$;
GRANT EXECUTE ON FUNCTION aip.tick(text[], aip.route[], aip.attempt[], text[], text[], text[], text[], text[], text[], text[],
                                   text[], text[], text[], boolean[], bigint[], bigint[], text[], bigint[], boolean)
    TO aip_data;
