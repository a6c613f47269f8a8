package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

// Names of what every site has once.
const (
	typeName    = "ctype_bench"
	versionName = "cver_bench-1"
	quotaName   = "bench-unlimited" // a policy without limits
	region      = "eu-central"
	zone        = "eu-central-a"
	class       = "standard"
	// manifestCapabilities is how many capabilities the one version implements: the
	// seeded bindings use some of them, the big publication others.
	manifestCapabilities = 110
)

// topology is what the routing daemon of the measured deployment prefers.
func topology() fleet.TopologyPreference { return fleet.TopologyPreference{Region: region, Zone: zone} }

// site is one seeded database.
type site struct {
	server *server
	name   string
	shape  shape

	deadlocks int64 // seen so far
}

func (s *site) data() string      { return s.server.url("aip_data", s.name) }
func (s *site) control() string   { return s.server.url("aip_control", s.name) }
func (s *site) lifecycle() string { return s.server.url("aip_lifecycle", s.name) }
func (s *site) reader() string    { return s.server.url("aip_readonly", s.name) }
func (s *site) admin() string     { return s.server.cluster.AdminDSN(s.name) }

// seed makes the site's database. Type, version and quota are published;
// the mass is copied into the tables, and the product's own function computes the
// candidate chains from it.
func seed(ctx context.Context, s *site) error {
	if err := s.server.cluster.CreateDatabase(ctx, s.name, templateDB); err != nil {
		return err
	}
	if err := s.publishSkeleton(ctx); err != nil {
		return fmt.Errorf("publish the type and the version: %w", err)
	}
	conn, err := pgx.Connect(ctx, s.admin())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, step := range []func(context.Context, *pgx.Conn) error{s.copyFleet, s.rebuildChains, s.copyHistory, s.makeFloor, analyze} {
		if err := step(ctx, conn); err != nil {
			return err
		}
	}
	return nil
}

// touchPages changes every hot row once. The first change of a page after a checkpoint
// logs the whole page; a server that runs has that behind it, and slices of a few
// seconds would measure little else.
func (s *site) touchPages(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.admin())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, statement := range []string{
		"UPDATE aip.scope_counter SET current = current", "UPDATE aip.replica_live SET active = active", "UPDATE bench.floor_counter SET current = current",
		"VACUUM aip.scope_counter, aip.replica_live, bench.floor_counter",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func analyze(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "VACUUM (ANALYZE)")
	return err
}

func (s *site) publishSkeleton(ctx context.Context) error {
	r, err := postgres.Open(ctx, postgres.Config{ControlURL: s.control()})
	if err != nil {
		return err
	}
	defer r.Close()
	version := benchVersion()
	archive := []byte("package")
	trust := json.RawMessage(`{"roots":["bench"]}`)
	sets := []registry.ChangeSet{
		{
			Types:  []fleet.ConnectorType{{ID: version.Type, Name: "Bench", Owner: "bench", Enabled: true}},
			Trust:  &registry.TrustRevision{Number: 1, Digest: fleet.DigestBytes(trust), Document: trust, Actor: "bench", Reason: "bench"},
			Quotas: []fleet.QuotaPolicy{{Ref: quotaName, Revision: 1, Enabled: true, Circuit: fleet.CircuitPolicy{FailureThreshold: 5, OpenMillis: 30_000, HalfOpenProbes: 1}}},
		},
		{
			Versions: []fleet.ConnectorVersion{version},
			Admission: &registry.Admission{
				PackageDigest: fleet.DigestBytes(archive), Package: archive, Version: version.ID, Findings: json.RawMessage(`[]`),
				Evidence: version.Attestation.Evidence, TrustRevision: 1, EvaluatorVersion: "bench", EvaluatedAt: version.AdmittedAt,
				Actor: "bench", Reason: "bench",
			},
		},
	}
	for i, set := range sets {
		set.Actor, set.Reason = "bench", "bench"
		if _, err := r.Apply(ctx, set, uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

func benchVersion() fleet.ConnectorVersion {
	m := fleet.Manifest{AIPVersion: "1.0", Name: "bench", Version: "1.0.0"}
	for k := range manifestCapabilities {
		id := parsed(fleet.ParseCapabilityID(capability(k)))
		m.Capabilities = append(m.Capabilities, fleet.CapabilityDefinition{
			ID: id, Name: "Capability", Kind: "tool", Description: "One of many.", Risk: "low",
			InputSchema: json.RawMessage(`{"type":"object"}`),
			Contract:    fleet.Contract{SideEffects: fleet.EffectWrite, Idempotency: fleet.IdempotencyProviderKey},
		})
		m.Implementations = append(m.Implementations, fleet.Implementation{Capability: id, Adapter: "mcp", Tool: "tool", Profiles: []string{"aip.core.v1"}})
	}
	digest := func(s string) fleet.Digest { return fleet.DigestBytes([]byte(s)) }
	return fleet.ConnectorVersion{
		ID: parsed(fleet.ParseVersionID(versionName)), Type: parsed(fleet.ParseTypeID(typeName)), Version: "1.0.0", ReleaseSequence: 1,
		Status: fleet.VersionActive, Manifest: m, ManifestDigest: digest("manifest"), ArtifactDigest: digest("artifact"), SchemaBundleDigest: digest("schemas"),
		AIPVersions: []string{"1.0"}, AdmittedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Attestation: fleet.Attestation{
			PackageDigest: digest("package"), Evidence: map[string]fleet.Digest{"signature": digest("signature")},
			Signers: map[string]string{"signature": "key-1"}, TrustRevision: 1, Qualified: true,
		},
	}
}

// copyFleet fills instances, bindings, replicas, their live state and the counters.
func (s *site) copyFleet(ctx context.Context, conn *pgx.Conn) error {
	var key []byte
	if err := conn.QueryRow(ctx, "SELECT ring_key FROM aip.deployment").Scan(&key); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "SET session_replication_role = replica"); err != nil { // the rows are right by construction
		return err
	}
	for _, t := range s.tables(routing.Key(key), time.Now().UTC().Truncate(time.Microsecond)) {
		if err := copyRows(ctx, conn, t); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	_, err := conn.Exec(ctx, "RESET session_replication_role")
	return err
}

type table struct {
	name    string
	columns []string
	rows    iter.Seq[[]any]
}

func copyRows(ctx context.Context, conn *pgx.Conn, t table) error {
	next, stop := iter.Pull(t.rows)
	defer stop()
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"aip", t.name}, t.columns, pgx.CopyFromFunc(func() ([]any, error) {
		row, ok := next()
		if !ok {
			return nil, nil
		}
		return row, nil
	}))
	return err
}

// rebuildBatch bounds how many instances one call rebuilds.
const rebuildBatch = 2000

func (s *site) rebuildChains(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, "SELECT id FROM aip.connector_instance ORDER BY id")
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "ANALYZE"); err != nil {
		return err
	}
	for len(ids) > 0 {
		n := min(rebuildBatch, len(ids))
		if _, err := conn.Exec(ctx, "SELECT aip.rebuild_candidates($1::text[])", ids[:n]); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}
