-- The registry: identity in insert-only tables, live state in narrow hot tables.
--
-- Tables are owned by aip_owner. Grants stand beside each table and are what the
-- privilege matrix (privileges.golden) records. Every id is COLLATE "C": ids are
-- ordered and compared bytewise, as the Go code does.
--
-- +goose Up

ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;

GRANT USAGE ON SCHEMA aip TO aip_control, aip_data, aip_lifecycle, aip_readonly;

-- Domains of the tables that are updated most. A CHECK of a table is parsed anew by every statement that
-- writes to it, which was a quarter of a resolve and settle; a domain's is kept by the
-- session, and is judged only where its column is written. What compares two columns
-- stays a CHECK.
CREATE DOMAIN aip.tally AS bigint CHECK (VALUE >= 0);
CREATE DOMAIN aip.ordinal AS bigint CHECK (VALUE >= 1);
CREATE DOMAIN aip.ring_place AS bigint CHECK (VALUE BETWEEN 0 AND 2147483647);
CREATE DOMAIN aip.replica_status AS text CHECK (VALUE IN ('ready', 'draining', 'offline'));
CREATE DOMAIN aip.operator_intent AS text CHECK (VALUE IN ('run', 'drain'));
CREATE DOMAIN aip.breaker_state AS text CHECK (VALUE IN ('closed', 'open', 'half_open'));
CREATE DOMAIN aip.fence_token AS text CHECK (VALUE ~ '^[0-9a-f]{32}$');
CREATE DOMAIN aip.outcome AS text CHECK (VALUE IN ('completed', 'outcome_unknown', 'cancelled', 'lease_expired'));
CREATE DOMAIN aip.scope_kind AS text COLLATE "C"
    CHECK (VALUE IN ('binding', 'connector_type', 'global', 'instance', 'tenant', 'tenant_retry'));

-- What was applied, with the digest of its text, so that an edited file is noticed.
CREATE TABLE aip.schema_file (
    name       text COLLATE "C" PRIMARY KEY,
    version    bigint NOT NULL,             -- 0 for a repeatable file (a function)
    sha256     text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT ON aip.schema_file TO aip_control, aip_data, aip_lifecycle, aip_readonly;

-- One row, made at init and never changed: the keys of the tie-break ring and of cursors.
CREATE TABLE aip.deployment (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    id         text NOT NULL,
    ring_key   bytea NOT NULL CHECK (octet_length(ring_key) >= 32),
    cursor_key bytea NOT NULL CHECK (octet_length(cursor_key) >= 32),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT ON aip.deployment TO aip_control, aip_data;
GRANT SELECT (one, id, created_at) ON aip.deployment TO aip_lifecycle, aip_readonly;

CREATE TABLE aip.catalog_revision (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    revision bigint NOT NULL CHECK (revision >= 0)
);
INSERT INTO aip.catalog_revision (revision) VALUES (0);
GRANT SELECT ON aip.catalog_revision TO aip_control, aip_data, aip_lifecycle, aip_readonly;
GRANT UPDATE (revision) ON aip.catalog_revision TO aip_control;

-- Catalog ---------------------------------------------------------------------

CREATE TABLE aip.connector_type (
    id      text COLLATE "C" PRIMARY KEY,
    name    text NOT NULL,
    owner   text NOT NULL,
    enabled boolean NOT NULL
);
GRANT SELECT, INSERT, UPDATE (enabled) ON aip.connector_type TO aip_control;
GRANT SELECT ON aip.connector_type TO aip_data, aip_lifecycle, aip_readonly;

-- Big documents live apart, addressed by what they contain.
CREATE TABLE aip.manifest (
    digest   text COLLATE "C" PRIMARY KEY,
    document text NOT NULL,
    size     integer NOT NULL CHECK (size BETWEEN 1 AND 16777216)
);
GRANT SELECT, INSERT ON aip.manifest TO aip_control;
GRANT SELECT ON aip.manifest TO aip_data, aip_readonly;

CREATE TABLE aip.connector_version (
    id                   text COLLATE "C" PRIMARY KEY,
    type_id              text COLLATE "C" NOT NULL REFERENCES aip.connector_type,
    version              text COLLATE "C" NOT NULL,
    release_sequence     bigint NOT NULL CHECK (release_sequence >= 0),
    manifest_digest      text COLLATE "C" NOT NULL REFERENCES aip.manifest,
    artifact_digest      text COLLATE "C" NOT NULL UNIQUE,
    schema_bundle_digest text NOT NULL,
    aip_versions         text[] NOT NULL,
    attestation          text NOT NULL,
    qualified            boolean NOT NULL,
    capability_count     integer NOT NULL CHECK (capability_count BETWEEN 0 AND 512),
    admitted_at          timestamptz NOT NULL,
    UNIQUE (type_id, version),
    UNIQUE (type_id, release_sequence),
    UNIQUE (type_id, id)
);
GRANT SELECT, INSERT ON aip.connector_version TO aip_control;
GRANT SELECT ON aip.connector_version TO aip_data, aip_lifecycle, aip_readonly;

-- The one thing of a version that changes (G34).
CREATE TABLE aip.version_status (
    version_id    text COLLATE "C" PRIMARY KEY REFERENCES aip.connector_version,
    status        text NOT NULL CHECK (status IN ('admitted', 'active', 'deprecated', 'quarantined', 'revoked')),
    status_before text NOT NULL DEFAULT ''
);
GRANT SELECT, INSERT, UPDATE (status, status_before) ON aip.version_status TO aip_control;
GRANT SELECT ON aip.version_status TO aip_data, aip_lifecycle, aip_readonly;

CREATE TABLE aip.capability (
    version_id      text COLLATE "C" NOT NULL REFERENCES aip.connector_version,
    capability_id   text COLLATE "C" NOT NULL,
    contract_digest text NOT NULL,
    definition      text NOT NULL,
    size            integer NOT NULL CHECK (size BETWEEN 1 AND 1048576),
    search          text NOT NULL,         -- id, name and description, case-folded
    claimed         boolean NOT NULL,      -- the version says how it serves it
    profiles        text[] NOT NULL,       -- of that claim
    PRIMARY KEY (version_id, capability_id)
);
CREATE INDEX capability_by_id ON aip.capability (capability_id, version_id);
GRANT SELECT, INSERT ON aip.capability TO aip_control;
GRANT SELECT ON aip.capability TO aip_data, aip_readonly;

-- Published quota policies as they were declared.
CREATE TABLE aip.quota_policy (
    ref                 text COLLATE "C" PRIMARY KEY,
    revision            bigint NOT NULL CHECK (revision >= 0),
    enabled             boolean NOT NULL,
    global_limit        bigint CHECK (global_limit >= 0),
    tenant_limit        bigint CHECK (tenant_limit >= 0),
    type_limit          bigint CHECK (type_limit >= 0),
    instance_limit      bigint CHECK (instance_limit >= 0),
    binding_limit       bigint CHECK (binding_limit >= 0),
    retry_limit         bigint CHECK (retry_limit >= 0),
    circuit_threshold   bigint NOT NULL CHECK (circuit_threshold >= 0),
    circuit_open_millis bigint NOT NULL CHECK (circuit_open_millis >= 0),
    circuit_probes      bigint NOT NULL CHECK (circuit_probes >= 0)
);
GRANT SELECT, INSERT,
    UPDATE (revision, enabled, global_limit, tenant_limit, type_limit, instance_limit, binding_limit, retry_limit,
            circuit_threshold, circuit_open_millis, circuit_probes)
    ON aip.quota_policy TO aip_control;
GRANT SELECT ON aip.quota_policy TO aip_data, aip_readonly;

-- What a reference means now, presets and defaults resolved: '' is a binding without a
-- policy, 'deployment' gives the tenant, type and global limits. Written by migrations
-- (presets) and by the publisher; the hot path reads nothing else about quotas.
CREATE TABLE aip.quota_effective (
    ref                 text COLLATE "C" PRIMARY KEY,
    revision            bigint NOT NULL,
    global_limit        bigint,
    tenant_limit        bigint,
    type_limit          bigint,
    instance_limit      bigint,
    binding_limit       bigint,
    retry_limit         bigint,
    circuit_threshold   bigint NOT NULL,
    circuit_open_millis bigint NOT NULL,
    circuit_probes      bigint NOT NULL
);
GRANT SELECT, INSERT,
    UPDATE (revision, global_limit, tenant_limit, type_limit, instance_limit, binding_limit, retry_limit,
            circuit_threshold, circuit_open_millis, circuit_probes)
    ON aip.quota_effective TO aip_control;
GRANT SELECT ON aip.quota_effective TO aip_data, aip_readonly;

CREATE TABLE aip.connector_instance (
    id                  text COLLATE "C" PRIMARY KEY,
    tenant_id           text COLLATE "C" NOT NULL,
    type_id             text COLLATE "C" NOT NULL REFERENCES aip.connector_type,
    ring                bigint NOT NULL CHECK (ring BETWEEN 0 AND 2147483647), -- offset for the draw by weight
    config_revision     bigint NOT NULL CHECK (config_revision >= 0),
    secret_provider_ref text NOT NULL CHECK (octet_length(secret_provider_ref) <= 2048),
    enabled             boolean NOT NULL,
    UNIQUE (tenant_id, id),
    UNIQUE (tenant_id, type_id, id)
);
CREATE INDEX connector_instance_by_type ON aip.connector_instance (type_id);
GRANT SELECT, INSERT, UPDATE (config_revision, secret_provider_ref, enabled) ON aip.connector_instance TO aip_control;
GRANT SELECT ON aip.connector_instance TO aip_data, aip_lifecycle, aip_readonly;

CREATE TABLE aip.instance_serving (
    instance_id text COLLATE "C" NOT NULL,
    tenant_id   text COLLATE "C" NOT NULL,
    type_id     text COLLATE "C" NOT NULL,
    version_id  text COLLATE "C" NOT NULL,
    weight      bigint NOT NULL CHECK (weight >= 0),
    position    integer NOT NULL,          -- as it was published
    PRIMARY KEY (instance_id, version_id),
    FOREIGN KEY (tenant_id, type_id, instance_id) REFERENCES aip.connector_instance (tenant_id, type_id, id),
    FOREIGN KEY (type_id, version_id) REFERENCES aip.connector_version (type_id, id)
);
CREATE INDEX instance_serving_by_version ON aip.instance_serving (version_id);
GRANT SELECT, INSERT, DELETE ON aip.instance_serving TO aip_control;
GRANT SELECT ON aip.instance_serving TO aip_data, aip_lifecycle, aip_readonly;

CREATE TABLE aip.binding (
    tenant_id               text COLLATE "C" NOT NULL,
    capability_id           text COLLATE "C" NOT NULL,
    instance_id             text COLLATE "C" NOT NULL,
    priority                bigint NOT NULL CHECK (priority BETWEEN 0 AND 4294967295),
    policy_revision         bigint NOT NULL CHECK (policy_revision >= 0),
    credential_revision_ref text NOT NULL CHECK (octet_length(credential_revision_ref) <= 256),
    quota_policy_ref        text COLLATE "C" NOT NULL REFERENCES aip.quota_effective (ref),
    enabled                 boolean NOT NULL,
    PRIMARY KEY (tenant_id, capability_id, instance_id),
    FOREIGN KEY (tenant_id, instance_id) REFERENCES aip.connector_instance (tenant_id, id)
);
CREATE INDEX binding_by_instance ON aip.binding (instance_id);
GRANT SELECT, INSERT, UPDATE (priority, policy_revision, credential_revision_ref, quota_policy_ref, enabled)
    ON aip.binding TO aip_control;
GRANT SELECT ON aip.binding TO aip_data, aip_readonly;

CREATE TABLE aip.replica (
    id                text COLLATE "C" PRIMARY KEY,
    tenant_id         text COLLATE "C" NOT NULL,
    type_id           text COLLATE "C" NOT NULL,
    instance_id       text COLLATE "C" NOT NULL,
    version_id        text COLLATE "C" NOT NULL,
    endpoint          text NOT NULL,
    peer_principal_id   text NOT NULL,
    peer_principal_kind text NOT NULL,
    peer_did            text NOT NULL,
    trust_domain        text NOT NULL,
    transport_profile   text NOT NULL,
    region            text COLLATE "C" NOT NULL CHECK (octet_length(region) BETWEEN 1 AND 128),
    zone              text COLLATE "C" NOT NULL CHECK (octet_length(zone) BETWEEN 1 AND 128),
    capacity_class    text COLLATE "C" NOT NULL CHECK (octet_length(capacity_class) BETWEEN 1 AND 128),
    FOREIGN KEY (tenant_id, type_id, instance_id) REFERENCES aip.connector_instance (tenant_id, type_id, id),
    FOREIGN KEY (type_id, version_id) REFERENCES aip.connector_version (type_id, id)
);
CREATE INDEX replica_by_instance ON aip.replica (instance_id, version_id);
CREATE INDEX replica_by_tenant ON aip.replica (tenant_id);
CREATE INDEX replica_by_version ON aip.replica (version_id);
GRANT SELECT, INSERT ON aip.replica TO aip_control;
GRANT SELECT ON aip.replica TO aip_data, aip_lifecycle, aip_readonly;

-- What changes while a replica lives. The copied identity columns (instance to ring)
-- are inserted once and updated by nobody; they spare selection a join. No index on a
-- changing column, so that updates stay HOT.
CREATE TABLE aip.replica_live (
    replica_id       text COLLATE "C" PRIMARY KEY,
    instance_id      text COLLATE "C" NOT NULL,
    version_id       text COLLATE "C" NOT NULL,
    region           text COLLATE "C" NOT NULL,
    zone             text COLLATE "C" NOT NULL,
    capacity_class   text COLLATE "C" NOT NULL,
    ring             aip.ring_place NOT NULL, -- keyed place on the tie-break ring
    capacity         aip.ordinal NOT NULL,
    status           aip.replica_status NOT NULL DEFAULT 'offline',
    intent           aip.operator_intent NOT NULL DEFAULT 'run',
    healthy          boolean NOT NULL DEFAULT false,
    not_ready_beats  bigint NOT NULL DEFAULT 0,
    lease_epoch      aip.tally NOT NULL DEFAULT 0,
    lease_sequence   aip.tally NOT NULL DEFAULT 0,
    lease_expires_at timestamptz NOT NULL DEFAULT '0001-01-01 00:00:00+00',
    last_beat_at     timestamptz NOT NULL DEFAULT '0001-01-01 00:00:00+00',
    in_flight        bigint NOT NULL DEFAULT 0,
    journal_id       text NOT NULL DEFAULT '',
    active           aip.tally NOT NULL DEFAULT 0,
    circuit_state      aip.breaker_state NOT NULL DEFAULT 'closed',
    circuit_unknowns   aip.tally NOT NULL DEFAULT 0,
    circuit_open_until timestamptz NOT NULL DEFAULT '0001-01-01 00:00:00+00',
    circuit_opened_at  timestamptz NOT NULL DEFAULT '0001-01-01 00:00:00+00',
    circuit_openings   aip.tally NOT NULL DEFAULT 0,
    circuit_probes_out aip.tally NOT NULL DEFAULT 0,
    CONSTRAINT within_capacity CHECK (active <= capacity)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX replica_live_by_instance ON aip.replica_live (instance_id, version_id);
GRANT SELECT ON aip.replica_live TO aip_control, aip_data, aip_lifecycle, aip_readonly;
GRANT INSERT (replica_id, instance_id, version_id, region, zone, capacity_class, ring, capacity),
    UPDATE (capacity)
    ON aip.replica_live TO aip_control;
GRANT UPDATE (active, status, healthy, in_flight, circuit_state, circuit_unknowns, circuit_open_until, circuit_opened_at,
              circuit_openings, circuit_probes_out)
    ON aip.replica_live TO aip_data;
GRANT UPDATE (status, healthy, not_ready_beats, lease_epoch, lease_sequence, lease_expires_at, last_beat_at,
              in_flight, journal_id)
    ON aip.replica_live TO aip_lifecycle;

-- The valid chains, denormalised by the publisher in its own transaction. The
-- normalised tables remain the truth; the audit compares the two.
CREATE TABLE aip.route_candidate (
    tenant_id               text COLLATE "C" NOT NULL,
    capability_id           text COLLATE "C" NOT NULL,
    instance_id             text COLLATE "C" NOT NULL,
    version_id              text COLLATE "C" NOT NULL,
    type_id                 text COLLATE "C" NOT NULL,
    priority                bigint NOT NULL,
    policy_revision         bigint NOT NULL,
    credential_revision_ref text NOT NULL,
    quota_policy_ref        text COLLATE "C" NOT NULL,
    weight                  bigint NOT NULL,
    draw_offset             bigint NOT NULL,    -- the instance's place for the draw
    draw_weights            bigint[] NOT NULL,  -- of the drawn versions, by version id
    draw_index              integer NOT NULL,   -- of this version in draw_weights, from 1; 0 is not drawn
    manifest_digest         text NOT NULL,
    artifact_digest         text NOT NULL,
    PRIMARY KEY (tenant_id, capability_id, instance_id, version_id),
    FOREIGN KEY (tenant_id, capability_id, instance_id) REFERENCES aip.binding
);
CREATE INDEX route_candidate_by_instance ON aip.route_candidate (instance_id);
GRANT SELECT, INSERT, DELETE ON aip.route_candidate TO aip_control;
GRANT SELECT ON aip.route_candidate TO aip_data, aip_readonly;

-- Routes ----------------------------------------------------------------------

-- Insert-only: no login role may update or delete (G01, G02). No foreign key on the
-- hot path; the publisher guarantees the references and the audit verifies them.
CREATE TABLE aip.route (
    action_id               text COLLATE "C" PRIMARY KEY,
    capability_id           text COLLATE "C" NOT NULL,
    tenant_id               text COLLATE "C" NOT NULL,
    instance_id             text COLLATE "C" NOT NULL,
    replica_id              text COLLATE "C" NOT NULL,
    endpoint                text NOT NULL,
    region                  text NOT NULL,
    zone                    text NOT NULL,
    capacity_class          text NOT NULL,
    peer_principal_id       text NOT NULL,
    peer_principal_kind     text NOT NULL,
    peer_did                text NOT NULL,
    trust_domain            text NOT NULL,
    transport_profile       text NOT NULL,
    version_id              text COLLATE "C" NOT NULL,
    manifest_digest         text NOT NULL,
    artifact_digest         text NOT NULL,
    catalog_revision        bigint NOT NULL,
    binding_policy_revision bigint NOT NULL,
    credential_revision_ref text NOT NULL,
    quota_policy_ref        text NOT NULL,
    quota_policy_revision   bigint NOT NULL,
    key_priority            bigint NOT NULL,
    key_region_match        boolean NOT NULL,
    key_zone_match          boolean NOT NULL,
    key_active_before       bigint NOT NULL,
    assigned_at             timestamptz NOT NULL
);
CREATE INDEX route_newest ON aip.route (assigned_at DESC, action_id);
GRANT SELECT, INSERT ON aip.route TO aip_data;
GRANT SELECT ON aip.route TO aip_control, aip_readonly;

-- One row per reservation, appended (G06).
CREATE TABLE aip.attempt (
    action_id           text COLLATE "C" NOT NULL,
    fence               aip.ordinal NOT NULL,
    token               aip.fence_token NOT NULL,
    lease_epoch         bigint NOT NULL,
    journal_id          text NOT NULL,
    scope_kinds         text[] NOT NULL,
    scope_keys          text[] NOT NULL,
    scope_limits        bigint[] NOT NULL,
    circuit_threshold   bigint NOT NULL,
    circuit_open_millis bigint NOT NULL,
    circuit_probes      bigint NOT NULL,
    probe               boolean NOT NULL,
    reserved_at         timestamptz NOT NULL,
    deadline            timestamptz NOT NULL,
    PRIMARY KEY (action_id, fence)
);
GRANT SELECT, INSERT ON aip.attempt TO aip_data;
GRANT SELECT ON aip.attempt TO aip_control, aip_readonly;

-- How an attempt ended: written once, so the first settlement stands (G07).
CREATE TABLE aip.attempt_settlement (
    action_id       text COLLATE "C" NOT NULL,
    fence           bigint NOT NULL,
    outcome         aip.outcome NOT NULL,
    code            text NOT NULL,
    verdict         text NOT NULL,
    peer_fault      boolean NOT NULL,
    evidence_digest text NOT NULL,
    settled_at      timestamptz NOT NULL,
    PRIMARY KEY (action_id, fence)
);
GRANT SELECT, INSERT ON aip.attempt_settlement TO aip_data;
GRANT SELECT ON aip.attempt_settlement TO aip_control, aip_readonly;

-- Exactly the unsettled attempts, so that maintenance reads what is in flight and never
-- the history, and no index covers a changing flag. A row is inserted by a reservation
-- and deleted by its settlement, in the transaction that moves the counters.
CREATE TABLE aip.reservation (
    action_id   text COLLATE "C" PRIMARY KEY,
    fence       bigint NOT NULL,
    replica_id  text COLLATE "C" NOT NULL,
    lease_epoch bigint NOT NULL,
    deadline    timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
GRANT SELECT, INSERT, DELETE ON aip.reservation TO aip_data;
GRANT SELECT ON aip.reservation TO aip_control, aip_readonly;

CREATE TABLE aip.scope_counter (
    kind    aip.scope_kind NOT NULL,
    key     text COLLATE "C" NOT NULL,
    current aip.tally NOT NULL,
    PRIMARY KEY (kind, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
GRANT SELECT, INSERT, UPDATE (current) ON aip.scope_counter TO aip_data;
GRANT SELECT ON aip.scope_counter TO aip_control, aip_readonly;

-- An archived action: its id stays taken (G01). Written by archiving, as the owner.
CREATE TABLE aip.tombstone (
    action_id     text COLLATE "C" PRIMARY KEY,
    tenant_id     text COLLATE "C" NOT NULL,
    capability_id text COLLATE "C" NOT NULL,
    archived_at   timestamptz NOT NULL
);
GRANT SELECT ON aip.tombstone TO aip_control, aip_data, aip_readonly;

-- What was known of an archived action, whole. Only the owner writes it.
CREATE TABLE aip.archive (
    action_id text COLLATE "C" PRIMARY KEY,
    document  json NOT NULL
);
GRANT SELECT ON aip.archive TO aip_readonly;

-- Uncertainty -----------------------------------------------------------------

CREATE TABLE aip.reconciliation (
    action_id       text COLLATE "C" NOT NULL,
    fence           bigint NOT NULL,
    tenant_id       text COLLATE "C" NOT NULL,
    capability_id   text COLLATE "C" NOT NULL,
    instance_id     text COLLATE "C" NOT NULL,
    replica_id      text COLLATE "C" NOT NULL,
    state           text NOT NULL CHECK (state IN ('open', 'operator', 'resolved')),
    cause           text NOT NULL,
    opened_at       timestamptz NOT NULL,
    next_probe_at   timestamptz NOT NULL,
    probe_count     bigint NOT NULL DEFAULT 0,
    resolution      text NOT NULL DEFAULT '',
    resolved_at     timestamptz NOT NULL DEFAULT '0001-01-01 00:00:00+00',
    resolved_by     text NOT NULL DEFAULT '',
    evidence_digest text NOT NULL DEFAULT '',
    decision        bytea,
    PRIMARY KEY (action_id, fence)
);
CREATE INDEX reconciliation_due ON aip.reconciliation (next_probe_at) WHERE state = 'open';
CREATE INDEX reconciliation_newest ON aip.reconciliation (opened_at, action_id, fence);
GRANT SELECT, INSERT ON aip.reconciliation TO aip_data;
GRANT UPDATE (state, next_probe_at, probe_count, resolution, resolved_at, resolved_by, evidence_digest, decision)
    ON aip.reconciliation TO aip_data, aip_control;
GRANT SELECT ON aip.reconciliation TO aip_control, aip_readonly;

CREATE TABLE aip.reconciliation_probe (
    action_id       text COLLATE "C" NOT NULL,
    fence           bigint NOT NULL,
    number          bigint NOT NULL,
    at              timestamptz NOT NULL,
    answer          text NOT NULL,
    detail          text NOT NULL,
    evidence_digest text NOT NULL,
    PRIMARY KEY (action_id, fence, number),
    FOREIGN KEY (action_id, fence) REFERENCES aip.reconciliation
);
GRANT SELECT, INSERT ON aip.reconciliation_probe TO aip_data, aip_control;
GRANT SELECT ON aip.reconciliation_probe TO aip_readonly;

-- Lifecycle -------------------------------------------------------------------

-- Answers of signed lifecycle requests, so that an exact repeat gets the same one.
CREATE TABLE aip.lifecycle_replay (
    replica_id text COLLATE "C" NOT NULL,
    claim_id   text COLLATE "C" NOT NULL,
    digest     text NOT NULL,
    epoch      bigint NOT NULL,
    sequence   bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    ttl_micros bigint NOT NULL,
    intent     text NOT NULL,
    status     text NOT NULL,
    claimed_at timestamptz NOT NULL,
    PRIMARY KEY (replica_id, claim_id)
);
CREATE INDEX lifecycle_replay_age ON aip.lifecycle_replay (claimed_at);
GRANT SELECT, INSERT, DELETE ON aip.lifecycle_replay TO aip_lifecycle;
GRANT SELECT ON aip.lifecycle_replay TO aip_readonly;

-- Admission -------------------------------------------------------------------

CREATE TABLE aip.trust_revision (
    number     bigint PRIMARY KEY CHECK (number >= 1),
    digest     text NOT NULL,
    document   text NOT NULL,
    actor      text NOT NULL,
    reason     text NOT NULL,
    applied_at timestamptz NOT NULL
);
GRANT SELECT, INSERT ON aip.trust_revision TO aip_control;
GRANT SELECT ON aip.trust_revision TO aip_data, aip_readonly;

CREATE TABLE aip.package_blob (
    digest text COLLATE "C" PRIMARY KEY,
    bytes  bytea NOT NULL
);
ALTER TABLE aip.package_blob ALTER COLUMN bytes SET STORAGE EXTERNAL;
GRANT SELECT, INSERT ON aip.package_blob TO aip_control;
GRANT SELECT ON aip.package_blob TO aip_readonly;

CREATE TABLE aip.admission (
    package_digest    text COLLATE "C" PRIMARY KEY,
    version_id        text COLLATE "C" NOT NULL REFERENCES aip.connector_version,
    findings          text NOT NULL,
    evidence          text NOT NULL,
    trust_revision    bigint NOT NULL,
    evaluator_version text NOT NULL,
    evaluated_at      timestamptz NOT NULL,
    actor             text NOT NULL,
    reason            text NOT NULL,
    state             text NOT NULL CHECK (state IN ('applied', 'superseded', 'revoked')),
    catalog_revision  bigint NOT NULL,
    applied_at        timestamptz NOT NULL
);
CREATE INDEX admission_by_version ON aip.admission (version_id);
GRANT SELECT, INSERT, UPDATE (state, catalog_revision) ON aip.admission TO aip_control;
GRANT SELECT ON aip.admission TO aip_data, aip_readonly;

-- Who changed what, why, at which revision. Sequence is allocation-ordered: it orders a
-- listing and is never a cursor of a feed.
CREATE TABLE aip.event (
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL,
    revision bigint NOT NULL,
    kind     text NOT NULL,
    subject  text NOT NULL,
    actor    text NOT NULL,
    reason   text NOT NULL,
    detail   text NOT NULL
);
GRANT SELECT, INSERT ON aip.event TO aip_control;
GRANT INSERT ON aip.event TO aip_data, aip_lifecycle;
GRANT SELECT ON aip.event TO aip_data, aip_readonly;

-- +goose Down

-- +goose StatementBegin
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT p.oid::regprocedure AS signature
             FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
             WHERE n.nspname = 'aip' LOOP
        EXECUTE format('DROP FUNCTION %s CASCADE', f.signature);
    END LOOP;
END
$$;
-- +goose StatementEnd

DROP TABLE aip.event, aip.admission, aip.package_blob, aip.trust_revision, aip.lifecycle_replay,
    aip.reconciliation_probe, aip.reconciliation, aip.archive, aip.tombstone, aip.scope_counter, aip.reservation,
    aip.attempt_settlement, aip.attempt, aip.route, aip.route_candidate, aip.replica_live, aip.replica,
    aip.binding, aip.instance_serving, aip.connector_instance, aip.quota_effective, aip.quota_policy,
    aip.capability, aip.version_status, aip.connector_version, aip.manifest, aip.connector_type,
    aip.catalog_revision, aip.deployment, aip.schema_file;
DROP DOMAIN aip.tally, aip.ordinal, aip.ring_place, aip.replica_status, aip.operator_intent, aip.breaker_state,
    aip.scope_kind, aip.fence_token, aip.outcome;
REVOKE USAGE ON SCHEMA aip FROM aip_control, aip_data, aip_lifecycle, aip_readonly;
ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC;
