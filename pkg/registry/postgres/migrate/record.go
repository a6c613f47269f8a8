package migrate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/schema"
)

// settle brings a migrated database to its full state, in one transaction:
// functions, what was applied, presets, the deployment row.
func settle(ctx context.Context, conn *pgx.Conn) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Two at once would replace a function under each other's hands.
		if _, err := tx.Exec(ctx, "SELECT pg_catalog.pg_advisory_xact_lock(4871, 5)"); err != nil {
			return err
		}
		for _, step := range []func(context.Context, pgx.Tx) error{applyFunctions, recordMigrations, recordPrivileges, seedQuotas, seedDeployment} {
			if err := step(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return failed("registry.migrate", "the functions of the schema could not be applied", err)
	}
	return nil
}

func applyFunctions(ctx context.Context, tx pgx.Tx) error {
	functions, err := schema.Functions()
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "SET LOCAL check_function_bodies = off"); err != nil {
		return err
	}
	for _, f := range functions {
		if _, err := tx.Exec(ctx, f.Text, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		if err := record(ctx, tx, f); err != nil {
			return err
		}
	}
	return nil
}

func recordMigrations(ctx context.Context, tx pgx.Tx) error {
	migrations, err := schema.Migrations()
	if err != nil {
		return err
	}
	for _, m := range migrations {
		if err := record(ctx, tx, m); err != nil {
			return err
		}
	}
	return nil
}

func record(ctx context.Context, tx pgx.Tx, f schema.File) error {
	_, err := tx.Exec(ctx, `INSERT INTO aip.schema_file (name, version, sha256, serves) VALUES ($1, $2, $3, $4)
		ON CONFLICT (name) DO UPDATE SET sha256 = EXCLUDED.sha256, serves = EXCLUDED.serves, applied_at = clock_timestamp()
		WHERE schema_file.sha256 <> EXCLUDED.sha256`, f.Name, f.Version, f.SHA256, f.Serves)
	return err
}

// recordPrivileges keeps the matrix of this schema for older programs that it serves.
func recordPrivileges(ctx context.Context, tx pgx.Tx) error {
	lines, err := schema.Matrix()
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM aip.schema_privilege"); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO aip.schema_privilege (line) SELECT unnest($1::text[])", lines)
	return err
}

// forget drops the records of undone migrations; with none left, what goose keeps.
func forget(ctx context.Context, conn *pgx.Conn, version int64) error {
	statement := "DELETE FROM aip.schema_file WHERE version > $1"
	if version > 0 {
		_, err := conn.Exec(ctx, statement, version)
		return failed("registry.migrate", "the undone migration could not be recorded", err)
	}
	return nil
}

func seedQuotas(ctx context.Context, tx pgx.Tx) error {
	for ref, preset := range map[string]string{"": fleet.QuotaFleet, fleet.QuotaDeployment: fleet.QuotaFleet, fleet.QuotaFleet: fleet.QuotaFleet, "conservative": "conservative"} {
		p, _ := fleet.PresetQuota(preset)
		_, err := tx.Exec(ctx, `INSERT INTO aip.quota_effective (ref, revision, global_limit, tenant_limit, type_limit,
			instance_limit, binding_limit, retry_limit, circuit_threshold, circuit_open_millis, circuit_probes)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`,
			ref, p.Revision, p.Global, p.Tenant, p.ConnectorType, p.Instance, p.Binding, p.TenantRetry,
			p.Circuit.FailureThreshold, p.Circuit.OpenMillis, p.Circuit.HalfOpenProbes)
		if err != nil {
			return err
		}
	}
	return nil
}

// seedDeployment makes the deployment's id and keys, once.
func seedDeployment(ctx context.Context, tx pgx.Tx) error {
	id, ring, cursor := make([]byte, 16), make([]byte, 32), make([]byte, 32)
	for _, b := range [][]byte{id, ring, cursor} {
		_, _ = rand.Read(b) // does not fail
	}
	_, err := tx.Exec(ctx, "INSERT INTO aip.deployment (id, ring_key, cursor_key) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
		"dep_"+hex.EncodeToString(id), ring, cursor)
	return err
}

// unedited refuses when an applied migration is not the one this binary carries, or
// one that it does not know.
func unedited(ctx context.Context, conn *pgx.Conn) error {
	report, err := postgres.ReadSchema(ctx, conn)
	if err != nil {
		return err
	}
	return report.Applicable()
}

// failed turns a database error into one of ours, without its statement. nil stays nil.
func failed(code, what string, err error) error {
	if err == nil {
		return nil
	}
	var ours *fleet.Error
	if errors.As(err, &ours) {
		return ours
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		if pg.Code == postgres.StatePassword {
			return postgres.WrongPassword(what)
		}
		kind := fleet.Internal
		switch pg.Code[:2] {
		case "28", "42":
			kind = fleet.Denied
		case "55", "57", "53":
			kind = fleet.Unavailable
		}
		return fleet.Errorf(kind, code, "%s", what).Because("%s (%s)", pg.Message, pg.Code)
	}
	var connecting *pgconn.ConnectError
	if errors.As(err, &connecting) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) {
		return fleet.Errorf(fleet.Unavailable, code, "%s", what).Because("the server does not answer, or refuses the login")
	}
	return fleet.Errorf(fleet.Internal, code, "%s", what).Caused(err)
}
