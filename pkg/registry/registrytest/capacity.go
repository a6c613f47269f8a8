package registrytest

import (
	"fmt"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func capacityCases() []Case {
	return []Case{
		{Name: "G08/limits_and_priorities_follow_each_publication", Why: "what is worked out of a chain beforehand must not outlive its records", Run: capacityFollows},
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

// capacityFollows publishes quotas and priorities by themselves: what is worked out
// beforehand of a chain has to follow each.
func capacityFollows(w *World) {
	w.solo()
	other := w.second()
	own, deployed := keep, keep
	publishQuotas := func(revision uint64) {
		revised := func(tighten func(*fleet.QuotaPolicy)) func(*fleet.QuotaPolicy) {
			return func(q *fleet.QuotaPolicy) { tighten(q); q.Revision = revision }
		}
		w.publish(registry.ChangeSet{Quotas: []fleet.QuotaPolicy{quota("tight", revised(own)), quota(fleet.QuotaDeployment, revised(deployed))}})
		w.audit()
	}
	w.tighten(keep, keep)
	held := func(action string) fleet.Assignment {
		a := w.resolve(action)
		w.audit()
		w.settle(a, fleet.OutcomeCompleted)
		return a
	}
	limitOf := func(a fleet.Assignment, kind fleet.ScopeKind) (found uint32) {
		for _, s := range a.Attempt.Scopes {
			if s.Kind == kind {
				found = s.Limit
			}
		}
		return found
	}
	own = func(q *fleet.QuotaPolicy) { q.Binding, q.Instance, q.Circuit.FailureThreshold = limit(3), nil, 9 }
	deployed = func(q *fleet.QuotaPolicy) { q.Tenant, q.Global = limit(7), limit(8) }
	publishQuotas(2)
	a := held("limits")
	w.expect(limitOf(a, fleet.ScopeBinding) == 3 && limitOf(a, fleet.ScopeInstance) == 0 && limitOf(a, fleet.ScopeTenant) == 7 &&
		limitOf(a, fleet.ScopeGlobal) == 8, "after the publication of quotas alone the limits are %+v", a.Attempt.Scopes)
	w.expect(a.Attempt.CircuitUsed.FailureThreshold == 9 && a.Route.QuotaPolicyRevision == 2,
		"the circuit is %+v, the quota's revision %d", a.Attempt.CircuitUsed, a.Route.QuotaPolicyRevision)
	own, deployed = func(q *fleet.QuotaPolicy) { q.Enabled = false }, keep
	publishQuotas(3)
	a = held("unlimited")
	w.expect(limitOf(a, fleet.ScopeBinding) == 0 && a.Attempt.CircuitUsed == fleet.CircuitPolicy{}, "a disabled policy bounds: %+v", a.Attempt)

	b := deskBinding(acme(), open())
	b.QuotaPolicyRef, b.PolicyRevision, b.Priority = "tight", 3, 30
	w.publish(registry.ChangeSet{Bindings: []fleet.CapabilityBinding{b}})
	w.audit()
	a = held("worse")
	w.expect(a.Route.Replica == other, "with priority 30 against 20 the winner is %s", a.Route.Replica)
	b.Priority, b.PolicyRevision = 20, 4
	w.publish(registry.ChangeSet{Bindings: []fleet.CapabilityBinding{b}})
	w.audit()
	held("equal")
	b.Enabled, b.PolicyRevision = false, 5
	w.publish(registry.ChangeSet{Bindings: []fleet.CapabilityBinding{b}})
	w.audit()
	a = held("alone")
	w.expect(a.Route.Replica == other, "with the first binding disabled the winner is %s", a.Route.Replica)
}
