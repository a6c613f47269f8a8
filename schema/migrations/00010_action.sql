-- The central life of actions: what was submitted (insert-only), where it stands (one
-- narrow row), its result (insert-only: a definite result is final, G44), and the leases
-- of the processes that run actions.
--
-- +goose Up

-- What was submitted. No login role may update or delete: an id and an idempotency key
-- mean one thing for ever (G01, G03, G44).
CREATE TABLE aip.action (
    action_id       text COLLATE "C" PRIMARY KEY,
    tenant_id       text COLLATE "C" NOT NULL,
    capability_id   text COLLATE "C" NOT NULL,
    principal       text NOT NULL,
    input           bytea NOT NULL,          -- as received; its numbers are not rounded
    idempotency_key text COLLATE "C",        -- NULL is none
    mode            text NOT NULL CHECK (mode IN ('sync', 'async', 'streaming')),
    content_digest  text NOT NULL CHECK (content_digest ~ '^sha256:[0-9a-f]{64}$'),
    created_at      timestamptz NOT NULL
);
CREATE UNIQUE INDEX action_by_key ON aip.action (tenant_id, capability_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX action_newest ON aip.action (tenant_id, created_at DESC, action_id DESC);
GRANT SELECT, INSERT ON aip.action TO aip_data;
GRANT SELECT ON aip.action TO aip_control, aip_readonly;

-- Where it stands. Rows change a few times in their life; there is room for that.
CREATE TABLE aip.action_state (
    action_id        text COLLATE "C" PRIMARY KEY,
    revision         bigint NOT NULL CHECK (revision >= 1),
    state            text NOT NULL CHECK (state IN ('accepted', 'queued', 'dispatched', 'completed', 'failed',
                                                    'cancelled', 'uncertain', 'retryable')),
    runs             bigint NOT NULL CHECK (runs >= 1),
    fence            bigint NOT NULL CHECK (fence >= 0),
    unsettled        boolean NOT NULL,
    cancel_requested boolean NOT NULL,
    owner            text COLLATE "C" NOT NULL,
    timeout_us       bigint NOT NULL CHECK (timeout_us > 0),
    deadline         timestamptz NOT NULL,
    evidence_digest  text NOT NULL,          -- '' is none
    problem          text NOT NULL,          -- JSON, '' is none
    updated_at       timestamptz NOT NULL
) WITH (fillfactor = 70);
-- What a successor must take up once its owner is dead (G39).
CREATE INDEX action_state_unfinished ON aip.action_state (owner)
    WHERE unsettled OR state IN ('accepted', 'queued', 'dispatched');
CREATE INDEX action_state_uncertain ON aip.action_state (action_id) WHERE state = 'uncertain';
GRANT SELECT, INSERT,
    UPDATE (revision, state, runs, fence, unsettled, cancel_requested, owner, timeout_us, deadline,
            evidence_digest, problem, updated_at) ON aip.action_state TO aip_data;
GRANT SELECT ON aip.action_state TO aip_control, aip_readonly;

-- The exact bytes of the result document. Insert-only (G44).
CREATE TABLE aip.action_result (
    action_id text COLLATE "C" PRIMARY KEY,
    document  bytea NOT NULL CHECK (octet_length(document) >= 1)
);
GRANT SELECT, INSERT ON aip.action_result TO aip_data;
GRANT SELECT ON aip.action_result TO aip_control, aip_readonly;

-- Until when each process that runs actions may be silent.
CREATE TABLE aip.action_owner (
    owner       text COLLATE "C" PRIMARY KEY,
    lease_until timestamptz NOT NULL
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE (lease_until), DELETE ON aip.action_owner TO aip_data;
GRANT SELECT ON aip.action_owner TO aip_control, aip_readonly;

-- +goose Down

DROP TABLE aip.action_owner, aip.action_result, aip.action_state, aip.action;
