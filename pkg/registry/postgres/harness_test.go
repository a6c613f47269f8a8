package postgres_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
	"github.com/aipfleet/aipfleet/pkg/registry/registrytest"
)

func TestMain(m *testing.M) { os.Exit(pgclustertest.Main(m)) }

const password = "a password of this test"

// database is one test's own database with the registry opened under each role.
type database struct {
	name      string
	stopped   bool              // its clock stands
	clearing  string            // the statements of clear
	mode      pgx.QueryExecMode // how statements are sent; zero on a server of its own
	admin     *pgxpool.Pool
	control   *postgres.Registry
	data      *postgres.Registry
	lifecycle *postgres.Registry
	read      *postgres.Registry
}

func url(t testing.TB, db, role string) string {
	return pgclustertest.Shared(t).DSN(role, password, db)
}

// template is an initialised registry.
func template(t testing.TB) string {
	return pgclustertest.Template(t, "registry", func(ctx context.Context, admin string) error {
		return migrate.Init(ctx, admin, migrate.Passwords{
			Migrate: password, Control: password, Data: password, Lifecycle: password, Readonly: password,
		})
	})
}

// fresh clones a database whose clock stands where the test sets it, and opens it
// under the four roles, as four processes would.
func fresh(t testing.TB, mode pgx.QueryExecMode) *database {
	t.Helper()
	return entered(t, &database{name: pgclustertest.NewDatabase(t, template(t)), mode: mode})
}

// lent is fresh for a test that changes nothing but rows: its database may have served
// another one, and may serve a next one.
func lent(t testing.TB) *database {
	t.Helper()
	d := &database{mode: pgx.QueryExecModeCacheStatement}
	d.name = pgclustertest.LendDatabase(t, template(t), func(admin string) bool {
		if d.stopped || t.Failed() {
			return false
		}
		db, err := pgxpool.New(context.Background(), admin)
		if err != nil {
			t.Error(err)
			return false
		}
		defer db.Close()
		emptied := database{admin: db}
		emptied.clear(t)
		return !t.Failed()
	})
	entered(t, d).keepSeed(t)
	return d
}

func entered(t testing.TB, d *database) *database {
	t.Helper()
	var err error
	if d.admin, err = pgxpool.New(t.Context(), pgclustertest.Shared(t).AdminDSN(d.name)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.admin.Close)
	d.openAll(t)
	return d
}

// openAll starts the four processes.
func (d *database) openAll(t testing.TB) {
	t.Helper()
	d.control = d.open(t, postgres.Config{ControlURL: url(t, d.name, "aip_control"), ExecMode: d.mode})
	config := dataConfig(t, d)
	config.ExecMode = d.mode
	d.data = d.open(t, config)
	d.lifecycle = d.open(t, postgres.Config{LifecycleURL: url(t, d.name, "aip_lifecycle"), ExecMode: d.mode})
	d.read = d.open(t, postgres.Config{ReadURL: url(t, d.name, "aip_readonly"), ExecMode: d.mode})
}

// restarted is the same database with every process started anew.
func (d *database) restarted(t testing.TB) registrytest.Subject {
	again := *d
	again.openAll(t)
	return again.subject(t)
}

func dataConfig(t testing.TB, d *database) postgres.Config {
	return postgres.Config{DataURL: url(t, d.name, "aip_data"), Connections: 16}
}

func (d *database) open(t testing.TB, c postgres.Config) *postgres.Registry {
	t.Helper()
	r, err := postgres.Open(t.Context(), c)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(r.Close)
	return r
}

func (d *database) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	var mode []any
	if len(args) == 0 { // it may be several statements
		mode = []any{pgx.QueryExecModeSimpleProtocol}
	}
	if _, err := d.admin.Exec(context.Background(), statement, append(mode, args...)...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// setNow makes the database's clock stand at a time. The one function that the registry
// reads time from is replaced once, by one that reads a row: replacing it again for each
// step would have every session plan every statement anew.
func (d *database) setNow(t testing.TB, now time.Time) {
	t.Helper()
	if !d.stopped {
		d.stopped = true
		d.exec(t, "CREATE TABLE public.stopped (at timestamptz NOT NULL); INSERT INTO public.stopped VALUES (now())")
		d.exec(t, "GRANT USAGE ON SCHEMA public TO PUBLIC; GRANT SELECT ON public.stopped TO PUBLIC")
		d.exec(t, "CREATE OR REPLACE FUNCTION aip.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS $$ SELECT at FROM public.stopped $$")
	}
	d.exec(t, "UPDATE public.stopped SET at = $1", now)
}

// archive does as the owner what no login role may.
func (d *database) archive(ctx context.Context, action fleet.ActionID) error {
	var answer string
	if err := d.admin.QueryRow(ctx, "SELECT aip.archive_action($1)", action.String()).Scan(&answer); err != nil {
		return err
	}
	switch answer {
	case "archived":
		return nil
	case "absent":
		return fleet.Errorf(fleet.NotFound, "route.action", "action %s has no route", action)
	}
	return fleet.Errorf(fleet.Conflict, "archive."+answer, "action %s is %s", action, answer)
}

// leases is the Fleet contract as it is served: hosts' verbs by the lifecycle
// daemon, intent by the operator's tool, expiry by the central daemon.
type leases struct {
	*postgres.Registry
	control, data *postgres.Registry
}

func (l leases) Intend(ctx context.Context, i intentOf) (fleet.ReplicaLive, error) {
	return l.control.Intend(ctx, i)
}

func (l leases) Expire(ctx context.Context, limit int) (expiryOf, error) {
	return l.data.Expire(ctx, limit)
}

func (d *database) subject(t testing.TB) registrytest.Subject {
	var ring []byte
	if err := d.admin.QueryRow(t.Context(), "SELECT ring_key FROM aip.deployment").Scan(&ring); err != nil {
		t.Fatal(err)
	}
	s := registrytest.Subject{
		Catalog: d.data, Router: d.data, Reader: d.read, Publisher: d.control,
		Fleet: leases{d.lifecycle, d.control, d.data}, Uncertain: d.data, Custody: d.control,
		SetNow: func(now time.Time) { d.setNow(t, now) }, Archive: d.archive, RingKey: ring,
	}
	if d.mode != 0 {
		s.Restart = func() registrytest.Subject { return d.restarted(t) }
	}
	return s
}

func lifecycleConfig(t testing.TB, d *database) postgres.Config {
	return postgres.Config{LifecycleURL: url(t, d.name, "aip_lifecycle")}
}
