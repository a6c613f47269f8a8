package registry

import (
	"fmt"
	"reflect"
	"time"

	"github.com/aipfleet/aipfleet/pkg/catalog"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/settlement"
)

// OverdueSlack is how long after its deadline an unsettled reservation may still be
// waiting for the next maintenance pass before Audit calls it leaked (G12).
const OverdueSlack = 5 * time.Minute

// Audit checks every invariant that holds at every commit over one snapshot. An
// empty result means that none is broken. It reads nothing else and changes nothing,
// and is the same for every registry and after every fault.
func Audit(s Snapshot) []Violation {
	a := newAudit(s)
	a.catalog()
	a.chains()
	for _, r := range s.Routes {
		a.route(r)
	}
	a.replicas()
	a.counters()
	a.uncertain()
	return a.found
}

type audit struct {
	Snapshot
	types     map[fleet.TypeID]fleet.ConnectorType
	versions  map[fleet.VersionID]fleet.ConnectorVersion
	instances map[fleet.InstanceID]fleet.ConnectorInstance
	declared  map[fleet.ReplicaID]ReplicaRecord
	bindings  map[fleet.BindingKey]fleet.CapabilityBinding
	quotas    map[string]fleet.QuotaPolicy
	questions map[ReconciliationKey]fleet.Reconciliation
	routes    map[fleet.ActionID]bool
	active    map[fleet.ReplicaID]uint32
	probes    map[fleet.ReplicaID]uint32
	scopes    map[string]uint32
	found     []Violation
}

func newAudit(s Snapshot) *audit {
	a := &audit{
		Snapshot: s,
		types:    map[fleet.TypeID]fleet.ConnectorType{}, versions: map[fleet.VersionID]fleet.ConnectorVersion{},
		instances: map[fleet.InstanceID]fleet.ConnectorInstance{}, declared: map[fleet.ReplicaID]ReplicaRecord{},
		bindings: map[fleet.BindingKey]fleet.CapabilityBinding{}, questions: map[ReconciliationKey]fleet.Reconciliation{},
		routes: map[fleet.ActionID]bool{}, quotas: map[string]fleet.QuotaPolicy{}, active: map[fleet.ReplicaID]uint32{},
		probes: map[fleet.ReplicaID]uint32{}, scopes: map[string]uint32{},
	}
	for _, t := range s.Types {
		a.types[t.ID] = t
	}
	for _, v := range s.Versions {
		a.versions[v.ID] = v
	}
	for _, i := range s.Instances {
		a.instances[i.ID] = i
	}
	for _, r := range s.Replicas {
		a.declared[r.ID] = r
	}
	for _, b := range s.Bindings {
		a.bindings[b.BindingKey] = b
	}
	for _, q := range s.Quotas {
		a.quotas[q.Ref] = q
	}
	for _, u := range s.Reconciliations {
		a.questions[ReconciliationKey{u.Action, u.Fence}] = u
	}
	return a
}

func (a *audit) broken(guarantee, subject, format string, args ...any) {
	a.found = append(a.found, Violation{Guarantee: guarantee, Subject: subject, What: fmt.Sprintf(format, args...)})
}

// expect records a violation unless holds.
func (a *audit) expect(holds bool, guarantee, subject, format string, args ...any) {
	if !holds {
		a.broken(guarantee, subject, format, args...)
	}
}

// catalog checks that references stay inside one tenant and one type (G18, G34).
func (a *audit) catalog() {
	artifacts := map[fleet.Digest]fleet.VersionID{}
	for _, v := range a.Versions {
		other, twice := artifacts[v.ArtifactDigest]
		a.expect(!twice, "G34", v.ID.String(), "its artifact is also that of %s", other)
		artifacts[v.ArtifactDigest] = v.ID
		_, known := a.types[v.Type]
		a.expect(known, "G34", v.ID.String(), "its type %s is not published", v.Type)
	}
	for _, i := range a.Instances {
		for _, s := range i.Serving {
			a.expect(a.versions[s.Version].Type == i.Type, "G08", i.ID.String(), "it serves version %s of another type", s.Version)
		}
	}
	for _, b := range a.Bindings {
		i, known := a.instances[b.Instance]
		a.expect(known && i.Tenant == b.Tenant, "G18", catalog.BindingID(b.BindingKey), "its instance is not of the tenant")
	}
	for _, r := range a.Replicas {
		i, known := a.instances[r.Instance]
		a.expect(known && i.Tenant == r.Tenant, "G18", r.ID.String(), "its instance is not of the tenant it is listed under")
		a.expect(a.versions[r.Version].Type == i.Type, "G08", r.ID.String(), "its version is of another type than its instance")
		a.expect(r.Live.ID == r.ID, "G02", r.ID.String(), "it carries the live state of %s", r.Live.ID)
	}
}

// chains compares the stored candidate chains with those recomputed from the
// records. A chain of weight 0 takes no new work; a store may keep it or not.
func (a *audit) chains() {
	if a.Candidates == nil {
		return
	}
	stored := map[CandidateChain]bool{}
	ready := a.readyChains()
	for _, c := range a.Candidates {
		written := c.Ready
		c.Ready = nil
		a.expect(!stored[c], "G08", chainName(c), "the chain is stored twice")
		stored[c] = true
		if written != nil {
			a.expect(reflect.DeepEqual(written, ready[c]), "G08", chainName(c), "ready is %+v, from the records %+v", written, ready[c])
		}
	}
	for _, b := range a.Bindings {
		i := a.instances[b.Instance]
		for _, s := range i.Serving {
			c := CandidateChain{Tenant: b.Tenant, Capability: b.Capability, Instance: b.Instance, Version: s.Version}
			full := catalog.Chain{Binding: b, Instance: i, Type: a.types[i.Type], Version: a.versions[s.Version]}
			a.expect(stored[c] == full.Valid() || s.Weight == 0 && !stored[c], "G08", chainName(c), "stored: %v, valid: %v", stored[c], full.Valid())
			delete(stored, c)
		}
	}
	for c := range stored {
		a.broken("G08", chainName(c), "the stored chain has no binding and serving version behind it")
	}
}

// readyChains works out anew what a store may have written out of each stored chain.
func (a *audit) readyChains() map[CandidateChain]*ReadyChain {
	first := map[CandidateChain]uint32{} // the best weighted priority of a tenant's capability
	shared := func(c CandidateChain) CandidateChain {
		return CandidateChain{Tenant: c.Tenant, Capability: c.Capability}
	}
	for _, c := range a.Candidates {
		best, known := first[shared(c)]
		if p := a.bindings[c.binding()].Priority; a.weight(c) > 0 && (!known || p < best) {
			first[shared(c)] = p
		}
	}
	ready := map[CandidateChain]*ReadyChain{}
	for _, c := range a.Candidates {
		c.Ready = nil
		b := a.bindings[c.binding()]
		best, known := first[shared(c)]
		policies := a.policies(b.QuotaPolicyRef)
		ready[c] = &ReadyChain{
			Foremost: a.weight(c) > 0 && known && b.Priority == best, QuotaRevision: policies.Binding.Revision,
			Circuit: policies.Circuit(), Scopes: settlement.Scopes(c.binding(), a.instances[c.Instance].Type, policies, false),
		}
	}
	return ready
}

func (c CandidateChain) binding() fleet.BindingKey {
	return fleet.BindingKey{Tenant: c.Tenant, Capability: c.Capability, Instance: c.Instance}
}

func (a *audit) weight(c CandidateChain) uint32 {
	for _, s := range a.instances[c.Instance].Serving {
		if s.Version == c.Version {
			return s.Weight
		}
	}
	return 0
}

func (a *audit) policies(ref string) settlement.Policies {
	published := func(ref string) (fleet.QuotaPolicy, bool) { q, ok := a.quotas[ref]; return q, ok }
	of, _ := settlement.Policy(ref, published)
	return settlement.Policies{Deployment: settlement.Deployment(published), Binding: of}
}

func chainName(c CandidateChain) string {
	return catalog.BindingID(c.binding()) + "|" + c.Version.String()
}

// replicas compares capacity and probes with the reservations they stand for (G04, G05).
func (a *audit) replicas() {
	for _, r := range a.Replicas {
		id := r.ID.String()
		a.expect(r.Live.Active == a.active[r.ID], "G04", id, "active is %d, reserved are %d", r.Live.Active, a.active[r.ID])
		a.expect(r.Live.Active <= r.Capacity, "G05", id, "active %d exceeds capacity %d", r.Live.Active, r.Capacity)
		a.expect(r.Live.Circuit.ProbesOut == a.probes[r.ID], "G04", id, "probes out are %d, reserved probes are %d", r.Live.Circuit.ProbesOut, a.probes[r.ID])
		idle := r.Live.Status == fleet.ReplicaOffline || r.Live.Status == fleet.ReplicaRetired
		a.expect(idle || r.Live.LeaseEpoch > 0, "G23", id, "it is %s without ever having registered", r.Live.Status)
		a.expect(r.Live.Status != fleet.ReplicaRetired || r.Live.Active == 0, "G37", id, "it is retired and holds %d", r.Live.Active)
	}
}

// counters compares each scope counter with the reservations that hold it (G04).
func (a *audit) counters() {
	for _, c := range a.Counters {
		key := scopeName(c.Kind, c.Key)
		a.expect(c.Current == a.scopes[key], "G04", key, "the counter is %d, held are %d", c.Current, a.scopes[key])
		delete(a.scopes, key)
	}
	for key, held := range a.scopes {
		a.expect(held == 0, "G04", key, "there is no counter, held are %d", held)
	}
}

func scopeName(kind fleet.ScopeKind, key string) string { return string(kind) + " " + key }

// uncertain checks that every question has its attempt; route checked the reverse.
func (a *audit) uncertain() {
	for _, u := range a.Reconciliations {
		id := fmt.Sprintf("%s#%d", u.Action, u.Fence)
		resolved := u.State == fleet.ReconcileResolved
		a.expect(resolved == (u.Resolution != ""), "G38", id, "its state is %s, its resolution %q", u.State, u.Resolution)
		a.expect(!resolved || !u.Evidence.IsZero(), "G38", id, "it was resolved without evidence")
		a.expect(resolved || a.routes[u.Action], "G38", id, "it is open and its route is gone")
		gone := a.declared[u.Replica].Live.Status == fleet.ReplicaRetired
		a.expect(!gone || u.State != fleet.ReconcileOpen, "G38", id, "it waits for the answer of a retired replica")
		a.expect(int(u.ProbeCount) >= len(u.Probes) && len(u.Probes) <= MaxProbes, "G38", id, "it keeps %d probes of %d", len(u.Probes), u.ProbeCount)
	}
}

func (a *audit) scopesOf(t fleet.Attempt) {
	for i, s := range t.Scopes {
		a.scopes[scopeName(s.Kind, s.Key)]++
		if i > 0 && settlement.CompareScopes(t.Scopes[i-1], s) >= 0 {
			a.broken("G04", t.Action.String(), "its scopes are not in the order in which they are locked")
		}
	}
}
