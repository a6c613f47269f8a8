package registrytest

import (
	"fmt"
	"sync"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func concurrentCases() []Case {
	return []Case{
		{Name: "G01/concurrent_resolves_of_one_action_agree", Why: "two dispatchers must not pin one action twice", Run: concurrentSame},
		{Name: "G03/concurrent_tenants_cannot_share_an_action", Why: "whoever comes first has the id, the other a conflict", Run: concurrentConflict},
		{Name: "G05/concurrent_resolves_fill_capacity_exactly", Why: "one above is too many, and one below is a false refusal", Run: concurrentCapacity},
		{Name: "G07/concurrent_settlements_have_one_first", Why: "two firsts release twice", Run: concurrentSettle},
		{Name: "G04/mixed_load_leaves_nothing_behind", Why: "what leaks once in a thousand fills the fleet in a day", Run: concurrentMixed},
		{Name: "G12/settle_against_expire", Why: "maintenance and an answer must not both release", Run: concurrentExpire},
		{Name: "G17/resolve_against_publish", Why: "once a binding is off, no route decided before may still commit", Run: concurrentPublish},
		{Name: "G22/concurrent_registrations_start_one_epoch", Why: "two processes of one identity must not both hold the lease", Run: concurrentRegister},
	}
}

// together runs f for 0..n-1 at once and waits for all.
func together(n int, f func(i int)) {
	var wait sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wait.Go(func() { <-start; f(i) })
	}
	close(start)
	wait.Wait()
}

// patient asks again while others hold the rows: that is no refusal.
func (w *World) patient(req registry.RouteRequest) (a fleet.Assignment, err error) {
	for range 1000 {
		if a, err = w.Router.Resolve(w.ctx(), req); !fleet.Is(err, fleet.Contended) {
			return a, err
		}
	}
	return a, err
}

func concurrentSame(w *World) {
	w.standard()
	n := w.options.Callers
	answers, errs := make([]fleet.Assignment, n), make([]error, n)
	together(n, func(i int) { answers[i], errs[i] = w.patient(request("one")) })
	for i := range n {
		w.must(errs[i], "resolve")
		w.expect(text(answers[i]) == text(answers[0]), "caller %d got %s, caller 0 %s", i, text(answers[i]), text(answers[0]))
	}
	w.expect(len(w.lookup("one").Attempts) == 1, "there are %d attempts", len(w.lookup("one").Attempts))
}

func concurrentConflict(w *World) {
	w.standard()
	n := w.options.Callers
	errs := make([]error, n)
	together(n, func(i int) {
		req := request("one")
		if i%2 == 1 {
			req.Tenant = globex()
		}
		_, errs[i] = w.patient(req)
	})
	for i := 2; i < n; i++ {
		w.expect((errs[i] == nil) == (errs[i%2] == nil), "callers of one tenant were answered differently: %v, %v", errs[i%2], errs[i])
	}
	w.expect((errs[0] == nil) != (errs[1] == nil), "both tenants were answered %v and %v", errs[0], errs[1])
	for _, err := range errs {
		w.expect(err == nil || fleet.Is(err, fleet.Conflict), "refused with %v", err)
	}
}

func concurrentCapacity(w *World) {
	w.standard()
	n := 40
	errs := make([]error, n)
	together(n, func(i int) { _, errs[i] = w.patient(request(fmt.Sprintf("n%d", i))) })
	taken := 0
	for _, err := range errs {
		if err == nil {
			taken++
		} else {
			w.expect(fleet.Is(err, fleet.ReplicaUnavailable), "refused with %v", err)
		}
	}
	w.expect(taken == 8, "%d of 40 were routed, there is room for 8", taken)
}

func concurrentSettle(w *World) {
	w.standard()
	a := w.resolve("one")
	n := w.options.Callers
	receipts, errs := make([]registry.Receipt, n), make([]error, n)
	outcomes := []fleet.Outcome{fleet.OutcomeCompleted, fleet.OutcomeUnknown, fleet.OutcomeCancelled}
	together(n, func(i int) {
		receipts[i], errs[i] = w.Router.Settle(w.ctx(), a, fleet.Settlement{Outcome: outcomes[i%3]})
	})
	firsts := 0
	for i := range n {
		w.must(errs[i], "settle")
		if receipts[i].First {
			firsts++
		}
		w.expect(receipts[i].Settlement.Outcome == receipts[0].Settlement.Outcome, "the receipts report %s and %s", receipts[i].Settlement.Outcome, receipts[0].Settlement.Outcome)
	}
	w.expect(firsts == 1, "%d settlements were the first", firsts)
	w.expect(w.replica(a.Route.Replica).Live.Active == 0, "active is %d", w.replica(a.Route.Replica).Live.Active)
}

func concurrentMixed(w *World) {
	w.standard()
	w.second()
	off := func(q *fleet.QuotaPolicy) { q.Circuit = fleet.CircuitPolicy{} }
	w.tighten(off, keep)
	n := w.options.Callers
	errs, routed := make([]error, n), make([]int, n)
	together(n, func(i int) { routed[i], errs[i] = w.churn(i, 12) })
	total := 0
	for i := range n {
		w.must(errs[i], "mixed load")
		total += routed[i]
	}
	w.expect(total > n, "only %d actions were routed", total)
	for _, c := range w.snapshot().Counters {
		w.expect(c.Current == 0, "%s %s is left at %d", c.Kind, c.Key, c.Current)
	}
	for _, r := range w.snapshot().Replicas {
		w.expect(r.Live.Active == 0, "%s is left at %d", r.ID, r.Live.Active)
	}
}

// churn resolves and settles actions of its own, some of them twice.
func (w *World) churn(caller, rounds int) (routed int, err error) {
	outcomes := []fleet.Outcome{fleet.OutcomeCancelled, fleet.OutcomeUnknown, fleet.OutcomeCompleted}
	for n := range rounds {
		req := request(fmt.Sprintf("c%dn%d", caller, n/2))
		a, err := w.patient(req)
		switch fleet.KindOf(err) {
		case fleet.ReplicaUnavailable, fleet.CapacityExceeded, fleet.Conflict, fleet.Contended:
			continue
		}
		if err != nil {
			return routed, err
		}
		routed++
		if _, err := w.Router.Settle(w.ctx(), a, fleet.Settlement{Outcome: outcomes[(caller+n)%3]}); err != nil {
			return routed, err
		}
	}
	return routed, nil
}

func concurrentExpire(w *World) {
	id := w.solo()
	var held []fleet.Assignment
	for i := range 4 {
		held = append(held, w.resolve(fmt.Sprintf("n%d", i)))
	}
	w.advance(2 * leaseTTL)
	errs := make([]error, 8)
	together(8, func(i int) {
		if i < 4 {
			_, errs[i] = w.Router.Settle(w.ctx(), held[i], fleet.Settlement{Outcome: fleet.OutcomeCompleted})
			return
		}
		_, errs[i] = w.Fleet.Expire(w.ctx(), 100)
	})
	for _, err := range errs {
		w.must(err, "settle or expire")
	}
	w.expire()
	w.expect(w.replica(id).Live.Active == 0, "active is %d", w.replica(id).Live.Active)
}

// concurrentPublish switches the binding off and on while others resolve. The
// standard fleet ends at an odd revision with the binding on, so every route must
// have been decided at an odd one.
func concurrentPublish(w *World) {
	w.standard()
	b := registry.ChangeSet{Actor: "suite", Reason: "test", Bindings: []fleet.CapabilityBinding{deskBinding(acme(), open())}}
	errs := make([]error, 5)
	together(5, func(i int) {
		if i > 0 {
			_, errs[i] = w.churnBindings(i, 30)
			return
		}
		for n := uint64(0); n < 10 && errs[0] == nil; n++ {
			_, errs[0] = w.Publisher.Apply(w.ctx(), toggled(b, n%2 == 1, n+2), n+3)
		}
	})
	for _, err := range errs {
		w.must(err, "publish or resolve")
	}
	w.expect(w.revision() == 13, "the revision is %d", w.revision())
	for _, r := range w.snapshot().Routes {
		w.expect(r.Route.CatalogRevision%2 == 1, "%s was routed at revision %d, while the binding was off", r.Route.Action, r.Route.CatalogRevision)
	}
	w.resolve("afterwards")
}

func (w *World) churnBindings(caller, rounds int) (routed int, err error) {
	for n := range rounds {
		a, err := w.patient(request(fmt.Sprintf("p%dn%d", caller, n)))
		if fleet.Is(err, fleet.BindingUnavailable) || fleet.Is(err, fleet.ReplicaUnavailable) || fleet.Is(err, fleet.Contended) {
			continue
		}
		if err != nil {
			return routed, err
		}
		routed++
		if _, err := w.Router.Settle(w.ctx(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted}); err != nil {
			return routed, err
		}
	}
	return routed, nil
}

func concurrentRegister(w *World) {
	w.standard()
	id := replicaID(acme(), "a")
	n := w.options.Callers
	requests, errs := make([]registry.Registration, n), make([]error, n)
	for i := range n {
		requests[i] = w.registration(id)
	}
	together(n, func(i int) { _, errs[i] = w.Fleet.Register(w.ctx(), requests[i]) })
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			w.expect(fleet.Is(err, fleet.Conflict), "refused with %v", err)
		}
	}
	w.expect(won == 1 && w.replica(id).Live.LeaseEpoch == 2, "%d registrations won, the epoch is %d", won, w.replica(id).Live.LeaseEpoch)
}
