-- aip.chain_scope_limits are the limits of the counters of aip.chain_scope_kinds, in the same order.
-- Role: control, data. Locks: none. Plan: none, it is inlined.
CREATE OR REPLACE FUNCTION aip.chain_scope_limits(p_quota aip.quota_effective, p_deployment aip.quota_effective) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_remove(ARRAY[p_quota.binding_limit, p_deployment.type_limit, p_deployment.global_limit,
                              p_quota.instance_limit, p_deployment.tenant_limit], NULL)
$$;
GRANT EXECUTE ON FUNCTION aip.chain_scope_limits(aip.quota_effective, aip.quota_effective) TO aip_control, aip_data;
