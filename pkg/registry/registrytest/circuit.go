package registrytest

import (
	"fmt"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

func circuitCases() []Case {
	return []Case{
		{Name: "G08/circuit_opens_at_the_threshold", Why: "a replica that answers nothing must stop drawing new work", Run: circuitOpens},
		{Name: "G08/completion_resets_the_count", Why: "unknowns far apart are not a broken replica", Run: circuitResets},
		{Name: "G08/peer_fault_counts_under_any_outcome", Why: "a dead host behind a living lease refuses every connection, and each such action is cancelled", Run: circuitPeerFault},
		{Name: "G08/half_open_lets_one_probe_through", Why: "a replica that may be broken must be tried with one action, not with all", Run: circuitProbe},
		{Name: "G08/failed_probe_opens_for_twice_as_long", Why: "trying a broken replica at a fixed pace costs an action each time", Run: circuitDoubles},
		{Name: "G04/every_settlement_returns_the_probe", Why: "a probe slot that is not returned keeps the replica away for ever", Run: circuitProbeReturns},
		{Name: "G08/old_answers_do_not_touch_an_opened_circuit", Why: "a slow success from before must not close what has just been opened", Run: circuitOldAnswers},
		{Name: "G12/overdue_does_not_count", Why: "a dispatcher's death says nothing about the replica", Run: circuitOverdue},
		{Name: "G09/retry_may_probe_and_is_kept_out_while_open", Why: "pinned work waits for its replica like any other, and may be the one to try it", Run: circuitRetry},
	}
}

const openFor = 10 * time.Second

// circuitFleet is one replica whose circuit opens at 3 unknowns for ten seconds.
func (w *World) circuitFleet() fleet.ReplicaID {
	w.Helper()
	id := w.solo()
	w.tighten(func(q *fleet.QuotaPolicy) {
		q.Circuit = fleet.CircuitPolicy{FailureThreshold: 3, OpenMillis: uint32(openFor / time.Millisecond), HalfOpenProbes: 1}
	}, keep)
	return id
}

func (w *World) circuit(id fleet.ReplicaID) fleet.Circuit {
	w.Helper()
	return w.replica(id).Live.Circuit
}

// trip opens the circuit with three unknown outcomes.
func (w *World) trip(prefix string) {
	w.Helper()
	for i := range 3 {
		w.settle(w.resolve(fmt.Sprintf("%s%d", prefix, i)), fleet.OutcomeUnknown)
	}
}

// pass moves the clock over the open time, beating so that the lease stays alive.
func (w *World) pass(id fleet.ReplicaID, d time.Duration) {
	w.Helper()
	for d > 0 {
		step := min(d, leaseTTL/2)
		w.advance(step)
		w.beat(id)
		d -= step
	}
}

func circuitOpens(w *World) {
	id := w.circuitFleet()
	w.settle(w.resolve("a"), fleet.OutcomeUnknown)
	w.settle(w.resolve("b"), fleet.OutcomeUnknown)
	w.expect(w.circuit(id).State == fleet.CircuitClosed && w.circuit(id).ConsecutiveUnknowns == 2, "after two the circuit is %+v", w.circuit(id))
	r := w.settle(w.resolve("c"), fleet.OutcomeUnknown)
	c := w.circuit(id)
	w.expect(c.State == fleet.CircuitOpen && c.Openings == 1, "after three the circuit is %+v", c)
	w.expect(r.Circuit == c, "the receipt says %+v, the replica %+v", r.Circuit, c)
	w.expect(c.OpenUntil.Sub(c.OpenedAt) == openFor, "it is open for %s", c.OpenUntil.Sub(c.OpenedAt))
	_, err := w.try("d")
	w.refused(err, fleet.ReplicaUnavailable, "")
	e, err := w.Router.Explain(w.ctx(), request("d"))
	w.must(err, "explain")
	w.expect(e.Counts[routing.CircuitOpen] == 1, "explain counts %v", e.Counts)
}

func circuitResets(w *World) {
	id := w.circuitFleet()
	for i, o := range []fleet.Outcome{fleet.OutcomeUnknown, fleet.OutcomeUnknown, fleet.OutcomeCompleted, fleet.OutcomeUnknown, fleet.OutcomeCancelled, fleet.OutcomeLeaseExpired, fleet.OutcomeUnknown} {
		w.settle(w.resolve(fmt.Sprintf("n%d", i)), o)
	}
	c := w.circuit(id)
	w.expect(c.State == fleet.CircuitClosed && c.ConsecutiveUnknowns == 2, "the circuit is %+v", c)
}

func circuitPeerFault(w *World) {
	id := w.circuitFleet()
	for i, o := range []fleet.Outcome{fleet.OutcomeCancelled, fleet.OutcomeCompleted, fleet.OutcomeLeaseExpired} {
		w.settleAs(w.resolve(fmt.Sprintf("n%d", i)), fleet.Settlement{Outcome: o, PeerFault: true})
	}
	w.expect(w.circuit(id).State == fleet.CircuitOpen, "the circuit is %+v", w.circuit(id))
}

func circuitProbe(w *World) {
	id := w.circuitFleet()
	w.trip("t")
	w.pass(id, openFor+time.Second)
	probe := w.resolve("probe")
	c := w.circuit(id)
	w.expect(probe.Attempt.Probe && c.State == fleet.CircuitHalfOpen && c.ProbesOut == 1, "the probe is %v, the circuit %+v", probe.Attempt.Probe, c)
	_, err := w.try("second")
	w.refused(err, fleet.ReplicaUnavailable, "")
	w.settle(probe, fleet.OutcomeCompleted)
	c = w.circuit(id)
	w.expect(c.State == fleet.CircuitClosed && c.ConsecutiveUnknowns == 0 && c.ProbesOut == 0 && c.Openings == 0, "after a good probe the circuit is %+v", c)
	w.expect(!w.resolve("second").Attempt.Probe, "through a closed circuit an attempt is a probe")
}

func circuitDoubles(w *World) {
	id := w.circuitFleet()
	w.trip("t")
	for n, want := range []time.Duration{20, 40, 80, 160, 320, 600, 600} {
		w.pass(id, w.circuit(id).OpenUntil.Sub(w.now)+time.Second)
		w.settle(w.resolve(fmt.Sprintf("probe%d", n)), fleet.OutcomeUnknown)
		c := w.circuit(id)
		w.expect(c.State == fleet.CircuitOpen && c.OpenUntil.Sub(c.OpenedAt) == want*time.Second, "after failed probe %d it is %s, open for %s, want %ds", n+1, c.State, c.OpenUntil.Sub(c.OpenedAt), want)
	}
}

func circuitProbeReturns(w *World) {
	id := w.circuitFleet()
	w.trip("t")
	w.pass(id, openFor+time.Second)
	for i, o := range []fleet.Outcome{fleet.OutcomeCancelled, fleet.OutcomeLeaseExpired} {
		probe := w.resolve(fmt.Sprintf("probe%d", i))
		w.expect(probe.Attempt.Probe, "attempt %d is no probe", i)
		w.settle(probe, o)
		c := w.circuit(id)
		w.expect(c.State == fleet.CircuitHalfOpen && c.ProbesOut == 0, "after a probe settled %s the circuit is %+v", o, c)
	}
	probe := w.resolve("late")
	w.register(id)
	w.expire()
	w.expect(w.circuit(id).ProbesOut == 0, "after the probe's epoch ended %d are out", w.circuit(id).ProbesOut)
	w.expect(w.lookup("late").Current().Settled() && probe.Attempt.Probe, "the probe was not released")
}

func circuitOldAnswers(w *World) {
	id := w.circuitFleet()
	old := w.resolve("old")
	w.advance(time.Second)
	w.trip("t")
	opened := w.circuit(id)
	w.advance(time.Second)
	w.settle(old, fleet.OutcomeCompleted)
	w.expect(w.circuit(id) == opened, "an answer from before the opening made it %+v", w.circuit(id))
}

func circuitOverdue(w *World) {
	id := w.circuitFleet()
	for i := range 4 {
		w.resolve(fmt.Sprintf("n%d", i))
	}
	w.pass(id, 2*time.Minute)
	w.expect(w.expire().Overdue == 4, "not every overdue attempt was settled")
	c := w.circuit(id)
	w.expect(c.State == fleet.CircuitClosed && c.ConsecutiveUnknowns == 0, "overdue attempts made the circuit %+v", c)
}

func circuitRetry(w *World) {
	id := w.circuitFleet()
	w.released("pinned")
	w.trip("t")
	w.pinnedRefused("pinned", routing.CircuitOpen)
	w.pass(id, openFor+time.Second)
	probe := w.resolve("pinned")
	w.expect(probe.Attempt.Probe && probe.Attempt.Fence.Number == 2, "the retry is %s", text(probe.Attempt))
	w.settle(probe, fleet.OutcomeCompleted)
	w.expect(w.circuit(id).State == fleet.CircuitClosed, "the circuit is %+v", w.circuit(id))
}
