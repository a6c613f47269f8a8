package dispatch

import (
	"context"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Cancel asks to stop an action. One that has not left is cancelled at once, past
// any queue. One that may have left is asked of its pinned host, whatever the state
// of that host (G43), and is cancelled only by the host's evidence; if the host
// cannot be asked, the wish is kept and the action goes on as it is.
func (e *Engine) Cancel(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID, reason string) (action.Record, error) {
	r, err := e.Store.Get(ctx, tenant, id)
	if err != nil {
		return r, err
	}
	r, err = action.Update(ctx, e.Store, r, cancelStep)
	if err != nil {
		return r, err
	}
	e.tell(r)
	if r.State.Final() {
		e.flights.cancel(id)
		return r, nil
	}
	return e.cancelAtHost(ctx, r, reason)
}

// cancelStep cancels what has not left, and notes the wish for the rest. The
// reservation of an action that has an owner is that owner's to settle.
func cancelStep(r action.Record) (next action.Record, keep bool, err error) {
	switch r.State {
	case action.Accepted, action.Queued:
		next, err = r.Finish(action.Cancelled, action.CancelledResult(r.ID), fleet.Digest{}, false)
		return next, false, err
	case action.Retryable:
		next, err = r.Finish(action.Cancelled, action.CancelledResult(r.ID), fleet.Digest{}, true)
		return next, false, err
	case action.Dispatched, action.Uncertain:
		keep = r.CancelRequested
		r.CancelRequested = true
		return r, keep, nil
	}
	return r, true, nil
}

func (e *Engine) cancelAtHost(ctx context.Context, r action.Record, reason string) (action.Record, error) {
	record, err := e.Router.Lookup(ctx, r.Tenant, r.ID)
	if err != nil {
		return r, err
	}
	f, err := e.Courier.Cancel(ctx, record, reason)
	if err != nil {
		e.Log.WarnContext(ctx, "host not asked to cancel", "action", r.ID.String(), "error", err)
		return e.Store.Get(ctx, r.Tenant, r.ID)
	}
	r, err = action.Update(ctx, e.Store, r, func(r action.Record) (action.Record, bool, error) {
		next, changed, err := f.Conclude(r)
		return next, !changed, err
	})
	if err == nil {
		e.tell(r)
	}
	return r, err
}
