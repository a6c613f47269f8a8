package migrate_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

func all(password string) migrate.Passwords {
	return migrate.Passwords{Migrate: password, Control: password, Data: password, Lifecycle: password, Readonly: password}
}

// works opens a database under every role that a process holds.
func works(t *testing.T, cluster *pgcluster.Cluster, db, password string) error {
	t.Helper()
	r, err := postgres.Open(t.Context(), postgres.Config{
		ControlURL: cluster.DSN(postgres.RoleControl, password, db), DataURL: cluster.DSN(postgres.RoleData, password, db),
		LifecycleURL: cluster.DSN(postgres.RoleLifecycle, password, db), ReadURL: cluster.DSN(postgres.RoleReadonly, password, db), Connections: 1,
	})
	if err == nil {
		r.Close()
	}
	return err
}

// empty reports whether nothing was ever made in a database.
func empty(t *testing.T, url string) bool {
	t.Helper()
	report, err := migrate.Status(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	var found bool
	if err := open(t, url).QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'aip')").Scan(&found); err != nil {
		t.Fatal(err)
	}
	return report.Current == 0 && !found
}

// TestInit_G20_ASecondDatabaseLeavesTheFirstOneItsPasswords: roles belong to the cluster.
// Another password is refused before anything is changed, the right one works, by a
// superuser and by an administrator who may only make roles, and a rotation does what it says.
func TestInit_G20_ASecondDatabaseLeavesTheFirstOneItsPasswords(t *testing.T) {
	cluster := pgclustertest.Own(t, "first", "second")
	exec(t, cluster.AdminDSN("postgres"), "CREATE ROLE boss LOGIN CREATEROLE PASSWORD 'boss'; ALTER DATABASE first OWNER TO boss; ALTER DATABASE second OWNER TO boss")
	admins := []string{cluster.AdminDSN("second"), cluster.DSN("boss", "boss", "second")}
	if err := migrate.Init(t.Context(), cluster.DSN("boss", "boss", "first"), all("one")); err != nil {
		t.Fatal(err)
	}
	for _, admin := range admins {
		err := migrate.Init(t.Context(), admin, all("two"))
		e := fleet.AsError(err, "")
		if e.Code != "registry.shared_roles" || e.Kind != fleet.Conflict || e.Why == "" || !strings.Contains(e.Next, "--passwords-from") {
			t.Fatalf("other passwords gave %v (%s), next %q", err, e.Code, e.Next)
		}
		if !empty(t, cluster.AdminDSN("second")) {
			t.Fatal("a refused init made something in the database")
		}
		if err := works(t, cluster, "first", "one"); err != nil {
			t.Fatalf("a refused init broke the first database: %v", err)
		}
		known, err := migrate.KnownPasswords(t.Context(), admin, map[string][]string{"aip_data": {"zero", "one"}})
		if err != nil || known["aip_data"] != (migrate.Known{Taken: true, Password: "one"}) || known["aip_control"] != (migrate.Known{Taken: true}) {
			t.Errorf("known are %v (%v)", known, err)
		}
	}
	for _, admin := range admins {
		if err := migrate.Init(t.Context(), admin, all("one")); err != nil {
			t.Fatal(err)
		}
	}
	for _, db := range []string{"first", "second"} {
		if err := works(t, cluster, db, "one"); err != nil {
			t.Errorf("%s: %v", db, err)
		}
	}
	rotates(t, cluster)
}

// rotates gives both databases another password by an init of the second.
func rotates(t *testing.T, cluster *pgcluster.Cluster) {
	t.Helper()
	open(t, cluster.DSN(postgres.RoleData, "one", "first")) // a session that it will name
	sharers, err := migrate.Sharers(t.Context(), cluster.AdminDSN("second"))
	if err != nil || len(sharers) != 2 || sharers[0].Database != "first" || sharers[0].Sessions != 1 {
		t.Errorf("a rotation would say %v (%v)", sharers, err)
	}
	running, err := postgres.Open(t.Context(), postgres.Config{
		DataURL: cluster.DSN(postgres.RoleData, "one", "first"), LifecycleURL: cluster.DSN(postgres.RoleLifecycle, "one", "first"), Connections: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	anew := all("two")
	anew.Rotate = true
	if err := migrate.Init(t.Context(), cluster.AdminDSN("second"), anew); err != nil {
		t.Fatal(err)
	}
	for _, db := range []string{"first", "second"} {
		if err := works(t, cluster, db, "two"); err != nil {
			t.Errorf("%s: %v", db, err)
		}
	}
	e := fleet.AsError(works(t, cluster, "first", "one"), "")
	if e.Code != "registry.password" || !strings.Contains(e.Why, "whole PostgreSQL server") || !strings.Contains(e.Next, "--rotate-passwords") {
		t.Errorf("a login with the old password says %s: %v; next %q", e.Code, e, e.Next)
	}
	if err := migrate.Up(t.Context(), cluster.DSN("aip_migrate", "one", "first")); fleet.CodeOf(err) != "registry.password" {
		t.Errorf("a migration with the old password says %v", err)
	}
	if err := migrate.Up(t.Context(), cluster.DSN("boss", "wrong", "first")); fleet.CodeOf(err) != "registry.password" || strings.Contains(err.Error(), "rotat") {
		t.Errorf("an administrator with a wrong password is told %v", err)
	}
	lockedOut(t, cluster, running)
}

// lockedOut: a daemon that runs when its password is changed reports a dependency that is
// away. A denial would make every host give its lease up.
func lockedOut(t *testing.T, cluster *pgcluster.Cluster, running *postgres.Registry) {
	t.Helper()
	exec(t, cluster.AdminDSN("first"), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename IN ('aip_data', 'aip_lifecycle')")
	tenant, action, replica := must(fleet.ParseTenantID("acme")), must(fleet.ParseActionID("act_1")), must(fleet.ParseReplicaID("crepl_a"))
	for name, ask := range map[string]func() error{
		"lookup": func() error { _, err := running.Lookup(t.Context(), tenant, action); return err },
		"renew":  func() error { _, err := running.Renew(t.Context(), registry.Beat{Replica: replica}); return err },
		"reach":  func() error { return running.Reach(t.Context()) },
	} {
		_ = ask() // finds that its connection is gone
		e := fleet.AsError(ask(), "")
		if e.Code != "registry.password" || e.Kind != fleet.Unavailable || !strings.Contains(e.Why, "whole PostgreSQL server") || !strings.Contains(e.Next, "restart") {
			t.Errorf("%s of a daemon with the old password says %s (%s): %v; next %q", name, e.Code, e.Kind, e, e.Next)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestInit_G20_ManyAtOnceAreAsGoodAsOneAfterTheOther: for several databases of a new
// cluster, and several times for each. With the same passwords all succeed; with different
// ones those of a single call hold, and the others are refused and made nothing.
func TestInit_G20_ManyAtOnceAreAsGoodAsOneAfterTheOther(t *testing.T) {
	databases := []string{"a", "b", "c"}
	cluster := pgclustertest.Own(t, databases...)
	together := func(password func(n int) string) []error {
		errs := make([]error, 2*len(databases))
		var calls sync.WaitGroup
		for n := range errs {
			calls.Go(func() { errs[n] = migrate.Init(t.Context(), cluster.AdminDSN(databases[n/2]), all(password(n))) })
		}
		calls.Wait()
		return errs
	}
	won := -1
	for n, err := range together(func(n int) string { return fmt.Sprint("password of ", n/2) }) {
		switch {
		case err == nil && (won < 0 || won == n/2):
			won = n / 2
		case err == nil:
			t.Errorf("init %d succeeded with other passwords than an earlier one", n)
		case fleet.CodeOf(err) != "registry.shared_roles" || !empty(t, cluster.AdminDSN(databases[n/2])):
			t.Errorf("init %d was refused with %v, or left something", n, err)
		}
	}
	if won < 0 {
		t.Fatal("no init succeeded")
	}
	password := fmt.Sprint("password of ", won)
	for n, err := range together(func(int) string { return password }) {
		if err != nil {
			t.Errorf("init %d with the known passwords: %v", n, err)
		}
	}
	for _, db := range databases {
		if err := works(t, cluster, db, password); err != nil {
			t.Errorf("%s: %v", db, err)
		}
		if problems, err := migrate.Verify(t.Context(), cluster.DSN(postgres.RoleReadonly, password, db)); err != nil || len(problems) > 0 {
			t.Errorf("%s: %v %v", db, problems, err)
		}
	}
}

// TestInit_G40_ARoleThatAppearsMeanwhileKeepsItsPassword holds another session's creation
// of the roles open while an init runs into it, and lets it commit.
func TestInit_G40_ARoleThatAppearsMeanwhileKeepsItsPassword(t *testing.T) {
	cluster := pgclustertest.Own(t, "db")
	other := open(t, cluster.AdminDSN("postgres"))
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "CREATE ROLE aip_data LOGIN PASSWORD 'theirs'"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- migrate.Init(t.Context(), cluster.AdminDSN("db"), all("ours")) }()
	waits(t, open(t, cluster.AdminDSN("postgres")), ended)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; fleet.CodeOf(err) != "registry.shared_roles" || !empty(t, cluster.AdminDSN("db")) {
		t.Errorf("an init that lost the race gave %v, or left something", err)
	}
	open(t, cluster.DSN("aip_data", "theirs", "postgres"))
	var others int
	if err := other.QueryRow(t.Context(), "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'aip%' AND rolname <> 'aip_data'").Scan(&others); err != nil || others != 0 {
		t.Errorf("it left %d roles (%v)", others, err)
	}
}

// waits returns when a session of the command waits for another one.
func waits(t *testing.T, conn *pgx.Conn, ended <-chan error) {
	t.Helper()
	for {
		var waiting bool
		err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'aipctl registry' AND wait_event_type = 'Lock')").Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		if waiting {
			return
		}
		select {
		case err := <-ended:
			t.Fatalf("it ended without waiting: %v", err)
		default:
		}
	}
}
