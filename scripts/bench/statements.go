package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// statements does what the registry does a statement at a time, as an application
// without server-side functions would: the same locks in the same order, the same
// rows written, on the same tables and indexes. It knows the one path that the load
// takes: a new action, one version an instance, a definite outcome. It is the
// yardstick of what a round trip costs and is not a second registry.
type statements struct {
	pool *pgxpool.Pool
}

func openStatements(ctx context.Context, s *site) (driver, error) {
	pool, err := openPool(ctx, s.data())
	if err != nil {
		return nil, err
	}
	return &statements{pool: pool}, nil
}

func (d *statements) close() { d.pool.Close() }

// held is a reservation as this variant keeps it.
type held struct {
	action, tenant, capability, instance, replica, token string
	kinds, keys                                          []string
	limits                                               []int64
	threshold, openMillis, probes                        int64
	epoch                                                int64
	journal                                              string
	now                                                  time.Time
}

var errBusy = errors.New("every candidate is locked by others")

// statementTries is how often a resolve is repeated while rows are busy, as the
// registry itself repeats.
const statementTries = 12

func (d *statements) unit(ctx context.Context, j job, t *tally) {
	began := time.Now()
	action := fleet.NewActionID(began).String()
	var h held
	var err error
	for try := range statementTries {
		err = d.transact(ctx, func(tx pgx.Tx) (err error) {
			h, err = resolve(ctx, tx, action, j)
			return err
		})
		if !errors.Is(err, errBusy) {
			break
		}
		sleepUntil(ctx, time.Now().Add(time.Millisecond/2+rand.N(min(time.Millisecond<<min(try, 6), 50*time.Millisecond))))
	}
	if err != nil {
		t.failed("resolve " + statementFailure(err))
		return
	}
	t.done(resolveKind(j), began)
	began = time.Now()
	if err := d.transact(ctx, func(tx pgx.Tx) error { return settle(ctx, tx, h) }); err != nil {
		t.failed("settle " + statementFailure(err))
		return
	}
	t.done(opSettle, began)
}

func statementFailure(err error) string {
	if errors.Is(err, errBusy) {
		return fleet.Contended.String()
	}
	return failureName(err)
}

// transact runs f between BEGIN and COMMIT, again after a deadlock: what was locked
// is then free.
func (d *statements) transact(ctx context.Context, f func(tx pgx.Tx) error) error {
	var err error
	for range statementTries {
		err = pgx.BeginFunc(ctx, d.pool, f)
		if err == nil || failureName(err) != "deadlock" {
			return err
		}
	}
	return err
}

const pickSQL = `SELECT l.replica_id, l.lease_epoch, l.journal_id, l.active, l.lease_expires_at, clock_timestamp(), l.instance_id,
		c.type_id, c.version_id, c.manifest_digest, c.artifact_digest, c.priority, c.policy_revision, c.credential_revision_ref, c.quota_policy_ref, q.revision,
		r.endpoint, r.region, r.zone, r.capacity_class, r.peer_principal_id, r.peer_principal_kind, r.peer_did, r.trust_domain, r.transport_profile,
		q.binding_limit, q.instance_limit, d.tenant_limit, q.circuit_threshold, q.circuit_open_millis, q.circuit_probes
	FROM aip.route_candidate c
	JOIN aip.quota_effective q ON q.ref = c.quota_policy_ref
	JOIN aip.quota_effective d ON d.ref = 'deployment'
	JOIN aip.replica_live l ON l.instance_id = c.instance_id AND l.version_id = c.version_id
	JOIN aip.replica r ON r.id = l.replica_id
	WHERE c.tenant_id = $1 AND c.capability_id = $2 AND c.weight > 0
		AND l.status = 'ready' AND l.intent = 'run' AND l.healthy AND l.lease_expires_at > clock_timestamp()
		AND l.active < l.capacity AND l.circuit_state = 'closed'
	ORDER BY c.priority, l.region = $3 DESC, l.zone = $4 DESC, l.active, (l.ring - $5::bigint + 2147483648) % 2147483648
	LIMIT 1
	FOR NO KEY UPDATE OF l SKIP LOCKED`

const insertRouteSQL = `INSERT INTO aip.route (action_id, capability_id, tenant_id, instance_id, replica_id, endpoint, region, zone, capacity_class,
		peer_principal_id, peer_principal_kind, peer_did, trust_domain, transport_profile, version_id, manifest_digest, artifact_digest,
		catalog_revision, binding_policy_revision, credential_revision_ref, quota_policy_ref, quota_policy_revision,
		key_priority, key_region_match, key_zone_match, key_active_before, assigned_at)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, true, true, $24, $25)`

const insertAttemptSQL = `WITH a AS (INSERT INTO aip.attempt (action_id, fence, token, lease_epoch, journal_id, scope_kinds, scope_keys, scope_limits,
		circuit_threshold, circuit_open_millis, circuit_probes, probe, reserved_at, deadline)
		VALUES ($1, 1, $2, $3, $4, $5, $6, $7, $8, $9, $10, false, $11, $12))
	INSERT INTO aip.reservation (action_id, fence, replica_id, lease_epoch, deadline) VALUES ($1, 1, $13, $3, $12)`

const lockScopesSQL = `SELECT count(*), count(*) FILTER (WHERE t.current >= t.bound) FROM (
		SELECT s.current, u.bound FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY u (kind, key, bound, at)
		JOIN aip.scope_counter s ON s.kind = u.kind AND s.key = u.key ORDER BY u.at FOR NO KEY UPDATE OF s) t`

const addScopesSQL = `UPDATE aip.scope_counter s SET current = s.current + $3::bigint
	FROM unnest($1::text[], $2::text[]) AS u (kind, key) WHERE s.kind = u.kind AND s.key = u.key`

// resolve is one resolve inside a transaction: ten statements beside BEGIN and COMMIT.
func resolve(ctx context.Context, tx pgx.Tx, action string, j job) (held, error) {
	h := held{action: action, tenant: j.tenant.String(), capability: j.capability.String(), token: secret()}
	var revision int64
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", action); err != nil {
		return h, err
	}
	var known bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM aip.route WHERE action_id = $1)
		OR EXISTS (SELECT FROM aip.tombstone WHERE action_id = $1)`, action).Scan(&known)
	if err != nil || known {
		return h, errors.Join(err, failIf(known, "the action is known already"))
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock_shared(4871, 1)"); err != nil {
		return h, err
	}
	if err := tx.QueryRow(ctx, "SELECT revision FROM aip.catalog_revision").Scan(&revision); err != nil {
		return h, err
	}
	c, err := pickOne(ctx, tx, &h)
	if err != nil {
		return h, err
	}
	if err := takeScopes(ctx, tx, &h); err != nil {
		return h, err
	}
	if _, err := tx.Exec(ctx, "UPDATE aip.replica_live SET active = active + 1 WHERE replica_id = $1", h.replica); err != nil {
		return h, err
	}
	if _, err := tx.Exec(ctx, addScopesSQL, h.kinds, h.keys, 1); err != nil {
		return h, err
	}
	_, err = tx.Exec(ctx, insertRouteSQL, action, h.capability, h.tenant, h.instance, h.replica, c.endpoint, c.region, c.zone, c.class,
		c.principal, c.principalKind, c.did, c.trustDomain, c.transport, c.version, c.manifest, c.artifact,
		revision, c.policyRevision, c.credential, c.quota, c.quotaRevision, c.priority, c.active, h.now)
	if err != nil {
		return h, err
	}
	_, err = tx.Exec(ctx, insertAttemptSQL, action, h.token, h.epoch, h.journal, h.kinds, h.keys, h.limits,
		h.threshold, h.openMillis, h.probes, h.now, h.now.Add(90*time.Second), h.replica)
	return h, err
}

// chosen is what the picked chain and replica say of themselves.
type chosen struct {
	typ, version, manifest, artifact, credential, quota   string
	priority, policyRevision, quotaRevision, active       int64
	endpoint, region, zone, class                         string
	principal, principalKind, did, trustDomain, transport string
	binding, instance, tenant                             int64
	expires                                               time.Time
}

func pickOne(ctx context.Context, tx pgx.Tx, h *held) (c chosen, err error) {
	row := tx.QueryRow(ctx, pickSQL, h.tenant, h.capability, region, zone, int64(fnv(h.action)%(1<<31)))
	err = row.Scan(&h.replica, &h.epoch, &h.journal, &c.active, &c.expires, &h.now, &h.instance,
		&c.typ, &c.version, &c.manifest, &c.artifact, &c.priority, &c.policyRevision, &c.credential, &c.quota, &c.quotaRevision,
		&c.endpoint, &c.region, &c.zone, &c.class, &c.principal, &c.principalKind, &c.did, &c.trustDomain, &c.transport,
		&c.binding, &c.instance, &c.tenant, &h.threshold, &h.openMillis, &h.probes)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, errBusy
	}
	h.kinds = []string{"binding", "instance", "tenant"}
	h.keys = []string{h.tenant + "|" + h.capability + "|" + h.instance, h.instance, h.tenant}
	h.limits = []int64{c.binding, c.instance, c.tenant}
	return c, err
}

func takeScopes(ctx context.Context, tx pgx.Tx, h *held) error {
	found, full, err := lockScopes(ctx, tx, h)
	if err == nil && found < len(h.kinds) {
		_, err = tx.Exec(ctx, `INSERT INTO aip.scope_counter (kind, key, current)
			SELECT kind, key, 0 FROM unnest($1::text[], $2::text[]) WITH ORDINALITY u (kind, key, at) ORDER BY at ON CONFLICT DO NOTHING`, h.kinds, h.keys)
		if err == nil {
			_, full, err = lockScopes(ctx, tx, h)
		}
	}
	return errors.Join(err, failIf(full > 0, "a scope is full"))
}

func lockScopes(ctx context.Context, tx pgx.Tx, h *held) (found, full int, err error) {
	err = tx.QueryRow(ctx, lockScopesSQL, h.kinds, h.keys, h.limits).Scan(&found, &full)
	return found, full, err
}

// settle is one settlement inside a transaction: eight statements beside BEGIN and COMMIT.
func settle(ctx context.Context, tx pgx.Tx, h held) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", h.action); err != nil {
		return err
	}
	var replica, token string
	var settled bool
	err := tx.QueryRow(ctx, `SELECT r.replica_id, a.token, s.action_id IS NOT NULL
		FROM aip.route r JOIN aip.attempt a ON a.action_id = r.action_id
		LEFT JOIN aip.attempt_settlement s ON s.action_id = a.action_id AND s.fence = a.fence
		WHERE r.action_id = $1 ORDER BY a.fence DESC LIMIT 1`, h.action).Scan(&replica, &token, &settled)
	if err != nil || replica != h.replica || token != h.token || settled {
		return errors.Join(err, errors.New("the fence is lost"))
	}
	var state string
	var openedAt time.Time
	if err := tx.QueryRow(ctx, "SELECT circuit_state, circuit_opened_at FROM aip.replica_live WHERE replica_id = $1 FOR NO KEY UPDATE", h.replica).Scan(&state, &openedAt); err != nil {
		return err
	}
	if _, _, err := lockScopes(ctx, tx, &h); err != nil {
		return err
	}
	for _, s := range []struct {
		text string
		args []any
	}{
		{`UPDATE aip.replica_live SET active = active - 1, circuit_state = 'closed', circuit_unknowns = 0, circuit_openings = 0
			WHERE replica_id = $1`, []any{h.replica}},
		{addScopesSQL, []any{h.kinds, h.keys, -1}},
		{`INSERT INTO aip.attempt_settlement (action_id, fence, outcome, code, verdict, peer_fault, evidence_digest, settled_at)
			VALUES ($1, 1, 'completed', '', 'completed', false, $2, clock_timestamp())`, []any{h.action, evidence.String()}},
		{"DELETE FROM aip.reservation WHERE action_id = $1", []any{h.action}},
	} {
		if _, err := tx.Exec(ctx, s.text, s.args...); err != nil {
			return err
		}
	}
	return nil
}

func failIf(bad bool, why string) error {
	if bad {
		return fmt.Errorf("%s", why)
	}
	return nil
}
