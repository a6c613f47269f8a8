-- Revocation lists: signed, numbered, kept for ever. Applying one revokes what it names
-- in the same transaction, and every admission says which one it was held against (G33, G35).
--
-- +goose Up

CREATE TABLE aip.revocation_list (
    number     bigint PRIMARY KEY CHECK (number >= 1),
    digest     text NOT NULL,
    document   text NOT NULL,               -- as it was signed
    entries    text NOT NULL,               -- what it says, for those who cannot verify it
    issued_at  timestamptz NOT NULL,
    actor      text NOT NULL,
    reason     text NOT NULL,
    applied_at timestamptz NOT NULL
);
GRANT SELECT, INSERT ON aip.revocation_list TO aip_control;
GRANT SELECT ON aip.revocation_list TO aip_data, aip_readonly;

ALTER TABLE aip.admission ADD COLUMN revocation_list bigint NOT NULL DEFAULT 0 CHECK (revocation_list >= 0);

-- +goose Down

ALTER TABLE aip.admission DROP COLUMN revocation_list;
DROP TABLE aip.revocation_list;
