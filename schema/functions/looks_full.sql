-- aip.looks_full tells, without a lock, whether a scope that belongs to one candidate
-- (binding, instance or type) is at its limit. It only passes candidates over; the limit
-- itself is enforced under lock.
-- Role: data. Locks: none. Plan: three primary key probes.
CREATE OR REPLACE FUNCTION aip.looks_full(
    p_tenant text, p_capability text, p_instance text, p_type text,
    p_binding_limit bigint, p_instance_limit bigint, p_type_limit bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT COALESCE((SELECT s.current >= p_binding_limit FROM aip.scope_counter s
                     WHERE s.kind = 'binding' AND s.key = p_tenant || '|' || p_capability || '|' || p_instance),
                    p_binding_limit = 0, false)
        OR COALESCE((SELECT s.current >= p_instance_limit FROM aip.scope_counter s
                     WHERE s.kind = 'instance' AND s.key = p_instance), p_instance_limit = 0, false)
        OR COALESCE((SELECT s.current >= p_type_limit FROM aip.scope_counter s
                     WHERE s.kind = 'connector_type' AND s.key = p_type), p_type_limit = 0, false)
$$;
GRANT EXECUTE ON FUNCTION aip.looks_full(text, text, text, text, bigint, bigint, bigint) TO aip_data, aip_control;
