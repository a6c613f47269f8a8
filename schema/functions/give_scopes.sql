-- aip.give_scopes gives back one unit of each counter of a set, waiting for each in the one
-- order (by kind, then key; the arrays come sorted).
-- Role: data. Locks: scope_counter rows, the last lock class. Plan: primary key; HOT updates.
CREATE OR REPLACE FUNCTION aip.give_scopes(p_kinds text[], p_keys text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    FOR i IN 1 .. cardinality(p_kinds) LOOP
        UPDATE aip.scope_counter SET current = current - 1 WHERE kind = p_kinds[i] AND key = p_keys[i];
    END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION aip.give_scopes(text[], text[]) TO aip_data;
