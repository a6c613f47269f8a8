package registrytest

import (
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// lived is the snapshot of a small fleet that has seen a bit of everything.
func lived(t *testing.T) registry.Snapshot {
	t.Helper()
	_, s := sound()
	w := newWorld(t, s, Options{})
	w.standard()
	w.second()
	w.resolve("held")
	w.settle(w.resolve("done"), fleet.OutcomeCompleted)
	w.settle(w.resolve("unknown"), fleet.OutcomeUnknown)
	w.settle(w.resolve("again"), fleet.OutcomeCancelled)
	w.resolve("again")
	w.settle(w.resolve("decided"), fleet.OutcomeUnknown)
	if _, err := w.Uncertain.Decide(w.ctx(), keyOf("decided", 1), registry.Decision{Resolution: fleet.ResolvedNotStarted, By: "host", Evidence: digest("e")}); err != nil {
		t.Fatal(err)
	}
	return w.snapshot()
}

func routeIn(s *registry.Snapshot, action string) *registry.RouteRecord {
	for i := range s.Routes {
		if s.Routes[i].Route.Action == actionID(action) {
			return &s.Routes[i]
		}
	}
	return nil
}

// retiredIn makes the replica of an action's route a retired one.
func retiredIn(s *registry.Snapshot, action string) {
	for i := range s.Replicas {
		if s.Replicas[i].ID == routeIn(s, action).Route.Replica {
			s.Replicas[i].Live.Status = fleet.ReplicaRetired
		}
	}
}

// TestAudit_EveryInvariantCanBreak: a fleet that lived well has no violation, and
// each corruption is found under the guarantee it breaks: G01 G02 G04 G05 G06 G07
// G08 G12 G13 G18 G23 G34 G38 G42.
func TestAudit_EveryInvariantCanBreak(t *testing.T) {
	if v := registry.Audit(lived(t)); len(v) > 0 {
		t.Fatalf("a sound fleet is found broken: %+v", v)
	}
	if v := registry.Audit(registry.Snapshot{}); len(v) > 0 {
		t.Fatalf("an empty registry is found broken: %+v", v)
	}
	type corruption struct {
		guarantee, what string
		do              func(s *registry.Snapshot)
	}
	for _, c := range []corruption{
		{"G01", "a second route", func(s *registry.Snapshot) { s.Routes = append(s.Routes, *routeIn(s, "done")) }},
		{"G01", "an attempt of another action", func(s *registry.Snapshot) { routeIn(s, "held").Attempts[0].Action = actionID("other") }},
		{"G02", "another endpoint", func(s *registry.Snapshot) { routeIn(s, "held").Route.Endpoint += "x" }},
		{"G02", "another peer", func(s *registry.Snapshot) { routeIn(s, "held").Route.Peer.DID += "x" }},
		{"G02", "another artifact", func(s *registry.Snapshot) { routeIn(s, "held").Route.ArtifactDigest = digest("other") }},
		{"G02", "another's live state", func(s *registry.Snapshot) { s.Replicas[0].Live.ID = s.Replicas[1].ID }},
		{"G04", "a lost release", func(s *registry.Snapshot) { s.Replicas[len(s.Replicas)-1].Live.Active++ }},
		{"G04", "a counter above", func(s *registry.Snapshot) { s.Counters[0].Current++ }},
		{"G04", "a counter lost", func(s *registry.Snapshot) { s.Counters = s.Counters[1:] }},
		{"G04", "a counter of nothing", func(s *registry.Snapshot) {
			s.Counters = append(s.Counters, registry.Counter{Kind: fleet.ScopeTenant, Key: "nobody", Current: 1})
		}},
		{"G04", "a lost probe", func(s *registry.Snapshot) { s.Replicas[0].Live.Circuit.ProbesOut++ }},
		{"G04", "scopes out of order", func(s *registry.Snapshot) {
			a := routeIn(s, "held").Attempts[0].Scopes
			a[0], a[1] = a[1], a[0]
		}},
		{"G05", "above capacity", func(s *registry.Snapshot) {
			for i := range s.Replicas {
				s.Replicas[i].Capacity = 0
			}
		}},
		{"G06", "a gap in the fences", func(s *registry.Snapshot) { routeIn(s, "again").Attempts[1].Fence.Number = 3 }},
		{"G06", "a fence twice", func(s *registry.Snapshot) { routeIn(s, "again").Attempts[1].Fence.Number = 1 }},
		{"G06", "a token twice", func(s *registry.Snapshot) {
			a := routeIn(s, "again").Attempts
			a[1].Fence.Token = a[0].Fence.Token
		}},
		{"G06", "two living attempts", func(s *registry.Snapshot) { routeIn(s, "again").Attempts[0].Settlement = nil }},
		{"G06", "no attempt", func(s *registry.Snapshot) { routeIn(s, "done").Attempts = nil }},
		{"G07", "a made-up outcome", func(s *registry.Snapshot) { routeIn(s, "done").Attempts[0].Settlement.Outcome = "fine" }},
		{"G07", "an end before the beginning", func(s *registry.Snapshot) {
			routeIn(s, "done").Attempts[0].Settlement.SettledAt = Epoch().Add(-time.Hour)
		}},
		{"G08", "an undeclared replica", func(s *registry.Snapshot) { routeIn(s, "done").Route.Replica = replicaID(acme(), "ghost") }},
		{"G08", "no binding", func(s *registry.Snapshot) {
			routeIn(s, "done").Route.Capability = parsed(fleet.ParseCapabilityID("desk:none"))
		}},
		{"G08", "a missing chain", func(s *registry.Snapshot) { s.Candidates = s.Candidates[1:] }},
		{"G08", "a chain twice", func(s *registry.Snapshot) { s.Candidates = append(s.Candidates, s.Candidates[0]) }},
		{"G08", "a chain made ready for other limits", func(s *registry.Snapshot) {
			s.Candidates[0].Ready = &registry.ReadyChain{Foremost: true, QuotaRevision: 99, Scopes: []fleet.Scope{}}
		}},
		{"G08", "a chain of nothing", func(s *registry.Snapshot) {
			s.Candidates = append(s.Candidates, registry.CandidateChain{Tenant: acme()})
		}},
		{"G08", "a chain that is over", func(s *registry.Snapshot) { s.Bindings[0].Enabled = false }},
		{"G12", "a reservation past its deadline", func(s *registry.Snapshot) { s.At = s.At.Add(time.Hour) }},
		{"G13", "decided in the future", func(s *registry.Snapshot) { routeIn(s, "done").Route.CatalogRevision = s.Revision + 1 }},
		{"G18", "a route into another tenant's account", func(s *registry.Snapshot) { routeIn(s, "done").Route.Tenant = globex() }},
		{"G18", "a binding to another tenant's account", func(s *registry.Snapshot) { s.Bindings[0].Instance = instanceID(globex()) }},
		{"G18", "a replica under another tenant", func(s *registry.Snapshot) { s.Replicas[0].Tenant = globex() }},
		{"G23", "ready without a lease", func(s *registry.Snapshot) { s.Replicas[0].Live.LeaseEpoch = 0 }},
		{"G37", "retired with work on it", func(s *registry.Snapshot) { retiredIn(s, "held") }},
		{"G38", "a question to a retired replica", func(s *registry.Snapshot) { retiredIn(s, "unknown") }},
		{"G34", "one artifact twice", func(s *registry.Snapshot) {
			v := s.Versions[0]
			v.ID = versionID(9)
			s.Versions = append(s.Versions, v)
		}},
		{"G38", "resolved without evidence", func(s *registry.Snapshot) {
			for i := range s.Reconciliations {
				s.Reconciliations[i].Evidence = fleet.Digest{}
			}
		}},
		{"G38", "resolved into nothing", func(s *registry.Snapshot) {
			for i := range s.Reconciliations {
				s.Reconciliations[i].Resolution = ""
			}
		}},
		{"G38", "a question whose route is gone", func(s *registry.Snapshot) {
			for i := range s.Routes {
				if s.Routes[i].Route.Action == actionID("unknown") {
					s.Routes = append(s.Routes[:i], s.Routes[i+1:]...)
					return
				}
			}
		}},
		{"G42", "a forgotten question", func(s *registry.Snapshot) { s.Reconciliations = s.Reconciliations[1:] }},
		{"G42", "a question about a definite answer", func(s *registry.Snapshot) {
			u := s.Reconciliations[0]
			u.Action = actionID("done")
			s.Reconciliations = append(s.Reconciliations, u)
		}},
	} {
		s := lived(t)
		c.do(&s)
		found := false
		for _, v := range registry.Audit(s) {
			found = found || v.Guarantee == c.guarantee && v.Subject != "" && v.What != ""
		}
		if !found {
			t.Errorf("%s, %s: not found; found %+v", c.guarantee, c.what, registry.Audit(s))
		}
	}
}
