-- aip.rebuild_candidates computes anew the valid chains of some instances, from the records:
-- binding, instance and type enabled, the version listed, routable, qualified and claiming the
-- capability (catalog.Chain.Valid). The draw is over every version that the instance serves with
-- a positive weight, by version id.
-- Locks: none beyond the rows written; readers see the old chains until the commit.
-- Role: control, inside a publication. Plan: hash or nested joins by instance.
CREATE OR REPLACE FUNCTION aip.rebuild_candidates(p_instances text[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
    DELETE FROM aip.route_candidate WHERE instance_id = ANY (p_instances);
    INSERT INTO aip.route_candidate (tenant_id, capability_id, instance_id, version_id, type_id, priority, policy_revision,
                                     credential_revision_ref, quota_policy_ref, weight, draw_offset, draw_weights, draw_index,
                                     manifest_digest, artifact_digest)
    WITH drawn AS (
        SELECT s.instance_id, array_agg(s.weight ORDER BY s.version_id) AS weights,
               array_agg(s.version_id ORDER BY s.version_id) AS versions
        FROM aip.instance_serving s
        WHERE s.instance_id = ANY (p_instances) AND s.weight > 0
        GROUP BY s.instance_id
    )
    SELECT b.tenant_id, b.capability_id, b.instance_id, s.version_id, i.type_id, b.priority, b.policy_revision,
           b.credential_revision_ref, b.quota_policy_ref, s.weight, i.ring,
           COALESCE(d.weights, '{}'), COALESCE(array_position(d.versions, s.version_id), 0),
           v.manifest_digest, v.artifact_digest
    FROM aip.binding b
    JOIN aip.connector_instance i ON i.id = b.instance_id AND i.tenant_id = b.tenant_id
    JOIN aip.connector_type t ON t.id = i.type_id
    JOIN aip.instance_serving s ON s.instance_id = i.id
    JOIN aip.connector_version v ON v.id = s.version_id AND v.type_id = i.type_id
    JOIN aip.version_status vs ON vs.version_id = v.id
    JOIN aip.capability c ON c.version_id = v.id AND c.capability_id = b.capability_id
    LEFT JOIN drawn d ON d.instance_id = i.id
    WHERE b.instance_id = ANY (p_instances)
      AND b.enabled AND i.enabled AND t.enabled AND v.qualified AND c.claimed
      AND vs.status IN ('active', 'deprecated')
$$;
GRANT EXECUTE ON FUNCTION aip.rebuild_candidates(text[]) TO aip_control;
