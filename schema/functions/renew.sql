-- aip.renew is one beat: one conditional UPDATE. Epoch and sequence are the replay guard
-- (G22); a draining replica never becomes ready by a beat (G23). No row means refused: the
-- caller reads the state and says why by package lease.
-- The condition is on the row itself and is judged again after a wait for it; the clock is
-- volatile, so it is read then too.
-- Role: lifecycle. Locks: the one replica row. Plan: primary keys.
CREATE OR REPLACE FUNCTION aip.renew(
    p_replica text, p_peer_did text, p_epoch bigint, p_sequence bigint,
    p_in_flight bigint, p_ready boolean, p_draining boolean, p_ttl_micros bigint)
RETURNS TABLE (o_expires_at timestamptz, o_status text, o_intent text)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN QUERY UPDATE aip.replica_live l
    SET lease_sequence = p_sequence, in_flight = p_in_flight, last_beat_at = c.now,
        lease_expires_at = c.now + p_ttl_micros * interval '1 microsecond',
        status = CASE WHEN p_draining OR l.intent = 'drain' THEN 'draining' ELSE l.status END,
        healthy = CASE WHEN p_ready THEN true WHEN l.not_ready_beats + 1 >= 3 THEN false ELSE l.healthy END,
        not_ready_beats = CASE WHEN p_ready THEN 0 ELSE l.not_ready_beats + 1 END
    FROM (SELECT aip.clock() AS now) c, aip.replica r
    JOIN aip.connector_instance i ON i.id = r.instance_id
    JOIN aip.connector_type t ON t.id = r.type_id
    JOIN aip.version_status s ON s.version_id = r.version_id
    WHERE l.replica_id = p_replica AND r.id = p_replica AND r.peer_did = p_peer_did
      AND l.lease_epoch = p_epoch AND p_epoch > 0 AND l.lease_sequence < p_sequence
      AND l.status <> 'offline' AND l.lease_expires_at > aip.clock()
    RETURNING l.lease_expires_at, l.status::text,
              CASE WHEN l.intent = 'drain' OR s.status = 'revoked' OR NOT i.enabled OR NOT t.enabled
                   THEN 'drain' ELSE 'run' END;
END
$$;
GRANT EXECUTE ON FUNCTION aip.renew(text, text, bigint, bigint, bigint, boolean, boolean, bigint) TO aip_lifecycle;
