-- aip.tick settles and resolves many actions in one transaction. It does the plain cases, and
-- leaves everything else out of its answer: the caller sends that to settle_one or resolve_one,
-- which say what is wrong. Plain is: the first settlement of an attempt that the caller holds as it
-- was issued, completed or cancelled without peer fault or probe, on a replica whose circuit is
-- closed and clean; and the first route of an action whose best candidate has a closed circuit,
-- and whose counters exist and have room. No action may be named twice.
--
-- The order of all resolves of a tick is that of one look at the fleet, taken when the action
-- locks are held and before its settlements count. Each replica takes only as many as it has
-- room for; the surplus is busy.
--
-- While a publication is being made, resolves are busy; p_settle null says that there are only
-- resolves, and that they wait for it.
--
-- Lock order: actions by key -> publication (shared, by try, or waited for) ->
-- replicas by id, waited for -> scopes by kind and key -> inserts. Every counter and replica is
-- changed once, by the net of all items, and judged by what it is then.
-- Role: data. Plan: primary keys and replica_live_ready, nested loops from the given arrays.
--
-- p_g_* are the counters of the settled attempts: item, kind, key.
-- o_kind: settled (o_at when, o_opened the circuit's last opening), assigned (o_route, o_attempt),
-- busy (the replica was taken by others meanwhile, or a publication is being made: ask again). o_item counts from 1 within its
-- kind of items.
CREATE OR REPLACE FUNCTION aip.tick(
    p_settle text[], p_fences bigint[], p_outcomes text[], p_codes text[], p_verdicts text[], p_evidence text[],
    p_g_item bigint[], p_g_kind text[], p_g_key text[],
    p_actions text[], p_tenants text[], p_capabilities text[],
    p_regions text[], p_zones text[], p_classes text[], p_forbids boolean[],
    p_rings bigint[], p_draws bigint[], p_tokens text[], p_lives bigint[])
RETURNS TABLE (o_kind text, o_item bigint, o_at timestamptz, o_opened timestamptz, o_route aip.route, o_attempt aip.attempt)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now      timestamptz;
    v_wait     CONSTANT boolean := p_settle IS NULL;
    v_any      CONSTANT bigint := 9223372036854775807; -- probes: any half-open replica is a candidate, and then goes alone
    v_busy     bigint[];
    v_wide     bigint[]; -- resolves with a chain to a crowd
    v_out      bigint[] := '{}';
    v_fine     bigint;
    v_moved    text[];
    v_wanted   bigint;
    -- settlements, by item
    v_d_item bigint[]; v_d_replica text[]; v_d_opened timestamptz[]; v_d_action text[];
    v_picks aip.tick_pick[] := '{}'; -- what each resolve would get
    -- resolves, by item
    v_items bigint[]; v_replicas text[]; v_routes aip.route[]; v_attempts aip.attempt[];
    -- counters that were moved, and those that are missing or over their limit
    v_m_kind text[]; v_m_key text[]; v_m_over bigint[];
    v_s_kind text[]; v_s_key text[]; v_s_over bigint[];
BEGIN
    p_settle := COALESCE(p_settle, '{}');
    PERFORM pg_advisory_xact_lock(k.key)
    FROM (SELECT DISTINCT hashtextextended(u.id, 0) AS key FROM unnest(p_settle || p_actions) AS u (id) ORDER BY 1) k;

    IF cardinality(p_settle) > 0 THEN
        SELECT array_agg(s.i), array_agg(v.replica_id), array_agg(l.circuit_opened_at)
        INTO v_d_item, v_d_replica, v_d_opened
        FROM generate_subscripts(p_settle, 1) AS s (i)
        CROSS JOIN LATERAL (SELECT o.replica_id FROM aip.reservation o -- by key, however empty it was when last analyzed
                            WHERE o.action_id = p_settle[s.i] AND o.fence = p_fences[s.i] OFFSET 0) v
        JOIN aip.replica_live l ON l.replica_id = v.replica_id
        WHERE l.circuit_state = 'closed' AND l.circuit_unknowns = 0 AND l.circuit_openings = 0;
    END IF;
    IF v_wait THEN
        PERFORM pg_advisory_xact_lock_shared(4871, 1);
    ELSIF cardinality(p_actions) > 0 AND NOT pg_try_advisory_xact_lock_shared(4871, 1) THEN
        v_busy := ARRAY(SELECT generate_subscripts(p_actions, 1));
        p_actions := '{}';
    END IF;
    IF cardinality(p_actions) > 0 THEN
        v_now := aip.clock();
        SELECT array_agg(ROW(q.i, k.chain, k.replica_id, k.tier, k.active, k.capacity, k.lease_epoch, k.journal_id)::aip.tick_pick)
        INTO v_picks
        FROM (SELECT u.i, p_actions[u.i] AS action, p_tenants[u.i] AS tenant, p_capabilities[u.i] AS capability, p_regions[u.i] AS region,
                     p_zones[u.i] AS zone, p_classes[u.i] AS class, p_forbids[u.i] AS forbid, p_rings[u.i] AS ring, p_draws[u.i] AS draw
              FROM generate_subscripts(p_actions, 1) AS u (i)
              OFFSET 0) q
        CROSS JOIN LATERAL (
            SELECT CASE WHEN cardinality(o.draw_weights) = 1 THEN 0 -- what is sorted by comes first: it is at a fixed place of the row
                        ELSE aip.draw_rank((q.draw + o.draw_offset) % 2147483648, o.draw_weights, o.draw_index) END AS draw_rank,
                   (o.priority << 2) | CASE WHEN l.region = q.region THEN 0 ELSE 2 END
                                     | CASE WHEN l.zone = q.zone THEN 0 ELSE 1 END AS tier,
                   l.active::bigint AS active, (l.ring - q.ring) & 2147483647 AS distance, l.replica_id, o.instance_id,
                   o.ctid AS chain, l.capacity::bigint AS capacity, l.lease_epoch::bigint AS lease_epoch, l.journal_id,
                   l.circuit_state = 'closed' AS closed
            FROM aip.route_candidate o
            JOIN aip.replica_live l ON l.instance_id = o.instance_id AND l.version_id = o.version_id
            WHERE o.tenant_id = q.tenant AND o.capability_id = q.capability AND o.weight > 0 AND NOT o.wide
              AND aip.admits(l, v_now, v_any) AND NOT l.crowded -- replica_live_ready
              AND (q.class = '' OR l.capacity_class = q.class)
              AND (NOT q.forbid OR q.region = '' OR l.region = q.region)
            ORDER BY draw_rank, tier, active, distance, instance_id, replica_id
            LIMIT 1
        ) k
        WHERE k.closed
          AND NOT EXISTS (SELECT FROM aip.route o WHERE o.action_id = q.action OFFSET 0) -- by key: not joined, however empty
          AND NOT EXISTS (SELECT FROM aip.tombstone o WHERE o.action_id = q.action OFFSET 0);
        v_picks := COALESCE(v_picks, '{}');
        IF cardinality(v_picks) < cardinality(p_actions) THEN -- some lead to a crowd, perhaps
            SELECT array_agg(u.i) INTO v_wide
            FROM unnest(p_actions, p_tenants, p_capabilities) WITH ORDINALITY AS u (action, tenant, capability, i)
            WHERE (SELECT true FROM aip.route_candidate w WHERE w.tenant_id = u.tenant AND w.capability_id = u.capability AND w.wide LIMIT 1)
              AND NOT EXISTS (SELECT FROM aip.route o WHERE o.action_id = u.action OFFSET 0)
              AND NOT EXISTS (SELECT FROM aip.tombstone o WHERE o.action_id = u.action OFFSET 0);
        END IF;
        IF cardinality(v_wide) > 0 THEN
            SELECT v_picks || array_agg(ROW(q.i, k.chain, k.replica_id, k.tier, k.active, l.capacity, l.lease_epoch, l.journal_id)::aip.tick_pick)
            INTO v_picks
            FROM (SELECT w.i, p_tenants[w.i] AS tenant, p_capabilities[w.i] AS capability, p_regions[w.i] AS region, p_zones[w.i] AS zone,
                         p_classes[w.i] AS class, p_forbids[w.i] AS forbid, p_rings[w.i] AS ring, p_draws[w.i] AS draw
                  FROM unnest(v_wide) AS w (i)
                  OFFSET 0) q
            CROSS JOIN LATERAL aip.crowd_pick(q.tenant, q.capability, q.region, q.zone, q.class, q.forbid, q.ring, q.draw, v_now) k
            CROSS JOIN LATERAL (SELECT r.* FROM aip.replica_live r WHERE r.replica_id = k.replica_id OFFSET 0) l
            WHERE l.circuit_state = 'closed';
        END IF;
        SELECT array_agg(x.item), array_agg(x.replica_id), array_agg(x.route), array_agg(x.attempt)
        INTO v_items, v_replicas, v_routes, v_attempts
        FROM (
            SELECT k.item, k.replica_id, k.active + row_number() OVER (PARTITION BY k.replica_id) <= k.capacity AS fits,
                   ROW(p_actions[k.item], c.capability_id, c.tenant_id, c.instance_id, r.id, r.endpoint, r.region, r.zone, r.capacity_class,
                       r.peer_principal_id, r.peer_principal_kind, r.peer_did, r.trust_domain, r.transport_profile,
                       c.version_id, c.manifest_digest, c.artifact_digest, h.revision, c.policy_revision,
                       c.credential_revision_ref, c.quota_policy_ref, c.quota_revision, c.priority,
                       k.tier & 2 = 0, k.tier & 1 = 0, k.active, v_now)::aip.route AS route,
                   ROW(p_actions[k.item], 1, p_tokens[k.item], k.lease_epoch, k.journal_id, c.scope_kinds, c.scope_keys, c.scope_limits,
                       c.circuit_threshold, c.circuit_open_millis, c.circuit_probes, false, v_now,
                       v_now + p_lives[k.item] * interval '1 microsecond')::aip.attempt AS attempt
            FROM aip.catalog_revision h
            CROSS JOIN unnest(v_picks) AS k
            JOIN aip.route_candidate c ON c.ctid = k.chain
            JOIN aip.replica r ON r.id = k.replica_id
            WHERE h.one
        ) x
        WHERE x.fits;
        IF COALESCE(cardinality(v_items), 0) < cardinality(v_picks) THEN
            v_busy := ARRAY(SELECT k.item FROM unnest(v_picks) AS k WHERE k.item <> ALL (COALESCE(v_items, '{}')));
        END IF;
    END IF;

    WITH net AS MATERIALIZED (
        SELECT u.id, sum(u.up) AS up, sum(u.down) AS down
        FROM (SELECT t.id, 1 AS up, 0 AS down FROM unnest(v_replicas) AS t (id)
              UNION ALL SELECT t.id, 0, 1 FROM unnest(v_d_replica) AS t (id)) u
        GROUP BY u.id ORDER BY u.id COLLATE "C"
    ), moved AS (
        UPDATE aip.replica_live l SET active = l.active + net.up - net.down
        FROM net
        WHERE l.replica_id = net.id AND l.circuit_state = 'closed'
          AND (net.down = 0 OR l.circuit_unknowns = 0 AND l.circuit_openings = 0)
          AND (net.up = 0 OR l.active + net.up <= l.capacity AND l.lease_expires_at > aip.clock()
                             AND l.status = 'ready' AND l.intent = 'run' AND l.healthy)
        RETURNING l.replica_id
    )
    SELECT (SELECT count(*) FROM net), array_agg(m.replica_id) INTO v_wanted, v_moved FROM moved m;
    IF v_wanted > COALESCE(cardinality(v_moved), 0) THEN -- others changed a replica meanwhile: what it was for is left out
        v_moved := COALESCE(v_moved, '{}');
        SELECT array_agg(d.i), array_agg(d.id), array_agg(d.opened) INTO v_d_item, v_d_replica, v_d_opened
        FROM unnest(v_d_item, v_d_replica, v_d_opened) AS d (i, id, opened) WHERE d.id = ANY (v_moved);
        SELECT v_busy || array_agg(p.i) FILTER (WHERE NOT p.kept), array_agg(p.i) FILTER (WHERE p.kept),
               array_agg(p.id) FILTER (WHERE p.kept), array_agg(p.route) FILTER (WHERE p.kept), array_agg(p.attempt) FILTER (WHERE p.kept)
        INTO v_busy, v_items, v_replicas, v_routes, v_attempts
        FROM (SELECT u.i, u.id, u.id = ANY (v_moved) AS kept, v_routes[u.n] AS route, v_attempts[u.n] AS attempt
              FROM unnest(v_items, v_replicas) WITH ORDINALITY AS u (i, id, n)) p;
    END IF;

    WITH want AS MATERIALIZED (
        SELECT s.kind, s.key, count(s.lim) AS taken, count(*) - count(s.lim) AS given, min(s.lim) AS lim
        FROM (SELECT t.kind, t.key, t.lim
              FROM unnest(v_attempts) AS a
              CROSS JOIN (VALUES (1), (2), (3), (4), (5)) AS n (th) -- an attempt has no more counters
              CROSS JOIN LATERAL (SELECT a.scope_kinds[n.th] AS kind, a.scope_keys[n.th] AS key, a.scope_limits[n.th] AS lim) t
              WHERE n.th <= cardinality(a.scope_kinds)
              UNION ALL
              SELECT g.kind, g.key, NULL FROM unnest(p_g_item, p_g_kind, p_g_key) AS g (i, kind, key) WHERE g.i = ANY (v_d_item)) s
        GROUP BY s.kind, s.key ORDER BY s.kind COLLATE "C", s.key COLLATE "C"
    ), moved AS (
        UPDATE aip.scope_counter c SET current = c.current + want.taken - want.given
        FROM want WHERE c.kind = want.kind AND c.key = want.key
        RETURNING c.kind, c.key, CASE WHEN want.taken > 0 THEN c.current - want.lim ELSE 0 END AS over
    )
    SELECT (SELECT count(*) FROM want), count(*) FILTER (WHERE m.over <= 0), array_agg(m.kind), array_agg(m.key), array_agg(m.over)
    INTO v_wanted, v_fine, v_m_kind, v_m_key, v_m_over
    FROM moved m;
    IF v_wanted > v_fine THEN -- a counter was missing or is over its limit: what does not fit is left out, the last first
        SELECT array_agg(x.kind), array_agg(x.key), array_agg(x.over)
        INTO v_s_kind, v_s_key, v_s_over
        FROM (SELECT t.kind, t.key, COALESCE(min(m.over), count(*)) AS over
              FROM unnest(v_attempts) AS a
              CROSS JOIN LATERAL unnest(a.scope_kinds, a.scope_keys, a.scope_limits) AS t (kind, key, lim)
              LEFT JOIN unnest(v_m_kind, v_m_key, v_m_over) AS m (kind, key, over) ON m.kind = t.kind AND m.key = t.key
              GROUP BY t.kind, t.key) x
        WHERE x.over > 0;
        FOR s IN 1 .. COALESCE(cardinality(v_s_kind), 0) LOOP
            FOR k IN REVERSE cardinality(v_items) .. 1 LOOP
                EXIT WHEN v_s_over[s] < 1;
                CONTINUE WHEN NOT (v_s_kind[s] = ANY ((v_attempts[k]).scope_kinds)
                    AND (v_attempts[k]).scope_keys[array_position((v_attempts[k]).scope_kinds, v_s_kind[s])] = v_s_key[s]);
                v_s_over[s] := v_s_over[s] - 1;
                IF NOT v_items[k] = ANY (v_out) THEN
                    v_out := v_out || v_items[k];
                END IF;
            END LOOP;
        END LOOP;
        UPDATE aip.scope_counter c SET current = c.current - u.n -- those that were moved: locked already
        FROM (SELECT t.kind, t.key, count(*) AS n
              FROM unnest(v_items) WITH ORDINALITY AS p (i, n)
              CROSS JOIN LATERAL unnest((v_attempts[p.n]).scope_kinds, (v_attempts[p.n]).scope_keys) AS t (kind, key)
              JOIN unnest(v_m_kind, v_m_key) AS m (kind, key) ON m.kind = t.kind AND m.key = t.key
              WHERE p.i = ANY (v_out) GROUP BY t.kind, t.key) u
        WHERE c.kind = u.kind AND c.key = u.key;
        UPDATE aip.replica_live l SET active = l.active - u.n -- locked already
        FROM (SELECT p.id, count(*) AS n FROM unnest(v_items, v_replicas) AS p (i, id) WHERE p.i = ANY (v_out) GROUP BY p.id) u
        WHERE l.replica_id = u.id;
        SELECT array_agg(p.i), array_agg(p.id), array_agg(v_routes[p.n]), array_agg(v_attempts[p.n])
        INTO v_items, v_replicas, v_routes, v_attempts
        FROM unnest(v_items, v_replicas) WITH ORDINALITY AS p (i, id, n) WHERE NOT p.i = ANY (v_out);
    END IF;

    v_now := aip.clock();
    v_d_action := ARRAY(SELECT p_settle[d.i] FROM unnest(v_d_item) AS d (i));
    WITH routes AS (
        INSERT INTO aip.route SELECT * FROM unnest(v_routes)
    ), attempts AS (
        INSERT INTO aip.attempt SELECT * FROM unnest(v_attempts)
    ), reservations AS (
        INSERT INTO aip.reservation (action_id, fence, replica_id, lease_epoch, deadline)
        SELECT a.action_id, a.fence, a.replica_id, a.lease_epoch, a.deadline
        FROM ROWS FROM (unnest(v_attempts), unnest(v_replicas)) AS a (
            action_id, fence, token, lease_epoch, journal_id, scope_kinds, scope_keys, scope_limits, circuit_threshold,
            circuit_open_millis, circuit_probes, probe, reserved_at, deadline, replica_id)
    ), settlements AS (
        INSERT INTO aip.attempt_settlement (action_id, fence, outcome, code, verdict, peer_fault, evidence_digest, settled_at)
        SELECT p_settle[d.i], p_fences[d.i], p_outcomes[d.i], p_codes[d.i], p_verdicts[d.i], false, p_evidence[d.i], v_now
        FROM unnest(v_d_item) AS d (i)
    )
    DELETE FROM aip.reservation v WHERE v.action_id = ANY (v_d_action);

    RETURN QUERY
        SELECT 'settled'::text, d.i, v_now, d.opened, NULL::aip.route, NULL::aip.attempt FROM unnest(v_d_item, v_d_opened) AS d (i, opened)
        UNION ALL
        SELECT 'assigned', p.i, NULL, NULL, v_routes[p.n], v_attempts[p.n]
        FROM unnest(v_items) WITH ORDINALITY AS p (i, n)
        UNION ALL
        SELECT 'busy', b.i, NULL, NULL, NULL, NULL FROM unnest(v_busy) AS b (i);
END
$$;
GRANT EXECUTE ON FUNCTION aip.tick(text[], bigint[], text[], text[], text[], text[], bigint[], text[], text[], text[], text[], text[],
                                   text[], text[], text[], boolean[], bigint[], bigint[], text[], bigint[])
    TO aip_data;
