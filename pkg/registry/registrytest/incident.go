package registrytest

import (
	"fmt"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Whole incidents: what an operator sees when a host dies, restarts or is drained, from
// the first refusal to normal work again.
func incidentCases() []Case {
	return []Case{
		{Name: "G08/replica_that_refuses_connections_stops_drawing_actions", Why: "a dead host behind a living lease is the least loaded, and would draw every new action", Run: incidentRefusing},
		{Name: "G08/probe_settled_cancelled_does_not_wedge_the_circuit", Why: "a probe that proved nothing must leave room for the next one", Run: incidentProbe},
		{Name: "G23/drain_survives_a_restart_of_the_host", Why: "a host that restarts must not take new work that the operator has taken from it", Run: incidentDrain},
		{Name: "G12/superseded_epoch_is_settled_and_reserved_again", Why: "work of a crashed host must go on at its successor, under a new fence", Run: incidentSuperseded},
		{Name: "G42/overdue_reservation_opens_a_record", Why: "a dispatcher that died in the middle leaves a question, not silence", Run: incidentOverdue},
		{Name: "G01/archived_action_id_is_refused_for_ever", Why: "an id that is free again could run a second time", Run: incidentArchived},
	}
}

// incidentRefusing: replica a refuses every connection, each such action is cancelled
// with a peer fault, as the dispatcher settles it. Replica b answers.
func incidentRefusing(w *World) {
	w.standard()
	const threshold = 3
	w.tighten(func(q *fleet.QuotaPolicy) {
		q.Circuit = fleet.CircuitPolicy{FailureThreshold: threshold, OpenMillis: uint32(openFor / time.Millisecond), HalfOpenProbes: 1}
	}, keep)
	dead, drawn := replicaID(acme(), "a"), 0
	for i := range 40 {
		req := request(fmt.Sprintf("n%d", i))
		req.Topology.Zone = "a" // as near as can be, so that it is preferred while it may be
		a, err := w.Router.Resolve(w.ctx(), req)
		w.must(err, "resolve")
		if a.Route.Replica != dead {
			w.settle(a, fleet.OutcomeCompleted)
			continue
		}
		drawn++
		w.settleAs(a, fleet.Settlement{Outcome: fleet.OutcomeCancelled, Verdict: fleet.VerdictNeverSent, PeerFault: true})
	}
	w.expect(drawn == threshold, "the dead replica drew %d of 40 actions, the threshold is %d", drawn, threshold)
	w.expect(w.circuit(dead).State == fleet.CircuitOpen, "its circuit is %+v", w.circuit(dead))
}

func incidentProbe(w *World) {
	id := w.circuitFleet()
	w.trip("t")
	w.pass(id, openFor+time.Second)
	for i := range 5 {
		probe := w.resolve(fmt.Sprintf("probe%d", i))
		w.expect(probe.Attempt.Probe, "attempt %d is no probe", i)
		w.settle(probe, fleet.OutcomeCancelled)
		c := w.circuit(id)
		w.expect(c.State == fleet.CircuitHalfOpen && c.ProbesOut == 0, "after a cancelled probe the circuit is %+v", c)
	}
	w.settle(w.resolve("good"), fleet.OutcomeCompleted)
	w.expect(w.circuit(id).State == fleet.CircuitClosed, "after a good probe the circuit is %+v", w.circuit(id))
	w.expect(!w.resolve("next").Attempt.Probe, "work is still probed")
}

func incidentDrain(w *World) {
	id := w.solo()
	held := w.resolve("held")
	w.intend(id, fleet.IntentDrain)
	w.depart(id, true) // the host goes
	w.expire()
	l := w.register(id) // and comes back, with a ready beat
	w.expect(l.Status == fleet.ReplicaDraining && l.Intent == fleet.IntentDrain, "the new lease is %s, intent %s", l.Status, l.Intent)
	w.expect(w.beat(id).Status == fleet.ReplicaDraining, "a beat ended the drain")
	_, err := w.try("new")
	w.refused(err, fleet.ReplicaUnavailable, "")
	again := w.resolve("held") // pinned work finishes there
	w.expect(again.Route == held.Route && again.Attempt.Fence.Number == 2, "the pinned action got %s", text(again.Attempt))
	w.settle(again, fleet.OutcomeCompleted)
	w.intend(id, fleet.IntentRun)
	w.beat(id)
	w.resolve("new")
}

func incidentSuperseded(w *World) {
	id := w.solo()
	old := w.resolve("one")
	w.register(id)
	again := w.resolve("one")
	w.expect(again.Route == old.Route && again.Attempt.Fence.Number == 2 && again.Attempt.LeaseEpoch == old.Attempt.LeaseEpoch+1,
		"it was reserved again as %s", text(again.Attempt))
	r := w.lookup("one")
	w.expect(r.Attempts[0].Settlement != nil && r.Attempts[0].Settlement.Outcome == fleet.OutcomeLeaseExpired, "the old attempt ended as %s", text(r.Attempts[0].Settlement))
	_, err := w.Router.Settle(w.ctx(), old, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
	w.refused(err, fleet.FenceLost, "")
	w.expect(w.replica(id).Live.Active == 1, "active is %d", w.replica(id).Live.Active)
}

func incidentOverdue(w *World) {
	id := w.solo()
	w.resolve("one")
	w.pass(id, registry.DefaultTimeToLive+registry.SettleGrace+time.Second)
	w.expect(w.expire().Overdue == 1, "the overdue attempt was not settled")
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Reconciliations})
	w.must(err, "list reconciliations")
	w.expect(len(rec.Reconciliations) == 1 && rec.Reconciliations[0].Action == actionID("one") &&
		rec.Reconciliations[0].State == fleet.ReconcileOpen && rec.Reconciliations[0].Cause == "settle.overdue", "the records are %s", text(rec.Reconciliations))
	w.expect(w.replica(id).Live.Active == 0, "active is %d", w.replica(id).Live.Active)
}

func incidentArchived(w *World) {
	w.standard()
	a := w.resolve("one")
	w.refused(w.Archive(w.ctx(), a.Route.Action), fleet.Conflict, "")
	w.settle(a, fleet.OutcomeCompleted)
	w.must(w.Archive(w.ctx(), a.Route.Action), "archive")
	for range 2 {
		_, err := w.try("one")
		w.refused(err, fleet.Conflict, "route.archived")
		w.advance(365 * 24 * time.Hour)
	}
	other := request("one")
	other.Tenant = globex()
	_, err := w.Router.Resolve(w.ctx(), other)
	w.refused(err, fleet.Conflict, "route.conflict")
}
