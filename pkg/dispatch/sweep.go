package dispatch

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fairness"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// A store's lost answer may leave a record that belongs to this engine, which is
// alive, and that it does not know of: no successor would ever take it up (G38, G39).
// So the engine looks through what it owns, at every beat while a lost write may still
// be under way in the store, and now and then anyway.
const (
	doubtTime  = 2 * time.Minute
	sweepEvery = 12 // beats of the owner's lease
)

// doubt remembers that a write's answer was lost.
func (e *Engine) doubt(err error) {
	if fleet.Is(err, fleet.Unknown) {
		e.doubtful.Store(e.Now().Add(doubtTime).UnixNano())
	}
}

// sweep takes in hand what this engine owns and does not run.
func (e *Engine) sweep(ctx context.Context, beat int) error {
	if beat%sweepEvery != 0 && e.Now().UnixNano() >= e.doubtful.Load() {
		return nil
	}
	selection := action.Selection{Owner: e.Owner, Limit: action.MaxListItems}
	for {
		page, err := e.Store.List(ctx, selection)
		if err != nil {
			return err
		}
		for _, r := range page.Records {
			if e.flights.has(r.ID) {
				continue
			}
			whole, err := e.Store.Get(ctx, r.Tenant, r.ID) // lists carry no input
			if err == nil && e.stray(whole) {
				e.Log.InfoContext(ctx, "found an action that nobody ran", "action", r.ID.String(), "state", string(whole.State))
				e.adopt(ctx, whole)
			}
		}
		if selection.After = page.Next; page.Next == "" {
			return nil
		}
	}
}

// stray reports an unfinished record of this engine that it does not run.
func (e *Engine) stray(r action.Record) bool {
	return r.Orphaned() && r.Owner == e.Owner && !e.flights.has(r.ID)
}

// adopt takes an action in hand that somebody may have begun. It is not refused for
// load: without a place in the schedule it runs at once.
func (e *Engine) adopt(ctx context.Context, r action.Record) {
	ticket, err := e.Scheduler.Enqueue(fairness.Request{Tenant: r.Tenant, Capability: r.Capability, Bytes: int64(len(r.Input))})
	if err != nil {
		ticket = nil
	}
	e.hand(ctx, &job{record: r, ticket: ticket, takeover: true})
}
