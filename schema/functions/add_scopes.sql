-- aip.add_scopes moves every counter of a locked set by one step, up or down.
-- Role: data. Locks: none new, the rows are locked by aip.lock_scopes.
-- Plan: nested loop of unnest and the primary key; HOT updates.
CREATE OR REPLACE FUNCTION aip.add_scopes(p_kinds text[], p_keys text[], p_step bigint) RETURNS void
LANGUAGE sql VOLATILE AS $$
    UPDATE aip.scope_counter s
    SET current = s.current + p_step
    FROM unnest(p_kinds, p_keys) AS u (kind, key)
    WHERE s.kind = u.kind AND s.key = u.key
$$;
GRANT EXECUTE ON FUNCTION aip.add_scopes(text[], text[], bigint) TO aip_data;
