package registrytest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

func resolveCases() []Case {
	return []Case{
		{Name: "G01/same_action_same_route", Why: "a second route for one action is a second execution", Run: resolveSame},
		{Name: "G01/archived_action_stays_taken", Why: "an action id that is free again could run a second time", Run: resolveArchived},
		{Name: "G02/route_pins_what_was_declared", Why: "the dispatcher trusts the route alone, so it must say exactly what was published", Run: resolvePins},
		{Name: "G02/route_outlives_later_publications", Why: "a route that follows the catalog is no assignment", Run: resolveOutlives},
		{Name: "G03/other_tenant_or_capability_conflicts", Why: "one action id must never mean two things", Run: resolveConflict},
		{Name: "G08/each_reason_refuses_alone", Why: "one wrong link in the chain must be enough to keep new work away", Run: resolveReasons},
		{Name: "G12/reservation_has_a_deadline", Why: "a reservation without an end leaks when its dispatcher dies", Run: resolveDeadline},
		{Name: "G19/request_cannot_name_a_target", Why: "whoever could name a replica, endpoint or key would choose it", Run: resolveRequestShape},
		{Name: "G40/refusals_say_why", Why: "a refusal without its rule cannot be acted on", Run: resolveRefusals},
		{Name: "G10/explain_agrees_with_resolve_and_reserves_nothing", Why: "an explanation that differs from the decision explains nothing", Run: resolveExplain},
		{Name: "G13/batch_items_are_independent", Why: "one refusal in a batch must not cost the others their route", Run: resolveBatch},
		{Name: "G03/malformed_request_is_refused", Why: "a zero identity or an endless time to live must not reach the tables", Run: resolveMalformed},
		{Name: "G39/routes_survive_a_restart", Why: "an acknowledged route that is forgotten runs twice", Run: resolveRestart, Lasting: true},
	}
}

func resolveSame(w *World) {
	w.standard()
	first := w.resolve("one")
	w.advance(time.Second)
	w.expect(text(w.resolve("one")) == text(first), "the second resolve gives another assignment")
	w.expect(w.replica(first.Route.Replica).Live.Active == 1, "it is counted %d times", w.replica(first.Route.Replica).Live.Active)
	w.expect(len(w.lookup("one").Attempts) == 1, "it has %d attempts", len(w.lookup("one").Attempts))
}

func resolveArchived(w *World) {
	w.standard()
	a := w.resolve("one")
	w.expect(w.Archive(w.ctx(), actionID("one")) != nil, "a reserved route was archived")
	w.settle(a, fleet.OutcomeUnknown)
	w.expect(w.Archive(w.ctx(), actionID("one")) != nil, "a route with an open question was archived")
	_, err := w.Uncertain.Decide(w.ctx(), registry.ReconciliationKey{Action: actionID("one"), Fence: 1},
		registry.Decision{Resolution: fleet.ResolvedNotStarted, By: didOf(a.Route.Replica), Evidence: digest("evidence")})
	w.must(err, "decide")
	w.must(w.Archive(w.ctx(), actionID("one")), "archive")
	_, err = w.try("one")
	w.refused(err, fleet.Conflict, "route.archived")
	foreign := request("one")
	foreign.Tenant = globex()
	_, err = w.Router.Resolve(w.ctx(), foreign)
	w.refused(err, fleet.Conflict, "route.conflict")
	_, err = w.Router.Lookup(w.ctx(), acme(), actionID("one"))
	w.refused(err, fleet.NotFound, "")
	_, err = w.Router.Settle(w.ctx(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
	w.refused(err, fleet.FenceLost, "settle.fence_lost")
}

func resolvePins(w *World) {
	w.standard()
	a := w.resolve("one")
	r := w.replica(a.Route.Replica)
	v := deskVersion(1)
	want := fleet.RouteAssignment{
		Action: actionID("one"), Capability: open(), Tenant: acme(), Instance: instanceID(acme()), Replica: r.ID,
		Endpoint: r.Endpoint, Topology: r.Topology, Peer: r.Peer, Version: v.ID, ManifestDigest: v.ManifestDigest,
		ArtifactDigest: v.ArtifactDigest, CatalogRevision: w.revision(), BindingPolicyRevision: 1,
		CredentialRevisionRef: "cred-1", QuotaPolicyRevision: 1,
		OrderingKeys: fleet.OrderingKeys{Priority: 10}, AssignedAt: a.Route.AssignedAt,
	}
	w.expect(a.Route == want, "the route is %s\nwant %s", text(a.Route), text(want))
	t := a.Attempt
	w.expect(t.Action == actionID("one") && t.Fence.Number == 1 && len(t.Fence.Token) == 32 && t.LeaseEpoch == r.Live.LeaseEpoch &&
		t.Journal == journalID(r.ID) && !t.Probe && t.Settlement == nil, "the attempt is %s", text(t))
	w.expect(len(a.Earlier) == 0, "a first attempt has earlier ones: %s", text(a.Earlier))
	names := []string{}
	for _, s := range t.Scopes {
		names = append(names, fmt.Sprintf("%s %s %d", s.Kind, s.Key, s.Limit))
	}
	scopes := []string{"binding acme|desk:open|cinst_acme 250", "instance cinst_acme 500", "tenant acme 1000"}
	w.expect(slices.Equal(names, scopes), "the scopes are %v, want %v", names, scopes)
}

func resolveOutlives(w *World) {
	w.standard()
	before := w.resolve("one").Route
	b := deskBinding(acme(), open())
	b.Priority, b.PolicyRevision, b.CredentialRevisionRef = 1, 2, "cred-2"
	w.publish(registry.ChangeSet{Bindings: []fleet.CapabilityBinding{b}})
	w.transition(versionID(1), fleet.VersionQuarantined)
	w.expect(w.lookup("one").Route == before, "the route became %s", text(w.lookup("one").Route))
}

func resolveConflict(w *World) {
	w.standard()
	w.resolve("one")
	other, foreign := request("one"), request("one")
	other.Capability, foreign.Tenant = read(), globex()
	w.unchanged("a conflicting request", func() {
		_, capability := w.Router.Resolve(w.ctx(), other)
		w.refused(capability, fleet.Conflict, "route.conflict")
		_, tenant := w.Router.Resolve(w.ctx(), foreign)
		w.refused(tenant, fleet.Conflict, "route.conflict")
		w.expect(capability.Error() == tenant.Error(), "the conflicts differ: %q, %q", capability, tenant)
	})
}

// resolveReasons makes one thing wrong at a time on a fleet of one replica, and
// expects both the refusal and the reason in the explanation.
func resolveReasons(w *World) {
	id := w.solo()
	n := 0
	refusedFor := func(why routing.Reason, kind fleet.Kind, edit func(*registry.RouteRequest)) {
		w.Helper()
		n++
		req := request(fmt.Sprintf("r%d", n))
		if edit != nil {
			edit(&req)
		}
		e, err := w.Router.Explain(w.ctx(), req)
		w.must(err, "explain")
		w.expect(e.Counts[why] > 0, "explain counts %v, want %s among them", e.Counts, why)
		w.expect(e.Refusal != nil && e.Refusal.Kind == kind, "explain foresees %+v, want %s", e.Refusal, kind)
		_, err = w.Router.Resolve(w.ctx(), req)
		w.expect(fleet.Is(err, kind), "%s: %v, want %s", why, err, kind)
	}
	refusedFor(routing.ClassMismatch, fleet.ReplicaUnavailable, func(r *registry.RouteRequest) { r.Topology.CapacityClass = "large" })
	refusedFor(routing.CrossRegion, fleet.ReplicaUnavailable, func(r *registry.RouteRequest) {
		r.Topology = fleet.TopologyPreference{Region: "south", ForbidCrossRegion: true}
	})
	w.intend(id, fleet.IntentDrain)
	refusedFor(routing.DrainIntent, fleet.ReplicaUnavailable, nil)
	w.intend(id, fleet.IntentRun)
	for range registry.UnhealthyAfter {
		b := w.nextBeat(id)
		b.Ready = false
		w.beatAs(b)
	}
	refusedFor(routing.Unhealthy, fleet.ReplicaUnavailable, nil)
	w.beat(id)
	for i := range 4 {
		w.resolve(fmt.Sprintf("full%d", i))
	}
	refusedFor(routing.AtCapacity, fleet.ReplicaUnavailable, nil)
	w.settle(w.resolve("full0"), fleet.OutcomeCompleted)
	w.advance(leaseTTL + time.Second)
	refusedFor(routing.LeaseExpired, fleet.ReplicaUnavailable, nil)
	w.expire()
	refusedFor(routing.Offline, fleet.ReplicaUnavailable, nil)
	w.register(id)
	w.depart(id, false)
	refusedFor(routing.Draining, fleet.ReplicaUnavailable, nil)
	w.depart(id, true)
	w.register(id)
	w.resolve("fine")
	w.reasonsOfChains(refusedFor)
}

func (w *World) reasonsOfChains(refusedFor func(routing.Reason, fleet.Kind, func(*registry.RouteRequest))) {
	w.Helper()
	for i, s := range []struct {
		why routing.Reason
		set registry.ChangeSet
	}{
		{routing.BindingDisabled, registry.ChangeSet{Bindings: []fleet.CapabilityBinding{deskBinding(acme(), open())}}},
		{routing.InstanceDisabled, registry.ChangeSet{Instances: []fleet.ConnectorInstance{deskInstance(acme())}}},
		{routing.TypeDisabled, registry.ChangeSet{Types: []fleet.ConnectorType{deskType()}}},
	} {
		w.publish(toggled(s.set, false, uint64(2*i+2)))
		refusedFor(s.why, fleet.BindingUnavailable, nil)
		w.publish(toggled(s.set, true, uint64(2*i+3)))
	}
	w.transition(versionID(1), fleet.VersionQuarantined)
	refusedFor(routing.VersionStatus, fleet.BindingUnavailable, nil)
	w.transition(versionID(1), fleet.VersionActive)
	w.admit(deskVersion(2))
	i := deskInstance(acme())
	i.ConfigRevision, i.Serving = 20, []fleet.ServingVersion{{Version: versionID(2), Weight: 1}}
	w.publish(registry.ChangeSet{Instances: []fleet.ConnectorInstance{i}})
	refusedFor(routing.NotServing, fleet.ReplicaUnavailable, nil)
}

func resolveDeadline(w *World) {
	w.standard()
	req := request("one")
	req.TimeToLive = 10 * time.Minute
	a, err := w.Router.Resolve(w.ctx(), req)
	w.must(err, "resolve")
	want := 10*time.Minute + registry.SettleGrace
	w.expect(a.Attempt.Deadline.Sub(a.Attempt.ReservedAt) == want, "the deadline is after %s, want %s", a.Attempt.Deadline.Sub(a.Attempt.ReservedAt), want)
	d := w.resolve("two").Attempt
	want = registry.DefaultTimeToLive + registry.SettleGrace
	w.expect(d.Deadline.Sub(d.ReservedAt) == want, "the default deadline is after %s", d.Deadline.Sub(d.ReservedAt))
	w.expect(d.ReservedAt.Location() == time.UTC && d.ReservedAt.Equal(d.ReservedAt.Truncate(time.Microsecond)), "times are not UTC microseconds: %v", d.ReservedAt)
}

func resolveRequestShape(w *World) {
	var fields []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[registry.RouteRequest]()) {
		fields = append(fields, f.Name)
	}
	want := []string{"Action", "Capability", "Tenant", "Topology", "TimeToLive"}
	w.expect(slices.Equal(fields, want), "a route request carries %v, want %v", fields, want)
}

func resolveRefusals(w *World) {
	id := w.solo()
	w.intend(id, fleet.IntentDrain)
	_, err := w.try("one")
	w.refused(err, fleet.ReplicaUnavailable, "resolve.replica_unavailable")
	e := fleet.AsError(err, "")
	w.expect(strings.Contains(e.Why, string(routing.DrainIntent)), "the refusal says %q", e.Why)
	w.expect(e.What != "" && e.Next != "" && e.RetryAfter > 0, "the refusal lacks what, next or retry: %+v", e)
	unbound := request("two")
	unbound.Tenant, unbound.Capability = globex(), read()
	_, err = w.Router.Resolve(w.ctx(), unbound)
	w.refused(err, fleet.BindingUnavailable, "resolve.binding_unavailable")
}

func resolveExplain(w *World) {
	w.standard()
	for i := range 6 {
		name := fmt.Sprintf("n%d", i)
		var e routing.Explanation
		w.unchanged("explain", func() {
			var err error
			e, err = w.Router.Explain(w.ctx(), request(name))
			w.must(err, "explain")
		})
		a := w.resolve(name)
		w.expect(e.Winner == a.Route.Replica, "explain names %s, resolve chose %s", e.Winner, a.Route.Replica)
		w.expect(e.Refusal == nil && e.Pinned == nil && e.Total == 2 && e.Revision == w.revision(), "explain says %s", text(e))
		again, err := w.Router.Explain(w.ctx(), request(name))
		w.must(err, "explain")
		w.expect(again.Pinned != nil && again.Pinned.Replica == a.Route.Replica && again.Pinned.Reserved && again.Winner == a.Route.Replica,
			"of a routed action explain says %s", text(again.Pinned))
	}
	foreign := request("n0")
	foreign.Tenant = globex()
	e, err := w.Router.Explain(w.ctx(), foreign)
	w.must(err, "explain")
	w.expect(e.Pinned == nil && e.Winner.IsZero() && e.Refusal != nil && e.Refusal.Kind == fleet.Conflict, "to another tenant explain says %s", text(e))
}

func resolveBatch(w *World) {
	w.standard()
	bad := request("n1")
	bad.Capability = parsed(fleet.ParseCapabilityID("desk:none"))
	requests := []registry.RouteRequest{request("n0"), bad, {}, request("n2"), request("n0")}
	results := w.Router.ResolveBatch(w.ctx(), requests)
	if len(results) != len(requests) {
		w.Fatalf("%d requests gave %d results", len(requests), len(results))
	}
	w.must(results[0].Err, "first")
	w.refused(results[1].Err, fleet.BindingUnavailable, "")
	w.refused(results[2].Err, fleet.Invalid, "")
	w.must(results[3].Err, "fourth")
	w.must(results[4].Err, "fifth")
	w.expect(results[3].Assignment.Route.Action == actionID("n2"), "results are out of order")
	w.expect(text(results[0].Assignment) == text(results[4].Assignment), "one action twice in a batch has two assignments")
	w.expect(len(w.Router.ResolveBatch(w.ctx(), nil)) == 0, "an empty batch has results")
}

func resolveMalformed(w *World) {
	w.standard()
	for what, edit := range map[string]func(*registry.RouteRequest){
		"no action":          func(r *registry.RouteRequest) { r.Action = fleet.ActionID{} },
		"no tenant":          func(r *registry.RouteRequest) { r.Tenant = fleet.TenantID{} },
		"no capability":      func(r *registry.RouteRequest) { r.Capability = fleet.CapabilityID{} },
		"negative time":      func(r *registry.RouteRequest) { r.TimeToLive = -time.Second },
		"endless time":       func(r *registry.RouteRequest) { r.TimeToLive = registry.MaxTimeToLive + time.Second },
		"region with spaces": func(r *registry.RouteRequest) { r.Topology.Region = "a b" },
		"endless zone":       func(r *registry.RouteRequest) { r.Topology.Zone = strings.Repeat("z", 129) },
	} {
		req := request("one")
		edit(&req)
		_, err := w.Router.Resolve(w.ctx(), req)
		w.expect(fleet.Is(err, fleet.Invalid), "%s: %v", what, err)
	}
}

func resolveRestart(w *World) {
	w.standard()
	a := w.resolve("one")
	done := w.resolve("two")
	w.settle(done, fleet.OutcomeUnknown)
	w.unchanged("the restart", func() {
		w.Subject = w.Restart()
		w.SetNow(w.now)
	})
	w.expect(text(w.resolve("one")) == text(a), "after the restart the assignment differs")
	w.settle(a, fleet.OutcomeCompleted)
}
