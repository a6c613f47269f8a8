package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// writes is the least that the rows of an action can cost: a resolve and a settlement are one
// statement each, which writes all the registry's rows by key. It knows beforehand what to write:
// it chooses nothing, asks for no limit, takes no lock but the rows', compares nothing and
// answers nothing. What calls alone cost beyond it is what they decide; no way of deciding can be
// cheaper than it on these tables.
type writes struct {
	pool  *pgxpool.Pool
	known map[string][]target // by tenant
}

// target is a replica with all that a route to it says.
type target struct {
	held
	chosen
}

func openWrites(ctx context.Context, s *site) (driver, error) {
	pool, err := openPool(ctx, s.data())
	if err != nil {
		return nil, err
	}
	d := &writes{pool: pool, known: map[string][]target{}}
	if err := d.learn(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return d, nil
}

func (d *writes) close() { d.pool.Close() }

// learn reads the replicas of the base group, with the chain of one capability each.
func (d *writes) learn(ctx context.Context) error {
	rows, err := d.pool.Query(ctx, `SELECT c.tenant_id, c.instance_id, l.replica_id, l.lease_epoch, l.journal_id, c.version_id, c.manifest_digest, c.artifact_digest,
			c.credential_revision_ref, c.quota_policy_ref, c.priority, c.policy_revision, c.quota_revision,
			r.endpoint, r.region, r.zone, r.capacity_class, r.peer_principal_id, r.peer_principal_kind, r.peer_did, r.trust_domain, r.transport_profile,
			c.scope_kinds, c.scope_limits, c.circuit_threshold, c.circuit_open_millis, c.circuit_probes
		FROM (SELECT DISTINCT ON (instance_id) * FROM aip.route_candidate WHERE tenant_id LIKE 'tenant-base-%' ORDER BY instance_id, capability_id) c
		JOIN aip.replica_live l ON l.instance_id = c.instance_id AND l.version_id = c.version_id
		JOIN aip.replica r ON r.id = l.replica_id`)
	if err != nil {
		return err
	}
	var t target
	_, err = pgx.ForEachRow(rows, []any{&t.held.tenant, &t.held.instance, &t.replica, &t.epoch, &t.journal, &t.version, &t.manifest, &t.artifact,
		&t.credential, &t.quota, &t.priority, &t.policyRevision, &t.quotaRevision,
		&t.endpoint, &t.region, &t.zone, &t.class, &t.principal, &t.principalKind, &t.did, &t.trustDomain, &t.transport,
		&t.kinds, &t.limits, &t.threshold, &t.openMillis, &t.probes,
	}, func() error {
		d.known[t.held.tenant] = append(d.known[t.held.tenant], t)
		t.kinds, t.limits = nil, nil
		return nil
	})
	return errors.Join(err, failIf(len(d.known) == 0, "the seeded fleet has no chains"))
}

const writeRouteSQL = `WITH live AS (
		UPDATE aip.replica_live SET active = active + 1 WHERE replica_id = $5
	), scopes AS (
		UPDATE aip.scope_counter s SET current = s.current + 1
		FROM unnest($26::text[], $27::text[]) AS u (kind, key) WHERE s.kind = u.kind AND s.key = u.key
	), route AS (
		` + insertRouteSQL + `
	), attempt AS (
		INSERT INTO aip.attempt (action_id, fence, token, lease_epoch, journal_id, scope_kinds, scope_keys, scope_limits,
			circuit_threshold, circuit_open_millis, circuit_probes, probe, reserved_at, deadline)
		VALUES ($1, 1, $28, $29, $30, $26, $27, $31, $32, $33, $34, false, $25, $35)
	)
	INSERT INTO aip.reservation (action_id, fence, replica_id, lease_epoch, deadline) VALUES ($1, 1, $5, $29, $35)`

const writeSettlementSQL = `WITH live AS (
		UPDATE aip.replica_live SET active = active - 1 WHERE replica_id = $2
	), scopes AS (
		UPDATE aip.scope_counter s SET current = s.current - 1
		FROM unnest($3::text[], $4::text[]) AS u (kind, key) WHERE s.kind = u.kind AND s.key = u.key
	), settled AS (
		INSERT INTO aip.attempt_settlement (action_id, fence, outcome, code, verdict, peer_fault, evidence_digest, settled_at)
		VALUES ($1, 1, 'completed', '', 'completed', false, $5, clock_timestamp())
	)
	DELETE FROM aip.reservation WHERE action_id = $1`

func (d *writes) unit(ctx context.Context, j job, t *tally) {
	began := time.Now()
	known := d.known[j.tenant.String()]
	h := known[rand.N(len(known))]
	action, capability := fleet.NewActionID(began).String(), j.capability.String()
	keys := []string{j.tenant.String() + "|" + capability + "|" + h.held.instance, h.held.instance, j.tenant.String()}
	_, err := d.pool.Exec(ctx, writeRouteSQL, action, capability, h.held.tenant, h.held.instance, h.replica, h.endpoint, h.region, h.zone, h.class,
		h.principal, h.principalKind, h.did, h.trustDomain, h.transport, h.version, h.manifest, h.artifact,
		int64(1), h.policyRevision, h.credential, h.quota, h.quotaRevision, h.priority, int64(0), began,
		h.kinds, keys, secret(), h.epoch, h.journal, h.limits, h.threshold, h.openMillis, h.probes, began.Add(90*time.Second))
	if err != nil {
		t.failed("resolve " + failureName(err))
		return
	}
	t.done(resolveKind(j), began)
	began = time.Now()
	if _, err := d.pool.Exec(ctx, writeSettlementSQL, action, h.replica, h.kinds, keys, evidence.String()); err != nil {
		t.failed("settle " + failureName(err))
		return
	}
	t.done(opSettle, began)
}
