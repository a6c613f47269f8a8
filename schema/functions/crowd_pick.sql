-- aip.crowd_pick gives the best replica for an action that leads to a crowd, as routing.Compare
-- orders them: of the version drawn first, among the chains of the tenant's best priority.
-- It is looked at without locks; whoever takes it judges it again under its lock, and asks
-- aip.ranked_candidates when it is gone by then or its circuit is not closed.
--
-- The first 32 replicas of a version of an instance are read and sorted. Of the crowded others, in
-- each place (replica_group), the least loaded is found by an index, and of those the first from the
-- action's place on the ring on, wrapping round to the first of all. Any replica with a half-open
-- circuit is a candidate here.
-- Role: data. Locks: none. Plan: it is inlined; chains by a primary key range, replicas by
-- replica_live_ready and replica_load_order, then their own keys.
CREATE OR REPLACE FUNCTION aip.crowd_pick(
    p_tenant text, p_capability text,
    p_region text, p_zone text, p_class text, p_forbid_cross_region boolean,
    p_ring bigint, p_draw bigint, p_now timestamptz)
RETURNS TABLE (draw_rank integer, tier bigint, active bigint, distance bigint, replica_id text, instance_id text, chain tid)
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN cardinality(c.draw_weights) = 1 THEN 0
                ELSE aip.draw_rank((p_draw + c.draw_offset) % 2147483648, c.draw_weights, c.draw_index) END AS draw_rank,
           (c.priority << 2) | CASE WHEN l.region = p_region THEN 0 ELSE 2 END | CASE WHEN l.zone = p_zone THEN 0 ELSE 1 END AS tier,
           l.active, (l.ring - p_ring) & 2147483647 AS distance, l.replica_id, c.instance_id,
           c.ctid AS chain
    FROM aip.route_candidate c
    CROSS JOIN LATERAL (
        SELECT r.replica_id, r.active::bigint AS active, r.ring::bigint AS ring, r.region, r.zone
        FROM aip.replica_live r
        WHERE r.instance_id = c.instance_id AND r.version_id = c.version_id
          AND aip.admits(r, p_now, 9223372036854775807) AND NOT r.crowded -- replica_live_ready
          AND (p_class = '' OR r.capacity_class = p_class)
          AND (NOT p_forbid_cross_region OR p_region = '' OR r.region = p_region)
        UNION ALL
        SELECT COALESCE(next.replica_id, least.replica_id) AS replica_id, least.active, COALESCE(next.ring, least.ring) AS ring, g.region, g.zone
        FROM (SELECT p.* FROM aip.replica_group p WHERE p.instance_id = c.instance_id AND p.version_id = c.version_id OFFSET 0) g
        CROSS JOIN LATERAL (
            SELECT i.replica_id, i.active, i.ring FROM aip.replica_load i -- the narrow mirror first, whatever its statistics say
            CROSS JOIN LATERAL (SELECT FROM aip.replica_live w WHERE w.replica_id = i.replica_id AND w.lease_expires_at > p_now
                                AND (w.circuit_state <> 'open' OR w.circuit_open_until <= p_now) OFFSET 0) r -- what i.free leaves of aip.admits
            WHERE i.instance_id = g.instance_id AND i.version_id = g.version_id AND i.capacity_class = g.capacity_class
              AND i.region = g.region AND i.zone = g.zone AND i.free
            ORDER BY i.active, i.ring FETCH FIRST ROW WITH TIES
        ) least
        LEFT JOIN LATERAL ( -- from the action's place on the ring on; else it wraps round to the first
            SELECT i.replica_id, i.ring FROM aip.replica_load i
            CROSS JOIN LATERAL (SELECT FROM aip.replica_live w WHERE w.replica_id = i.replica_id AND w.lease_expires_at > p_now
                                AND (w.circuit_state <> 'open' OR w.circuit_open_until <= p_now) OFFSET 0) r
            WHERE i.instance_id = g.instance_id AND i.version_id = g.version_id AND i.capacity_class = g.capacity_class
              AND i.region = g.region AND i.zone = g.zone AND i.free AND i.active = least.active AND i.ring >= p_ring
            ORDER BY i.ring FETCH FIRST ROW WITH TIES
        ) next ON true
        WHERE (p_class = '' OR g.capacity_class = p_class)
          AND (NOT p_forbid_cross_region OR p_region = '' OR g.region = p_region)
    ) l
    WHERE c.tenant_id = p_tenant AND c.capability_id = p_capability AND c.weight > 0 AND c.foremost AND c.wide
    ORDER BY draw_rank, tier, active, distance, instance_id, replica_id
    LIMIT 1
$$;
GRANT EXECUTE ON FUNCTION aip.crowd_pick(text, text, text, text, text, boolean, bigint, bigint, timestamptz)
    TO aip_data;
