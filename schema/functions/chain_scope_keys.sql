-- aip.chain_scope_keys are the keys of the counters of aip.chain_scope_kinds, in the same order.
-- Role: control, data. Locks: none. Plan: none, it is inlined.
CREATE OR REPLACE FUNCTION aip.chain_scope_keys(
    p_quota aip.quota_effective, p_deployment aip.quota_effective,
    p_tenant text, p_capability text, p_instance text, p_type text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_remove(ARRAY[CASE WHEN p_quota.binding_limit IS NOT NULL THEN p_tenant || '|' || p_capability || '|' || p_instance END,
                              CASE WHEN p_deployment.type_limit IS NOT NULL THEN p_type END,
                              CASE WHEN p_deployment.global_limit IS NOT NULL THEN 'global' END,
                              CASE WHEN p_quota.instance_limit IS NOT NULL THEN p_instance END,
                              CASE WHEN p_deployment.tenant_limit IS NOT NULL THEN p_tenant END], NULL)
$$;
GRANT EXECUTE ON FUNCTION aip.chain_scope_keys(aip.quota_effective, aip.quota_effective, text, text, text, text) TO aip_control, aip_data;
