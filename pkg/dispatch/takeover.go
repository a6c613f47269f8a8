package dispatch

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// takeoverPatience is how long a successor asks a host about an action whose own
// deadline has passed already.
const takeoverPatience = 5 * time.Second

// takeOver goes on with an action that a dead owner left. What has a route begins
// with a status query to the pinned host: the dead owner may have sent it (G39).
func (e *Engine) takeOver(ctx context.Context, r action.Record) {
	if current, err := e.Store.Get(ctx, r.Tenant, r.ID); err == nil { // it may have gone on while this waited
		r = current
	}
	if r.Owner != e.Owner {
		return
	}
	if !r.State.Running() {
		e.settleAbandoned(ctx, r)
		return
	}
	record, found, err := e.lookup(ctx, r)
	switch {
	case err != nil: // only at the engine's end
	case !found:
		e.attempt(ctx, r, true)
	case record.Current().Settled():
		e.resume(ctx, r, record)
	default:
		e.inquire(ctx, r, record)
	}
}

// lookup reads the action's route until the registry answers.
func (e *Engine) lookup(ctx context.Context, r action.Record) (registry.RouteRecord, bool, error) {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		record, err := e.Router.Lookup(ctx, r.Tenant, r.ID)
		if err == nil {
			return record, true, nil
		}
		if fleet.Is(err, fleet.NotFound) {
			return record, false, nil
		}
		if !pause(ctx, wait) {
			return record, false, err
		}
	}
}

// resume goes on from an attempt that is settled already.
func (e *Engine) resume(ctx context.Context, r action.Record, record registry.RouteRecord) {
	s := record.Current().Settlement
	switch s.Outcome {
	case fleet.OutcomeCancelled:
		e.attempt(ctx, r, true)
	case fleet.OutcomeCompleted: // its result was stored first, and is here or at the host
		timed, cancel := context.WithTimeout(ctx, takeoverPatience)
		defer cancel()
		e.conclude(ctx, r, record.Assignment(), e.follow(timed, record))
	default:
		problem := unknown(s.Code, false, nil).Problem
		e.record(ctx, r, func(r action.Record) (action.Record, error) { return r.Doubt(problem, s.EvidenceDigest) })
	}
}

// inquire asks the pinned host about an open attempt. One that the dead owner had
// not noted as leaving was not sent by anybody, since that note comes first.
func (e *Engine) inquire(ctx context.Context, r action.Record, record registry.RouteRecord) {
	limit := r.Deadline
	if soonest := e.Now().Add(takeoverPatience); limit.Before(soonest) {
		limit = soonest
	}
	timed, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	a := record.Assignment()
	if a.Attempt.Fence.Number > r.Fence {
		f, err := e.Courier.Status(timed, record)
		v := verdictOf(r.ID, f)
		if err != nil {
			v = neverSent(Sent{Err: err})
		}
		e.goOn(ctx, r, a, v)
		return
	}
	v := e.follow(timed, record)
	if ctx.Err() != nil {
		return
	}
	e.goOn(ctx, r, a, v)
}

// goOn concludes, or runs an action that has time left and is known not to have
// started again on its route.
func (e *Engine) goOn(ctx context.Context, r action.Record, a fleet.Assignment, v Verdict) {
	if v.State == action.Retryable && r.Deadline.After(e.Now()) && e.settle(ctx, a, v) {
		e.attempt(ctx, r, true)
		return
	}
	e.conclude(ctx, r, a, v)
}

// settleAbandoned ends what may still be reserved for an action that has ended
// without this engine's doing: cancelled while it waited, or finished by a late
// answer. An action that still runs is its owner's.
func (e *Engine) settleAbandoned(ctx context.Context, r action.Record) {
	r, err := e.Store.Get(ctx, r.Tenant, r.ID)
	if err != nil || r.State.Running() || !r.Unsettled || r.Owner != e.Owner {
		return
	}
	record, found, err := e.lookup(ctx, r)
	if err != nil {
		return
	}
	if found && e.owes(r, record) && !e.settle(ctx, record.Assignment(), e.owed(r, record)) {
		return
	}
	e.markSettled(ctx, r)
}

// owes reports whether the registry still has to hear of the action's end: the
// reservation is open, or it was released without a definite answer.
func (e *Engine) owes(r action.Record, record registry.RouteRecord) bool {
	s := record.Current().Settlement
	return s == nil || !s.Outcome.Definite() && r.State.Final()
}

// owed is how the attempt settles, by what the action came to.
func (e *Engine) owed(r action.Record, record registry.RouteRecord) Verdict {
	neverLeft := record.Current().Fence.Number > r.Fence
	s := fleet.Settlement{Outcome: fleet.OutcomeCompleted, Code: "host." + string(r.State), EvidenceDigest: r.Evidence}
	switch {
	case neverLeft:
		s = fleet.Settlement{Outcome: fleet.OutcomeCancelled, Verdict: fleet.VerdictNeverSent, Code: CodeNeverSent}
	case r.State == action.Cancelled && !r.Evidence.IsZero():
		s.Outcome, s.Verdict, s.Code = fleet.OutcomeCancelled, fleet.VerdictNotStarted, "host.cancelled"
	case !r.State.Final() || r.Evidence.IsZero():
		s = fleet.Settlement{Outcome: fleet.OutcomeUnknown, Code: CodeNoAnswer}
	}
	return Verdict{State: r.State, Settlement: s}
}
