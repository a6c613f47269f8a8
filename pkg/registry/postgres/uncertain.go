package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// reconciliationDocument writes a record u as the contract does, with its last probes.
const reconciliationDocument = `json_build_object('action_id', u.action_id, 'fence', u.fence, 'tenant_id', u.tenant_id,
	'capability_id', u.capability_id, 'instance_id', u.instance_id, 'replica_id', u.replica_id, 'state', u.state,
	'cause', u.cause, 'opened_at', aip.instant(u.opened_at), 'next_probe_at', aip.instant(u.next_probe_at),
	'probe_count', u.probe_count, 'resolution', u.resolution, 'resolved_at', aip.instant(u.resolved_at),
	'resolved_by', u.resolved_by, 'evidence_digest', u.evidence_digest, 'decision', encode(u.decision, 'base64'),
	'probes', (SELECT json_agg(json_build_object('at', aip.instant(b.at), 'answer', b.answer, 'detail', b.detail,
		'evidence_digest', b.evidence_digest) ORDER BY b.number)
		FROM aip.reconciliation_probe b
		WHERE b.action_id = u.action_id AND b.fence = u.fence AND b.number > u.probe_count - 20))`

func reconciliationOf(document []byte) (fleet.Reconciliation, error) {
	var u fleet.Reconciliation
	if err := json.Unmarshal(document, &u); err != nil {
		return u, malformed(err)
	}
	return u, nil
}

// dueSQL claims in a materialised step: as a subquery the planner may put it on the inner
// side of a loop, and run it, with its limit, once more for each record.
const dueSQL = `WITH d AS MATERIALIZED (
		SELECT action_id, fence FROM aip.reconciliation
		WHERE state = 'open' AND next_probe_at <= aip.clock()
		ORDER BY next_probe_at, action_id, fence LIMIT $1::integer
		FOR NO KEY UPDATE SKIP LOCKED)
	UPDATE aip.reconciliation u SET next_probe_at = aip.clock() + $2::bigint * interval '1 microsecond'
	FROM d WHERE u.action_id = d.action_id AND u.fence = d.fence
	RETURNING ` + reconciliationDocument

// Due implements registry.Uncertain.
func (r *Registry) Due(ctx context.Context, limit int, hold time.Duration) ([]fleet.Reconciliation, error) {
	if limit < 1 || hold <= 0 {
		return nil, fleet.Invalidf("reconcile.due", "due needs a limit of at least 1 and a hold above 0")
	}
	p, err := r.uncertainPool()
	if err != nil {
		return nil, err
	}
	due := []fleet.Reconciliation{}
	err = p.use(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, dueSQL, limit, hold.Microseconds())
		if err != nil {
			return err
		}
		due, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (fleet.Reconciliation, error) {
			var document []byte
			if err := row.Scan(&document); err != nil {
				return fleet.Reconciliation{}, err
			}
			return reconciliationOf(document)
		})
		return err
	})
	if err != nil {
		return nil, refused("reconcile.unavailable", "the uncertain attempts could not be claimed", err)
	}
	return due, nil
}

// Note implements registry.Uncertain.
func (r *Registry) Note(ctx context.Context, key registry.ReconciliationKey, probe fleet.Probe, next time.Time, state fleet.ReconciliationState) error {
	if state != fleet.ReconcileOpen && state != fleet.ReconcileOperator {
		return fleet.Invalidf("reconcile.state", "a probe leaves a record open or for an operator, not %q", fleet.Printable(string(state), 32))
	}
	if key.Fence > maxBigint {
		return certain(key, pgx.ErrNoRows)
	}
	p, err := r.uncertainPool()
	if err != nil {
		return err
	}
	return r.transact(ctx, p, "reconcile.unavailable", func(tx pgx.Tx) error {
		// The record first, then a later statement: a replica that was retired meanwhile is seen.
		var found bool
		err := tx.QueryRow(ctx, "SELECT true FROM aip.reconciliation WHERE action_id = $1::text AND fence = $2::bigint FOR NO KEY UPDATE",
			key.Action.String(), key.Fence).Scan(&found)
		if err != nil {
			return certain(key, err)
		}
		// A late answer on a resolved record is evidence, not another decision (G06).
		var number uint64
		err = tx.QueryRow(ctx, `UPDATE aip.reconciliation u SET probe_count = probe_count + 1,
			state = CASE WHEN state = 'resolved' THEN state
				WHEN (SELECT l.status FROM aip.replica_live l WHERE l.replica_id = u.replica_id) = 'retired' THEN 'operator'
				ELSE $3::text END,
			next_probe_at = CASE WHEN state = 'resolved' THEN next_probe_at ELSE $4::timestamptz END
			WHERE action_id = $1::text AND fence = $2::bigint RETURNING probe_count`,
			key.Action.String(), key.Fence, string(state), stored(next)).Scan(&number)
		if err != nil {
			return certain(key, err)
		}
		_, err = tx.Exec(ctx, `INSERT INTO aip.reconciliation_probe (action_id, fence, number, at, answer, detail, evidence_digest)
			VALUES ($1::text, $2::bigint, $3::bigint, $4::timestamptz, $5::text, $6::text, $7::text)`,
			key.Action.String(), key.Fence, number, stored(probe.At), probe.Answer, probe.Detail, probe.Evidence.String())
		return err
	})
}

// Decide implements registry.Uncertain.
func (r *Registry) Decide(ctx context.Context, key registry.ReconciliationKey, d registry.Decision) (fleet.Reconciliation, error) {
	if err := d.Wrong(); err != nil {
		return fleet.Reconciliation{}, err
	}
	if key.Fence > maxBigint {
		return fleet.Reconciliation{}, certain(key, pgx.ErrNoRows)
	}
	p, err := r.uncertainPool()
	if err != nil {
		return fleet.Reconciliation{}, err
	}
	var decided fleet.Reconciliation
	err = r.transact(ctx, p, "reconcile.unavailable", func(tx pgx.Tx) error {
		if err := lockQuestion(ctx, tx, key); err != nil {
			return err
		}
		if decided, err = question(ctx, tx, key); err != nil {
			return err
		}
		if decided.State == fleet.ReconcileResolved {
			return sameDecision(decided, d)
		}
		_, err := tx.Exec(ctx, `UPDATE aip.reconciliation SET state = 'resolved', resolution = $3::text, resolved_at = aip.clock(),
			resolved_by = $4::text, evidence_digest = $5::text, decision = $6::bytea WHERE action_id = $1::text AND fence = $2::bigint`,
			key.Action.String(), key.Fence, string(d.Resolution), d.By, d.Evidence.String(), d.Document)
		if err != nil {
			return err
		}
		if decided, err = question(ctx, tx, key); err != nil {
			return err
		}
		return insertEvent(ctx, tx, event{kind: "decision", subject: key.Action.String(), actor: d.By, reason: string(d.Resolution), detail: d.Evidence.String()})
	})
	if err != nil {
		return fleet.Reconciliation{}, err
	}
	return decided, nil
}

// lockQuestion takes the action's lock before the record, in the documented order: a
// retry of the action reads the decision under the same lock.
func lockQuestion(ctx context.Context, tx pgx.Tx, key registry.ReconciliationKey) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))", key.Action.String()); err != nil {
		return err
	}
	var found bool
	err := tx.QueryRow(ctx, "SELECT true FROM aip.reconciliation WHERE action_id = $1::text AND fence = $2::bigint FOR NO KEY UPDATE",
		key.Action.String(), key.Fence).Scan(&found)
	return certain(key, err)
}

func question(ctx context.Context, tx pgx.Tx, key registry.ReconciliationKey) (fleet.Reconciliation, error) {
	var document []byte
	err := tx.QueryRow(ctx, "SELECT "+reconciliationDocument+" FROM aip.reconciliation u WHERE u.action_id = $1::text AND u.fence = $2::bigint",
		key.Action.String(), key.Fence).Scan(&document)
	if err != nil {
		return fleet.Reconciliation{}, certain(key, err)
	}
	return reconciliationOf(document)
}

func sameDecision(decided fleet.Reconciliation, d registry.Decision) error {
	if decided.Resolution == d.Resolution && decided.Evidence == d.Evidence {
		return nil
	}
	return fleet.Errorf(fleet.Conflict, "reconcile.decided", "attempt %d of action %s was decided as %s", decided.Fence, decided.Action, decided.Resolution)
}

// certain says that there is no such record.
func certain(key registry.ReconciliationKey, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fleet.Errorf(fleet.NotFound, "reconcile.record", "attempt %d of action %s is not uncertain", key.Fence, key.Action)
	}
	return err
}

// stored is a time as the database keeps it.
func stored(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
