-- aip.archivable tells why one action may not be archived yet, or '' when it may: absent,
-- reserved (an attempt is in flight), uncertain (a question about it is open), unfinished (its
-- central record is not final, so that it may still run on its route, or its host has not heard of
-- the end yet) or recent (something happened to it at p_before or later).
-- Locks: none; the caller holds the action's. Role: the owner alone. Plan: primary keys.
CREATE OR REPLACE FUNCTION aip.archivable(p_action text, p_before timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN NOT EXISTS (SELECT FROM aip.route WHERE action_id = p_action) THEN 'absent'
        WHEN EXISTS (SELECT FROM aip.reservation WHERE action_id = p_action) THEN 'reserved'
        WHEN EXISTS (SELECT FROM aip.reconciliation WHERE action_id = p_action AND state <> 'resolved') THEN 'uncertain'
        WHEN EXISTS (SELECT FROM aip.action_state
                     WHERE action_id = p_action AND (unsettled OR state NOT IN ('completed', 'failed', 'cancelled')))
            OR EXISTS (SELECT FROM aip.action_archive
                       WHERE action_id = p_action AND told_at IS NULL AND tells < 60) THEN 'unfinished'
        WHEN EXISTS (SELECT FROM aip.attempt_settlement WHERE action_id = p_action AND settled_at >= p_before)
            OR EXISTS (SELECT FROM aip.reconciliation WHERE action_id = p_action AND resolved_at >= p_before) THEN 'recent'
        ELSE '' END
$$;
