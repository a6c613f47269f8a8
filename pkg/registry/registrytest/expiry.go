package registrytest

import (
	"fmt"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func expiryCases() []Case {
	return []Case{
		{Name: "G12/ended_leases_release_what_they_held", Why: "the reservations of a dead host must come back by themselves", Run: expiryLeases},
		{Name: "G12/superseded_epochs_release_what_they_held", Why: "a restarted host does not know what it held before", Run: expirySuperseded},
		{Name: "G12/overdue_attempts_are_released_as_unknown", Why: "a dispatcher that died must not hold capacity for ever, nor be taken for an answer", Run: expiryOverdue},
		{Name: "G12/passes_are_bounded_and_say_so", Why: "one pass over everything holds locks for as long as it takes", Run: expiryBounded},
		{Name: "G42/every_expiry_opens_a_record", Why: "an attempt released by maintenance may have executed", Run: expiryRecords},
		{Name: "G12/nothing_due_changes_nothing", Why: "maintenance runs all the time and must be quiet", Run: expiryQuiet},
		{Name: "G22/living_leases_are_left_alone", Why: "expiry that is early takes work from a living host", Run: expiryLiving},
	}
}

func expiryLeases(w *World) {
	id := w.solo()
	for i := range 3 {
		w.resolve(fmt.Sprintf("n%d", i))
	}
	w.advance(leaseTTL + time.Second)
	e := w.expire()
	w.expect(e.Offline == 2 && e.Expired == 3 && e.Overdue == 0 && !e.More, "expiry did %+v", e)
	live := w.replica(id).Live
	w.expect(live.Status == fleet.ReplicaOffline && live.Active == 0, "the replica is %s", text(live))
	w.expect(w.counter(fleet.ScopeTenant, "acme") == 0, "the tenant counter is %d", w.counter(fleet.ScopeTenant, "acme"))
	s := w.lookup("n0").Current().Settlement
	w.expect(s != nil && s.Outcome == fleet.OutcomeLeaseExpired, "the attempt ended as %s", text(s))
}

func expirySuperseded(w *World) {
	id := w.solo()
	a := w.resolve("one")
	w.register(id)
	fresh := w.resolve("two")
	w.expect(w.expire().Expired == 1, "not exactly the superseded attempt was released")
	w.expect(w.lookup("one").Current().Settled() && !w.lookup("two").Current().Settled(), "the wrong attempt was released")
	receipt := w.settle(a, fleet.OutcomeCompleted)
	w.expect(!receipt.First && receipt.Settlement.Outcome == fleet.OutcomeLeaseExpired, "the late answer settled anew: %+v", receipt)
	w.settle(fresh, fleet.OutcomeCompleted)
}

func expiryOverdue(w *World) {
	id := w.solo()
	w.resolve("one")
	long := request("long")
	long.TimeToLive = time.Hour
	_, err := w.Router.Resolve(w.ctx(), long)
	w.must(err, "resolve")
	w.pass(id, registry.DefaultTimeToLive+registry.SettleGrace-10*time.Second)
	e := w.expire()
	w.expect(e.Overdue == 0 && e.Expired == 0, "something was released before its deadline")
	w.pass(id, 20*time.Second)
	e = w.expire()
	w.expect(e.Overdue == 1 && e.Expired == 0, "expiry did %+v", e)
	s := w.lookup("one").Current().Settlement
	w.expect(s != nil && s.Outcome == fleet.OutcomeUnknown && s.Code == "settle.overdue", "the attempt ended as %s", text(s))
	w.expect(w.replica(id).Live.Active == 1, "active is %d", w.replica(id).Live.Active)
}

func expiryBounded(w *World) {
	w.standard()
	for i := range 5 {
		w.resolve(fmt.Sprintf("n%d", i))
	}
	w.advance(leaseTTL + time.Second)
	released, passes := 0, 0
	for more := true; more && passes < 20; passes++ {
		e, err := w.Fleet.Expire(w.ctx(), 2)
		w.must(err, "expire")
		w.expect(e.Offline <= 2 && e.Expired <= 2, "one pass did %+v", e)
		released += e.Expired
		more = e.More
	}
	w.expect(released == 5 && passes >= 3, "%d passes released %d", passes, released)
	_, err := w.Fleet.Expire(w.ctx(), 0)
	w.refused(err, fleet.Invalid, "")
}

func expiryRecords(w *World) {
	id := w.solo()
	w.resolve("expired")
	w.register(id)
	w.resolve("overdue")
	w.expire()
	w.pass(id, 2*time.Minute)
	w.expire()
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Reconciliations})
	w.must(err, "list reconciliations")
	causes := map[string]string{}
	for _, r := range rec.Reconciliations {
		causes[r.Action.String()] = r.Cause
		w.expect(r.State == fleet.ReconcileOpen && r.Replica == id && r.Tenant == acme() && r.Fence == 1, "the record is %s", text(r))
	}
	w.expect(len(causes) == 2 && causes["act_overdue"] == "settle.overdue" && causes["act_expired"] == "settle.lease_expired", "the causes are %v", causes)
}

func expiryQuiet(w *World) {
	w.standard()
	w.resolve("one")
	w.unchanged("an expiry with nothing due", func() {
		w.expect(w.expire() == registry.Expiry{}, "something was released")
	})
}

func expiryLiving(w *World) {
	w.standard()
	a := w.resolve("one")
	w.advance(leaseTTL / 2)
	w.beat(a.Route.Replica)
	w.advance(leaseTTL/2 + time.Second)
	w.expire()
	w.expect(!w.lookup("one").Current().Settled(), "a living lease's work was released")
	w.expect(w.replica(a.Route.Replica).Live.Status == fleet.ReplicaReady, "a living lease was ended")
}
