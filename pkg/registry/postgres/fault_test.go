package postgres_test

import (
	"fmt"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// Each case lets one verb run to just before or just after its commit, strikes there,
// and then compares what the caller was told with what the database holds.

var cuts = []struct {
	name string
	at   pgclustertest.Cut
}{{"COMMIT never sent", pgclustertest.BeforeCommit}, {"COMMIT reply lost", pgclustertest.AfterCommit}}

// everyBlow runs a case for each cut and each blow on one server. The registry under
// test has one warm connection, so that the cut hits the verb's own statement.
func everyBlow(t *testing.T, run func(t *testing.T, c *crashing, p *pgclustertest.Proxy, r *postgres.Registry, at pgclustertest.Cut, b blow, action string)) {
	t.Parallel()
	c := newCrashing(t)
	c.build(t, shape{tenants: 1, replicas: 2, capacity: 4})
	n := 0
	for _, cut := range cuts {
		for _, b := range blows() {
			n++
			action := fmt.Sprintf("a%d", n)
			t.Run(cut.name+", "+b.name, func(t *testing.T) {
				p := pgclustertest.NewProxy(t, c.dsn("aip_data"))
				until(t, "the server is there after the blow before", func() bool { return c.data.Reach(t.Context()) == nil })
				r := c.open(t, postgres.Config{DataURL: p.DSN(), Connections: 1})
				warm, err := r.Resolve(t.Context(), request(action+"warm", 0))
				if err == nil {
					_, err = r.Settle(t.Context(), warm, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
				}
				if err != nil {
					t.Fatal(err)
				}
				run(t, c, p, r, cut.at, b, action)
				c.quiet(t)
			})
		}
	}
}

// quiet checks that after maintenance nothing is counted any more.
func (c *crashing) quiet(t *testing.T) {
	t.Helper()
	if _, err := c.data.Expire(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	c.database.quiet(t)
}

// TestFault_G01_G39_InTheMiddleOfAResolve: what was answered is what is stored, what
// was denied is not, and the same action gets the same route afterwards.
func TestFault_G01_G39_InTheMiddleOfAResolve(t *testing.T) {
	everyBlow(t, func(t *testing.T, c *crashing, p *pgclustertest.Proxy, r *postgres.Registry, at pgclustertest.Cut, b blow, action string) {
		var told fleet.Assignment
		var err error
		c.struck(t, p, at, b, func() { told, err = r.Resolve(t.Context(), request(action, 0)) })
		stored, missing := c.data.Lookup(t.Context(), tenantID(0), actionID(action))
		committed := at == pgclustertest.AfterCommit
		if (missing == nil) != committed {
			t.Fatalf("the route is stored: %v (%v)", missing == nil, missing)
		}
		truthful(t, err, committed, err == nil && stored.Current().Fence == told.Attempt.Fence)
		again := c.resolve(t, action, 0)
		if again.Attempt.Fence.Number != 1 || committed && (again.Route != stored.Route || again.Attempt.Fence != stored.Current().Fence) {
			t.Errorf("the same action got fence %d on %s", again.Attempt.Fence.Number, again.Route.Replica)
		}
		c.settle(t, again)
	})
}

// truthful checks what a verb said: success only of what was committed, and a denial
// only of what was not; Unknown is always allowed.
func truthful(t *testing.T, err error, committed, same bool) {
	t.Helper()
	switch {
	case err == nil && !committed, err == nil && !same:
		t.Errorf("it was answered with something that is not stored")
	case err != nil && committed && !fleet.Is(err, fleet.Unknown):
		t.Errorf("it was denied (%v) and is stored", err)
	case err != nil && !fleet.Is(err, fleet.Unknown) && !fleet.Is(err, fleet.Unavailable):
		t.Errorf("it was refused with %s: %v", fleet.KindOf(err), err)
	}
}

func (d *database) settle(t *testing.T, a fleet.Assignment) registry.Receipt {
	t.Helper()
	r, err := d.data.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
	if err != nil {
		t.Fatalf("settle: %v", err)
	}
	return r
}

// TestFault_G09_G39_InTheMiddleOfARetry: a retry that nobody was told of is handed out
// again, one that was not committed leaves the action released, on its own route.
func TestFault_G09_G39_InTheMiddleOfARetry(t *testing.T) {
	everyBlow(t, func(t *testing.T, c *crashing, p *pgclustertest.Proxy, r *postgres.Registry, at pgclustertest.Cut, b blow, action string) {
		first := c.resolve(t, action, 0)
		if _, err := c.data.Settle(t.Context(), first, fleet.Settlement{Outcome: fleet.OutcomeCancelled}); err != nil {
			t.Fatal(err)
		}
		var told fleet.Assignment
		var err error
		c.struck(t, p, at, b, func() { told, err = r.Resolve(t.Context(), request(action, 0)) })
		stored, missing := c.data.Lookup(t.Context(), tenantID(0), actionID(action))
		committed := at == pgclustertest.AfterCommit
		if missing != nil || (len(stored.Attempts) == 2) != committed {
			t.Fatalf("%d attempts are stored (%v)", len(stored.Attempts), missing)
		}
		truthful(t, err, committed, err == nil && stored.Current().Fence == told.Attempt.Fence)
		again := c.resolve(t, action, 0)
		if again.Route != first.Route || again.Attempt.Fence.Number != 2 || committed && again.Attempt.Fence != stored.Current().Fence {
			t.Errorf("the same action got fence %d on %s", again.Attempt.Fence.Number, again.Route.Replica)
		}
		c.settle(t, again)
	})
}

// TestFault_G07_G39_InTheMiddleOfASettlement: it is settled once, by whichever call
// came through.
func TestFault_G07_G39_InTheMiddleOfASettlement(t *testing.T) {
	everyBlow(t, func(t *testing.T, c *crashing, p *pgclustertest.Proxy, r *postgres.Registry, at pgclustertest.Cut, b blow, action string) {
		a := c.resolve(t, action, 0)
		var err error
		var receipt registry.Receipt
		c.struck(t, p, at, b, func() {
			receipt, err = r.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeUnknown, Code: "of the first"})
		})
		stored, missing := c.data.Lookup(t.Context(), tenantID(0), actionID(action))
		if missing != nil {
			t.Fatal(missing)
		}
		settled := stored.Current().Settled()
		switch {
		case err == nil && (!settled || receipt.Settlement.Code != "of the first"):
			t.Errorf("it said %+v, settled is %v", receipt, settled)
		case err != nil && !fleet.Is(err, fleet.Unknown):
			t.Errorf("it was refused with %s: %v", fleet.KindOf(err), err)
		case !settled && at == pgclustertest.AfterCommit:
			t.Error("a committed settlement is gone")
		}
		last := c.settle(t, a)
		want := map[bool]fleet.Outcome{true: fleet.OutcomeUnknown, false: fleet.OutcomeCompleted}[settled]
		if last.First == settled || last.Settlement.Outcome != want {
			t.Errorf("settling again gave %+v, settled before: %v", last, settled)
		}
	})
}
