package registry

import (
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/settlement"
)

// route checks one route, its attempts, and what it must agree with.
func (a *audit) route(r RouteRecord) {
	id := r.Route.Action.String()
	a.expect(!a.routes[r.Route.Action], "G01", id, "the action has two routes")
	a.routes[r.Route.Action] = true
	a.target(id, r.Route)
	a.expect(len(r.Attempts) > 0, "G06", id, "the route has no attempt")
	tokens := map[string]bool{}
	for i, t := range r.Attempts {
		a.expect(t.Action == r.Route.Action, "G01", id, "attempt %d is of action %s", i+1, t.Action)
		a.expect(t.Fence.Number == uint64(i+1), "G06", id, "attempt %d has fence %d", i+1, t.Fence.Number)
		a.expect(len(t.Fence.Token) == 32 && !tokens[t.Fence.Token], "G06", id, "the token of fence %d is short or used before", i+1)
		tokens[t.Fence.Token] = true
		a.expect(t.Settled() || i == len(r.Attempts)-1, "G06", id, "fence %d was superseded and never settled", i+1)
		a.attempt(id, r.Route, t)
	}
}

// target checks that the route names a declared replica as it was declared (G02, G08, G18).
func (a *audit) target(id string, t fleet.RouteAssignment) {
	d, known := a.declared[t.Replica]
	a.expect(known, "G08", id, "its replica %s is not declared", t.Replica)
	v := a.versions[t.Version]
	same := d.Instance == t.Instance && d.Version == t.Version && d.Endpoint == t.Endpoint && d.Topology == t.Topology && d.Peer == t.Peer
	a.expect(same || !known, "G02", id, "it differs from the declaration of replica %s", t.Replica)
	a.expect(v.ManifestDigest == t.ManifestDigest && v.ArtifactDigest == t.ArtifactDigest && !t.ArtifactDigest.IsZero(), "G02", id, "its digests are not those of version %s", t.Version)
	a.expect(a.instances[t.Instance].Tenant == t.Tenant, "G18", id, "its instance belongs to another tenant")
	_, bound := a.bindings[fleet.BindingKey{Tenant: t.Tenant, Capability: t.Capability, Instance: t.Instance}]
	a.expect(bound, "G08", id, "no binding leads from its capability to its instance")
	a.expect(t.CatalogRevision > 0 && t.CatalogRevision <= a.Revision, "G13", id, "it was decided at revision %d of %d", t.CatalogRevision, a.Revision)
}

func (a *audit) attempt(id string, route fleet.RouteAssignment, t fleet.Attempt) {
	s := t.Settlement
	if s == nil {
		a.active[route.Replica]++
		if t.Probe {
			a.probes[route.Replica]++
		}
		a.scopesOf(t)
		late := a.At.Sub(t.Deadline)
		a.expect(late < OverdueSlack, "G12", id, "fence %d is %s past its deadline and still reserved", t.Fence.Number, late)
		return
	}
	a.expect(s.Outcome.Valid(), "G07", id, "fence %d settled with outcome %q", t.Fence.Number, s.Outcome)
	a.expect(!s.SettledAt.Before(t.ReservedAt), "G07", id, "fence %d settled before it was reserved", t.Fence.Number)
	_, asked := a.questions[ReconciliationKey{route.Action, t.Fence.Number}]
	a.expect(asked == settlement.NeedsRecord(s.Outcome), "G42", id, "fence %d settled as %s; reconciliation record: %v", t.Fence.Number, s.Outcome, asked)
}
