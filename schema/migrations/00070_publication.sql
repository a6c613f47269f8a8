-- What a large publication writes, made less.
-- Serves: 60
--
-- +goose Up

-- Candidate chains are computed from the bindings by one function that is all that writes
-- them, bindings are never deleted, and the audit recomputes every chain. Looking each one up
-- again, and locking its binding, is what a publication of 100 000 bindings waited for.
ALTER TABLE aip.route_candidate DROP CONSTRAINT route_candidate_tenant_id_capability_id_instance_id_fkey;

-- A stored package is mostly text.
ALTER TABLE aip.package_blob ALTER COLUMN bytes SET STORAGE EXTENDED;

-- +goose Down

ALTER TABLE aip.package_blob ALTER COLUMN bytes SET STORAGE EXTERNAL;
ALTER TABLE aip.route_candidate ADD CONSTRAINT route_candidate_tenant_id_capability_id_instance_id_fkey
    FOREIGN KEY (tenant_id, capability_id, instance_id) REFERENCES aip.binding;
