package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/action/actiontest"
	"github.com/aipfleet/aipfleet/pkg/action/postgres"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	registrypg "github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

const password = "a password of this test"

func TestMain(m *testing.M) { os.Exit(pgclustertest.Main(m)) }

// open gives a pool of aip_data on a database of its own, checked as aipd checks it,
// and the administrator's URL.
func open(t *testing.T) (*pgxpool.Pool, string) {
	t.Helper()
	cluster := pgclustertest.Shared(t)
	template := pgclustertest.Template(t, "registry", func(ctx context.Context, admin string) error {
		p := migrate.Passwords{Migrate: password, Control: password, Data: password, Lifecycle: password, Readonly: password}
		return migrate.Init(ctx, admin, p)
	})
	db := pgclustertest.NewDatabase(t, template)
	pool, err := pgxpool.New(t.Context(), cluster.DSN(registrypg.RoleData, password, db))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := registrypg.CheckSchema(t.Context(), pool, registrypg.RoleData); err != nil {
		t.Fatal(err)
	}
	return pool, cluster.AdminDSN(db)
}

func exec(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) {
	actiontest.Run(t, func(t *testing.T) actiontest.Harness {
		pool, admin := open(t)
		elapse, routed := clockOf(admin)
		return actiontest.Harness{Store: postgres.New(pool, time.Now), Elapse: elapse, Routed: routed}
	})
}

// clockOf lets time pass in a database, and writes routes into it.
func clockOf(admin string) (elapse func(*testing.T, time.Duration), routed func(*testing.T, action.Submission)) {
	offset := time.Duration(0)
	elapse = func(t *testing.T, d time.Duration) { // the registry's clock may be set by a test
		offset += d
		exec(t, admin, fmt.Sprintf(`CREATE OR REPLACE FUNCTION aip.clock() RETURNS timestamptz LANGUAGE sql VOLATILE
		AS 'SELECT pg_catalog.clock_timestamp() + %d * interval ''1 microsecond'''`, offset.Microseconds()))
	}
	return elapse, func(t *testing.T, s action.Submission) { exec(t, admin, routeOf(s)) }
}

// TestGrants_G44_ResultsAndSubmissionsAreInsertOnly: no code path can rewrite them,
// because the role may not.
func TestGrants_G44_ResultsAndSubmissionsAreInsertOnly(t *testing.T) {
	pool, _ := open(t)
	for _, statement := range []string{
		"UPDATE aip.action_result SET document = 'x'", "DELETE FROM aip.action_result",
		"UPDATE aip.action SET input = 'x'", "DELETE FROM aip.action", "DELETE FROM aip.action_state",
		"UPDATE aip.action_archive SET state = 'failed'", "DELETE FROM aip.action_archive", "INSERT INTO aip.action_archive (action_id) VALUES ('act_x')",
	} {
		if _, err := pool.Exec(t.Context(), statement); err == nil {
			t.Errorf("aip_data may: %s", statement)
		}
	}
}

// TestStore_G40_ARefusedLoginIsADatabaseThatIsAway: when its password was changed, a process
// says that it cannot look, not that the caller may not.
func TestStore_G40_ARefusedLoginIsADatabaseThatIsAway(t *testing.T) {
	pool, _ := open(t)
	config := pool.Config()
	config.ConnConfig.Password = "an older password"
	out, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	tenant, err := fleet.ParseTenantID("acme")
	if err != nil {
		t.Fatal(err)
	}
	_, err = postgres.New(out, time.Now).Get(t.Context(), tenant, fleet.NewActionID(time.Now()))
	e := fleet.AsError(err, "")
	if e.Kind != fleet.Unavailable || !strings.Contains(e.Why, "28P01") || !strings.Contains(e.Next, "registry.password") {
		t.Errorf("it says %s: %v; next %q", e.Kind, e, e.Next)
	}
}
