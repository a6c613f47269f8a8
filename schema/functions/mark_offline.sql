-- aip.mark_offline ends the leases whose time is over: replica rows only, nothing else is
-- locked. Rows that others hold are left for the next pass. It returns how many.
-- Role: data. Locks: replica_live rows, skipped when busy. Plan: one scan of replica_live.
CREATE OR REPLACE FUNCTION aip.mark_offline(p_limit integer) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    WITH due AS (
        SELECT replica_id FROM aip.replica_live
        WHERE status NOT IN ('offline', 'retired') AND lease_expires_at <= aip.clock()
        ORDER BY replica_id LIMIT p_limit
        FOR NO KEY UPDATE SKIP LOCKED
    ), ended AS (
        UPDATE aip.replica_live l
        SET status = 'offline', healthy = false, in_flight = 0
        FROM due WHERE l.replica_id = due.replica_id
        RETURNING l.replica_id
    ), noted AS (
        INSERT INTO aip.event (at, revision, kind, subject, actor, reason, detail)
        SELECT aip.clock(), r.revision, 'lease', e.replica_id, e.replica_id, 'expired', ''
        FROM ended e CROSS JOIN aip.catalog_revision r
    )
    SELECT count(*) FROM ended
$$;
GRANT EXECUTE ON FUNCTION aip.mark_offline(integer) TO aip_data;
