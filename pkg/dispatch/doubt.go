package dispatch

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fairness"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// doubts are submissions of which this engine does not know whether they were stored:
// the store's answer was lost. One that was stored belongs to this engine, which is
// alive, so that no successor would ever take it up.
type doubts struct {
	mu  sync.Mutex
	all map[fleet.ActionID]doubt
}

type doubt struct {
	tenant fleet.TenantID
	until  time.Time // a write that was under way has ended by then
}

// doubtTime bounds how long a lost write may still be under way in the store.
const doubtTime = 2 * time.Minute

func (d *doubts) add(id fleet.ActionID, tenant fleet.TenantID, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[fleet.ActionID]doubt{}
	}
	d.all[id] = doubt{tenant, now.Add(doubtTime)}
}

func (d *doubts) drop(id fleet.ActionID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.all, id)
}

func (d *doubts) get(id fleet.ActionID) doubt {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[id]
}

// list names them in the order of their ids.
func (d *doubts) list() []fleet.ActionID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Keys(d.all), func(a, b fleet.ActionID) int { return cmp.Compare(a.String(), b.String()) })
}

// resolveDoubts runs what turns out to be stored and nobody's work.
func (e *Engine) resolveDoubts(ctx context.Context) {
	for _, id := range e.doubts.list() {
		d := e.doubts.get(id)
		r, err := e.Store.Get(ctx, d.tenant, id)
		switch {
		case err == nil && e.stray(r):
			e.adopt(ctx, r)
		case err == nil && (r.State.Final() || r.Owner != e.Owner):
		case e.Now().Before(d.until):
			continue
		}
		e.doubts.drop(id)
	}
}

// stray reports a running record of this engine that it does not run.
func (e *Engine) stray(r action.Record) bool {
	return r.State.Running() && r.Owner == e.Owner && !e.flights.has(r.ID)
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
