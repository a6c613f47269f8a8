-- aip.archive_action moves one settled and decided action to the archive and leaves its
-- tombstone, so that its id stays taken for ever (G01). It answers archived, absent,
-- reserved or uncertain; only archived changed something.
-- Lock order: action. Role: the owner alone; no login role may delete a route.
-- Plan: primary keys.
CREATE OR REPLACE FUNCTION aip.archive_action(p_action text) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_route aip.route;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_action, 0));
    SELECT * INTO v_route FROM aip.route WHERE action_id = p_action;
    IF NOT FOUND THEN
        RETURN 'absent';
    ELSIF EXISTS (SELECT FROM aip.reservation WHERE action_id = p_action) THEN
        RETURN 'reserved';
    ELSIF EXISTS (SELECT FROM aip.reconciliation WHERE action_id = p_action AND state <> 'resolved') THEN
        RETURN 'uncertain';
    END IF;
    INSERT INTO aip.tombstone (action_id, tenant_id, capability_id, archived_at)
    VALUES (v_route.action_id, v_route.tenant_id, v_route.capability_id, aip.clock());
    INSERT INTO aip.archive (action_id, document)
    SELECT p_action, json_build_object('route', to_json(v_route),
        'attempts', (SELECT json_agg(to_json(a) ORDER BY a.fence) FROM aip.attempt a WHERE a.action_id = p_action),
        'settlements', (SELECT json_agg(to_json(s) ORDER BY s.fence) FROM aip.attempt_settlement s WHERE s.action_id = p_action));
    DELETE FROM aip.attempt_settlement WHERE action_id = p_action;
    DELETE FROM aip.attempt WHERE action_id = p_action;
    DELETE FROM aip.route WHERE action_id = p_action;
    RETURN 'archived';
END
$$;
