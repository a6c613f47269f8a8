package registrytest

import (
	"fmt"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

func reuseCases() []Case {
	return []Case{
		{Name: "G09/retry_never_moves", Why: "the pinned host alone knows whether the action ran", Run: reuseNeverMoves},
		{Name: "G09/retry_is_allowed_while_draining", Why: "a drain that refuses pinned work strands it", Run: reuseDraining},
		{Name: "G09/retry_follows_the_pinned_version", Why: "pinned work may finish on a version that takes no new work, but not on a revoked one", Run: reuseVersions},
		{Name: "G09/retry_stops_with_instance_and_type", Why: "a disabled account must not be used, not even for a retry", Run: reuseDisabled},
		{Name: "G09/retry_needs_capacity", Why: "a retry above capacity breaks the host's own limit", Run: reuseCapacity},
		{Name: "G09/retry_takes_the_retry_scope", Why: "retries without a limit of their own starve first attempts", Run: reuseRetryScope},
		{Name: "G06/fence_grows_with_each_reservation", Why: "an equal fence cannot tell a late answer from the right one", Run: reuseFences},
		{Name: "G12/superseded_epoch_is_released_on_resolve", Why: "a host that came back must not wait for maintenance to get its work again", Run: reuseSuperseded},
		{Name: "G12/expired_lease_is_released_on_resolve", Why: "a dead host's reservation must not be handed out as living", Run: reuseExpired},
		{Name: "G09/explain_foresees_the_release_of_a_dead_reservation", Why: "an action must not be told that it is in its own way", Run: reuseForeseen},
		{Name: "G44/definite_result_is_final", Why: "a completed action that is reserved again can run again", Run: reuseCompleted},
		{Name: "G25/verdicts_travel_with_the_next_attempt", Why: "the host decides by them whether it may execute", Run: reuseVerdicts},
		{Name: "G09/reserved_on_a_revoked_version_runs_out", Why: "a revocation stops new hand-outs and leaves the running one to end by itself", Run: reuseRevoked},
	}
}

// released resolves an action and settles it as never sent, so that a retry is the
// next thing that happens to it.
func (w *World) released(action string) fleet.Assignment {
	w.Helper()
	a := w.resolve(action)
	w.settleAs(a, fleet.Settlement{Outcome: fleet.OutcomeCancelled, Verdict: fleet.VerdictNeverSent})
	return a
}

func (w *World) pinnedRefused(action string, why routing.Reason) {
	w.Helper()
	_, err := w.try(action)
	w.refused(err, fleet.ReplicaUnavailable, "resolve.pinned_unavailable")
	if e := fleet.AsError(err, ""); !strings.Contains(e.Why, string(why)) {
		w.Errorf("the refusal says %q, want %s", e.Why, why)
	}
	e, err := w.Router.Explain(w.ctx(), request(action))
	w.must(err, "explain")
	w.expect(e.Pinned != nil && e.Pinned.Removed == why && e.Winner.IsZero(), "explain says %s, want %s", text(e.Pinned), why)
}

func reuseNeverMoves(w *World) {
	w.standard()
	a := w.released("one")
	w.depart(a.Route.Replica, true)
	w.pinnedRefused("one", routing.Offline)
	fresh := w.resolve("other")
	w.expect(fresh.Route.Replica != a.Route.Replica, "new work went to the offline replica")
	w.expect(w.lookup("one").Route == a.Route, "the route moved")
	w.register(a.Route.Replica)
	again := w.resolve("one")
	w.expect(again.Route == a.Route && again.Attempt.Fence.Number == 2, "the retry got %s", text(again))
}

func reuseDraining(w *World) {
	w.standard()
	a := w.released("one")
	w.intend(a.Route.Replica, fleet.IntentDrain)
	again := w.resolve("one")
	w.expect(again.Route.Replica == a.Route.Replica, "under drain intent the retry moved")
	w.settle(again, fleet.OutcomeCancelled)
	w.depart(a.Route.Replica, false)
	again = w.resolve("one")
	w.expect(again.Route.Replica == a.Route.Replica && again.Attempt.Fence.Number == 3, "while draining the retry got %s", text(again.Attempt))
	for i := range 4 {
		w.expect(w.resolve(fmt.Sprintf("n%d", i)).Route.Replica != a.Route.Replica, "new work went to the draining replica")
	}
}

func reuseVersions(w *World) {
	w.standard()
	w.released("one")
	for _, s := range []fleet.VersionStatus{fleet.VersionQuarantined, fleet.VersionActive, fleet.VersionDeprecated} {
		w.transition(versionID(1), s)
		w.settle(w.resolve("one"), fleet.OutcomeCancelled)
	}
	w.transition(versionID(1), fleet.VersionRevoked)
	w.pinnedRefused("one", routing.VersionStatus)
}

func reuseDisabled(w *World) {
	w.standard()
	w.released("one")
	w.publish(toggled(registry.ChangeSet{Bindings: []fleet.CapabilityBinding{deskBinding(acme(), open())}}, false, 2))
	w.settle(w.resolve("one"), fleet.OutcomeCancelled)
	instance := registry.ChangeSet{Instances: []fleet.ConnectorInstance{deskInstance(acme())}}
	w.publish(toggled(instance, false, 2))
	w.pinnedRefused("one", routing.InstanceDisabled)
	w.publish(toggled(instance, true, 3))
	w.publish(toggled(registry.ChangeSet{Types: []fleet.ConnectorType{deskType()}}, false, 0))
	w.pinnedRefused("one", routing.TypeDisabled)
}

func reuseCapacity(w *World) {
	w.solo()
	w.released("one")
	for i := range 4 {
		w.resolve(fmt.Sprintf("n%d", i))
	}
	w.pinnedRefused("one", routing.AtCapacity)
	w.settle(w.resolve("n0"), fleet.OutcomeCompleted)
	w.resolve("one")
}

func reuseRetryScope(w *World) {
	w.standard()
	b := deskBinding(acme(), open())
	b.QuotaPolicyRef, b.PolicyRevision = "tight", 2
	w.publish(registry.ChangeSet{
		Quotas:   []fleet.QuotaPolicy{quota("tight", func(q *fleet.QuotaPolicy) { q.TenantRetry = limit(1) })},
		Bindings: []fleet.CapabilityBinding{b},
	})
	w.released("one")
	w.released("two")
	first := w.resolve("one")
	w.expect(w.counter(fleet.ScopeTenantRetry, "acme") == 1, "the retry counter is %d", w.counter(fleet.ScopeTenantRetry, "acme"))
	_, err := w.try("two")
	w.refused(err, fleet.CapacityExceeded, "")
	w.expect(fleet.AsError(err, "").Scope == string(fleet.ScopeTenantRetry), "the full scope is %q", fleet.AsError(err, "").Scope)
	w.resolve("fresh")
	w.settle(first, fleet.OutcomeCancelled)
	w.resolve("two")
}

func reuseFences(w *World) {
	w.standard()
	tokens := map[string]bool{}
	for n := range 5 {
		a := w.resolve("one")
		w.expect(a.Attempt.Fence.Number == uint64(n+1), "attempt %d has fence %d", n+1, a.Attempt.Fence.Number)
		w.expect(!tokens[a.Attempt.Fence.Token], "a token came twice")
		tokens[a.Attempt.Fence.Token] = true
		w.settle(a, fleet.OutcomeCancelled)
	}
	w.expect(len(w.lookup("one").Attempts) == 5, "there are %d attempts", len(w.lookup("one").Attempts))
}

func reuseSuperseded(w *World) {
	id := w.solo()
	old := w.resolve("one")
	w.register(id)
	again := w.resolve("one")
	w.expect(again.Attempt.Fence.Number == 2 && again.Attempt.LeaseEpoch == old.Attempt.LeaseEpoch+1, "the new attempt is %s", text(again.Attempt))
	first := w.lookup("one").Attempts[0].Settlement
	w.expect(first != nil && first.Outcome == fleet.OutcomeLeaseExpired, "the old attempt ended as %s", text(first))
	w.expect(len(again.Earlier) == 1 && again.Earlier[0].Verdict == fleet.VerdictUnknown && again.Earlier[0].Journal == journalID(id),
		"the earlier attempts are %s", text(again.Earlier))
	w.expect(w.replica(id).Live.Active == 1, "active is %d", w.replica(id).Live.Active)
	w.expect(len(w.snapshot().Reconciliations) == 1, "no question was opened for the old attempt")
}

func reuseExpired(w *World) {
	id := w.solo()
	w.resolve("one")
	w.advance(leaseTTL + time.Second)
	w.pinnedRefused("one", routing.LeaseExpired)
	w.expect(w.replica(id).Live.Active == 0, "active is %d", w.replica(id).Live.Active)
	w.expect(w.lookup("one").Current().Settled(), "the dead reservation was not released")
	w.register(id)
	w.expect(w.resolve("one").Attempt.Fence.Number == 2, "after the host came back the fence is not 2")
}

func reuseCompleted(w *World) {
	w.standard()
	w.settle(w.resolve("one"), fleet.OutcomeCompleted)
	_, err := w.try("one")
	w.refused(err, fleet.Conflict, "route.completed")
	w.settle(w.resolve("two"), fleet.OutcomeUnknown)
	_, err = w.Uncertain.Decide(w.ctx(), registry.ReconciliationKey{Action: actionID("two"), Fence: 1},
		registry.Decision{Resolution: fleet.ResolvedCompleted, By: "host", Evidence: digest("result")})
	w.must(err, "decide")
	_, err = w.try("two")
	w.refused(err, fleet.Conflict, "route.completed")
}

func reuseVerdicts(w *World) {
	w.standard()
	settle := func(s fleet.Settlement) { w.Helper(); w.settleAs(w.resolve("one"), s) }
	settle(fleet.Settlement{Outcome: fleet.OutcomeCancelled, Verdict: fleet.VerdictNeverSent})
	settle(fleet.Settlement{Outcome: fleet.OutcomeCancelled, Verdict: fleet.VerdictNotStarted})
	settle(fleet.Settlement{Outcome: fleet.OutcomeUnknown})
	settle(fleet.Settlement{Outcome: fleet.OutcomeLeaseExpired})
	settle(fleet.Settlement{Outcome: fleet.OutcomeUnknown})
	_, err := w.Uncertain.Decide(w.ctx(), registry.ReconciliationKey{Action: actionID("one"), Fence: 5}, registry.Decision{
		Resolution: fleet.ResolvedDidNotHappen, By: "ann", Evidence: digest("file"), Document: []byte(`{"signed":true}`),
	})
	w.must(err, "decide")
	want := []fleet.Verdict{fleet.VerdictNeverSent, fleet.VerdictNotStarted, fleet.VerdictUnknown, fleet.VerdictUnknown, fleet.VerdictNotStarted}
	got := w.resolve("one").Earlier
	w.expect(len(got) == len(want), "there are %d earlier attempts", len(got))
	for i, e := range got {
		w.expect(e.Fence == uint64(i+1) && e.Verdict == want[i], "earlier attempt %d is %s, want %s", i+1, text(e), want[i])
	}
}

func reuseRevoked(w *World) {
	w.standard()
	a := w.resolve("one")
	w.transition(versionID(1), fleet.VersionRevoked)
	w.pinnedRefused("one", routing.VersionStatus)
	w.expect(!w.lookup("one").Current().Settled(), "the running attempt was released")
	w.expect(w.settle(a, fleet.OutcomeCompleted).First, "the running attempt could not be settled")
}

// reuseForeseen compares explain with resolve where resolve first releases what the
// action still holds in a dead epoch.
func reuseForeseen(w *World) {
	id := w.solo()
	for i := range 4 {
		w.resolve(fmt.Sprintf("n%d", i))
	}
	w.register(id)
	w.unchanged("explain", func() {
		e, err := w.Router.Explain(w.ctx(), request("n0"))
		w.must(err, "explain")
		w.expect(e.Winner == id && e.Refusal == nil && e.Pinned != nil && e.Pinned.Removed == routing.Eligible,
			"of a full replica that the action itself fills, explain says %s", text(e))
	})
	w.expect(w.resolve("n0").Attempt.Fence.Number == 2, "the retry was not granted")
}
