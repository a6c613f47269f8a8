package registrytest

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func cancelCases() []Case {
	return []Case{
		{Name: "G43/eligibility_never_stops_lookup_or_settle", Why: "whoever cancels or reconciles needs the pinned target most when it is in trouble", Run: cancelEligibility},
		{Name: "G43/reconciliation_goes_on_whatever_the_target_is", Why: "an answer that may not be recorded is lost", Run: cancelReconcile},
	}
}

// troubles are the states of a target that keep new work away. Those that publish use
// the given revision.
func troubles(revision uint64) map[string]func(w *World, id fleet.ReplicaID) {
	return map[string]func(*World, fleet.ReplicaID){
		"drain intent":       func(w *World, id fleet.ReplicaID) { w.intend(id, fleet.IntentDrain) },
		"draining":           func(w *World, id fleet.ReplicaID) { w.depart(id, false) },
		"offline":            func(w *World, id fleet.ReplicaID) { w.depart(id, true) },
		"lease over":         func(w *World, _ fleet.ReplicaID) { w.advance(leaseTTL + time.Second) },
		"version revoked":    func(w *World, _ fleet.ReplicaID) { w.transition(versionID(1), fleet.VersionRevoked) },
		"version quarantine": func(w *World, _ fleet.ReplicaID) { w.transition(versionID(1), fleet.VersionQuarantined) },
		"binding disabled": func(w *World, _ fleet.ReplicaID) {
			w.publish(toggled(registry.ChangeSet{Bindings: []fleet.CapabilityBinding{deskBinding(acme(), open())}}, false, revision))
		},
		"instance disabled": func(w *World, _ fleet.ReplicaID) {
			w.publish(toggled(registry.ChangeSet{Instances: []fleet.ConnectorInstance{deskInstance(acme())}}, false, revision))
		},
		"type disabled": func(w *World, _ fleet.ReplicaID) {
			w.publish(toggled(registry.ChangeSet{Types: []fleet.ConnectorType{deskType()}}, false, 0))
		},
		"circuit open": func(w *World, _ fleet.ReplicaID) {
			for _, name := range []string{"c1", "c2", "c3", "c4", "c5"} {
				w.settle(w.resolve(name), fleet.OutcomeUnknown)
			}
		},
	}
}

// recovered undoes what a trouble did, so that one registry serves all of them.
func (w *World) recovered(id fleet.ReplicaID, revision uint64) {
	w.Helper()
	if v := w.version(versionID(1)); v.Status == fleet.VersionQuarantined {
		w.transition(v.ID, fleet.VersionActive)
	}
	b, i := deskBinding(acme(), open()), deskInstance(acme())
	b.PolicyRevision, i.ConfigRevision = revision, revision
	w.publish(registry.ChangeSet{
		Types: []fleet.ConnectorType{deskType()}, Bindings: []fleet.CapabilityBinding{b}, Instances: []fleet.ConnectorInstance{i},
	})
	w.intend(id, fleet.IntentRun)
	w.register(id)
	w.advance(time.Minute)
	w.register(id)
	w.expire()
}

func cancelEligibility(w *World) {
	id := w.solo()
	names := []string{"drain intent", "draining", "offline", "lease over", "version quarantine", "binding disabled", "instance disabled", "type disabled", "circuit open", "version revoked"}
	w.expect(len(names) == len(troubles(1)), "a trouble is not tested")
	for n, name := range names {
		action := "t" + string(rune('a'+n))
		a := w.resolve(action)
		revision := uint64(10 + 2*n)
		troubles(revision)[name](w, id)
		w.expect(w.lookup(action).Route == a.Route, "%s: lookup gives another route", name)
		r, err := w.Router.Settle(w.ctx(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
		w.must(err, "settle under "+name)
		w.expect(r.First, "%s: the attempt was settled by something else", name)
		if name != "version revoked" {
			w.recovered(id, revision+1)
		}
	}
}

func cancelReconcile(w *World) {
	id := w.solo()
	a := w.resolve("one")
	w.settle(a, fleet.OutcomeUnknown)
	w.transition(versionID(1), fleet.VersionRevoked)
	w.depart(id, true)
	due, err := w.Uncertain.Due(w.ctx(), 10, time.Minute)
	w.must(err, "due")
	w.expect(len(due) == 1, "%d are due", len(due))
	key := registry.ReconciliationKey{Action: actionID("one"), Fence: 1}
	w.must(w.Uncertain.Note(w.ctx(), key, fleet.Probe{At: w.now, Answer: "running"}, w.now.Add(time.Second), fleet.ReconcileOpen), "note")
	_, err = w.Uncertain.Decide(w.ctx(), key, registry.Decision{Resolution: fleet.ResolvedCompleted, By: didOf(id), Evidence: digest("result")})
	w.must(err, "decide")
}
