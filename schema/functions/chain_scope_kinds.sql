-- aip.chain_scope_kinds are the kinds of counters that an attempt over a chain holds, in the order in
-- which they are locked: those that its quota policy (binding, instance) and the deployment's
-- (connector type, global, tenant) limit. It is settlement.Scopes without the retry.
-- Role: control, data. Locks: none. Plan: none, it is inlined.
CREATE OR REPLACE FUNCTION aip.chain_scope_kinds(p_quota aip.quota_effective, p_deployment aip.quota_effective) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_remove(ARRAY[CASE WHEN p_quota.binding_limit IS NOT NULL THEN 'binding' END,
                              CASE WHEN p_deployment.type_limit IS NOT NULL THEN 'connector_type' END,
                              CASE WHEN p_deployment.global_limit IS NOT NULL THEN 'global' END,
                              CASE WHEN p_quota.instance_limit IS NOT NULL THEN 'instance' END,
                              CASE WHEN p_deployment.tenant_limit IS NOT NULL THEN 'tenant' END], NULL)
$$;
GRANT EXECUTE ON FUNCTION aip.chain_scope_kinds(aip.quota_effective, aip.quota_effective) TO aip_control, aip_data;
