package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

// TestMigrations_G39_DownAndUpKeepWhatIsBelow: undoing every migration but the first and
// applying them again loses nothing that the first one's tables hold: keys, catalog,
// leases and routes are the same, reservations still settle, and the audit is clean.
func TestMigrations_G39_DownAndUpKeepWhatIsBelow(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 2, replicas: 2, capacity: 4})
	held := d.resolve(t, "held", 0)
	d.settle(t, d.resolve(t, "done", 1))
	before := d.audit(t)
	owner := url(t, d.name, "aip_migrate")
	steps := 0
	for {
		report, err := migrate.Status(t.Context(), owner)
		if err != nil {
			t.Fatal(err)
		}
		if report.Current <= 1 {
			break
		}
		if err := migrate.Down(t.Context(), owner); err != nil {
			t.Fatalf("down from %d: %v", report.Current, err)
		}
		steps++
	}
	if steps == 0 {
		t.Fatal("no migration was undone: nothing was tested")
	}
	if err := migrate.Up(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	if problems, err := migrate.Verify(t.Context(), owner); err != nil || len(problems) > 0 {
		t.Fatalf("after up: %v, %v", problems, err)
	}
	after := d.audit(t)
	if len(after.Routes) != len(before.Routes) || after.Revision != before.Revision || len(after.Replicas) != len(before.Replicas) {
		t.Errorf("%d routes, %d replicas at revision %d, before %d, %d at %d", len(after.Routes), len(after.Replicas), after.Revision,
			len(before.Routes), len(before.Replicas), before.Revision)
	}
	again := d.resolve(t, "held", 0)
	if again.Route != held.Route || again.Attempt.Fence != held.Attempt.Fence {
		t.Errorf("the held action got %+v", again.Attempt)
	}
	d.settle(t, held)
	if _, err := d.data.Resolve(t.Context(), request("done", 1)); !fleet.Is(err, fleet.Conflict) {
		t.Errorf("a completed action gave %v", err)
	}
	t.Logf("%d migrations undone and applied again", steps)
}
