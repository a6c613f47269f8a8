-- What the common resolve reads, and nothing else. Replicas that may take an action are in a
-- partial index, so that judging a candidate is a comparison of its lease and its load; its
-- columns change when a replica drains or fails, so the update of a load stays HOT. Counters and
-- replicas are found by a hash of their long keys: one page instead of three, no comparisons.
-- The chains of a tenant's capability say when one of them leads to crowded replicas (wide):
-- otherwise nobody looks for the mirror.
--
-- +goose Up

CREATE INDEX replica_live_ready ON aip.replica_live (instance_id, version_id)
    WHERE status = 'ready' AND intent = 'run' AND healthy AND NOT crowded;

CREATE INDEX scope_counter_by_key ON aip.scope_counter USING hash (key);
CREATE INDEX replica_live_by_id ON aip.replica_live USING hash (replica_id);

ALTER TABLE aip.route_candidate ADD COLUMN wide boolean NOT NULL DEFAULT false;
GRANT UPDATE (wide) ON aip.route_candidate TO aip_control;
UPDATE aip.route_candidate c SET wide = true
FROM aip.route_candidate w JOIN aip.replica_group g ON g.instance_id = w.instance_id AND g.version_id = w.version_id
WHERE w.tenant_id = c.tenant_id AND w.capability_id = c.capability_id;

-- The first crowded replica of a version of an instance marks its chains. It does so under the
-- publication lock, shared: a publication that rebuilds them sees the group or comes later.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION aip.replica_mirror() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (OLD.active, OLD.status, OLD.intent, OLD.healthy, OLD.capacity)
           IS NOT DISTINCT FROM (NEW.active, NEW.status, NEW.intent, NEW.healthy, NEW.capacity) THEN
            RETURN NULL;
        END IF;
        UPDATE aip.replica_load
        SET active = NEW.active,
            free = NEW.status = 'ready' AND NEW.intent = 'run' AND NEW.healthy AND NEW.active < NEW.capacity
        WHERE replica_id = NEW.replica_id;
        RETURN NULL;
    END IF;
    IF NOT EXISTS (SELECT FROM aip.replica_group g WHERE g.instance_id = NEW.instance_id AND g.version_id = NEW.version_id) THEN
        PERFORM pg_advisory_xact_lock_shared(4871, 1);
        UPDATE aip.route_candidate c SET wide = true
        FROM aip.route_candidate w
        WHERE w.instance_id = NEW.instance_id AND w.version_id = NEW.version_id
          AND c.tenant_id = w.tenant_id AND c.capability_id = w.capability_id AND NOT c.wide;
    END IF;
    INSERT INTO aip.replica_group VALUES (NEW.instance_id, NEW.version_id, NEW.capacity_class, NEW.region, NEW.zone)
    ON CONFLICT DO NOTHING;
    INSERT INTO aip.replica_load VALUES (
        NEW.replica_id, NEW.instance_id, NEW.version_id, NEW.capacity_class, NEW.region, NEW.zone, NEW.ring, NEW.active,
        NEW.status = 'ready' AND NEW.intent = 'run' AND NEW.healthy AND NEW.active < NEW.capacity);
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Earlier shapes of the calls; the functions of this release are applied after the migrations.
DROP FUNCTION IF EXISTS
    aip.resolve_one(text, text, text, text, text, text, boolean, bigint, bigint, text, bigint, boolean, boolean),
    aip.reuse_route(aip.route, text, text, text, bigint),
    aip.settle_one(aip.route, aip.attempt, json, text, text, text, boolean, text),
    aip.tick(text[], aip.route[], aip.attempt[], text[], text[], text[], text[], text[], text[], text[],
             text[], text[], text[], boolean[], bigint[], bigint[], text[], bigint[], boolean);

-- +goose Down

DROP FUNCTION IF EXISTS
    aip.resolve_one(text, text, text, text, text, text, boolean, bigint, bigint, text, bigint, boolean, boolean),
    aip.reuse_route(aip.route, text, text, text, bigint),
    aip.settle_one(text, bigint, boolean, text[], text[], aip.route, aip.attempt, json, text, text, text, boolean, text),
    aip.tick(text[], bigint[], text[], text[], text[], text[], bigint[], text[], text[], text[], text[], text[],
             text[], text[], text[], boolean[], bigint[], bigint[], text[], bigint[]);

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION aip.replica_mirror() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (OLD.active, OLD.status, OLD.intent, OLD.healthy, OLD.capacity)
           IS NOT DISTINCT FROM (NEW.active, NEW.status, NEW.intent, NEW.healthy, NEW.capacity) THEN
            RETURN NULL;
        END IF;
        UPDATE aip.replica_load
        SET active = NEW.active,
            free = NEW.status = 'ready' AND NEW.intent = 'run' AND NEW.healthy AND NEW.active < NEW.capacity
        WHERE replica_id = NEW.replica_id;
        RETURN NULL;
    END IF;
    INSERT INTO aip.replica_group VALUES (NEW.instance_id, NEW.version_id, NEW.capacity_class, NEW.region, NEW.zone)
    ON CONFLICT DO NOTHING;
    INSERT INTO aip.replica_load VALUES (
        NEW.replica_id, NEW.instance_id, NEW.version_id, NEW.capacity_class, NEW.region, NEW.zone, NEW.ring, NEW.active,
        NEW.status = 'ready' AND NEW.intent = 'run' AND NEW.healthy AND NEW.active < NEW.capacity);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
ALTER TABLE aip.route_candidate DROP COLUMN wide;
DROP INDEX aip.replica_live_ready, aip.scope_counter_by_key, aip.replica_live_by_id;
