package registrytest

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func modelCases() []Case {
	return []Case{
		{Name: "G04/random_histories_agree_with_a_model", Why: "the promises must hold in every order of calls, not only in those that somebody thought of", Run: modelRun},
	}
}

// operation is one random step.
type operation struct {
	kind    int
	action  int
	replica int
	arg     int
}

func operations(steps int) *rapid.Generator[[]operation] {
	one := rapid.Custom(func(t *rapid.T) operation {
		return operation{
			kind:    rapid.IntRange(0, 19).Draw(t, "kind"),
			action:  rapid.IntRange(0, 9).Draw(t, "action"),
			replica: rapid.IntRange(0, 2).Draw(t, "replica"),
			arg:     rapid.IntRange(0, 3).Draw(t, "arg"),
		}
	})
	return rapid.SliceOfN(one, steps, steps)
}

// model is what the suite believes of acme's part of the fleet. It knows no rule of
// choice, only what must hold whoever is chosen.
type model struct {
	*World
	replicas []fleet.ReplicaID
	hosts    map[fleet.ReplicaID]*host
	actions  map[int]*pinnedAction
	done     map[string]int // how often each kind of step had an effect
}

type host struct {
	status  fleet.ReplicaStatus
	intent  fleet.OperatorIntent
	healthy bool
	epoch   uint64
	until   time.Time
	active  int
}

type pinnedAction struct {
	attempts []fleet.Assignment
	ended    []fleet.Outcome // of settled attempts
}

func (a *pinnedAction) latest() fleet.Assignment { return a.attempts[len(a.attempts)-1] }
func (a *pinnedAction) settled() bool            { return len(a.ended) == len(a.attempts) }

// modelCapacity is small, so that histories meet full replicas.
const modelCapacity = 2

func modelRun(w *World) {
	total := map[string]int{}
	for run := range w.options.ModelRuns {
		sub := newWorld(w.TB, w.fresh(), w.options)
		sub.fresh = w.fresh
		m := newModel(sub)
		for step, op := range operations(w.options.ModelSteps).Example(run + 1) {
			if why := m.step(op); why != "" {
				w.Fatalf("run %d, step %d, %+v: %s", run, step, op, why)
			}
		}
		m.compare(run)
		sub.audit()
		for k, n := range m.done {
			total[k] += n
		}
	}
	if w.options.ModelRuns*w.options.ModelSteps < 600 {
		return // too short to have met everything
	}
	for _, k := range []string{"routed", "reserved again", "refused", "settled", "settled again", "fence lost", "expired"} {
		w.expect(total[k] > 0, "no history had a step that was %s: %v", k, total)
	}
}

func newModel(w *World) *model {
	w.publish(registry.ChangeSet{Types: []fleet.ConnectorType{deskType()}, Trust: trustOne()})
	w.admit(deskVersion(1))
	b := deskBinding(acme(), open())
	b.QuotaPolicyRef = "plain"
	set := registry.ChangeSet{
		Quotas:    []fleet.QuotaPolicy{quota("plain", func(q *fleet.QuotaPolicy) { q.Circuit = fleet.CircuitPolicy{} })},
		Instances: []fleet.ConnectorInstance{deskInstance(acme())}, Bindings: []fleet.CapabilityBinding{b},
	}
	m := &model{World: w, hosts: map[fleet.ReplicaID]*host{}, actions: map[int]*pinnedAction{}, done: map[string]int{}}
	for _, zone := range []string{"a", "b", "c"} {
		r := deskReplica(acme(), zone)
		r.Capacity = modelCapacity
		set.Replicas, m.replicas = append(set.Replicas, r), append(m.replicas, r.ID)
		m.hosts[r.ID] = &host{status: fleet.ReplicaOffline, intent: fleet.IntentRun}
	}
	w.publish(set)
	for _, id := range m.replicas {
		m.register(id)
	}
	return m
}

func (m *model) register(id fleet.ReplicaID) string {
	h := m.hosts[id]
	l, err := m.Fleet.Register(m.ctx(), m.registration(id))
	if err != nil {
		return "register: " + err.Error()
	}
	m.leases[id] = l
	h.epoch++
	h.status, h.healthy, h.until = fleet.ReplicaReady, true, m.now.Add(leaseTTL)
	if h.intent == fleet.IntentDrain {
		h.status = fleet.ReplicaDraining
	}
	return same("epoch", l.Epoch, h.epoch)
}

func same[T comparable](what string, got, want T) string {
	if got != want {
		return fmt.Sprintf("%s is %v, the model says %v", what, got, want)
	}
	return ""
}

// step does one operation on both and says how they differ, or "".
func (m *model) step(op operation) string {
	id := m.replicas[op.replica]
	switch {
	case op.kind < 7:
		return m.stepResolve(op.action)
	case op.kind < 12:
		return m.stepSettle(op.action, op.arg)
	case op.kind == 12:
		return m.stepOldSettle(op.action)
	case op.kind < 15:
		return m.stepBeat(id)
	case op.kind == 15:
		return m.register(id)
	case op.kind == 16:
		return m.stepIntend(id, op.arg)
	case op.kind == 17:
		return m.stepLeave(id, op.arg == 0)
	case op.kind == 18:
		m.advance(time.Duration(1+op.arg%2*2) * 7 * time.Second) // 7 or 21: never meets 30 or 95 exactly
		return ""
	}
	return m.stepExpire()
}

func (h *host) alive(now time.Time) bool {
	return h.status != fleet.ReplicaOffline && h.until.After(now)
}

func (h *host) takesNew(now time.Time) bool {
	return h.alive(now) && h.status == fleet.ReplicaReady && h.intent == fleet.IntentRun && h.healthy && h.active < modelCapacity
}

func (m *model) stepResolve(n int) string {
	req := request(fmt.Sprintf("m%d", n))
	req.TimeToLive = 65 * time.Second
	got, err := m.Router.Resolve(m.ctx(), req)
	a, known := m.actions[n]
	if !known {
		return m.checkNew(n, got, err)
	}
	h := m.hosts[a.latest().Route.Replica]
	if !a.settled() && h.alive(m.now) && h.epoch == a.latest().Attempt.LeaseEpoch {
		if err != nil {
			return "a reserved action was refused: " + err.Error()
		}
		return same("the assignment", text(got), text(a.latest()))
	}
	if !a.settled() {
		a.ended = append(a.ended, fleet.OutcomeLeaseExpired)
		h.active--
	}
	return m.checkAgain(a, h, got, err)
}

func (m *model) checkNew(n int, got fleet.Assignment, err error) string {
	possible := false
	for _, h := range m.hosts {
		possible = possible || h.takesNew(m.now)
	}
	if err != nil {
		m.done["refused"]++
		if possible || !fleet.Is(err, fleet.ReplicaUnavailable) {
			return fmt.Sprintf("a new action was refused (%v) although a replica takes it: %v", err, possible)
		}
		return ""
	}
	h := m.hosts[got.Route.Replica]
	if !h.takesNew(m.now) {
		return fmt.Sprintf("it was routed to %s, which is %+v", got.Route.Replica, *h)
	}
	h.active++
	m.actions[n] = &pinnedAction{attempts: []fleet.Assignment{got}}
	m.done["routed"]++
	return same("fence", got.Attempt.Fence.Number, 1) + same("epoch", got.Attempt.LeaseEpoch, h.epoch)
}

func (m *model) checkAgain(a *pinnedAction, h *host, got fleet.Assignment, err error) string {
	for _, o := range a.ended {
		if o == fleet.OutcomeCompleted {
			if !fleet.Is(err, fleet.Conflict) {
				return fmt.Sprintf("a completed action was answered %v", err)
			}
			return ""
		}
	}
	possible := h.alive(m.now) && h.active < modelCapacity
	if err != nil {
		m.done["refused"]++
		if possible || !fleet.Is(err, fleet.ReplicaUnavailable) {
			return fmt.Sprintf("a retry was refused (%v); possible: %v", err, possible)
		}
		return ""
	}
	if !possible {
		return fmt.Sprintf("a retry was granted on a replica that is %+v", *h)
	}
	fence := a.latest().Attempt.Fence.Number + 1
	if got.Route != a.latest().Route {
		return "the route moved"
	}
	a.attempts = append(a.attempts, got)
	h.active++
	m.done["reserved again"]++
	return same("fence", got.Attempt.Fence.Number, fence) + same("epoch", got.Attempt.LeaseEpoch, h.epoch) + same("earlier", len(got.Earlier), len(a.ended))
}

func (m *model) stepSettle(n, outcome int) string {
	a, known := m.actions[n]
	if !known {
		return ""
	}
	o := []fleet.Outcome{fleet.OutcomeCompleted, fleet.OutcomeUnknown, fleet.OutcomeCancelled, fleet.OutcomeCancelled}[outcome]
	r, err := m.Router.Settle(m.ctx(), a.latest(), fleet.Settlement{Outcome: o})
	if err != nil {
		return "settle: " + err.Error()
	}
	if a.settled() {
		m.done["settled again"]++
		return same("first", r.First, false) + same("outcome", r.Settlement.Outcome, a.ended[len(a.ended)-1])
	}
	a.ended = append(a.ended, o)
	m.hosts[a.latest().Route.Replica].active--
	m.done["settled"]++
	return same("first", r.First, true) + same("outcome", r.Settlement.Outcome, o)
}

func (m *model) stepOldSettle(n int) string {
	a, known := m.actions[n]
	if !known || len(a.attempts) < 2 {
		return ""
	}
	_, err := m.Router.Settle(m.ctx(), a.attempts[len(a.attempts)-2], fleet.Settlement{Outcome: fleet.OutcomeCompleted})
	m.done["fence lost"]++
	return same("an older fence is refused", fleet.Is(err, fleet.FenceLost), true)
}

func (m *model) stepBeat(id fleet.ReplicaID) string {
	h := m.hosts[id]
	l, err := m.Fleet.Renew(m.ctx(), m.nextBeat(id))
	if !h.alive(m.now) {
		return same("a dead lease is refused", fleet.Is(err, fleet.LeaseLost), true)
	}
	if err != nil {
		return "beat: " + err.Error()
	}
	m.leases[id] = l
	h.until, h.healthy = m.now.Add(leaseTTL), true
	if h.intent == fleet.IntentDrain {
		h.status = fleet.ReplicaDraining
	}
	return same("status", l.Status, h.status)
}

func (m *model) stepIntend(id fleet.ReplicaID, arg int) string {
	h := m.hosts[id]
	want := fleet.IntentRun
	if arg == 0 {
		want = fleet.IntentDrain
	}
	m.intend(id, want)
	h.intent = want
	if want == fleet.IntentRun && h.status == fleet.ReplicaDraining {
		h.healthy, h.status = false, fleet.ReplicaReady
	}
	return ""
}

func (m *model) stepLeave(id fleet.ReplicaID, offline bool) string {
	h := m.hosts[id]
	_, err := m.Fleet.Leave(m.ctx(), registry.Departure{
		Claim: m.claim(), Replica: id, PeerDID: didOf(id), Epoch: m.leases[id].Epoch, Offline: offline,
	})
	if !h.alive(m.now) {
		return same("leaving a dead lease is refused", fleet.Is(err, fleet.LeaseLost), true)
	}
	if err != nil {
		return "leave: " + err.Error()
	}
	h.status = fleet.ReplicaDraining
	if offline {
		h.status = fleet.ReplicaOffline
	}
	return ""
}

func (m *model) stepExpire() string {
	e, err := m.Fleet.Expire(m.ctx(), 1000)
	if err != nil {
		return "expire: " + err.Error()
	}
	want := registry.Expiry{}
	for _, h := range m.hosts {
		if h.status != fleet.ReplicaOffline && !h.until.After(m.now) {
			h.status = fleet.ReplicaOffline
			want.Offline++
		}
	}
	for _, a := range m.actions {
		h := m.hosts[a.latest().Route.Replica]
		switch {
		case a.settled():
		case !h.alive(m.now) || h.epoch != a.latest().Attempt.LeaseEpoch:
			a.ended = append(a.ended, fleet.OutcomeLeaseExpired)
			h.active--
			want.Expired++
			m.done["expired"]++
		case !a.latest().Attempt.Deadline.After(m.now):
			a.ended = append(a.ended, fleet.OutcomeUnknown)
			h.active--
			want.Overdue++
		}
	}
	return same("expiry", e, want)
}

// compare holds the registry's final state against the model's.
func (m *model) compare(run int) {
	m.Helper()
	for id, h := range m.hosts {
		live := m.replica(id).Live
		m.expect(int(live.Active) == h.active && live.LeaseEpoch == h.epoch && live.Status == h.status && live.Intent == h.intent,
			"run %d: %s is %s, the model says %+v", run, id, text(live), *h)
	}
	for n, a := range m.actions {
		r := m.lookup(fmt.Sprintf("m%d", n))
		m.expect(len(r.Attempts) == len(a.attempts) && r.Route == a.latest().Route, "run %d: action %d has %d attempts, the model %d", run, n, len(r.Attempts), len(a.attempts))
		for i, o := range a.ended {
			s := r.Attempts[i].Settlement
			m.expect(s != nil && s.Outcome == o, "run %d: attempt %d of action %d ended as %s, the model says %s", run, i+1, n, text(s), o)
		}
		m.expect(r.Current().Settled() == a.settled(), "run %d: action %d is settled: %v", run, n, r.Current().Settled())
	}
}
