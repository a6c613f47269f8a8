-- Many replicas of one version of one instance get an ordered index to choose from.
-- Up to 32 replicas are read and sorted, and their updates stay HOT. What is registered
-- beyond that is crowded (decided once, at insertion) and mirrored in replica_load, whose
-- index gives the least loaded replica without reading the others. Only triggers write the
-- mirror, and only while they hold the replica's own row: it needs no lock order.
-- They fire ALWAYS: a row that was copied in is mirrored too.
--
-- +goose Up

ALTER TABLE aip.replica_live ADD COLUMN crowded boolean NOT NULL DEFAULT false;
DROP INDEX aip.replica_live_by_instance;
CREATE INDEX replica_live_by_instance ON aip.replica_live (instance_id, version_id, crowded);

-- Where the crowded replicas of a version of an instance are.
CREATE TABLE aip.replica_group (
    instance_id    text COLLATE "C" NOT NULL,
    version_id     text COLLATE "C" NOT NULL,
    capacity_class text COLLATE "C" NOT NULL,
    region         text COLLATE "C" NOT NULL,
    zone           text COLLATE "C" NOT NULL,
    PRIMARY KEY (instance_id, version_id, capacity_class, region, zone)
);
GRANT SELECT ON aip.replica_group TO aip_control, aip_data, aip_readonly;

CREATE TABLE aip.replica_load (
    replica_id     text COLLATE "C" PRIMARY KEY REFERENCES aip.replica_live ON DELETE CASCADE,
    instance_id    text COLLATE "C" NOT NULL,
    version_id     text COLLATE "C" NOT NULL,
    capacity_class text COLLATE "C" NOT NULL,
    region         text COLLATE "C" NOT NULL,
    zone           text COLLATE "C" NOT NULL,
    ring           bigint NOT NULL,
    active         bigint NOT NULL,
    free           boolean NOT NULL -- ready, healthy, not to be drained, below its capacity
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX replica_load_order ON aip.replica_load (instance_id, version_id, capacity_class, region, zone, active, ring)
    WHERE free;
GRANT SELECT ON aip.replica_load TO aip_control, aip_data, aip_readonly;

-- +goose StatementBegin
CREATE FUNCTION aip.replica_crowd() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.crowded := (SELECT count(*) FROM (SELECT FROM aip.replica_live l
                    WHERE l.instance_id = NEW.instance_id AND l.version_id = NEW.version_id AND NOT l.crowded
                    LIMIT 32) near) >= 32;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION aip.replica_mirror() RETURNS trigger
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

CREATE TRIGGER replica_crowd BEFORE INSERT ON aip.replica_live FOR EACH ROW EXECUTE FUNCTION aip.replica_crowd();
CREATE TRIGGER replica_enter AFTER INSERT ON aip.replica_live FOR EACH ROW WHEN (NEW.crowded)
    EXECUTE FUNCTION aip.replica_mirror();
CREATE TRIGGER replica_change AFTER UPDATE OF active, status, intent, healthy, capacity ON aip.replica_live FOR EACH ROW
    WHEN (NEW.crowded) EXECUTE FUNCTION aip.replica_mirror();
ALTER TABLE aip.replica_live ENABLE ALWAYS TRIGGER replica_crowd;
ALTER TABLE aip.replica_live ENABLE ALWAYS TRIGGER replica_enter;
ALTER TABLE aip.replica_live ENABLE ALWAYS TRIGGER replica_change;

-- +goose Down

DROP TRIGGER replica_change ON aip.replica_live;
DROP TRIGGER replica_enter ON aip.replica_live;
DROP TRIGGER replica_crowd ON aip.replica_live;
DROP FUNCTION aip.replica_mirror(), aip.replica_crowd();
DROP TABLE aip.replica_load, aip.replica_group;
DROP INDEX aip.replica_live_by_instance;
ALTER TABLE aip.replica_live DROP COLUMN crowded;
CREATE INDEX replica_live_by_instance ON aip.replica_live (instance_id, version_id);
