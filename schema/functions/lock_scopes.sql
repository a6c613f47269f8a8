-- aip.lock_scopes locks a set of counters once, in the one order (by kind, then key), and
-- returns the kind of the first that is at its limit, or ''. The arrays come sorted.
-- Counters that never existed are made first, in the same order: whoever needs one that
-- another transaction is making waits for it before it holds any.
-- Role: data. Locks: scope_counter rows, the last lock class; nothing is waited for after
-- them. Plan: nested loop of unnest and the primary key, sort, lock rows.
CREATE OR REPLACE FUNCTION aip.lock_scopes(p_kinds text[], p_keys text[], p_limits bigint[]) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_full  integer;
    v_found integer;
BEGIN
    FOR v_try IN 1 .. 2 LOOP
        SELECT count(*), min(t.at) FILTER (WHERE t.current >= t.bound)
        INTO v_found, v_full
        FROM (SELECT u.at, u.bound, s.current
              FROM unnest(p_kinds, p_keys, p_limits) WITH ORDINALITY AS u (kind, key, bound, at)
              JOIN aip.scope_counter s ON s.kind = u.kind AND s.key = u.key
              ORDER BY u.at
              FOR NO KEY UPDATE OF s) t;
        EXIT WHEN v_found = cardinality(p_kinds);
        INSERT INTO aip.scope_counter AS s (kind, key, current)
        SELECT u.kind, u.key, 0
        FROM unnest(p_kinds, p_keys) WITH ORDINALITY AS u (kind, key, at)
        ORDER BY u.at
        ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN COALESCE(p_kinds[v_full], '');
END
$$;
GRANT EXECUTE ON FUNCTION aip.lock_scopes(text[], text[], bigint[]) TO aip_data;
