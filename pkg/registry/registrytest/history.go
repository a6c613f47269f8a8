package registrytest

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Plan says how a concurrent history is made.
type Plan struct {
	Clients    int
	Operations int // of each client
	Hot        int // actions that are asked for at a time
	Wave       int // operations of a client before it goes on to other actions
	Capacity   int // of each of the three replicas
	Lose       float64
	Restless   bool   // hosts register anew and maintenance runs meanwhile
	Seed       uint64 // of the clients' choices
	// Meanwhile runs beside the clients until its context ends, to make faults.
	Meanwhile func(ctx context.Context)
}

// Wide is a history of at least 20 000 calls of 16 clients, judged action by action.
func Wide() Plan {
	return Plan{Clients: 16, Operations: 1300, Hot: 8, Wave: 25, Capacity: 1000, Lose: 0.01, Restless: true, Seed: 1}
}

// Whole is a history short enough to be judged as one, so that the capacity of the
// replicas, which every action shares, is seen.
func Whole() Plan {
	return Plan{Clients: 8, Operations: 75, Hot: 10, Wave: 75, Capacity: modelCapacity, Lose: 0.01, Seed: 2}
}

// CheckHistory records what the clients of a plan ask and are answered at the same
// time, and has porcupine look for an order of the calls that the sequential model
// accepts: each call between its beginning and its end, those without an answer any
// time after their beginning, or never. With whole, the history is judged as one;
// otherwise each action by itself.
func CheckHistory(t TB, s Subject, p Plan, whole bool) History {
	t.Helper()
	h := record(t, s, p)
	h.judge(whole)
	switch h.Result {
	case porcupine.Ok:
	case porcupine.Illegal:
		t.Errorf("no order of the calls explains the answers: %s", h.Wrong)
	default:
		t.Errorf("the history of %d calls was not judged in time", len(h.calls))
	}
	return h
}

// History is what was recorded, and the verdict.
type History struct {
	Calls  map[string]int // by verb
	Open   int            // calls without an answer
	Full   int            // refusals for want of a replica
	Beside int            // calls that began while another of the same action was under way
	Result porcupine.CheckResult
	Wrong  string // the calls that fit nowhere
	spec   spec
	start  belief
	calls  []porcupine.Operation
}

// judging bounds the search for an order.
const judging = 2 * time.Minute

// tape records calls. Its clock counts beginnings and ends, which is all that the
// order in real time is.
type tape struct {
	clock atomic.Int64
	mu    sync.Mutex
	calls []porcupine.Operation
}

func (r *tape) play(client int, c call, do func(call) answer) answer {
	begun := r.clock.Add(1)
	runtime.Gosched() // a store without waits would otherwise see one caller after the other
	a := do(c)
	ended := r.clock.Add(1)
	if a.lost || fleet.Is(a.err, fleet.Unknown) {
		a.lost, ended = true, math.MaxInt64 // open-ended: it may take effect whenever
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, porcupine.Operation{ClientId: client, Input: c, Call: begun, Output: a, Return: ended})
	return a
}

// clients share what they were answered, as processes share it through a database.
type clients struct {
	*model
	plan  Plan
	tape  tape
	known sync.Map // action -> *shelf
}

type shelf struct {
	mu   sync.Mutex
	held []fleet.Assignment
}

func (c *clients) shelf(action int) *shelf {
	s, _ := c.known.LoadOrStore(action, &shelf{})
	return s.(*shelf)
}

func record(t TB, s Subject, p Plan) History {
	t.Helper()
	w := newWorld(t, s, Options{})
	unlimited := func(q *fleet.QuotaPolicy) { q.Binding, q.Instance, q.TenantRetry = nil, nil, nil }
	c := &clients{plan: p, model: &model{World: w, spec: stage(w, p.Capacity, unlimited)}}
	for _, id := range c.spec.replicas {
		w.register(id)
	}
	c.spec.shared, c.spec.restless = true, p.Restless
	start := c.spec.first()
	start.now = w.now
	c.run()
	h := History{Calls: map[string]int{}, spec: c.spec, start: start, calls: c.tape.calls}
	for _, op := range h.calls {
		h.Calls[string(op.Input.(call).verb)]++
		if a := op.Output.(answer); a.lost {
			h.Open++
		} else if fleet.Is(a.err, fleet.ReplicaUnavailable) {
			h.Full++
		}
	}
	h.Beside = beside(h.calls)
	return h
}

// beside counts the calls that met another one of the same action.
func beside(calls []porcupine.Operation) (n int) {
	for _, part := range byAction(calls) {
		slices.SortFunc(part, func(x, y porcupine.Operation) int { return cmp.Compare(x.Call, y.Call) })
		end := int64(0)
		for _, op := range part {
			if op.Call < end {
				n++
			}
			if op.Return != math.MaxInt64 {
				end = max(end, op.Return)
			}
		}
	}
	return n
}

// run lets every client play its calls, and the disturbances beside them.
func (c *clients) run() {
	var wait, beside sync.WaitGroup
	ctx, stop := context.WithCancel(c.ctx())
	if c.plan.Restless {
		var hosts []registry.Registration
		for _, id := range c.spec.replicas {
			hosts = append(hosts, c.registration(id))
		}
		beside.Go(func() { c.disturb(ctx, hosts) })
	}
	if c.plan.Meanwhile != nil {
		beside.Go(func() { c.plan.Meanwhile(ctx) })
	}
	for n := range c.plan.Clients {
		wait.Go(func() { c.client(n) })
	}
	wait.Wait()
	stop()
	beside.Wait()
}

func (c *clients) client(n int) {
	rng := rand.New(rand.NewPCG(c.plan.Seed, uint64(n)))
	for i := range c.plan.Operations {
		wave := i / c.plan.Wave
		next, ok := c.choose(rng, wave*c.plan.Hot+rng.IntN(c.plan.Hot))
		if !ok {
			continue
		}
		fate := rng.Float64()
		a := c.tape.play(n, next, func(next call) answer { return c.fated(next, fate) })
		if next.verb == resolveVerb && a.err == nil && !a.lost {
			c.keep(next.action, a.assignment)
		}
	}
}

// fated plays a call, or pretends that its client died: half of the lost calls were
// made and their answer is thrown away, the others were never made.
func (c *clients) fated(next call, fate float64) answer {
	if fate < c.plan.Lose/2 {
		return answer{lost: true}
	}
	a := c.onRoute(next)
	a.lost = fate < c.plan.Lose
	return a
}

// choose draws a call about one action. Every call is about routes.
func (c *clients) choose(rng *rand.Rand, action int) (call, bool) {
	next := call{verb: resolveVerb, action: action}
	switch d := rng.IntN(100); {
	case d < 45:
	case d < 55:
		next.verb = lookupVerb
	default:
		held := c.shelfOf(action)
		if len(held) == 0 {
			return next, true
		}
		next.verb, next.held = settleVerb, held[len(held)-1]
		if d < 60 {
			next.held = held[rng.IntN(len(held))]
		}
		next.outcome = fleet.OutcomeCancelled
		if d := rng.IntN(60); d == 0 {
			next.outcome = fleet.OutcomeCompleted
		} else if d < 20 {
			next.outcome = fleet.OutcomeUnknown
		}
	}
	return next, true
}

func (c *clients) shelfOf(action int) []fleet.Assignment {
	s := c.shelf(action)
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.held)
}

// keep remembers an assignment for all clients, newest fence last.
func (c *clients) keep(action int, a fleet.Assignment) {
	s := c.shelf(action)
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := slices.BinarySearchFunc(s.held, a, func(x, y fleet.Assignment) int {
		return cmp.Compare(x.Attempt.Fence.Number, y.Attempt.Fence.Number)
	})
	if !found {
		s.held = slices.Insert(s.held, at, a)
	}
}

// disturb registers hosts anew, so that what they held is stale, and runs maintenance.
func (c *clients) disturb(ctx context.Context, hosts []registry.Registration) {
	for n := 0; ctx.Err() == nil; n++ {
		r := &hosts[n%len(hosts)]
		r.Claim = c.claim()
		if l, err := c.Fleet.Register(ctx, *r); err == nil {
			r.LastEpoch = l.Epoch
		}
		_, _ = c.Fleet.Expire(ctx, 1000) // a refused pass is made up for by the next
		pause(ctx, 5*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// RunHistories records and judges the two histories of every registry.
func RunHistories(t *testing.T, newSubject func(t *testing.T) Subject) {
	t.Run("G06/history_of_20000_calls_is_linearizable_by_action", func(t *testing.T) {
		h := CheckHistory(t, newSubject(t), Wide(), false)
		t.Logf("%d calls of %d clients %v, %d beside another of the same action, %d without an answer: %s",
			len(h.calls), Wide().Clients, h.Calls, h.Beside, h.Open, h.Result)
		if len(h.calls) < 20000 || h.Open == 0 || h.Beside < 1000 {
			t.Errorf("%d calls, %d of them open, %d beside others: too few to say anything", len(h.calls), h.Open, h.Beside)
		}
	})
	t.Run("G05/history_that_sees_capacity_is_linearizable_as_one", func(t *testing.T) {
		h := CheckHistory(t, newSubject(t), Whole(), true)
		t.Logf("%d calls of %d clients %v, %d without an answer, %d refused: %s", len(h.calls), Whole().Clients, h.Calls, h.Open, h.Full, h.Result)
		if h.Full == 0 || h.Open == 0 {
			t.Errorf("%d were refused, %d open: capacity was not seen", h.Full, h.Open)
		}
	})
}
