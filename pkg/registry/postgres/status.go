package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Status implements registry.Reader. Routes are counted from the table's statistics
// once there are many: an exact count of millions would be a long snapshot.
func (r *Registry) Status(ctx context.Context) (registry.Status, error) {
	p, err := needs("read", r.read, r.control, r.data)
	if err != nil {
		return registry.Status{}, err
	}
	s := registry.Status{
		Replicas:  map[fleet.ReplicaStatus]int{fleet.ReplicaReady: 0, fleet.ReplicaDraining: 0, fleet.ReplicaOffline: 0, fleet.ReplicaRetired: 0},
		Versions:  map[fleet.VersionStatus]int{},
		Uncertain: map[fleet.ReconciliationState]int{fleet.ReconcileOpen: 0, fleet.ReconcileOperator: 0, fleet.ReconcileResolved: 0},
	}
	err = p.snapshot(ctx, func(tx pgx.Tx) error {
		for _, part := range []func(context.Context, pgx.Tx, *registry.Status) error{statusCatalog, statusReplicas, statusUncertain} {
			if err := part(ctx, tx, &s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return registry.Status{}, refused("status.unavailable", "the state of the fleet could not be read", err)
	}
	return s, nil
}

func statusCatalog(ctx context.Context, tx pgx.Tx, s *registry.Status) error {
	err := tx.QueryRow(ctx, `SELECT aip.clock(), revision,
		(SELECT CASE WHEN c.reltuples > 100000 THEN c.reltuples::bigint ELSE (SELECT count(*) FROM aip.route) END
			FROM pg_catalog.pg_class c WHERE c.oid = 'aip.route'::regclass),
		(SELECT count(*) FROM aip.connector_instance), (SELECT count(*) FROM aip.binding), (SELECT count(*) FROM aip.replica)
		FROM aip.catalog_revision`).Scan(&s.At, &s.Revision, &s.Routes, &s.Instances, &s.Bindings, &s.ReplicasDeclared)
	s.At = s.At.UTC()
	if err != nil {
		return err
	}
	return counted(ctx, tx, "SELECT status, count(*) FROM aip.version_status GROUP BY status", func(name string, n int) {
		s.Versions[fleet.VersionStatus(name)] = n
	})
}

func statusReplicas(ctx context.Context, tx pgx.Tx, s *registry.Status) error {
	err := tx.QueryRow(ctx, `SELECT COALESCE(sum(active), 0)::bigint,
		count(*) FILTER (WHERE intent = 'drain'), count(*) FILTER (WHERE circuit_state <> 'closed'),
		count(*) FILTER (WHERE status <> 'offline' AND NOT healthy),
		count(*) FILTER (WHERE status <> 'offline' AND lease_expires_at <= $1::timestamptz + interval '10 seconds'),
		COALESCE(sum(capacity) FILTER (WHERE status = 'ready'), 0)::bigint FROM aip.replica_live`, s.At).
		Scan(&s.Active, &s.DrainIntent, &s.CircuitsOpen, &s.Unhealthy, &s.LeasesEnding, &s.Capacity)
	if err != nil {
		return err
	}
	return counted(ctx, tx, "SELECT status, count(*) FROM aip.replica_live GROUP BY status", func(name string, n int) {
		s.Replicas[fleet.ReplicaStatus(name)] = n
	})
}

func statusUncertain(ctx context.Context, tx pgx.Tx, s *registry.Status) error {
	var micros int64
	err := tx.QueryRow(ctx, `SELECT COALESCE(extract(epoch FROM $1::timestamptz - min(opened_at)) * 1000000, 0)::bigint
		FROM aip.reconciliation WHERE state <> 'resolved'`, s.At).Scan(&micros)
	if err != nil {
		return err
	}
	s.OldestUncertain = max(time.Duration(micros)*time.Microsecond, 0)
	return counted(ctx, tx, "SELECT state, count(*) FROM aip.reconciliation GROUP BY state", func(name string, n int) {
		s.Uncertain[fleet.ReconciliationState(name)] = n
	})
}

func counted(ctx context.Context, tx pgx.Tx, statement string, set func(name string, n int)) error {
	rows, err := tx.Query(ctx, statement)
	if err != nil {
		return err
	}
	var name string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		set(name, n)
		return nil
	})
	return err
}

// Package implements registry.Reader.
func (r *Registry) Package(ctx context.Context, digest fleet.Digest) ([]byte, error) {
	p, err := needs("read", r.read, r.control)
	if err != nil {
		return nil, err
	}
	var data []byte
	err = p.row(ctx, "SELECT bytes FROM aip.package_blob WHERE digest = $1::text", []any{digest.String()}, &data)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fleet.Errorf(fleet.NotFound, "package.digest", "no package with digest %s is stored", digest)
	}
	if err != nil {
		return nil, refused("package.unavailable", "the package could not be read", err)
	}
	return data, nil
}

// Snapshot implements registry.Reader. It reads everything in one snapshot and is for
// audits, not for the hot path.
func (r *Registry) Snapshot(ctx context.Context) (registry.Snapshot, error) {
	p, err := r.readPool()
	if err != nil {
		return registry.Snapshot{}, err
	}
	var s registry.Snapshot
	err = p.snapshot(ctx, func(tx pgx.Tx) error {
		s, err = snapshotIn(ctx, tx)
		return err
	})
	if err != nil {
		return registry.Snapshot{}, refused("snapshot.unavailable", "the snapshot could not be read", err)
	}
	return s, nil
}

func snapshotIn(ctx context.Context, tx pgx.Tx) (registry.Snapshot, error) {
	var s registry.Snapshot
	if err := tx.QueryRow(ctx, "SELECT aip.clock(), revision FROM aip.catalog_revision").Scan(&s.At, &s.Revision); err != nil {
		return s, err
	}
	s.At = s.At.UTC()
	var all registry.Records
	for _, noun := range []registry.Noun{
		registry.Types, registry.Versions, registry.Instances, registry.Replicas, registry.Bindings, registry.Quotas,
		registry.Routes, registry.Reconciliations,
	} {
		read, _ := readers(noun)
		if err := read(ctx, tx, registry.Selection{Noun: noun}, &all); err != nil { // no limit: all of them
			return s, err
		}
	}
	s.Types, s.Versions, s.Instances, s.Replicas = all.Types, all.Versions, all.Instances, all.Replicas
	s.Bindings, s.Quotas, s.Routes, s.Reconciliations = all.Bindings, all.Quotas, all.Routes, all.Reconciliations
	var err error
	if s.Counters, err = counterRows(ctx, tx); err != nil {
		return s, err
	}
	s.Candidates, err = candidateChains(ctx, tx)
	return s, err
}

func counterRows(ctx context.Context, tx pgx.Tx) ([]registry.Counter, error) {
	rows, err := tx.Query(ctx, "SELECT kind, key, current FROM aip.scope_counter WHERE current <> 0 ORDER BY kind, key")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (registry.Counter, error) {
		var c registry.Counter
		err := row.Scan(&c.Kind, &c.Key, &c.Current)
		return c, err
	})
}

func candidateChains(ctx context.Context, tx pgx.Tx) ([]registry.CandidateChain, error) {
	rows, err := tx.Query(ctx, `SELECT tenant_id, capability_id, instance_id, version_id, foremost, quota_revision,
		circuit_threshold, circuit_open_millis, circuit_probes, scope_kinds, scope_keys, scope_limits FROM aip.route_candidate`)
	if err != nil {
		return nil, err
	}
	chains := []registry.CandidateChain{}
	var tenant, capability, instance, version string
	var ready registry.ReadyChain
	var held attemptRow
	into := []any{
		&tenant, &capability, &instance, &version, &ready.Foremost, &ready.QuotaRevision, &ready.Circuit.FailureThreshold,
		&ready.Circuit.OpenMillis, &ready.Circuit.HalfOpenProbes, &held.ScopeKinds, &held.ScopeKeys, &held.ScopeLimits,
	}
	_, err = pgx.ForEachRow(rows, into, func() error {
		var p reading
		written := ready
		written.Scopes = held.scopes()
		chains = append(chains, registry.CandidateChain{
			Tenant: read(&p, fleet.ParseTenantID, tenant), Capability: read(&p, fleet.ParseCapabilityID, capability),
			Instance: read(&p, fleet.ParseInstanceID, instance), Version: read(&p, fleet.ParseVersionID, version), Ready: &written,
		})
		return p.err
	})
	return chains, err
}
