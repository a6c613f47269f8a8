-- aip.earlier_attempts lists what is known of the attempts before a fence, oldest first:
-- settlement and, when an uncertain one was decided since, the resolution.
-- Role: data, readonly, control. Locks: none. Plan: three primary key ranges.
CREATE OR REPLACE FUNCTION aip.earlier_attempts(p_action text, p_fence bigint) RETURNS json
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_fence = 1 THEN
        RETURN '[]'::json;
    END IF;
    RETURN (SELECT COALESCE(json_agg(json_build_object(
               'fence', a.fence, 'journal_id', a.journal_id,
               'outcome', COALESCE(s.outcome, ''), 'verdict', COALESCE(s.verdict, ''),
               'resolution', COALESCE(r.resolution, '')) ORDER BY a.fence), '[]'::json)
    FROM aip.attempt a
    LEFT JOIN aip.attempt_settlement s ON s.action_id = a.action_id AND s.fence = a.fence
    LEFT JOIN aip.reconciliation r ON r.action_id = a.action_id AND r.fence = a.fence
    WHERE a.action_id = p_action AND a.fence < p_fence);
END
$$;
GRANT EXECUTE ON FUNCTION aip.earlier_attempts(text, bigint) TO aip_data, aip_control, aip_readonly;
