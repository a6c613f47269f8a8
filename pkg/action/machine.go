package action

import (
	"slices"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// steps is the closed set of moves; the simulation meets every one of them. A final
// state has none. A definite result ends an action whatever it was thought to be.
func steps(from State) []State {
	switch from {
	case Accepted:
		return []State{Queued, Dispatched, Retryable, Uncertain, Completed, Failed, Cancelled}
	case Queued:
		return []State{Dispatched, Retryable, Uncertain, Completed, Failed, Cancelled}
	case Dispatched:
		return []State{Retryable, Uncertain, Completed, Failed, Cancelled}
	case Uncertain:
		return []State{Retryable, Completed, Failed, Cancelled}
	case Retryable:
		return []State{Accepted, Completed, Failed, Cancelled}
	}
	return nil
}

// CanMove reports whether the machine has the step. Staying is always allowed.
func CanMove(from, to State) bool { return from == to || slices.Contains(steps(from), to) }

func (r Record) move(to State) (Record, error) {
	if !CanMove(r.State, to) {
		return r, fleet.Errorf(fleet.Conflict, CodeTransition, "action %s cannot become %s", r.ID, to).
			Because("it is %s", r.State)
	}
	r.State = to
	return r, nil
}

// Queue says that the action waits for its turn.
func (r Record) Queue() (Record, error) { return r.move(Queued) }

// Dispatch says that a request under this fence is about to be written. It is
// stored before the first byte leaves, so that a successor knows what may have left.
func (r Record) Dispatch(fence uint64) (Record, error) {
	if fence < r.Fence {
		return r, fleet.Errorf(fleet.FenceLost, CodeTransition, "action %s is already at fence %d", r.ID, r.Fence)
	}
	r.Fence, r.Unsettled, r.Problem = fence, true, nil
	return r.move(Dispatched)
}

// Finish stores the definite result. The reservation is still to be settled
// unless settled says that it is (result first, then settlement).
func (r Record) Finish(state State, result []byte, evidence fleet.Digest, settled bool) (Record, error) {
	if !state.Final() || len(result) == 0 {
		return r, fleet.Errorf(fleet.Internal, CodeTransition, "%s with %d bytes is not a result", state, len(result))
	}
	if r.State.Final() {
		return r, fleet.Errorf(fleet.Conflict, CodeTransition, "action %s is %s already", r.ID, r.State)
	}
	r.Result, r.Evidence, r.Unsettled, r.Problem = slices.Clone(result), evidence, !settled, nil
	return r.move(state)
}

// Doubt says that the action may have happened. Its attempt is settled by then.
func (r Record) Doubt(problem *Problem, evidence fleet.Digest) (Record, error) {
	r.Problem, r.Evidence, r.Unsettled = problem, evidence, false
	return r.move(Uncertain)
}

// Release says that no attempt has started. Its attempt is settled by then.
func (r Record) Release(problem *Problem, evidence fleet.Digest) (Record, error) {
	r.Problem, r.Evidence, r.Unsettled = problem, evidence, false
	return r.move(Retryable)
}

// Reopen takes a retryable action up again for a new run (G44).
func (r Record) Reopen(owner string, timeout time.Duration, now time.Time) (Record, error) {
	if r.State != Retryable {
		return r, fleet.Errorf(fleet.Conflict, CodeTransition, "action %s cannot be run again", r.ID).
			Because("it is %s", r.State)
	}
	r.Owner, r.Timeout, r.Deadline = owner, timeout, micro(now.Add(timeout))
	r.Runs, r.Problem, r.CancelRequested = r.Runs+1, nil, false
	return r.move(Accepted)
}

// Settle says that no reservation is open any more.
func (r Record) Settle() Record {
	r.Unsettled = false
	return r
}

// Orphaned reports whether a successor must take the record up once its owner's
// lease is over.
func (r Record) Orphaned() bool { return r.State.Running() || r.Unsettled }

// CheckAdvance is what every store enforces about a change, beside the revision:
// the step exists, a final record keeps its result, the submission never changes.
func CheckAdvance(old, next Record) error {
	if !CanMove(old.State, next.State) {
		_, err := old.move(next.State)
		return err
	}
	if old.State.Final() && string(old.Result) != string(next.Result) {
		return fleet.Errorf(fleet.Conflict, CodeTransition, "the result of action %s is final", old.ID)
	}
	if next.State.Final() != (len(next.Result) > 0) {
		return fleet.Errorf(fleet.Internal, CodeTransition, "a final action has a result, and no other has")
	}
	if next.Fence < old.Fence {
		return fleet.Errorf(fleet.FenceLost, CodeTransition, "the fence of action %s cannot shrink", old.ID)
	}
	return nil
}
