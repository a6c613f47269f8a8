-- aip.archive_action moves one settled and decided action to the archive and leaves its
-- tombstone, so that its id stays taken for ever (G01). It answers archived, or why it may not
-- be (see aip.archivable); only archived changed something.
-- Lock order: action. Role: the owner alone; no login role may delete a route.
-- Plan: primary keys.
CREATE OR REPLACE FUNCTION aip.archive_action(p_action text) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_why text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_action, 0));
    v_why := aip.archivable(p_action, 'infinity');
    IF v_why <> '' THEN
        RETURN v_why;
    END IF;
    INSERT INTO aip.tombstone (action_id, tenant_id, capability_id, archived_at)
    SELECT action_id, tenant_id, capability_id, aip.clock() FROM aip.route WHERE action_id = p_action;
    INSERT INTO aip.archive (action_id, document)
    SELECT p_action, json_build_object('route', to_json(r),
        'attempts', (SELECT json_agg(to_json(a) ORDER BY a.fence) FROM aip.attempt a WHERE a.action_id = p_action),
        'settlements', (SELECT json_agg(to_json(s) ORDER BY s.fence) FROM aip.attempt_settlement s WHERE s.action_id = p_action))
    FROM aip.route r WHERE r.action_id = p_action;
    DELETE FROM aip.attempt_settlement WHERE action_id = p_action;
    DELETE FROM aip.attempt WHERE action_id = p_action;
    DELETE FROM aip.route WHERE action_id = p_action;
    RETURN 'archived';
END
$$;
