-- aip.ranked_candidates gives the first p_limit replicas that may take an action, in the order
-- of routing.Compare under the drawn version first. It is looked at without locks; whoever
-- takes one judges it again under its lock.
--
-- The first 32 replicas of a version of an instance are read and sorted. The crowded others
-- are probed in the order of an index, place by place (replica_group): the least load among
-- those that may take the action, then those that have it from the action's place on the
-- ring on, wrapping round. That finds the winner, and at most eight more in each direction;
-- of higher loads a few, for when all of those are busy.
-- p_look passes over chains whose own scopes look full.
-- Role: data. Locks: none. Plan: it is inlined; candidates by a primary key range, replicas by
-- replica_live_by_instance or replica_load_order, one top-N sort.
CREATE OR REPLACE FUNCTION aip.ranked_candidates(
    p_tenant text, p_capability text,
    p_region text, p_zone text, p_class text, p_forbid_cross_region boolean,
    p_ring bigint, p_draw bigint, p_look boolean, p_type_limit bigint, p_now timestamptz, p_limit bigint)
RETURNS TABLE (
    instance_id text, version_id text, type_id text, priority bigint, policy_revision bigint, credential_revision_ref text,
    quota_policy_ref text, manifest_digest text, artifact_digest text, circuit_probes bigint,
    draw_rank integer, replica_id text, region_match boolean, zone_match boolean)
LANGUAGE sql STABLE AS $$
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
                                                q.binding_limit, q.instance_limit, p_type_limit))
    )
    SELECT c.instance_id, c.version_id, c.type_id, c.priority, c.policy_revision, c.credential_revision_ref,
           c.quota_policy_ref, c.manifest_digest, c.artifact_digest, c.circuit_probes,
           c.draw_rank, l.replica_id, l.region_match, l.zone_match
    FROM chain c
    CROSS JOIN LATERAL (
        SELECT r.replica_id, r.active, r.ring,
               p_region <> '' AND r.region = p_region AS region_match, p_zone <> '' AND r.zone = p_zone AS zone_match
        FROM aip.replica_live r
        WHERE r.instance_id = c.instance_id AND r.version_id = c.version_id AND NOT r.crowded
          AND aip.admits(r, p_now, c.circuit_probes)
          AND (p_class = '' OR r.capacity_class = p_class)
          AND (NOT p_forbid_cross_region OR p_region = '' OR r.region = p_region)
        UNION ALL
        SELECT d.replica_id, d.active, d.ring,
               p_region <> '' AND g.region = p_region, p_zone <> '' AND g.zone = p_zone
        FROM aip.replica_group g
        CROSS JOIN LATERAL (
            SELECT i.active FROM aip.replica_load i -- the narrow mirror first, whatever its statistics say
            CROSS JOIN LATERAL (SELECT FROM aip.replica_live w WHERE w.replica_id = i.replica_id
                                AND aip.admits(w, p_now, c.circuit_probes) OFFSET 0) r
            WHERE i.instance_id = g.instance_id AND i.version_id = g.version_id AND i.capacity_class = g.capacity_class
              AND i.region = g.region AND i.zone = g.zone AND i.free
            ORDER BY i.active LIMIT 1
        ) least
        CROSS JOIN LATERAL (
            (SELECT i.replica_id, i.active, i.ring
             FROM aip.replica_load i
             CROSS JOIN LATERAL (SELECT FROM aip.replica_live w WHERE w.replica_id = i.replica_id
                                 AND aip.admits(w, p_now, c.circuit_probes) OFFSET 0) r
             WHERE i.instance_id = g.instance_id AND i.version_id = g.version_id AND i.capacity_class = g.capacity_class
               AND i.region = g.region AND i.zone = g.zone AND i.free
               AND i.active = least.active AND i.ring >= p_ring
             ORDER BY i.ring LIMIT 8)
            UNION ALL
            (SELECT i.replica_id, i.active, i.ring
             FROM aip.replica_load i
             CROSS JOIN LATERAL (SELECT FROM aip.replica_live w WHERE w.replica_id = i.replica_id
                                 AND aip.admits(w, p_now, c.circuit_probes) OFFSET 0) r
             WHERE i.instance_id = g.instance_id AND i.version_id = g.version_id AND i.capacity_class = g.capacity_class
               AND i.region = g.region AND i.zone = g.zone AND i.free
               AND i.active = least.active AND i.ring < p_ring
             ORDER BY i.ring LIMIT 8)
            UNION ALL
            (SELECT i.replica_id, i.active, i.ring
             FROM aip.replica_load i
             CROSS JOIN LATERAL (SELECT FROM aip.replica_live w WHERE w.replica_id = i.replica_id
                                 AND aip.admits(w, p_now, c.circuit_probes) OFFSET 0) r
             WHERE i.instance_id = g.instance_id AND i.version_id = g.version_id AND i.capacity_class = g.capacity_class
               AND i.region = g.region AND i.zone = g.zone AND i.free
               AND i.active > least.active
             ORDER BY i.active, i.ring LIMIT 8)
        ) d
        WHERE g.instance_id = c.instance_id AND g.version_id = c.version_id
          AND (p_class = '' OR g.capacity_class = p_class)
          AND (NOT p_forbid_cross_region OR p_region = '' OR g.region = p_region)
    ) l
    ORDER BY c.draw_rank, c.priority, l.region_match DESC, l.zone_match DESC, l.active,
             (l.ring - p_ring + 2147483648) % 2147483648, c.instance_id, l.replica_id
    LIMIT p_limit
$$;
GRANT EXECUTE ON FUNCTION aip.ranked_candidates(text, text, text, text, text, boolean, bigint, bigint, boolean, bigint, timestamptz, bigint)
    TO aip_data;
