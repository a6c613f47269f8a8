package registrytest

import (
	"flag"
	"fmt"
	"strconv"
	"testing"
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

// CheckModel lets rapid draw sequences of calls and compares every answer, and the
// state at the end, with the sequential model; what it finds it makes as short as it
// can. newSubject makes an empty registry for each sequence. checks is how many
// sequences are drawn, unless -rapid.checks was given.
func CheckModel(t *testing.T, newSubject func() Subject, checks int) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if f := flag.Lookup("rapid.checks"); !given {
		before := f.Value.String()
		if err := f.Value.Set(strconv.Itoa(checks)); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Value.Set(before) }()
	}
	total, sequences := map[string]int{}, 0
	rapid.Check(t, func(r *rapid.T) {
		m := newModel(newWorld(r, newSubject(), Options{}))
		r.Repeat(m.actions())
		m.tryLostFences()
		m.compare()
		m.audit()
		sequences++
		for k, n := range m.done {
			total[k] += n
		}
	})
	t.Logf("%d sequences: %v", sequences, total)
	if sequences >= 50 && !t.Failed() {
		met(t, total)
	}
}

// met fails when no sequence had one of the steps that matter.
func met(t TB, total map[string]int) {
	for _, k := range []string{"routed", "reserved again", "refused", "settled", "settled again", "fence lost", "expired"} {
		if total[k] == 0 {
			t.Errorf("no history had a step that was %s: %v", k, total)
		}
	}
}

// model plays calls on a registry and judges them by the sequential model.
type model struct {
	*World
	spec   spec
	states []belief                   // where the registry may be; never none
	held   map[int][]fleet.Assignment // what each action was answered, oldest fence first
	done   map[string]int             // how often each kind of step had an effect
}

// modelCapacity is small, so that histories meet full replicas.
const modelCapacity = 2

// stage publishes the model's fleet: three replicas of acme. It registers none.
func stage(w *World, capacity int, tighten func(*fleet.QuotaPolicy)) spec {
	w.Helper()
	w.publish(registry.ChangeSet{Types: []fleet.ConnectorType{deskType()}, Trust: trustOne()})
	w.admit(deskVersion(1))
	b := deskBinding(acme(), open())
	b.QuotaPolicyRef = "plain"
	set := registry.ChangeSet{
		Quotas: []fleet.QuotaPolicy{quota("plain", func(q *fleet.QuotaPolicy) {
			q.Circuit = fleet.CircuitPolicy{}
			tighten(q)
		})},
		Instances: []fleet.ConnectorInstance{deskInstance(acme())}, Bindings: []fleet.CapabilityBinding{b},
	}
	s := spec{capacity: capacity}
	for _, zone := range []string{"a", "b", "c"} {
		r := deskReplica(acme(), zone)
		r.Capacity = uint32(capacity)
		set.Replicas, s.replicas = append(set.Replicas, r), append(s.replicas, r.ID)
	}
	w.publish(set)
	return s
}

func newModel(w *World) *model {
	m := &model{World: w, spec: stage(w, modelCapacity, keep), held: map[int][]fleet.Assignment{}, done: map[string]int{}}
	b := m.spec.first()
	b.now = w.now
	for range m.spec.replicas {
		b.hosts = append(b.hosts, host{status: fleet.ReplicaOffline, intent: fleet.IntentRun})
	}
	m.states = []belief{b}
	for i := range m.spec.replicas {
		m.step(call{verb: registerVerb, host: i})
	}
	return m
}

// actions are the steps that rapid chooses from. Resolving and settling come up more
// often than the rest, as several names of the same step.
func (m *model) actions() map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){}
	step := func(name string, times int, draw func(t *rapid.T) (call, bool)) {
		for i := range times {
			all[fmt.Sprintf("%s%d", name, i)] = func(t *rapid.T) {
				c, ok := draw(t)
				if !ok {
					return
				}
				m.step(c)
			}
		}
	}
	action := func(t *rapid.T) int { return rapid.IntRange(0, 9).Draw(t, "action") }
	on := func(v verb) func(t *rapid.T) (call, bool) {
		return func(t *rapid.T) (call, bool) {
			return m.drawn(v, action(t), rapid.IntRange(0, 2).Draw(t, "host"), rapid.IntRange(0, 3).Draw(t, "arg"))
		}
	}
	step("resolve", 7, on(resolveVerb))
	step("settle", 5, on(settleVerb))
	step("lookup", 1, on(lookupVerb))
	step("settleOlder", 1, func(t *rapid.T) (call, bool) { return m.older(action(t)) })
	step("beat", 2, on(beatVerb))
	for _, v := range []verb{registerVerb, intendVerb, leaveVerb, passVerb, expireVerb} {
		step(string(v), 1, on(v))
	}
	return all
}

// drawn makes a call out of drawn numbers; false when there is nothing to call.
func (m *model) drawn(v verb, action, host, arg int) (call, bool) {
	c := call{verb: v, action: action, host: host, offline: arg == 0, want: fleet.IntentRun}
	switch v {
	case settleVerb:
		held := m.held[action]
		if len(held) == 0 {
			return c, false
		}
		c.held = held[len(held)-1]
		c.outcome = []fleet.Outcome{fleet.OutcomeCompleted, fleet.OutcomeUnknown, fleet.OutcomeCancelled, fleet.OutcomeCancelled}[arg]
	case intendVerb:
		if arg == 0 {
			c.want = fleet.IntentDrain
		}
	case passVerb:
		c.pass = time.Duration(1+arg%2*2) * 7 * time.Second // 7 or 21: never meets 30 or 95 exactly
	}
	return c, true
}

// older settles the fence before the newest.
func (m *model) older(action int) (call, bool) {
	held := m.held[action]
	if len(held) < 2 {
		return call{}, false
	}
	return call{verb: settleVerb, action: action, held: held[len(held)-2], outcome: fleet.OutcomeCompleted}, true
}

// step plays one call on the registry and on the model, and fails when they differ.
func (m *model) step(c call) {
	m.Helper()
	a := m.perform(c)
	var after []belief
	why := ""
	for _, b := range m.states {
		states, wrong := m.spec.next(b, c, a)
		after = append(after, states...)
		if wrong != "" {
			why = wrong
		}
	}
	if len(after) == 0 {
		m.Fatalf("%s: %s", c, why)
	}
	m.states = after
	m.note(c, a)
}

func (m *model) note(c call, a answer) {
	switch {
	case c.verb == resolveVerb && a.err != nil:
		m.done["refused"]++
	case c.verb == resolveVerb:
		held := m.held[c.action]
		if len(held) > 0 && held[len(held)-1].Attempt.Fence == a.assignment.Attempt.Fence {
			return
		}
		m.held[c.action] = append(held, a.assignment)
		m.done[map[bool]string{true: "routed", false: "reserved again"}[len(held) == 0]]++
	case c.verb == settleVerb && fleet.Is(a.err, fleet.FenceLost):
		m.done["fence lost"]++
	case c.verb == settleVerb:
		m.done[map[bool]string{true: "settled", false: "settled again"}[a.receipt.First]]++
	case c.verb == expireVerb:
		m.done["expired"] += a.expiry.Expired
	}
}

// tryLostFences settles with every fence that a later one has overtaken, so that no
// history goes without by the luck of its draws.
func (m *model) tryLostFences() {
	m.Helper()
	for action := range m.states[0].actions {
		if c, ok := m.older(action); ok {
			m.step(c)
		}
	}
}

// compare holds the registry's final state against the model's.
func (m *model) compare() {
	m.Helper()
	for n := range m.states[0].actions {
		m.step(call{verb: lookupVerb, action: n})
	}
	for i, id := range m.spec.replicas {
		live, h := m.replica(id).Live, m.states[0].hosts[i]
		m.expect(int(live.Active) == h.active && live.LeaseEpoch == h.epoch && live.Status == h.status && live.Intent == h.intent,
			"%s is %s, the model says %+v", id, text(live), h)
	}
}

// modelRun plays fixed sequences, so that the suite is the same each time and runs
// under any TB; CheckModel is the one that searches and shrinks.
func modelRun(w *World) {
	total := map[string]int{}
	for run := range w.options.ModelRuns {
		sub := newWorld(w.TB, w.fresh(), w.options)
		sub.fresh = w.fresh
		m := newModel(sub)
		for _, op := range operations(w.options.ModelSteps).Example(run + 1) {
			if c, ok := m.chosen(op); ok {
				m.step(c)
			}
		}
		m.tryLostFences()
		m.compare()
		sub.audit()
		for k, n := range m.done {
			total[k] += n
		}
	}
	if w.options.ModelRuns*w.options.ModelSteps >= 600 { // shorter ones need not meet everything
		met(w.TB, total)
	}
}

// operation is one step of a fixed sequence.
type operation struct{ kind, action, host, arg int }

func operations(steps int) *rapid.Generator[[]operation] {
	one := rapid.Custom(func(t *rapid.T) operation {
		return operation{
			kind:   rapid.IntRange(0, 19).Draw(t, "kind"),
			action: rapid.IntRange(0, 9).Draw(t, "action"),
			host:   rapid.IntRange(0, 2).Draw(t, "host"),
			arg:    rapid.IntRange(0, 3).Draw(t, "arg"),
		}
	})
	return rapid.SliceOfN(one, steps, steps)
}

func (m *model) chosen(op operation) (call, bool) {
	if op.kind == 12 {
		return m.older(op.action)
	}
	v := expireVerb
	for _, c := range []struct {
		below int
		verb  verb
	}{{7, resolveVerb}, {12, settleVerb}, {15, beatVerb}, {16, registerVerb}, {17, intendVerb}, {18, leaveVerb}, {19, passVerb}} {
		if op.kind < c.below {
			v = c.verb
			break
		}
	}
	return m.drawn(v, op.action, op.host, op.arg)
}
