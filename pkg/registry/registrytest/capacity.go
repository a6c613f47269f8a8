package registrytest

import (
	"fmt"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func capacityCases() []Case {
	return []Case{
		{Name: "G05/each_scope_holds_its_limit", Why: "a limit that is not enforced protects nobody", Run: capacityScopes},
		{Name: "G05/capacity_is_exact", Why: "one action above capacity is one too many for the host", Run: capacityExact},
		{Name: "G05/full_scope_passes_over_one_candidate", Why: "a full account must not hide another that has room", Run: capacityPassOver},
		{Name: "G05/lowered_limit_only_blocks_new_work", Why: "tightening a limit must not break what is in flight", Run: capacityLowered},
		{Name: "G05/disabled_policy_counts_nothing", Why: "a policy that is off must not hold counters for ever", Run: capacityDisabled},
		{Name: "G04/refused_request_takes_nothing", Why: "a scope taken by a refused request leaks", Run: capacityRefusedTakesNothing},
	}
}

// tighten puts acme's desk:open under a policy of its own, and gives the deployment one.
func (w *World) tighten(binding, deployment func(*fleet.QuotaPolicy)) {
	w.Helper()
	b := deskBinding(acme(), open())
	b.QuotaPolicyRef, b.PolicyRevision = "tight", 2
	w.publish(registry.ChangeSet{
		Quotas:   []fleet.QuotaPolicy{quota("tight", binding), quota(fleet.QuotaDeployment, deployment)},
		Bindings: []fleet.CapabilityBinding{b},
	})
}

func keep(*fleet.QuotaPolicy) {}

func capacityScopes(w *World) {
	w.standard()
	two := limit(2)
	cases := []struct {
		kind       fleet.ScopeKind
		key        string
		binding    func(*fleet.QuotaPolicy)
		deployment func(*fleet.QuotaPolicy)
	}{
		{fleet.ScopeBinding, "acme|desk:open|cinst_acme", func(q *fleet.QuotaPolicy) { q.Binding = two }, keep},
		{fleet.ScopeInstance, "cinst_acme", func(q *fleet.QuotaPolicy) { q.Instance = two }, keep},
		{fleet.ScopeConnectorType, "ctype_desk", keep, func(q *fleet.QuotaPolicy) { q.ConnectorType = two }},
		{fleet.ScopeTenant, "acme", keep, func(q *fleet.QuotaPolicy) { q.Tenant = two }},
		{fleet.ScopeGlobal, "global", keep, func(q *fleet.QuotaPolicy) { q.Global = two }},
	}
	for i, c := range cases {
		revised := func(tighten func(*fleet.QuotaPolicy)) func(*fleet.QuotaPolicy) {
			return func(q *fleet.QuotaPolicy) { tighten(q); q.Revision = uint64(i + 1) }
		}
		b := deskBinding(acme(), open())
		b.QuotaPolicyRef, b.PolicyRevision = "tight", 2
		w.publish(registry.ChangeSet{
			Quotas:   []fleet.QuotaPolicy{quota("tight", revised(c.binding)), quota(fleet.QuotaDeployment, revised(c.deployment))},
			Bindings: []fleet.CapabilityBinding{b},
		})
		first, second := w.resolve(fmt.Sprintf("a%d", i)), w.resolve(fmt.Sprintf("b%d", i))
		w.expect(w.counter(c.kind, c.key) == 2, "the %s counter is %d", c.kind, w.counter(c.kind, c.key))
		_, err := w.try(fmt.Sprintf("c%d", i))
		w.refused(err, fleet.CapacityExceeded, "resolve.capacity_exceeded")
		e := fleet.AsError(err, "")
		w.expect(e.Scope == string(c.kind) && e.RetryAfter > 0, "the refusal names scope %q and retry after %s", e.Scope, e.RetryAfter)
		w.settle(first, fleet.OutcomeCompleted)
		third := w.resolve(fmt.Sprintf("c%d", i))
		w.settle(second, fleet.OutcomeCompleted)
		w.settle(third, fleet.OutcomeCompleted)
		w.expect(w.counter(c.kind, c.key) == 0, "afterwards the %s counter is %d", c.kind, w.counter(c.kind, c.key))
	}
}

func capacityExact(w *World) {
	w.standard()
	for i := range 8 {
		w.resolve(fmt.Sprintf("n%d", i))
	}
	_, err := w.try("n8")
	w.refused(err, fleet.ReplicaUnavailable, "")
	for _, zone := range []string{"a", "b"} {
		w.expect(w.replica(replicaID(acme(), zone)).Live.Active == 4, "zone %s has %d of 4", zone, w.replica(replicaID(acme(), zone)).Live.Active)
	}
}

// second gives acme another account with a replica, bound at a worse priority.
func (w *World) second() fleet.ReplicaID {
	w.Helper()
	i, r, b := deskInstance(acme()), deskReplica(acme(), "second"), deskBinding(acme(), open())
	i.ID = parsed(fleet.ParseInstanceID("cinst_acme2"))
	r.Instance, b.Instance, b.Priority = i.ID, i.ID, 20
	w.publish(registry.ChangeSet{
		Instances: []fleet.ConnectorInstance{i}, Replicas: []fleet.Replica{r}, Bindings: []fleet.CapabilityBinding{b},
	})
	w.register(r.ID)
	return r.ID
}

func capacityPassOver(w *World) {
	w.standard()
	other := w.second()
	w.tighten(func(q *fleet.QuotaPolicy) { q.Binding = limit(1) }, keep)
	w.expect(w.resolve("one").Route.Replica != other, "the better priority was passed over while it had room")
	w.expect(w.resolve("two").Route.Replica == other, "the full binding was not passed over")
	w.depart(other, true)
	_, err := w.try("three")
	w.refused(err, fleet.CapacityExceeded, "")
	w.expect(fleet.AsError(err, "").Scope == string(fleet.ScopeBinding), "the full scope is %q", fleet.AsError(err, "").Scope)
}

func capacityLowered(w *World) {
	w.standard()
	var held []fleet.Assignment
	for i := range 4 {
		held = append(held, w.resolve(fmt.Sprintf("n%d", i)))
	}
	w.tighten(keep, func(q *fleet.QuotaPolicy) { q.Tenant = limit(2) })
	w.expect(w.counter(fleet.ScopeTenant, "acme") == 4, "the counter is %d", w.counter(fleet.ScopeTenant, "acme"))
	for i, a := range held[:3] {
		_, err := w.try("new")
		w.refused(err, fleet.CapacityExceeded, "")
		w.expect(text(w.resolve(fmt.Sprintf("n%d", i))) == text(a), "what is in flight changed")
		w.settle(a, fleet.OutcomeCompleted)
	}
	w.resolve("new")
}

func capacityDisabled(w *World) {
	w.standard()
	off := func(q *fleet.QuotaPolicy) { q.Enabled = false }
	w.tighten(off, off)
	a := w.resolve("one")
	w.expect(len(a.Attempt.Scopes) == 0, "the attempt took %s", text(a.Attempt.Scopes))
	w.expect(a.Attempt.CircuitUsed == fleet.CircuitPolicy{}, "a disabled policy has circuit %+v", a.Attempt.CircuitUsed)
	w.expect(a.Route.QuotaPolicyRef == "tight" && a.Route.QuotaPolicyRevision == 1, "the route names policy %q revision %d", a.Route.QuotaPolicyRef, a.Route.QuotaPolicyRevision)
}

func capacityRefusedTakesNothing(w *World) {
	w.standard()
	w.tighten(keep, func(q *fleet.QuotaPolicy) { q.Tenant = limit(1) })
	w.resolve("one")
	w.unchanged("a refused request", func() {
		for i := range 3 {
			_, err := w.try(fmt.Sprintf("n%d", i))
			w.refused(err, fleet.CapacityExceeded, "")
		}
	})
}
