package dispatch

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/pkg/fairness"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Codes of what happened to an action before it was sent.
const (
	CodeDeadline = "dispatch.deadline" // Unavailable: no time left to begin
	codeTaken    = "dispatch.taken"    // internal to the engine: somebody else has it
)

// run brings one action to rest: a state that is not running, and no open
// reservation. ctx is the engine's own; only the engine's end cuts it off.
func (e *Engine) run(ctx context.Context, j *job) {
	defer e.flights.remove(j)
	r, ok := e.await(ctx, j)
	if !ok { // a permit may have been granted just before it was no longer wanted
		giveBack(j.ticket)
		return
	}
	began := e.Now()
	if j.ticket != nil {
		defer func() { j.ticket.Release(e.Now().Sub(began)) }()
	}
	if j.takeover {
		e.takeOver(ctx, r)
		return
	}
	e.attempt(ctx, r, true)
}

// await waits for the action's turn.
func (e *Engine) await(ctx context.Context, j *job) (action.Record, bool) {
	r := j.record
	if j.ticket == nil || j.ticket.Ready() {
		return r, true
	}
	if r.State == action.Accepted {
		if queued, err := e.change(ctx, r, func(r action.Record) (action.Record, error) { return r.Queue() }); err == nil {
			r = queued
		}
	}
	err := j.ticket.Wait(ctx)
	switch {
	case err == nil:
	case fleet.CodeOf(err) == fairness.CodeGone:
		// Cancelled by its client, who has stored that; or this engine is stopping,
		// and a successor goes on.
		e.settleAbandoned(ctx, r)
		return r, false
	case j.takeover: // what may have begun is not refused for load: it runs without a place
		j.ticket = nil
	default:
		e.release(ctx, r, err, fleet.Digest{})
		return r, false
	}
	if current, err := e.Store.Get(ctx, r.Tenant, r.ID); err == nil { // it may have been cancelled, or taken over
		r = current
	}
	if r.Owner != e.Owner || r.Runs != j.record.Runs {
		return r, false
	}
	if !r.State.Running() && !j.takeover {
		e.settleAbandoned(ctx, r)
		return r, false
	}
	return r, true
}

// attempt makes one attempt: route, durable note, send, classify, conclude. again
// allows one more reservation when the host refuses because it drains.
func (e *Engine) attempt(ctx context.Context, r action.Record, again bool) {
	began := e.Now()
	timed, cancel := context.WithDeadline(ctx, r.Deadline)
	defer cancel()
	a, err := e.resolve(timed, r)
	if err != nil {
		e.refuse(ctx, r, err)
		return
	}
	crashpoint.Reach(crashpoint.AfterResolve)
	decision, err := e.decision(timed, a)
	left := a.Attempt.Fence.Number <= r.Fence // somebody noted before that it leaves
	if err == nil {
		r, err = e.change(timed, r, func(r action.Record) (action.Record, error) { return r.Dispatch(a.Attempt.Fence.Number) })
	}
	if err != nil {
		e.neverSend(ctx, r, a, err)
		return
	}
	sent := e.Courier.Dispatch(timed, r, a, decision)
	crashpoint.Reach(crashpoint.AfterSend)
	sent.Written = sent.Written || left
	if sent.Answer == nil && ctx.Err() != nil {
		return // the engine was cut off: a successor asks the host
	}
	verdict := Classify(r.ID, sent)
	if verdict.State == action.Dispatched {
		verdict = e.follow(timed, registry.RouteRecord{Route: a.Route, Attempts: []fleet.Attempt{a.Attempt}})
	}
	e.Observe(verdict.Settlement.Outcome, e.Now().Sub(began))
	if verdict.Draining && again && e.settle(ctx, a, verdict) {
		e.attempt(ctx, r, false)
		return
	}
	e.conclude(ctx, r, a, verdict)
}

// resolve asks for the durable route until there is an answer or no time left. A
// fleet that is full, or has nobody ready, is asked again for as long as Patience:
// bursts and restarts pass, and a client that is told to come back comes back.
func (e *Engine) resolve(ctx context.Context, r action.Record) (fleet.Assignment, error) {
	patient := e.Now().Add(e.Patience)
	for wait := firstRetry; ; wait = min(2*wait, lastResolve) {
		left := r.Deadline.Sub(e.Now())
		if left <= 0 {
			return fleet.Assignment{}, fleet.Errorf(fleet.Unavailable, CodeDeadline, "the action's deadline has passed").
				Advise("submit the same action again, with more time")
		}
		a, err := e.Router.Resolve(ctx, registry.RouteRequest{
			Action: r.ID, Capability: r.Capability, Tenant: r.Tenant, Topology: e.Topology,
			TimeToLive: min(left, registry.MaxTimeToLive),
		})
		again := err != nil && (transient(err) || crowded(err) && e.Now().Before(patient))
		if !again || !pause(ctx, wait) {
			return a, err
		}
	}
}

// crowded reports refusals that pass when others finish or come back.
func crowded(err error) bool {
	return fleet.Is(err, fleet.CapacityExceeded) || fleet.Is(err, fleet.ReplicaUnavailable)
}

// transient reports errors after which the same request may simply be made again.
func transient(err error) bool {
	switch fleet.KindOf(err) {
	case fleet.Contended, fleet.Unavailable, fleet.Unknown:
		return true
	}
	return false
}

// refuse ends a run without a route. A conflict or an invalid request can never
// get one; anything else may later.
func (e *Engine) refuse(ctx context.Context, r action.Record, cause error) {
	if ctx.Err() != nil {
		return
	}
	if fleet.Is(cause, fleet.Conflict) || fleet.Is(cause, fleet.Invalid) {
		result := action.FailedResult(r.ID, fleet.AsError(cause, "dispatch.refused"))
		e.finish(ctx, r, Verdict{State: action.Failed, Result: result}, true)
		return
	}
	e.release(ctx, r, cause, fleet.Digest{})
}

// neverSend ends an attempt that got a reservation and was not sent: the action
// was cancelled or taken over meanwhile, or the note could not be stored.
func (e *Engine) neverSend(ctx context.Context, r action.Record, a fleet.Assignment, cause error) {
	if fleet.CodeOf(cause) == codeTaken {
		e.settleAbandoned(ctx, r)
		return
	}
	if ctx.Err() != nil {
		return
	}
	v := neverSent(Sent{Err: cause})
	v.Problem = action.ProblemOf(cause)
	e.conclude(ctx, r, a, v)
}

// decision finds the operator's signed document that lets an uncertain action run
// again; the host wants to see it (G25).
func (e *Engine) decision(ctx context.Context, a fleet.Assignment) ([]byte, error) {
	if len(a.Earlier) == 0 {
		return nil, nil
	}
	records, err := e.Records.List(ctx, registry.Selection{
		Noun: registry.Reconciliations, Tenant: a.Route.Tenant, IDs: []string{a.Route.Action.String()},
	})
	if err != nil {
		return nil, err
	}
	var newest fleet.Reconciliation
	for _, rec := range records.Reconciliations {
		if rec.Action == a.Route.Action && rec.Resolution == fleet.ResolvedDidNotHappen && rec.Fence >= newest.Fence {
			newest = rec
		}
	}
	return newest.Decision, nil
}

// follow asks the host until it knows, or until ctx ends.
func (e *Engine) follow(ctx context.Context, record registry.RouteRecord) Verdict {
	id := record.Route.Action
	for wait := firstFollow; ; wait = min(2*wait, lastFollow) {
		f, err := e.Courier.Status(ctx, record)
		if err == nil {
			if v := verdictOf(id, f); v.State != action.Dispatched {
				return v
			}
		}
		if !pause(ctx, wait) {
			if err == nil {
				err = fleet.Errorf(fleet.Unknown, CodeNoAnswer, "it was still running")
			}
			return unknown(CodeNoAnswer, fleet.CodeOf(err) == CodeBadAnswer, err)
		}
	}
}

// Bounds of the pauses while a host is asked, and between retries of a store.
const (
	firstRetry  = 20 * time.Millisecond
	lastRetry   = 5 * time.Second
	lastResolve = 250 * time.Millisecond
	firstFollow = 200 * time.Millisecond
	lastFollow  = 2 * time.Second
)
