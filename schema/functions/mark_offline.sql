-- aip.mark_offline ends the leases whose time is over: replica rows only, nothing else is
-- locked. Rows that others hold are left for the next pass. It returns how many.
-- Role: data. Locks: replica_live rows, skipped when busy. Plan: one scan of replica_live.
CREATE OR REPLACE FUNCTION aip.mark_offline(p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_count integer;
BEGIN
    UPDATE aip.replica_live l
    SET status = 'offline', healthy = false, in_flight = 0
    FROM (SELECT replica_id FROM aip.replica_live
          WHERE status <> 'offline' AND lease_expires_at <= aip.clock()
          ORDER BY replica_id LIMIT p_limit
          FOR NO KEY UPDATE SKIP LOCKED) due
    WHERE l.replica_id = due.replica_id;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END
$$;
GRANT EXECUTE ON FUNCTION aip.mark_offline(integer) TO aip_data;
