package registrytest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/memory"
)

// Each type below breaks one promise now and then, so that only many calls show it.

// now and then is every hundredth time.
type rarely struct{ n *atomic.Int64 }

func (r rarely) now() bool { return r.n.Add(1)%100 == 0 }

// staleReads answers a resolve from a cache that is not cleared by a settlement.
type staleReads struct {
	router
	rarely
	seen *sync.Map
}

func (b staleReads) Resolve(ctx context.Context, req registry.RouteRequest) (fleet.Assignment, error) {
	if old, ok := b.seen.Load(req.Action); ok && b.now() {
		return old.(fleet.Assignment), nil
	}
	a, err := b.Router.Resolve(ctx, req)
	if err == nil {
		b.seen.Store(req.Action, a)
	}
	return a, err
}

// reservesTwice hands out a reservation of its own for an action that has one.
type reservesTwice struct {
	router
	rarely
}

func (b reservesTwice) Resolve(ctx context.Context, req registry.RouteRequest) (fleet.Assignment, error) {
	a, err := b.Router.Resolve(ctx, req)
	if err == nil && b.now() {
		a.Attempt.Fence.Token = "ffffffffffffffffffffffffffffffff"
	}
	return a, err
}

// forgetsSettlements acknowledges a settlement that it did not make.
type forgetsSettlements struct {
	router
	rarely
}

func (b forgetsSettlements) Settle(ctx context.Context, a fleet.Assignment, s fleet.Settlement) (registry.Receipt, error) {
	if b.now() {
		return registry.Receipt{Settlement: s, First: true}, nil
	}
	return b.Router.Settle(ctx, a, s)
}

// firstsForAll tells every caller that it was the first to settle.
type firstsForAll struct{ router }

func (b firstsForAll) Settle(ctx context.Context, a fleet.Assignment, s fleet.Settlement) (registry.Receipt, error) {
	r, err := b.Router.Settle(ctx, a, s)
	r.First = true
	return r, err
}

// refusesFalsely takes busy replicas for full ones.
type refusesFalsely struct {
	router
	rarely
}

func (b refusesFalsely) Resolve(ctx context.Context, req registry.RouteRequest) (fleet.Assignment, error) {
	if b.n.Add(1)%8 == 0 { // some of them meet a fleet that is full indeed
		return fleet.Assignment{}, fleet.Errorf(fleet.ReplicaUnavailable, "resolve.replica_unavailable", "full")
	}
	return b.Router.Resolve(ctx, req)
}

// overbooks lets every replica take one action more than was declared.
type overbooks struct{ publisher }

func (b overbooks) Apply(ctx context.Context, set registry.ChangeSet, at uint64) (registry.Publication, error) {
	for i := range set.Replicas {
		set.Replicas[i].Capacity++
	}
	return b.Publisher.Apply(ctx, set, at)
}

// TestHistory_PlantedBugsAreFound proves that the judgement of concurrent histories
// can fail: each defect is found (G01, G05, G06, G07), by action where one action shows
// it and in the whole history where only the shared capacity does.
func TestHistory_PlantedBugsAreFound(t *testing.T) {
	often := func() rarely { return rarely{new(atomic.Int64)} }
	wide, whole := Wide(), Whole()
	wide.Operations = 200
	// Showing that there is no order at all takes a search through every one that is
	// possible: calls without an answer would multiply them.
	whole.Clients, whole.Operations, whole.Lose = 4, 60, 0
	for _, b := range []struct {
		name    string
		plan    Plan
		whole   bool
		breakIt func(r *memory.Registry, s *Subject)
	}{
		{"G06 answers from a stale cache", wide, false, func(r *memory.Registry, s *Subject) {
			s.Router = staleReads{router{r}, often(), new(sync.Map)}
		}},
		{"G01 reserves twice", wide, false, func(r *memory.Registry, s *Subject) { s.Router = reservesTwice{router{r}, often()} }},
		{"G12 forgets settlements", wide, false, func(r *memory.Registry, s *Subject) { s.Router = forgetsSettlements{router{r}, often()} }},
		{"G07 makes every settlement the first", wide, false, func(r *memory.Registry, s *Subject) { s.Router = firstsForAll{router{r}} }},
		{"G08 refuses falsely", whole, true, func(r *memory.Registry, s *Subject) { s.Router = refusesFalsely{router{r}, often()} }},
		{"G05 overbooks replicas", whole, true, func(r *memory.Registry, s *Subject) { s.Publisher = overbooks{publisher{r}} }},
	} {
		t.Run(b.name, func(t *testing.T) {
			r, s := sound()
			b.breakIt(r, &s)
			found := &recorder{ctx: t.Context()}
			h := CheckHistory(found, s, b.plan, b.whole)
			if h.Result != porcupine.Illegal || len(found.failures) == 0 {
				t.Fatalf("the history was judged %s", h.Result)
			}
			t.Logf("found: %s", found.failures[0])
		})
	}
}
