package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Order is one action that a client wants done.
type Order struct {
	Tenant  string
	Request action.Request

	mu           sync.Mutex
	acknowledged bool
	result       string // of the first final answer
	decisions    int    // that it did not happen: each allows one more call (G25)
}

// NewOrder asks for a ticket.
func NewOrder(tenant, title string) (*Order, error) {
	capability, err := fleet.ParseCapabilityID(localfleet.Connector + ":" + desk.OpenTicketTool)
	if err != nil {
		return nil, err
	}
	input, err := json.Marshal(map[string]any{"title": title})
	if err != nil {
		return nil, err
	}
	return &Order{Tenant: tenant, Request: action.Request{
		ID: fleet.NewActionID(time.Now()), Capability: capability, Input: input, TimeoutMS: 20_000, Mode: "async",
	}}, nil
}

// ID of the action.
func (o *Order) ID() fleet.ActionID { return o.Request.ID }

// Acknowledged reports whether an aipd said that it has it.
func (o *Order) Acknowledged() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.acknowledged
}

// Submit asks one aipd, once.
func (r *Rig) Submit(ctx context.Context, aipd string, o *Order) (action.View, error) {
	c, err := r.Client(aipd, o.Tenant)
	if err != nil {
		return action.View{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	v, err := c.Submit(ctx, o.Request, 0)
	if err == nil {
		o.mu.Lock()
		o.acknowledged = true
		o.mu.Unlock()
	}
	return v, err
}

// Place submits until an aipd acknowledges: the first and the second in turn.
func (r *Rig) Place(ctx context.Context, o *Order) error {
	for n := 0; ; n++ {
		_, err := r.Submit(ctx, []string{First, Second}[n%2], o)
		if err == nil {
			return nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("%s is not acknowledged: %w", o.ID(), err)
		}
	}
}

// Look reads an action from any aipd that answers.
func (r *Rig) Look(ctx context.Context, o *Order) (action.View, error) {
	var failures []error
	for _, aipd := range []string{First, Second} {
		c, err := r.Client(aipd, o.Tenant)
		if err != nil {
			return action.View{}, err
		}
		ask, cancel := context.WithTimeout(ctx, 5*time.Second)
		v, err := c.Get(ask, o.ID(), 0)
		cancel()
		if err == nil {
			return v, o.saw(v)
		}
		failures = append(failures, err)
	}
	return action.View{}, errors.Join(failures...)
}

// saw compares a final answer with the first (G44).
func (o *Order) saw(v action.View) error {
	if !v.Final {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	said := string(v.State) + " " + string(v.Result)
	if o.result == "" {
		o.result = said
	}
	if o.result != said {
		return fmt.Errorf("%s: G44: the result was %s and is %s", o.ID(), o.result, said)
	}
	return nil
}

// Work places orders of a tenant from several clients at once, and returns those that
// were acknowledged; one that is not within the time is returned as well.
func (r *Rig) Work(ctx context.Context, tenant, title string, count int) ([]*Order, error) {
	orders := make([]*Order, count)
	for i := range orders {
		var err error
		if orders[i], err = NewOrder(tenant, fmt.Sprintf("%s %d", title, i)); err != nil {
			return nil, err
		}
	}
	failures := make([]error, count)
	var clients sync.WaitGroup
	next := make(chan int)
	for range 4 {
		clients.Go(func() {
			for i := range next {
				failures[i] = r.Place(ctx, orders[i])
			}
		})
	}
	for i := range orders {
		next <- i
	}
	close(next)
	clients.Wait()
	return orders, errors.Join(failures...)
}

// pause waits; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
