-- aip.draw_rank is the place of one version in the order in which an action draws the
-- versions of an instance by weight: 0 is drawn first. It is routing.DrawOrder: the one
-- under point * total / 2^31 is taken out, again and again. p_weights are the positive
-- weights by version id; p_index counts from 1.
-- Role: data. Locks: none.
CREATE OR REPLACE FUNCTION aip.draw_rank(p_point bigint, p_weights bigint[], p_index integer) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    v_rest   bigint[] := p_weights;
    v_total  bigint;
    v_mark   bigint;
    v_chosen integer;
    v_last   integer;
BEGIN
    FOR v_rank IN 0 .. cardinality(p_weights) - 1 LOOP
        v_total := 0;
        FOR i IN 1 .. cardinality(v_rest) LOOP
            v_total := v_total + v_rest[i];
        END LOOP;
        v_mark := div(p_point::numeric * v_total, 2147483648)::bigint;
        v_chosen := 0;
        FOR i IN 1 .. cardinality(v_rest) LOOP
            CONTINUE WHEN v_rest[i] = 0;
            v_last := i;
            IF v_mark < v_rest[i] THEN
                v_chosen := i;
                EXIT;
            END IF;
            v_mark := v_mark - v_rest[i];
        END LOOP;
        IF v_chosen = 0 THEN
            v_chosen := v_last;
        END IF;
        IF v_chosen = p_index THEN
            RETURN v_rank;
        END IF;
        v_rest[v_chosen] := 0;
    END LOOP;
    RETURN cardinality(p_weights);
END
$$;
GRANT EXECUTE ON FUNCTION aip.draw_rank(bigint, bigint[], integer) TO aip_data;
