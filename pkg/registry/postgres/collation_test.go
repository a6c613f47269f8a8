package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

// inEnglish is a fleet in a database that sorts text as people do, and not by bytes.
func inEnglish(t *testing.T, s shape) *database {
	t.Helper()
	const name = "sorted_in_english"
	cluster := pgclustertest.Shared(t)
	template(t) // the roles exist
	conn, err := pgx.Connect(t.Context(), cluster.AdminDSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), "CREATE DATABASE "+name+" TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
	_ = conn.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.DropDatabase(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	passwords := migrate.Passwords{Migrate: password, Control: password, Data: password, Lifecycle: password, Readonly: password}
	if err := migrate.Init(t.Context(), cluster.AdminDSN(name), passwords); err != nil {
		t.Fatal(err)
	}
	d := entered(t, &database{name: name, mode: pgx.QueryExecModeCacheStatement})
	d.build(t, s)
	return d
}

// TestTick_G04_ReplicasAreLockedInOneOrderUnderAnyCollation: a tick and the expiry lock
// several replicas, and by bytes crepl_10_0 comes before crepl_1_0. A tick that waits for
// the first must not hold the second already, whatever the database thinks of underscores.
func TestTick_G04_ReplicasAreLockedInOneOrderUnderAnyCollation(t *testing.T) {
	d := inEnglish(t, shape{tenants: 60, replicas: 3, capacity: 4})
	d.exec(t, "ANALYZE") // rows are looked up by key, as they are in a fleet of some size
	d.exec(t, "UPDATE aip.replica_live SET intent = 'drain', status = 'draining' WHERE replica_id !~ '_0$'")
	first, second, sorted := replicaID(10, 0).String(), replicaID(1, 0).String(), false
	if err := d.admin.QueryRow(t.Context(), "SELECT $1::text < $2::text", second, first).Scan(&sorted); err != nil || !sorted {
		t.Fatalf("the database sorts by bytes (%v): nothing is tested", err)
	}
	s := &sharing{database: d, shared: d.open(t, postgres.Config{
		DataURL: url(t, d.name, "aip_data"), Connections: 16, Coalesce: postgres.Coalesce{Direct: 0, Ticks: 1, Batch: 64},
	})}
	resolve := func(name string, tenant int) func() {
		return func() {
			a, err := s.shared.Resolve(t.Context(), request(name, tenant))
			if err == nil {
				_, err = s.shared.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	for _, n := range []int{0, 1, 10} { // counters exist
		resolve(fmt.Sprintf("warm%d", n), n)()
	}
	held := d.begin(t, "aip_data")
	if _, err := held.tx.Exec(t.Context(), "SELECT FROM aip.replica_live WHERE replica_id = $1 FOR NO KEY UPDATE", first); err != nil {
		t.Fatal(err)
	}
	wait := s.inOneTick(t, []func(){resolve("second", 1), resolve("first", 10)}, func() {})
	d.waits(t, held, nil)
	var free int
	err := d.admin.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT FROM aip.replica_live WHERE replica_id = $1
		FOR NO KEY UPDATE SKIP LOCKED) l`, second).Scan(&free)
	if err != nil || free != 1 {
		t.Errorf("%s is locked before %s (%v)", second, first, err)
	}
	held.end(t, false)
	wait()
	d.quiet(t)
}
