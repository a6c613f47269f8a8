-- aip.archive_actions ends the keeping of at most p_limit actions that ended longer ago than
-- p_keep_micros, which is a minute at least: final, settled, with no reservation and nothing in
-- question. Input, state and result go; the row of aip.action stays with its id, key and content
-- digest, so that its unique indexes go on refusing a repeat without anybody's having to look
-- elsewhere (G01, G03, G44). It returns how many; null when another session leads.
--
-- It runs as the owner: no login role may delete an action. A client can lose by it only what
-- ended before the time, and nothing can run again.
-- Lock order: rows of aip.action_state, skipped when busy, then the rows of the same actions.
-- Role: data. Plan: one range of action_state_ended; the rest are primary keys.
CREATE OR REPLACE FUNCTION aip.archive_actions(p_keep_micros bigint, p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_now   timestamptz := aip.clock();
    v_count integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(4871, 5) THEN
        RETURN NULL;
    END IF;
    WITH due AS (
        SELECT s.action_id, s.state, s.evidence_digest, s.updated_at
        FROM aip.action_state s
        WHERE NOT s.unsettled AND s.state IN ('completed', 'failed', 'cancelled')
          AND s.updated_at < v_now - greatest(p_keep_micros, 60000000) * interval '1 microsecond'
          AND NOT EXISTS (SELECT FROM aip.reservation v WHERE v.action_id = s.action_id)
          AND NOT EXISTS (SELECT FROM aip.reconciliation u WHERE u.action_id = s.action_id AND u.state <> 'resolved')
        ORDER BY s.updated_at LIMIT p_limit
        FOR UPDATE OF s SKIP LOCKED
    ), kept AS (
        INSERT INTO aip.action_archive (action_id, state, evidence_digest, result_digest, ended_at, archived_at, tell_at, told_at)
        SELECT d.action_id, d.state, d.evidence_digest,
               COALESCE((SELECT 'sha256:' || encode(sha256(r.document), 'hex') FROM aip.action_result r WHERE r.action_id = d.action_id), ''),
               d.updated_at, v_now, v_now,
               CASE WHEN EXISTS (SELECT FROM aip.route t WHERE t.action_id = d.action_id) THEN NULL ELSE v_now END
        FROM due d
    ), stripped AS (
        UPDATE aip.action a SET input = '' FROM due d WHERE a.action_id = d.action_id
    ), results AS (
        DELETE FROM aip.action_result r USING due d WHERE r.action_id = d.action_id
    ), states AS (
        DELETE FROM aip.action_state s USING due d WHERE s.action_id = d.action_id
        RETURNING s.action_id
    )
    SELECT count(*) INTO v_count FROM states;
    RETURN v_count;
END
$$;
GRANT EXECUTE ON FUNCTION aip.archive_actions(bigint, integer) TO aip_data;
