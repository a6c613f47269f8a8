-- aip.ready_chains writes out anew what quota policies mean for the chains that name them; for the
-- deployment's, for every chain. A publication of quotas does it by a trigger, whoever publishes.
-- Locks: none beyond the rows written; readers see the old limits until the commit.
-- Role: control, inside a publication. Plan: a sequential scan of route_candidate, once for a
-- publication that changes a quota.
CREATE OR REPLACE FUNCTION aip.ready_chains(p_refs text[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
    UPDATE aip.route_candidate c
    SET quota_revision = e.revision, circuit_threshold = e.circuit_threshold, circuit_open_millis = e.circuit_open_millis,
        circuit_probes = e.circuit_probes, scope_kinds = aip.chain_scope_kinds(e, g),
        scope_keys = aip.chain_scope_keys(e, g, c.tenant_id, c.capability_id, c.instance_id, c.type_id),
        scope_limits = aip.chain_scope_limits(e, g)
    FROM aip.quota_effective e CROSS JOIN aip.quota_effective g
    WHERE e.ref = c.quota_policy_ref AND g.ref = 'deployment'
      AND ('deployment' = ANY (p_refs) OR c.quota_policy_ref = ANY (p_refs))
$$;
GRANT EXECUTE ON FUNCTION aip.ready_chains(text[]) TO aip_control;
