-- What the roles of a cluster may do and how their sessions are set. They are cluster-wide:
-- several databases share them. registry init has created the missing ones before, in the
-- same transaction, and sets passwords afterwards, as SCRAM verifiers.
--
-- aip_owner owns the schema and cannot log in. aip_migrate is its only member. The others
-- hold exactly what the migrations grant (privileges.golden). Settings belong to the role
-- and not to the session, so that a pooler cannot lose them.
ALTER ROLE aip_migrate LOGIN INHERIT;
ALTER ROLE aip_control LOGIN;
ALTER ROLE aip_data LOGIN;
ALTER ROLE aip_lifecycle LOGIN;
ALTER ROLE aip_readonly LOGIN;
GRANT aip_owner TO aip_migrate;

ALTER ROLE aip_migrate SET search_path = pg_catalog, aip, pg_temp;
ALTER ROLE aip_migrate SET lock_timeout = '10s';
ALTER ROLE aip_migrate SET timezone = 'UTC';

-- A publication fills tables in one transaction; the checks of its foreign keys are planned
-- once a session, perhaps while a table was empty. Without this they would read each table
-- from end to end for every row.
ALTER ROLE aip_control SET enable_seqscan = off;
ALTER ROLE aip_control SET jit = off;
ALTER ROLE aip_control SET search_path = pg_catalog, aip, pg_temp;
ALTER ROLE aip_control SET timezone = 'UTC';
ALTER ROLE aip_control SET default_transaction_isolation = 'read committed';
ALTER ROLE aip_control SET statement_timeout = '120s';
ALTER ROLE aip_control SET lock_timeout = '10s';
ALTER ROLE aip_control SET idle_in_transaction_session_timeout = '30s';

-- The hot path: plans are made once for all arguments (custom plans cost five times as
-- much), rows are locked in index order (a bitmap scan would lock in heap order), and the
-- plans are the same on an empty table as on a full one: by index, whatever the statistics
-- say. Compilation would be chosen by the costs that this puts on the few scans left.
ALTER ROLE aip_data SET search_path = pg_catalog, aip, pg_temp;
ALTER ROLE aip_data SET timezone = 'UTC';
ALTER ROLE aip_data SET default_transaction_isolation = 'read committed';
ALTER ROLE aip_data SET plan_cache_mode = 'force_generic_plan';
ALTER ROLE aip_data SET enable_bitmapscan = off;
ALTER ROLE aip_data SET enable_seqscan = off;
ALTER ROLE aip_data SET enable_hashjoin = off;
ALTER ROLE aip_data SET enable_mergejoin = off;
ALTER ROLE aip_data SET jit = off;
ALTER ROLE aip_data SET statement_timeout = '5s';
ALTER ROLE aip_data SET lock_timeout = '2s';
ALTER ROLE aip_data SET idle_in_transaction_session_timeout = '5s';

ALTER ROLE aip_lifecycle SET search_path = pg_catalog, aip, pg_temp;
ALTER ROLE aip_lifecycle SET timezone = 'UTC';
ALTER ROLE aip_lifecycle SET default_transaction_isolation = 'read committed';
ALTER ROLE aip_lifecycle SET plan_cache_mode = 'force_generic_plan';
ALTER ROLE aip_lifecycle SET enable_bitmapscan = off;
ALTER ROLE aip_lifecycle SET enable_seqscan = off;
ALTER ROLE aip_lifecycle SET enable_hashjoin = off;
ALTER ROLE aip_lifecycle SET enable_mergejoin = off;
ALTER ROLE aip_lifecycle SET jit = off;
ALTER ROLE aip_lifecycle SET statement_timeout = '5s';
ALTER ROLE aip_lifecycle SET lock_timeout = '2s';
ALTER ROLE aip_lifecycle SET idle_in_transaction_session_timeout = '5s';

ALTER ROLE aip_readonly SET search_path = pg_catalog, aip, pg_temp;
ALTER ROLE aip_readonly SET timezone = 'UTC';
ALTER ROLE aip_readonly SET default_transaction_read_only = on;
ALTER ROLE aip_readonly SET statement_timeout = '30s';
ALTER ROLE aip_readonly SET lock_timeout = '2s';
ALTER ROLE aip_readonly SET idle_in_transaction_session_timeout = '15s';
