package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// provider is the product behind the connectors. It writes down every effect.
type provider struct {
	w *world

	mu      sync.Mutex
	effects map[fleet.ActionID][]effect
	byKey   map[string]connector.Result // what a key's effect answered
	calls   map[attempt]int
	busy    map[fleet.ActionID]*call // under way in the product
}

type attempt struct {
	action fleet.ActionID
	fence  uint64
}

// effect is one change in the product.
type effect struct {
	attempt
	replica fleet.ReplicaID
	at      time.Duration
}

// call is one call under way.
type call struct {
	stopped bool // by a cancel, before its effect
	done    bool
	answer  connector.Result
}

func newProvider(w *world) *provider {
	return &provider{
		w: w, effects: map[fleet.ActionID][]effect{}, byKey: map[string]connector.Result{},
		calls: map[attempt]int{}, busy: map[fleet.ActionID]*call{},
	}
}

// happened and idle are what the operator sees in the product.
func (p *provider) happened(id fleet.ActionID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.effects[id])
}

func (p *provider) idle(id fleet.ActionID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy[id] == nil
}

// begin counts a call and marks it as under way.
func (p *provider) begin(at attempt) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[at]++
	if p.calls[at] > 1 {
		p.w.broken("G25", at.action.String(), fmt.Sprintf("the provider was called %d times under fence %d", p.calls[at], at.fence))
	}
	c := &call{}
	p.busy[at.action] = c
	return c
}

// end makes the effect, unless the call was stopped or its key is known, and answers.
func (p *provider) end(c *call, e effect, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.done = true
	if p.busy[e.action] == c {
		delete(p.busy, e.action)
	}
	if known, ok := p.byKey[key]; ok && key != "" {
		c.answer = known
		return
	}
	if c.stopped {
		c.answer = connector.Result{Class: connector.Failed, Failure: &connector.Failure{Code: "desk.stopped", Message: "stopped"}}
		return
	}
	e.at = p.w.elapsed()
	p.effects[e.action] = append(p.effects[e.action], e)
	p.w.note("EFFECT", fmt.Sprintf("%s %d", e.action, e.fence))
	out := fmt.Sprintf(`{"ticket":9007199254740993,"note":"<b>&</b>","price":1.10,"action":%q}`, e.action)
	c.answer = connector.Result{Class: connector.Succeeded, Output: json.RawMessage(out)}
	if key != "" {
		p.byKey[key] = c.answer
	}
}

// drop ends a call that never reached the product.
func (p *provider) drop(c *call, id fleet.ActionID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.done = true
	if p.busy[id] == c {
		delete(p.busy, id)
	}
}

func (p *provider) answer(c *call) connector.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.answer
}

// arm is the connector of one process.
type arm struct{ *process }

// Discover implements connector.Connector.
func (a arm) Discover(context.Context) ([]connector.Offer, error) { return nil, nil }

// Health implements connector.Connector.
func (a arm) Health(context.Context) error {
	if a.m.w.stormy() && within(a.m.sick, a.m.w.elapsed()) {
		a.m.w.fault(hostSick, a.m.replica.String())
		return errSick
	}
	return nil
}

// Rates of what a call meets.
const (
	refuseRate     = 0.06
	notWrittenRate = 0.04
	lostRate       = 0.03
	noAnswerRate   = 0.04
	slowRate       = 0.03
	callKillRate   = 0.01
)

// Invoke implements connector.Connector.
func (a arm) Invoke(ctx context.Context, c connector.Call) (connector.Result, error) {
	w, name := a.m.w, c.Action.String()
	record, _, err := a.journal.Get(c.Action)
	if err != nil {
		return connector.Result{}, err
	}
	at := attempt{c.Action, record.Fence}
	n := int(record.Fence)
	if w.stormy() && w.chance(callKillRate, "kill at call", name, n) {
		w.fault(hostCall, name)
		a.life.kill()
	}
	if err := w.pass(a.life, name); err != nil {
		return connector.Result{}, err
	}
	w.judgeCall(at, a.m.replica)
	u := w.unit("call", name, n)
	switch {
	case !w.stormy():
		u = 1
	case w.rash() && u > 0.5:
		u = notWrittenRate // refused
	}
	switch {
	case u < notWrittenRate:
		w.fault(callNotWritten, name)
		return connector.Result{Class: connector.NotStarted, Why: "the product was not reached"}, nil
	case u < notWrittenRate+refuseRate:
		w.fault(callRefused, name)
		return connector.Result{Class: connector.Failed, Failure: &connector.Failure{Code: "desk.refused", Message: "refused"}}, nil
	}
	return a.call(ctx, c, at, u-notWrittenRate-refuseRate)
}

// call goes to the product and back.
func (a arm) call(ctx context.Context, c connector.Call, at attempt, u float64) (connector.Result, error) {
	w, name, n := a.m.w, c.Action.String(), int(at.fence)
	under := w.provider.begin(at)
	takes := w.between(3*time.Millisecond, 700*time.Millisecond, "takes", name, n)
	lost := u < lostRate
	switch u -= lostRate; {
	case lost:
		w.fault(callLost, name)
	case u < slowRate && w.stormy():
		w.fault(callSlow, name)
		takes = w.between(10*time.Second, 45*time.Second, "takes", name, n)
	}
	key := ""
	if c.Capability.String() == keyedCapability {
		key = c.IdempotencyKey
	}
	answered := make(chan struct{})
	w.run(func() { // the product goes on whatever becomes of its caller
		defer close(answered)
		sleep(context.Background(), takes)
		if lost {
			w.provider.drop(under, c.Action)
			return
		}
		w.provider.end(under, effect{attempt: at, replica: a.m.replica}, key)
	})
	select {
	case <-answered:
	case <-ctx.Done():
		return connector.Result{Class: connector.Unknown, Why: "the call took too long"}, nil
	case <-a.life.end:
		return connector.Result{}, errGone()
	}
	return a.back(under, name, n, lost, u-slowRate)
}

// back is the way of the product's answer.
func (a arm) back(under *call, name string, n int, lost bool, u float64) (connector.Result, error) {
	w := a.m.w
	if w.stormy() && w.chance(callKillRate, "kill at effect", name, n) {
		w.fault(hostEffect, name)
		a.life.kill()
	}
	if err := w.pass(a.life, name); err != nil {
		return connector.Result{}, err
	}
	if lost {
		return connector.Result{}, errors.New("the connection broke")
	}
	if u > 0 && u < noAnswerRate && w.stormy() {
		w.fault(callNoAnswer, name)
		return connector.Result{Class: connector.Unknown, Why: "the answer was lost"}, nil
	}
	return w.provider.answer(under), nil
}

// Cancel implements connector.Canceller. Every second call can be stopped.
func (a arm) Cancel(_ context.Context, q connector.Query) (connector.Result, error) {
	p := a.m.w.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	under := p.busy[q.Action]
	if under == nil || a.life.dead() || !p.w.chance(0.5, "stoppable", q.Action.String(), 0) {
		return connector.Result{Class: connector.Unknown, Why: "it cannot be stopped"}, nil
	}
	under.stopped = true
	p.w.outcome("provider: call stopped", q.Action.String())
	return connector.Result{Class: connector.NotStarted, Why: "stopped"}, nil
}

// Reconcile implements connector.Reconciler.
func (a arm) Reconcile(_ context.Context, q connector.Query) (connector.Finding, error) {
	p := a.m.w.provider
	if a.life.dead() {
		return connector.Finding{}, errGone()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	result, found := p.byKey[q.IdempotencyKey]
	return connector.Finding{Found: found, Result: result}, nil
}
