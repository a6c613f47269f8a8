-- aip.scopes_of fills the scope columns of an attempt: the counters that it takes, sorted
-- by kind and key as they are locked. It is settlement.Scopes. A limit that is null takes
-- no counter. Tenant, type and global limits are the deployment's (p_deployment), the
-- others the binding's (p_quota).
-- Role: data. Locks: none.
CREATE OR REPLACE FUNCTION aip.scopes_of(
    p_attempt aip.attempt, p_tenant text, p_capability text, p_instance text, p_type text,
    p_quota aip.quota_effective, p_deployment aip.quota_effective, p_retry boolean
) RETURNS aip.attempt
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_kinds  text[] := '{}';
    v_keys   text[] := '{}';
    v_limits bigint[] := '{}';
BEGIN
    IF p_quota.binding_limit IS NOT NULL THEN
        v_kinds := v_kinds || 'binding'::text;
        v_keys := v_keys || (p_tenant || '|' || p_capability || '|' || p_instance);
        v_limits := v_limits || p_quota.binding_limit;
    END IF;
    IF p_deployment.type_limit IS NOT NULL THEN
        v_kinds := v_kinds || 'connector_type'::text;
        v_keys := v_keys || p_type;
        v_limits := v_limits || p_deployment.type_limit;
    END IF;
    IF p_deployment.global_limit IS NOT NULL THEN
        v_kinds := v_kinds || 'global'::text;
        v_keys := v_keys || 'global'::text;
        v_limits := v_limits || p_deployment.global_limit;
    END IF;
    IF p_quota.instance_limit IS NOT NULL THEN
        v_kinds := v_kinds || 'instance'::text;
        v_keys := v_keys || p_instance;
        v_limits := v_limits || p_quota.instance_limit;
    END IF;
    IF p_deployment.tenant_limit IS NOT NULL THEN
        v_kinds := v_kinds || 'tenant'::text;
        v_keys := v_keys || p_tenant;
        v_limits := v_limits || p_deployment.tenant_limit;
    END IF;
    IF p_retry AND p_quota.retry_limit IS NOT NULL THEN
        v_kinds := v_kinds || 'tenant_retry'::text;
        v_keys := v_keys || p_tenant;
        v_limits := v_limits || p_quota.retry_limit;
    END IF;
    p_attempt.scope_kinds := v_kinds;
    p_attempt.scope_keys := v_keys;
    p_attempt.scope_limits := v_limits;
    RETURN p_attempt;
END
$$;
GRANT EXECUTE ON FUNCTION aip.scopes_of(aip.attempt, text, text, text, text, aip.quota_effective, aip.quota_effective, boolean)
    TO aip_data, aip_control;
