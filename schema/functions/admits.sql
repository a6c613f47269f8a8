-- aip.admits tells whether a replica may take a new attempt at a time, topology and version
-- aside: the live part of routing.Filter. p_probes is how many attempts a half-open circuit
-- lets through.
-- Role: data. Locks: none. Plan: none, it is inlined.
CREATE OR REPLACE FUNCTION aip.admits(p_live aip.replica_live, p_now timestamptz, p_probes bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_live.status = 'ready' AND p_live.intent = 'run' AND p_live.healthy AND p_live.lease_expires_at > p_now
       AND p_live.active < p_live.capacity
       AND (p_live.circuit_state = 'closed'
            OR p_live.circuit_state = 'open' AND p_live.circuit_open_until <= p_now
            OR p_live.circuit_state = 'half_open' AND p_live.circuit_probes_out < greatest(p_probes, 1))
$$;
GRANT EXECUTE ON FUNCTION aip.admits(aip.replica_live, timestamptz, bigint) TO aip_data;
