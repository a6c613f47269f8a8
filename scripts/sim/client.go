package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/dispatch"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// client wants one action done: it submits until somebody acknowledges, asks until
// the result is there, and submits again what did not start.
type client struct {
	w          *world
	number     int
	submission action.Submission

	mu           sync.Mutex
	acknowledged bool
	result       []byte       // first one seen
	state        action.State // with it
}

func newClient(w *world, number int) *client {
	c := &client{w: w, number: number}
	name := fmt.Sprintf("act_%08x_%04d", w.seed, number)
	tenant, capability := "acme", plainCapability
	if w.chance(0.3, "tenant", name, 0) {
		tenant = "globex"
	}
	if w.chance(0.5, "capability", name, 0) {
		capability = keyedCapability
	}
	c.submission = action.Submission{
		ID: must(fleet.ParseActionID(name)), Tenant: must(fleet.ParseTenantID(tenant)), Capability: must(fleet.ParseCapabilityID(capability)),
		Principal: "agent", Input: json.RawMessage(fmt.Sprintf(`{"title":"t-%d","n":1.10}`, number)), Mode: "async",
		Timeout: w.between(4*time.Second, 25*time.Second, "timeout", name, 0),
	}
	if w.chance(0.3, "keyed", name, 0) {
		c.submission.IdempotencyKey = "key-" + name
	}
	return c
}

func (c *client) name() string { return c.submission.ID.String() }

// draw is a pause of the client.
func (c *client) draw(low, high time.Duration, topic string, n int) time.Duration {
	return c.w.between(low, high, "client "+topic, c.name(), n)
}

func (c *client) engine(n int) *dispatch.Engine {
	at := c.w.pick(len(c.w.gateways), "client aipd", c.name(), n)
	return c.w.gateways[at].engine.Load()
}

// live plays the client until its action has its definite result.
func (c *client) live() {
	if !sleep(c.w.ctx, c.draw(0, submitTime, "begin", 0)) {
		return
	}
	c.besides()
	for n := 0; c.w.ctx.Err() == nil && !c.done(); n++ {
		pause := c.draw(300*time.Millisecond, 3*time.Second, "pause", n)
		if c.step(n) {
			pause += 2 * time.Second
		}
		if !sleep(c.w.ctx, pause) {
			return
		}
	}
}

// step submits what is not acknowledged, or asks. It reports whether the action was
// submitted again.
func (c *client) step(n int) (again bool) {
	e := c.engine(n)
	if e == nil {
		return false
	}
	c.mu.Lock()
	known := c.acknowledged
	c.mu.Unlock()
	if !known {
		c.submit(e)
		return false
	}
	r, err := e.Get(c.w.ctx, c.submission.Tenant, c.submission.ID)
	if err != nil {
		if fleet.Is(err, fleet.NotFound) {
			c.w.broken("G39", c.name(), "it was acknowledged and is gone")
		}
		return false
	}
	c.saw(r)
	if r.State == action.Retryable {
		c.archive(n)
		c.submit(e)
	}
	return r.State == action.Retryable
}

// archive takes the route of an action that may run again away: it never will.
func (c *client) archive(n int) {
	if c.w.stormy() && c.w.chance(0.01, archived, c.name(), n) && c.w.registry.Archive(c.w.ctx, c.submission.ID) == nil {
		c.w.fault(archived, c.name())
	}
}

func (c *client) submit(e *dispatch.Engine) {
	r, err := e.Submit(c.w.ctx, c.submission)
	if err != nil {
		return
	}
	c.mu.Lock()
	c.acknowledged = true
	c.mu.Unlock()
	c.saw(r)
}

// saw compares a final answer with the first one (G44).
func (c *client) saw(r action.Record) {
	if !r.State.Final() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.result == nil {
		c.result, c.state = r.Result, r.State
		return
	}
	if c.state != r.State || !bytes.Equal(c.result, r.Result) {
		c.w.broken("G44", c.name(), fmt.Sprintf("it was %s and is %s, or its result changed", c.state, r.State))
	}
}

func (c *client) done() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result != nil
}

// besides starts what the client does beside waiting.
func (c *client) besides() {
	w := c.w
	later := func(rate float64, topic string, low, high time.Duration, do func(*dispatch.Engine)) {
		if !w.chance(rate, topic, c.name(), 0) {
			return
		}
		w.run(func() {
			if !sleep(w.ctx, c.draw(low, high, topic, 0)) {
				return
			}
			if e := c.engine(1000); e != nil {
				w.fault(topic, c.name())
				do(e)
			}
		})
	}
	later(0.12, cancelled, time.Millisecond, 20*time.Second, func(e *dispatch.Engine) {
		if r, err := e.Cancel(w.ctx, c.submission.Tenant, c.submission.ID, "no longer wanted"); err == nil {
			c.saw(r)
		}
	})
	later(0.15, repeated, 0, 30*time.Millisecond, c.submit)
	later(0.06, conflicting, 2*time.Second, 10*time.Second, c.conflict)
	if c.submission.IdempotencyKey != "" {
		later(0.3, keyRepeated, time.Second, 15*time.Second, c.sameKey)
	}
}

// conflict submits other content under the same id, which must be refused (G03).
func (c *client) conflict(e *dispatch.Engine) {
	if _, err := e.Get(c.w.ctx, c.submission.Tenant, c.submission.ID); err != nil {
		return // nothing to conflict with yet
	}
	other := c.submission
	other.Input = json.RawMessage(`{"title":"something else"}`)
	if _, err := e.Submit(c.w.ctx, other); err == nil {
		c.w.broken("G03", c.name(), "other content was taken under the same id")
	}
}

// sameKey submits the same under another id: the first action is the answer.
func (c *client) sameKey(e *dispatch.Engine) {
	if _, err := e.Get(c.w.ctx, c.submission.Tenant, c.submission.ID); err != nil {
		return
	}
	again := c.submission
	again.ID = must(fleet.ParseActionID(c.name() + "_again"))
	r, err := e.Submit(c.w.ctx, again)
	if err == nil && r.ID != c.submission.ID {
		c.w.broken("G44", c.name(), "its idempotency key made a second action")
	}
}
