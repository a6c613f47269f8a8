-- aip.reserve writes one reservation whose locks are all held, whose counters are taken and
-- whose checks have all passed: the replica's count and circuit (settlement.Reserve), the attempt.
-- It returns the attempt as stored.
-- Role: data. Locks: none new. Plan: primary keys.
CREATE OR REPLACE FUNCTION aip.reserve(p_attempt aip.attempt, p_live aip.replica_live) RETURNS aip.attempt
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    p_attempt.probe := p_live.circuit_state <> 'closed';
    IF p_attempt.probe THEN
        UPDATE aip.replica_live
        SET active = active + 1, circuit_state = 'half_open', circuit_probes_out = circuit_probes_out + 1
        WHERE replica_id = p_live.replica_id;
    ELSE
        UPDATE aip.replica_live SET active = active + 1 WHERE replica_id = p_live.replica_id;
    END IF;
    INSERT INTO aip.attempt VALUES (p_attempt.*);
    INSERT INTO aip.reservation (action_id, fence, replica_id, lease_epoch, deadline)
    VALUES (p_attempt.action_id, p_attempt.fence, p_live.replica_id, p_attempt.lease_epoch, p_attempt.deadline);
    RETURN p_attempt;
END
$$;
GRANT EXECUTE ON FUNCTION aip.reserve(aip.attempt, aip.replica_live) TO aip_data;
