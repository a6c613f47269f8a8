package memory

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/catalog"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
	"github.com/aipfleet/aipfleet/pkg/settlement"
)

// choice is what a resolve decided on.
type choice struct {
	candidate routing.Candidate
	keys      fleet.OrderingKeys
	policies  settlement.Policies
	scopes    []fleet.Scope
}

// field is everything that a new route is chosen from.
type field struct {
	question   routing.Question
	candidates []routing.Candidate
	valid      int // chains that may carry new work
}

// gather collects every replica behind the tenant's bindings of a capability.
func (r *Registry) gather(req registry.RouteRequest, now time.Time) field {
	f := field{question: routing.Question{
		Tenant: req.Tenant, Topology: req.Topology, Ring: r.ring.Action(req.Action), Now: now,
	}}
	for _, id := range r.offered[req.Tenant][req.Capability] {
		key := fleet.BindingKey{Tenant: req.Tenant, Capability: req.Capability, Instance: id}
		r.gatherInstance(&f, req.Action, r.bindings[key])
	}
	return f
}

func (r *Registry) gatherInstance(f *field, action fleet.ActionID, b fleet.CapabilityBinding) {
	instance := r.instances[b.Instance]
	ranks := r.draw(action, instance)
	base := r.chain(b)
	served := map[fleet.VersionID]routing.Chain{}
	for _, s := range instance.Serving {
		v := r.versions[s.Version]
		c := base
		c.Version, c.Status, c.Qualified = v.ID, v.Status, v.Attestation.Qualified
		c.Implements, c.Weight, c.DrawRank = catalog.Implements(v, b.Capability), s.Weight, ranks[v.ID]
		served[v.ID] = c
		full := catalog.Chain{Binding: b, Instance: instance, Type: r.types[instance.Type], Version: v}
		if full.Valid() {
			f.valid++
		}
	}
	for _, id := range r.members[b.Instance] {
		replica := r.replicas[id]
		c, ok := served[replica.Version]
		if !ok { // it is shown as not serving, whatever else may be wrong with it
			c = base
			c.Status, c.Qualified, c.Implements, c.Weight = fleet.VersionActive, true, true, 1
		}
		f.candidates = append(f.candidates, routing.Candidate{
			Chain: c, Replica: replica, Live: r.live[id], Ring: r.places[id],
		})
	}
}

// draw ranks the versions of an instance for an action, by weight (G10).
func (r *Registry) draw(action fleet.ActionID, instance fleet.ConnectorInstance) map[fleet.VersionID]int {
	versions := make([]routing.Weighted, 0, len(instance.Serving))
	for _, s := range instance.Serving {
		versions = append(versions, routing.Weighted{Version: s.Version, Weight: s.Weight})
	}
	slices.SortFunc(versions, func(a, b routing.Weighted) int {
		return strings.Compare(a.Version.String(), b.Version.String())
	})
	point := (r.ring.Draw(action) + r.ring.Instance(instance.ID)) % routing.RingSize
	ranks := map[fleet.VersionID]int{}
	for i, v := range routing.DrawOrder(point, versions) {
		ranks[v] = i
	}
	return ranks
}

// chain is what a binding gives, whichever version serves.
func (r *Registry) chain(b fleet.CapabilityBinding) routing.Chain {
	instance := r.instances[b.Instance]
	policies := r.policies(b.QuotaPolicyRef)
	c := routing.Chain{
		Binding: b, Tenant: instance.Tenant, Enabled: instance.Enabled,
		Type: instance.Type, TypeEnabled: r.types[instance.Type].Enabled, Circuit: policies.Circuit(),
	}
	for _, s := range settlement.Scopes(b.BindingKey, instance.Type, policies, false) {
		if settlement.Selective(s.Kind) && r.full(s) {
			c.FullScope = string(s.Kind)
			break
		}
	}
	return c
}

func (r *Registry) full(s fleet.Scope) bool { return r.counters[scopeKey{s.Kind, s.Key}] >= s.Limit }

// decide chooses a replica for a new route, or says why there is none. It writes nothing.
func (r *Registry) decide(f field) (choice, error) {
	if f.valid == 0 {
		return choice{}, fleet.Errorf(fleet.BindingUnavailable, "resolve.binding_unavailable", "the tenant has no enabled chain to this capability").
			Advise("ask which are with: aipctl route explain")
	}
	ordered, removed := routing.Pick(f.question, f.candidates)
	if len(ordered) == 0 {
		return choice{}, nobody(f.candidates, removed)
	}
	won := ordered[0]
	policies := r.policies(won.Chain.Binding.QuotaPolicyRef)
	scopes := settlement.Scopes(won.Chain.Binding.BindingKey, won.Chain.Type, policies, false)
	if err := r.room(scopes); err != nil {
		return choice{}, err
	}
	return choice{candidate: won, keys: routing.Keys(f.question, won), policies: policies, scopes: scopes}, nil
}

// nobody explains that no candidate may serve: when one was passed over only because
// a scope is full, that is lack of capacity; else no replica is available.
func nobody(candidates []routing.Candidate, removed map[int]routing.Reason) error {
	counts := map[routing.Reason]int{}
	for i, c := range candidates {
		if removed[i] == routing.ScopeFull {
			return exceeded(fleet.ScopeKind(c.Chain.FullScope))
		}
		counts[removed[i]]++
	}
	e := fleet.Errorf(fleet.ReplicaUnavailable, "resolve.replica_unavailable", "no replica may take the action now").
		Because("%s", countsText(counts)).Advise("ask why with: aipctl route explain")
	e.RetryAfter = retryAfter
	return e
}

// retryAfter is when asking again is useful: about the time of a beat or a call.
const retryAfter = time.Second

func countsText(counts map[routing.Reason]int) string {
	if len(counts) == 0 {
		return "none is declared"
	}
	parts := []string{}
	for _, why := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", why, counts[why]))
	}
	return strings.Join(parts, ", ")
}

// room refuses when any scope is full.
func (r *Registry) room(scopes []fleet.Scope) error {
	for _, s := range scopes {
		if r.full(s) {
			return exceeded(s.Kind)
		}
	}
	return nil
}

func exceeded(kind fleet.ScopeKind) error {
	e := fleet.Errorf(fleet.CapacityExceeded, "resolve.capacity_exceeded", "the limit of the %s scope is reached", kind)
	e.Scope, e.RetryAfter = string(kind), retryAfter
	return e
}
