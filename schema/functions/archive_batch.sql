-- aip.archive_batch looks at the next p_limit routes that were assigned before p_before, oldest
-- first, and archives those that may be; the others are counted by reason and left for another
-- time. It goes on after (p_after_at, p_after_id) and says where it came to; o_seen below p_limit
-- is the end. With p_dry it only counts.
--
-- Lock order: actions, tried and never waited for, so that a batch can wait for nobody while it
-- holds many; one that is busy is left (busy). Role: the owner alone.
-- Plan: one range of route_newest, read backwards; the rest are primary keys.
CREATE OR REPLACE FUNCTION aip.archive_batch(
    p_before timestamptz, p_after_at timestamptz, p_after_id text, p_limit integer, p_dry boolean,
    OUT o_seen integer, OUT o_counts json, OUT o_last_at timestamptz, OUT o_last_id text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_route  record;
    v_why    text;
    v_all    text[] := '{}';
BEGIN
    o_last_at := p_after_at;
    o_last_id := p_after_id;
    FOR v_route IN
        SELECT action_id, assigned_at FROM aip.route
        WHERE assigned_at < p_before AND assigned_at >= p_after_at
          AND (assigned_at > p_after_at OR action_id < p_after_id)
        ORDER BY assigned_at, action_id DESC LIMIT p_limit
    LOOP
        IF NOT pg_try_advisory_xact_lock(hashtextextended(v_route.action_id, 0)) THEN
            v_why := 'busy';
        ELSE
            v_why := aip.archivable(v_route.action_id, p_before);
            IF v_why = '' THEN
                v_why := CASE WHEN p_dry THEN 'archived' ELSE aip.archive_action(v_route.action_id) END;
            END IF;
        END IF;
        v_all := v_all || v_why;
        o_last_at := v_route.assigned_at;
        o_last_id := v_route.action_id;
    END LOOP;
    o_seen := cardinality(v_all);
    SELECT COALESCE(json_object_agg(c.why, c.n), '{}'::json) INTO o_counts
    FROM (SELECT why, count(*) AS n FROM unnest(v_all) AS u (why) GROUP BY why) c;
END
$$;
