-- aip.take_scopes takes one unit of each counter of a set, waiting for each in the one order
-- (by kind, then key; the arrays come sorted), and returns ''. When one is at its limit it puts
-- back what it took and returns the kind of that one. A counter that never existed is made in
-- its place of the order.
-- Role: data. Locks: scope_counter rows, the last lock class; nothing is waited for after them.
-- Plan: primary key; HOT updates.
CREATE OR REPLACE FUNCTION aip.take_scopes(p_kinds text[], p_keys text[], p_limits bigint[]) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    FOR i IN 1 .. cardinality(p_kinds) LOOP
        UPDATE aip.scope_counter SET current = current + 1
        WHERE kind = p_kinds[i] AND key = p_keys[i] AND current < p_limits[i];
        CONTINUE WHEN FOUND;
        INSERT INTO aip.scope_counter (kind, key, current) VALUES (p_kinds[i], p_keys[i], 0) ON CONFLICT DO NOTHING;
        UPDATE aip.scope_counter SET current = current + 1
        WHERE kind = p_kinds[i] AND key = p_keys[i] AND current < p_limits[i];
        CONTINUE WHEN FOUND;
        PERFORM aip.give_scopes(p_kinds[1 : i - 1], p_keys[1 : i - 1]);
        RETURN p_kinds[i];
    END LOOP;
    RETURN '';
END
$$;
GRANT EXECUTE ON FUNCTION aip.take_scopes(text[], text[], bigint[]) TO aip_data;
