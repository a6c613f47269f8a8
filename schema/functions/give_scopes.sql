-- aip.give_scopes gives back one unit of each counter of a set, waiting for each in the one
-- order (by kind, then key: the order of the index). A kind is in a set once.
-- Role: data. Locks: scope_counter rows, the last lock class. Plan: primary key; HOT updates.
CREATE OR REPLACE FUNCTION aip.give_scopes(p_kinds text[], p_keys text[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
    UPDATE aip.scope_counter s SET current = s.current - 1
    WHERE s.kind = ANY (p_kinds) AND s.key = ANY (p_keys) AND s.key = p_keys[array_position(p_kinds, s.kind)]
$$;
GRANT EXECUTE ON FUNCTION aip.give_scopes(text[], text[]) TO aip_data;
