-- aip.clock is the only clock of the registry. now() is the start of the transaction:
-- after a wait for a lock it is the past, and a dead lease looks alive. A test may
-- replace this function in its own database to set the time.
-- Role: all. Plan: none, it is inlined.
CREATE OR REPLACE FUNCTION aip.clock() RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$ SELECT pg_catalog.clock_timestamp() $$;
GRANT EXECUTE ON FUNCTION aip.clock() TO aip_control, aip_data, aip_lifecycle, aip_readonly;
