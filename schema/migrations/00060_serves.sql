-- A newer schema may go on serving older programs, and says from which one on. What it then
-- grants is recorded with it, so that an older program, which carries an older matrix, can
-- still tell an agreed privilege from one that somebody added.
--
-- +goose Up

ALTER TABLE aip.schema_file ADD COLUMN serves bigint NOT NULL DEFAULT 0; -- of a migration: see schema.File

-- The privilege matrix of the schema as it was last applied, one line a row.
CREATE TABLE aip.schema_privilege (
    line text COLLATE "C" PRIMARY KEY
);
GRANT SELECT ON aip.schema_privilege TO aip_control, aip_data, aip_lifecycle, aip_readonly;

-- +goose Down

DROP TABLE aip.schema_privilege;
ALTER TABLE aip.schema_file DROP COLUMN serves;
