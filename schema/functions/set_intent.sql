-- aip.set_intent writes the operator's wish, and with p_undrain also the move of the lease
-- state that ends a drain (lease.Intend): ready again, and unhealthy until the next beat says
-- otherwise. It runs as the owner, so that the role that publishes identity holds no grant on
-- live columns: this one narrow write is all it can do to them.
-- Locks: the replica row, locked by the caller. Role: control. Plan: primary key.
CREATE OR REPLACE FUNCTION aip.set_intent(p_replica text, p_intent text, p_undrain boolean) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE aip.replica_live
    SET intent = p_intent,
        status = CASE WHEN p_undrain AND status = 'draining' THEN 'ready' ELSE status END,
        healthy = CASE WHEN p_undrain AND status = 'draining' THEN false ELSE healthy END,
        not_ready_beats = CASE WHEN p_undrain AND status = 'draining' THEN 3 ELSE not_ready_beats END
    WHERE replica_id = p_replica
$$;
GRANT EXECUTE ON FUNCTION aip.set_intent(text, text, boolean) TO aip_control;
