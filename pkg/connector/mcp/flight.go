package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// flight is a call under way, as a cancel finds it.
type flight struct {
	wire   *wire
	done   chan struct{} // closed when it ended
	result connector.Result
}

// fly makes a call of an action that a cancel can find.
func (l *link) fly(ctx context.Context, action fleet.ActionID, w *wire, params *sdk.CallToolParams) connector.Result {
	f := &flight{wire: w, done: make(chan struct{})}
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return notStarted("the session is being opened again")
	}
	l.calls++
	if !action.IsZero() {
		l.flights[action] = f
	}
	l.mu.Unlock()
	f.result = l.call(ctx, w, params)
	l.mu.Lock()
	l.calls--
	if l.flights[action] == f {
		delete(l.flights, action)
	}
	close(l.quiet)
	l.quiet = make(chan struct{})
	l.mu.Unlock()
	close(f.done)
	return f.result
}

func (l *link) flightOf(action fleet.ActionID) *flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flights[action]
}

// Cancel implements connector.Canceller. It tells the server that the call is not
// wanted any more and waits for the call's own answer, which alone is evidence: a
// server that stops silently proves nothing. If none comes, the product is asked.
func (a *Adapter) Cancel(ctx context.Context, q connector.Query) (connector.Result, error) {
	l, err := a.current()
	if l == nil {
		return connector.Result{}, err
	}
	f := l.flightOf(q.Action)
	if f == nil {
		return unknown("no call of the action is under way"), nil
	}
	telling, told := context.WithTimeout(ctx, a.cfg.Patience/2)
	defer told()
	if err := l.tap.cancel(telling, f.wire, "the action was cancelled"); err != nil {
		return unknown(a.redact.Text("the server cannot be told: " + fleet.Printable(err.Error(), 200))), nil
	}
	select {
	case <-f.done:
		return f.result, nil
	case <-telling.Done():
	}
	if found, err := a.Reconcile(ctx, q); err == nil && found.Found {
		return found.Result, nil
	}
	return unknown("the server was told, and the call has not ended"), nil
}
