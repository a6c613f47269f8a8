-- aip.scopes_of fills the scope columns of an attempt: the counters that it takes, sorted
-- by kind and key as they are locked. It is settlement.Scopes: those of its chain, and of a
-- retry the tenant's, when the binding's policy (p_quota) limits it (G09).
-- Role: data. Locks: none.
CREATE OR REPLACE FUNCTION aip.scopes_of(
    p_attempt aip.attempt, p_tenant text, p_capability text, p_instance text, p_type text,
    p_quota aip.quota_effective, p_deployment aip.quota_effective, p_retry boolean
) RETURNS aip.attempt
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    p_attempt.scope_kinds := aip.chain_scope_kinds(p_quota, p_deployment);
    p_attempt.scope_keys := aip.chain_scope_keys(p_quota, p_deployment, p_tenant, p_capability, p_instance, p_type);
    p_attempt.scope_limits := aip.chain_scope_limits(p_quota, p_deployment);
    IF p_retry AND p_quota.retry_limit IS NOT NULL THEN
        p_attempt.scope_kinds := p_attempt.scope_kinds || 'tenant_retry'::text;
        p_attempt.scope_keys := p_attempt.scope_keys || p_tenant;
        p_attempt.scope_limits := p_attempt.scope_limits || p_quota.retry_limit;
    END IF;
    RETURN p_attempt;
END
$$;
GRANT EXECUTE ON FUNCTION aip.scopes_of(aip.attempt, text, text, text, text, aip.quota_effective, aip.quota_effective, boolean)
    TO aip_data, aip_control;
