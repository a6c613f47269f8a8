-- What one database needs from its administrator before aip_migrate can work in it. Run
-- with search_path empty; the names of the database and of the administrator are filled in.
REVOKE ALL ON DATABASE {{database}} FROM PUBLIC;
GRANT CONNECT ON DATABASE {{database}} TO aip_migrate, aip_control, aip_data, aip_lifecycle, aip_readonly;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
CREATE SCHEMA IF NOT EXISTS aip AUTHORIZATION aip_owner;
