-- aip.rebuild_candidates computes anew the valid chains of some instances, from the records:
-- binding, instance and type enabled, the version listed, routable, qualified and claiming the
-- capability (catalog.Chain.Valid). The draw is over every version that the instance serves with
-- a positive weight, by version id. A chain is ready for use: its counters, limits and circuit policy
-- are written out (aip.ready_chains keeps them when a quota changes), and it is foremost when no
-- weighted chain of its tenant and capability has a better priority.
-- Locks: none beyond the rows written; readers see the old chains until the commit.
-- Role: control, inside a publication. Plan: a nested loop from the given instances, by index;
-- "= ANY" on a long parameter would compare every row with every one of them. The join is
-- planned in the order in which it is written, which is that loop: planned freely it takes
-- longer to plan than a small publication takes.
CREATE OR REPLACE FUNCTION aip.rebuild_candidates(p_instances text[]) RETURNS void
LANGUAGE sql VOLATILE SET join_collapse_limit = 1 AS $$
    DELETE FROM aip.route_candidate c USING unnest(p_instances) AS u (id) WHERE c.instance_id = u.id;
    INSERT INTO aip.route_candidate (tenant_id, capability_id, instance_id, version_id, type_id, priority, policy_revision,
                                     credential_revision_ref, quota_policy_ref, weight, draw_offset, draw_weights, draw_index,
                                     manifest_digest, artifact_digest, quota_revision,
                                     circuit_threshold, circuit_open_millis, circuit_probes, scope_kinds, scope_keys, scope_limits)
    SELECT b.tenant_id, b.capability_id, b.instance_id, s.version_id, i.type_id, b.priority, b.policy_revision,
           b.credential_revision_ref, b.quota_policy_ref, s.weight, i.ring,
           COALESCE(d.weights, '{}'), COALESCE(array_position(d.versions, s.version_id), 0),
           v.manifest_digest, v.artifact_digest, e.revision, e.circuit_threshold, e.circuit_open_millis, e.circuit_probes,
           aip.chain_scope_kinds(e, g), aip.chain_scope_keys(e, g, b.tenant_id, b.capability_id, i.id, i.type_id),
           aip.chain_scope_limits(e, g)
    FROM unnest(p_instances) AS u (id)
    JOIN aip.connector_instance i ON i.id = u.id
    JOIN aip.connector_type t ON t.id = i.type_id
    CROSS JOIN LATERAL (
        SELECT array_agg(w.weight ORDER BY w.version_id) AS weights, array_agg(w.version_id ORDER BY w.version_id) AS versions
        FROM aip.instance_serving w
        WHERE w.instance_id = u.id AND w.weight > 0
    ) d
    JOIN aip.binding b ON b.instance_id = u.id AND b.tenant_id = i.tenant_id
    JOIN aip.instance_serving s ON s.instance_id = u.id
    JOIN aip.connector_version v ON v.id = s.version_id AND v.type_id = i.type_id
    JOIN aip.version_status vs ON vs.version_id = v.id
    JOIN aip.capability c ON c.version_id = v.id AND c.capability_id = b.capability_id
    JOIN aip.quota_effective e ON e.ref = b.quota_policy_ref
    JOIN aip.quota_effective g ON g.ref = 'deployment'
    WHERE b.enabled AND i.enabled AND t.enabled AND v.qualified AND c.claimed
      AND vs.status IN ('active', 'deprecated');
    SELECT aip.mark_chains(p_instances)
$$;
GRANT EXECUTE ON FUNCTION aip.rebuild_candidates(text[]) TO aip_control;
