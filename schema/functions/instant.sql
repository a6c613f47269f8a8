-- aip.instant writes a time as the contracts do: RFC 3339 in UTC with microseconds, and
-- null for the year 1, which stands for none.
-- Role: all. Plan: none, it is inlined.
CREATE OR REPLACE FUNCTION aip.instant(p_at timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_at > '0002-01-01 00:00:00+00'::timestamptz
                THEN to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END
$$;
GRANT EXECUTE ON FUNCTION aip.instant(timestamptz) TO aip_control, aip_data, aip_lifecycle, aip_readonly;
