package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// TestUncertain_G38_ALimitHoldsOnAPlanMadeForAnEmptyTable: a reconciler that asks for the
// first time while nothing is uncertain keeps the plan of then. It must not claim more
// later than it asks for, nor a record twice.
func TestUncertain_G38_ALimitHoldsOnAPlanMadeForAnEmptyTable(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 1, replicas: 1, capacity: 8})
	d.exec(t, "VACUUM ANALYZE aip.reconciliation")
	config := dataConfig(t, d)
	config.Connections = 1
	reconciler := d.open(t, config)
	if due, err := reconciler.Due(t.Context(), 10, time.Minute); err != nil || len(due) != 0 {
		t.Fatalf("%d records are due in a quiet registry (%v)", len(due), err)
	}
	for n := range 6 {
		a := d.resolve(t, fmt.Sprintf("n%d", n), 0)
		if _, err := d.data.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeUnknown}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ limit, want int }{{2, 2}, {3, 3}, {10, 1}, {10, 0}} {
		due, err := reconciler.Due(t.Context(), c.limit, time.Minute)
		if err != nil || len(due) != c.want {
			t.Errorf("asked for %d, %d records were claimed, want %d (%v)", c.limit, len(due), c.want, err)
		}
	}
}
