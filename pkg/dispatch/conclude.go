package dispatch

import (
	"context"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// change stores a step of an action that this engine owns. A record that somebody
// else took or ended is an error with code dispatch.taken, and comes back as it is.
// While the store is away it tries again, until ctx ends.
func (e *Engine) change(ctx context.Context, r action.Record, step func(action.Record) (action.Record, error)) (action.Record, error) {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		next, err := step(r)
		if err != nil {
			return r, err
		}
		stored, err := e.Store.Advance(ctx, next)
		switch {
		case err == nil:
			e.tell(stored)
			return stored, nil
		case fleet.CodeOf(err) != action.CodeMoved && !transient(err):
			return r, err
		case fleet.CodeOf(err) != action.CodeMoved && !pause(ctx, wait):
			return r, err
		}
		current, err := e.Store.Get(ctx, r.Tenant, r.ID)
		if err != nil {
			if !transient(err) || !pause(ctx, wait) {
				return r, err
			}
			continue
		}
		// What one run came to says nothing of a later one, whoever runs it.
		same := current.Owner == e.Owner && current.Runs == r.Runs
		if r = current; !same || !r.State.Running() {
			return r, fleet.Errorf(fleet.Conflict, codeTaken, "action %s is not this engine's to change", r.ID)
		}
	}
}

// conclude stores what the attempt came to and settles it. A definite result is
// stored first, so that it cannot be lost between the two; "not started" and
// "unknown" are settled first, so that nobody reserves over an open attempt.
func (e *Engine) conclude(ctx context.Context, r action.Record, a fleet.Assignment, v Verdict) {
	if v.State.Final() {
		ended := e.finish(ctx, r, v, false)
		if e.settle(ctx, a, v) {
			e.markSettled(ctx, ended)
		}
		return
	}
	if !e.settle(ctx, a, v) {
		return
	}
	if v.State == action.Uncertain {
		e.record(ctx, r, func(r action.Record) (action.Record, error) { return r.Doubt(v.Problem, v.Settlement.EvidenceDigest) })
		return
	}
	e.record(ctx, r, func(r action.Record) (action.Record, error) { return r.Release(v.Problem, v.Settlement.EvidenceDigest) })
}

// record is change for ends of a run, of which a loss is logged and left to the
// action's present owner.
func (e *Engine) record(ctx context.Context, r action.Record, step func(action.Record) (action.Record, error)) {
	after, err := e.change(ctx, r, step)
	switch {
	case err == nil:
	case fleet.CodeOf(err) == codeTaken && after.State.Final():
		e.settleAbandoned(ctx, after)
	default:
		e.Log.WarnContext(ctx, "action not advanced", "action", r.ID.String(), "error", err)
	}
}

// finish stores a definite result. It counts whoever owns the action meanwhile, and
// whatever the action was thought to be: a definite result is final (G44). It returns
// the record as it is stored then, or as it was when it could not be stored.
func (e *Engine) finish(ctx context.Context, r action.Record, v Verdict, settled bool) action.Record {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		ended, err := action.Update(ctx, e.Store, r, func(r action.Record) (action.Record, bool, error) {
			if r.State.Final() {
				return r, true, nil
			}
			next, err := r.Finish(v.State, v.Result, v.Settlement.EvidenceDigest, settled)
			return next, false, err
		})
		if err == nil {
			e.tell(ended)
			return ended
		}
		if !transient(err) || !pause(ctx, wait) {
			e.Log.ErrorContext(ctx, "result not stored; the host keeps it", "action", r.ID.String(), "error", err)
			return r
		}
	}
}

// release ends a run of which no attempt has started and none is open.
func (e *Engine) release(ctx context.Context, r action.Record, cause error, evidence fleet.Digest) {
	e.record(ctx, r, func(r action.Record) (action.Record, error) { return r.Release(action.ProblemOf(cause), evidence) })
}

func (e *Engine) markSettled(ctx context.Context, r action.Record) {
	_, err := action.Update(ctx, e.Store, r, func(r action.Record) (action.Record, bool, error) {
		return r.Settle(), !r.Unsettled, nil
	})
	if err != nil { // a successor finds it settled
		e.Log.WarnContext(ctx, "settlement not noted", "action", r.ID.String(), "error", err)
	}
}

// settle ends the reservation of exactly this assignment. It asks until the
// registry answers; only the end of the engine stops it, and then the owner's
// successor, or the reservation's own deadline, ends it (G12). It reports whether
// the registry answered.
func (e *Engine) settle(ctx context.Context, a fleet.Assignment, v Verdict) bool {
	crashpoint.Reach(crashpoint.BeforeSettle)
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		receipt, err := e.Router.Settle(ctx, a, v.Settlement)
		if err == nil {
			crashpoint.Reach(crashpoint.AfterSettle)
			e.lateEvidence(ctx, a, v, receipt)
			return true
		}
		if fleet.Is(err, fleet.FenceLost) {
			e.Log.WarnContext(ctx, "attempt was superseded", "action", a.Route.Action.String(), "fence", a.Attempt.Fence.Number)
			e.lateEvidence(ctx, a, v, registry.Receipt{})
			return true
		}
		if !pause(ctx, wait) {
			e.Log.ErrorContext(ctx, "reservation left to expiry", "action", a.Route.Action.String(), "error", err)
			return false
		}
	}
}

// lateEvidence hands a definite answer to the reconciliation record of an attempt
// that was released without one before the answer came (G06).
func (e *Engine) lateEvidence(ctx context.Context, a fleet.Assignment, v Verdict, receipt registry.Receipt) {
	if receipt.First || receipt.Settlement.Outcome.Definite() || v.Settlement.EvidenceDigest.IsZero() {
		return
	}
	decision := registry.Decision{By: a.Route.Peer.DID, Evidence: v.Settlement.EvidenceDigest}
	switch v.Settlement.Outcome {
	case fleet.OutcomeCompleted:
		decision.Resolution = fleet.ResolvedCompleted
	case fleet.OutcomeCancelled:
		decision.Resolution = fleet.ResolvedNotStarted
	default:
		return
	}
	key := registry.ReconciliationKey{Action: a.Route.Action, Fence: a.Attempt.Fence.Number}
	if _, err := e.Uncertain.Decide(ctx, key, decision); err != nil {
		e.Log.WarnContext(ctx, "late answer not recorded", "action", a.Route.Action.String(), "error", err)
	}
}
