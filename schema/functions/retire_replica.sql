-- aip.retire_replica ends a replica's identity for ever (lease.Retire, judged by the caller; what
-- is reserved is judged here again) and hands its open reconciliation records to the operator. It
-- returns how many. It runs as the owner, so that the role that publishes identity holds no grant
-- on live columns.
-- Lock order: the replica row, locked by the caller -> reconciliation rows, which nobody holds
-- while waiting for a replica. Role: control. Plan: primary key; one scan of the open records.
CREATE OR REPLACE FUNCTION aip.retire_replica(p_replica text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_count bigint;
BEGIN
    UPDATE aip.replica_live
    SET status = 'retired', intent = 'drain', healthy = false, in_flight = 0,
        lease_expires_at = least(lease_expires_at, aip.clock())
    WHERE replica_id = p_replica AND active = 0 AND status IN ('draining', 'offline', 'ready');
    IF NOT FOUND THEN
        RAISE EXCEPTION 'replica % is not drained', p_replica;
    END IF;
    DELETE FROM aip.journal_offer WHERE replica_id = p_replica;
    UPDATE aip.reconciliation SET state = 'operator' WHERE replica_id = p_replica AND state = 'open';
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END
$$;
GRANT EXECUTE ON FUNCTION aip.retire_replica(text) TO aip_control;
