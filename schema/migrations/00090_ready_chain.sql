-- A chain carries all that a resolve writes down of it: the counters that an attempt holds, their
-- limits, and the circuit policy; so that nobody joins and assembles them for every action. And it
-- says whether a better priority exists (foremost), so that nobody looks for one.
--
-- +goose Up

ALTER TABLE aip.route_candidate
    ADD COLUMN quota_revision bigint, ADD COLUMN circuit_threshold bigint, ADD COLUMN circuit_open_millis bigint,
    ADD COLUMN circuit_probes bigint, ADD COLUMN scope_kinds text[], ADD COLUMN scope_keys text[], ADD COLUMN scope_limits bigint[],
    ADD COLUMN foremost boolean NOT NULL DEFAULT true;
UPDATE aip.route_candidate c
SET quota_revision = e.revision, circuit_threshold = e.circuit_threshold, circuit_open_millis = e.circuit_open_millis,
    circuit_probes = e.circuit_probes,
    scope_kinds = array_remove(ARRAY[CASE WHEN e.binding_limit IS NOT NULL THEN 'binding' END,
                                     CASE WHEN g.type_limit IS NOT NULL THEN 'connector_type' END,
                                     CASE WHEN g.global_limit IS NOT NULL THEN 'global' END,
                                     CASE WHEN e.instance_limit IS NOT NULL THEN 'instance' END,
                                     CASE WHEN g.tenant_limit IS NOT NULL THEN 'tenant' END], NULL),
    scope_keys = array_remove(ARRAY[CASE WHEN e.binding_limit IS NOT NULL THEN c.tenant_id || '|' || c.capability_id || '|' || c.instance_id END,
                                    CASE WHEN g.type_limit IS NOT NULL THEN c.type_id END,
                                    CASE WHEN g.global_limit IS NOT NULL THEN 'global' END,
                                    CASE WHEN e.instance_limit IS NOT NULL THEN c.instance_id END,
                                    CASE WHEN g.tenant_limit IS NOT NULL THEN c.tenant_id END], NULL),
    scope_limits = array_remove(ARRAY[e.binding_limit, g.type_limit, g.global_limit, e.instance_limit, g.tenant_limit], NULL),
    foremost = c.weight > 0 AND c.priority = (
        SELECT min(w.priority) FROM aip.route_candidate w
        WHERE w.tenant_id = c.tenant_id AND w.capability_id = c.capability_id AND w.weight > 0)
FROM aip.quota_effective e CROSS JOIN aip.quota_effective g
WHERE e.ref = c.quota_policy_ref AND g.ref = 'deployment';
ALTER TABLE aip.route_candidate
    ALTER COLUMN quota_revision SET NOT NULL, ALTER COLUMN circuit_threshold SET NOT NULL, ALTER COLUMN circuit_open_millis SET NOT NULL,
    ALTER COLUMN circuit_probes SET NOT NULL, ALTER COLUMN scope_kinds SET NOT NULL, ALTER COLUMN scope_keys SET NOT NULL,
    ALTER COLUMN scope_limits SET NOT NULL,
    ADD CONSTRAINT scopes_alike CHECK (cardinality(scope_keys) = cardinality(scope_kinds) AND cardinality(scope_limits) = cardinality(scope_kinds));
GRANT UPDATE (foremost, quota_revision, circuit_threshold, circuit_open_millis, circuit_probes, scope_kinds, scope_keys, scope_limits)
    ON aip.route_candidate TO aip_control;

-- +goose StatementBegin
CREATE FUNCTION aip.quota_changed() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_refs text[];
BEGIN
    SELECT array_agg(n.ref) INTO v_refs
    FROM changed n JOIN former o ON o.ref = n.ref WHERE n IS DISTINCT FROM o;
    IF v_refs IS NOT NULL THEN
        PERFORM aip.ready_chains(v_refs);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER quota_changed AFTER UPDATE ON aip.quota_effective
    REFERENCING OLD TABLE AS former NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION aip.quota_changed();
ALTER TABLE aip.quota_effective ENABLE ALWAYS TRIGGER quota_changed;

-- What a tick found for one of its resolves.
CREATE TYPE aip.tick_pick AS (
    item bigint, chain tid, replica_id text, tier bigint, active bigint, capacity bigint, lease_epoch bigint, journal_id text);

-- +goose Down

DROP TRIGGER quota_changed ON aip.quota_effective;
DROP FUNCTION aip.quota_changed();
DROP FUNCTION IF EXISTS aip.ready_chains(text[]), aip.mark_chains(text[]),
    aip.chain_scope_kinds(aip.quota_effective, aip.quota_effective),
    aip.chain_scope_keys(aip.quota_effective, aip.quota_effective, text, text, text, text),
    aip.chain_scope_limits(aip.quota_effective, aip.quota_effective);
DROP TYPE aip.tick_pick;
ALTER TABLE aip.route_candidate
    DROP CONSTRAINT scopes_alike, DROP COLUMN foremost, DROP COLUMN scope_limits, DROP COLUMN scope_keys, DROP COLUMN scope_kinds,
    DROP COLUMN circuit_probes, DROP COLUMN circuit_open_millis, DROP COLUMN circuit_threshold, DROP COLUMN quota_revision;
