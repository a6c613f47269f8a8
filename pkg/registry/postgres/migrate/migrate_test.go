package migrate_test

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

var update = flag.Bool("update", false, "rewrite schema/privileges.golden from a fresh database")

func TestMain(m *testing.M) { os.Exit(pgclustertest.Main(m)) }

const password = "a password of this test"

func passwords() migrate.Passwords {
	return migrate.Passwords{Migrate: password, Control: password, Data: password, Lifecycle: password, Readonly: password}
}

// fresh gives an initialised database: the administrator's URL and one for each role.
func fresh(t *testing.T) (admin string, as func(role string) string) {
	t.Helper()
	cluster := pgclustertest.Shared(t)
	template := pgclustertest.Template(t, "registry", func(ctx context.Context, admin string) error {
		return migrate.Init(ctx, admin, passwords())
	})
	db := pgclustertest.NewDatabase(t, template)
	return cluster.AdminDSN(db), func(role string) string { return cluster.DSN(role, password, db) }
}

func open(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, url, statement string) {
	t.Helper()
	if _, err := open(t, url).Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// TestMatrix_G20_LivePrivilegesAreTheGoldenOnes reads every grant of a fresh database.
func TestMatrix_G20_LivePrivilegesAreTheGoldenOnes(t *testing.T) {
	admin, _ := fresh(t)
	live, err := postgres.ReadMatrix(t.Context(), open(t, admin))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("../../../../schema/privileges.golden", []byte(strings.Join(live, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(live) < 50 {
		t.Fatalf("only %d privileges: nothing was compared", len(live))
	}
	problems, err := postgres.MatrixDifference(live, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
	for _, line := range live {
		if strings.HasPrefix(line, "PUBLIC ") {
			t.Errorf("something is granted to everybody: %s", line)
		}
	}
}

// TestUp_G20_AgainChangesNothing: init and up are harmless to repeat, keys stay.
func TestUp_G20_AgainChangesNothing(t *testing.T) {
	admin, as := fresh(t)
	key := func() (k []byte) {
		t.Helper()
		if err := open(t, admin).QueryRow(t.Context(), "SELECT ring_key FROM aip.deployment").Scan(&k); err != nil {
			t.Fatal(err)
		}
		return k
	}
	before := key()
	if err := migrate.Up(t.Context(), as("aip_migrate")); err != nil {
		t.Fatal(err)
	}
	if err := migrate.Init(t.Context(), admin, migrate.Passwords{}); err != nil {
		t.Fatal(err)
	}
	if string(before) != string(key()) {
		t.Error("the ring key changed")
	}
	problems, err := migrate.Verify(t.Context(), as("aip_readonly"))
	if err != nil || len(problems) > 0 {
		t.Errorf("verify: %v %v", problems, err)
	}
}

// TestDown_G20_UndoesEverythingAndUpRestores walks all the way down and up again.
func TestDown_G20_UndoesEverythingAndUpRestores(t *testing.T) {
	admin, as := fresh(t)
	for range 20 {
		report, err := migrate.Status(t.Context(), admin)
		if err != nil {
			t.Fatal(err)
		}
		if report.Current == 0 {
			break
		}
		if err := migrate.Down(t.Context(), as("aip_migrate")); err != nil {
			t.Fatal(err)
		}
	}
	var left int
	err := open(t, admin).QueryRow(t.Context(), `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'aip' AND c.relkind = 'r' AND c.relname NOT LIKE 'goose%'`).Scan(&left)
	if err != nil || left != 0 {
		t.Fatalf("%d tables are left: %v", left, err)
	}
	if err := migrate.Up(t.Context(), as("aip_migrate")); err != nil {
		t.Fatal(err)
	}
	if problems, err := migrate.Verify(t.Context(), as("aip_migrate")); err != nil || len(problems) > 0 {
		t.Errorf("after up: %v %v", problems, err)
	}
}

// TestUp_G20_RefusesAnEditedMigration: what was applied is compared with what this binary carries.
func TestUp_G20_RefusesAnEditedMigration(t *testing.T) {
	admin, as := fresh(t)
	exec(t, admin, "UPDATE aip.schema_file SET sha256 = 'x' WHERE version = 1")
	err := migrate.Up(t.Context(), as("aip_migrate"))
	if fleet.CodeOf(err) != "registry.migration_edited" {
		t.Errorf("an edited migration gave %v", err)
	}
	if problems, _ := migrate.Verify(t.Context(), as("aip_readonly")); len(problems) != 1 {
		t.Errorf("verify says %v", problems)
	}
}

// TestUp_G20_RefusesANewerDatabase and one that was never initialised.
func TestUp_G20_RefusesANewerDatabase(t *testing.T) {
	admin, as := fresh(t)
	exec(t, admin, "INSERT INTO aip.schema_file (name, version, sha256) VALUES ('99999_future.sql', 99999, 'x')")
	if err := migrate.Up(t.Context(), as("aip_migrate")); fleet.CodeOf(err) != "registry.schema_newer" {
		t.Errorf("a newer database gave %v", err)
	}
	cluster := pgclustertest.Shared(t)
	empty := pgclustertest.NewDatabase(t, "")
	err := migrate.Up(t.Context(), cluster.DSN("aip_migrate", password, empty))
	if fleet.CodeOf(err) != "registry.not_initialised" {
		t.Errorf("an empty database gave %v", err)
	}
}

// TestInit_G21_PasswordIsAVerifier: the server never sees the password in a statement.
func TestInit_G21_PasswordIsAVerifier(t *testing.T) {
	admin, as := fresh(t)
	var stored string
	if err := open(t, admin).QueryRow(t.Context(), "SELECT rolpassword FROM pg_authid WHERE rolname = 'aip_data'").Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(stored, "SCRAM-SHA-256$") || strings.Contains(stored, password) {
		t.Error("the stored password is not a SCRAM verifier")
	}
	open(t, as("aip_data")) // and the verifier is the password's
}
