-- aip.take_scopes_at_once takes one unit of each counter of a set in one statement, waiting
-- for each in the one order (by kind, then key: that of the index). It reports false,
-- and has taken nothing, when a counter does not exist yet or is at its limit: the caller must
-- then end its transaction, and use aip.take_scopes in the next one.
-- Role: data. Locks: scope_counter rows, the last lock class. Plan: primary key; HOT updates.
CREATE OR REPLACE FUNCTION aip.take_scopes_at_once(p_kinds text[], p_keys text[], p_limits bigint[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_kinds text[];
    v_keys  text[];
    v_room  boolean;
BEGIN
    IF cardinality(p_kinds) = 0 THEN
        RETURN true;
    END IF;
    WITH taken AS (
        UPDATE aip.scope_counter s SET current = s.current + 1
        WHERE s.kind = ANY (p_kinds) AND s.key = ANY (p_keys) AND s.key = p_keys[array_position(p_kinds, s.kind)]
        RETURNING s.kind, s.key, s.current <= p_limits[array_position(p_kinds, s.kind)] AS room
    )
    SELECT array_agg(t.kind), array_agg(t.key), bool_and(t.room) INTO v_kinds, v_keys, v_room FROM taken t;
    IF v_room AND cardinality(v_kinds) = cardinality(p_kinds) THEN
        RETURN true;
    END IF;
    PERFORM aip.give_scopes(v_kinds, v_keys);
    RETURN false;
END
$$;
GRANT EXECUTE ON FUNCTION aip.take_scopes_at_once(text[], text[], bigint[]) TO aip_data;
