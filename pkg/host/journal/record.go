package journal

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// State is how far an action has come on this host.
type State string

// States in the order in which an execution passes them. Planning and Planned are of
// transactional capabilities alone. The last five end an execution; only from
// NotStarted may another one begin.
const (
	None        State = ""             // the journal does not know the action
	Accepted    State = "accepted"     // every check passed
	Intent      State = "intent"       // what will be called is written down
	Planning    State = "planning"     // the provider may be holding a plan
	Planned     State = "planned"      // the plan is written down, nothing of it committed
	CallStarted State = "call_started" // the provider may have been called
	Releasing   State = "releasing"    // the plan is not committed, and may be held still
	NotStarted  State = "not_started"  // no call was made
	Result      State = "result"       // the outcome is definite
	Unknown     State = "unknown"      // a call was made and its outcome is not known
	Cancelled   State = "cancelled"    // a tombstone: it never runs
)

// Running reports whether an execution is under way.
func (s State) Running() bool {
	return s == Accepted || s == Intent || s == CallStarted || s.Plans()
}

// Plans reports whether an execution prepares its call.
func (s State) Plans() bool { return s == Planning || s == Planned }

// Refusal is the answer that a closed fence gets every time.
type Refusal struct {
	Check int    `json:"check"` // 1..12
	Code  string `json:"code"`
	Why   string `json:"why,omitempty"`
}

// Record is everything the journal knows of one action. Its methods are the only
// legal transitions; each refuses with Kind conflict, [CodeTransition].
type Record struct {
	Action         fleet.ActionID     `json:"action_id"`
	Capability     fleet.CapabilityID `json:"capability_id"`
	Tenant         fleet.TenantID     `json:"tenant_id"`
	InputDigest    fleet.Digest       `json:"input_digest"`
	IdempotencyKey string             `json:"idempotency_key,omitempty"` // as given to the provider
	State          State              `json:"state"`
	Fence          uint64             `json:"fence,omitempty"`   // the attempt that State is about
	Highest        fleet.Fence        `json:"highest"`           // newest fence ever seen
	Closed         uint64             `json:"closed,omitempty"`  // this fence and older ones never execute (G41)
	Called         uint64             `json:"called,omitempty"`  // newest fence under which the provider was called
	Calls          uint32             `json:"calls,omitempty"`   // provider calls made for the action
	Refusal        *Refusal           `json:"refusal,omitempty"` // what the closed fence is told
	Deadline       time.Time          `json:"deadline,omitzero"`
	Operation      json.RawMessage    `json:"operation,omitempty"`     // last provider checkpoint
	Document       json.RawMessage    `json:"document,omitempty"`      // the action_result, exactly as it was signed
	Evidence       json.RawMessage    `json:"evidence,omitempty"`      // what is known when unknown, or why not started
	Decisions      [][]byte           `json:"decisions,omitempty"`     // operators' signed decisions, oldest first
	Decided        uint64             `json:"decided,omitempty"`       // newest fence a decision says did not happen
	Plan           json.RawMessage    `json:"plan,omitempty"`          // of a transactional call, while it may be held
	Compensates    fleet.ActionID     `json:"compensates,omitzero"`    // the action whose effect this one undoes
	CompensatedBy  fleet.ActionID     `json:"compensated_by,omitzero"` // the action that undoes, or undid, this one
	Settled        bool               `json:"settled,omitempty"`       // central has it, and keeps it
	Pruned         bool               `json:"pruned,omitempty"`        // only id, verdict and fences are left
	AcceptedAt     time.Time          `json:"accepted_at,omitzero"`
	ChangedAt      time.Time          `json:"changed_at,omitzero"`
}

// Known reports whether the journal has a record of the action.
func (r *Record) Known() bool { return r.State != None }

// See notes a fence. An older one, or the same number with another token, is
// refused with FenceLost (G06).
func (r *Record) See(fence fleet.Fence) error {
	if fence.Number < r.Highest.Number {
		return fenceLost("a newer attempt has been seen")
	}
	if fence.Number == r.Highest.Number && r.Highest.Token != "" && fence.Token != r.Highest.Token {
		return fenceLost("the attempt has another token")
	}
	r.Highest = fence
	return nil
}

// Acceptance is what an execution is accepted for.
type Acceptance struct {
	Action         fleet.ActionID
	Capability     fleet.CapabilityID
	Tenant         fleet.TenantID
	InputDigest    fleet.Digest
	IdempotencyKey string
	Fence          fleet.Fence
	Compensates    fleet.ActionID // zero unless the action undoes another one
	Deadline       time.Time
	At             time.Time
}

// MayExecute reports whether an execution may begin under the fence.
func (r *Record) MayExecute(fence uint64) bool {
	if fence <= r.Closed || fence <= r.Called {
		return false
	}
	return r.State == None || r.State == NotStarted
}

// Accept begins an execution.
func (r *Record) Accept(a Acceptance) error {
	if err := r.See(a.Fence); err != nil {
		return err
	}
	if !r.MayExecute(a.Fence.Number) {
		return r.refuse("accept")
	}
	if !r.InputDigest.IsZero() && r.InputDigest != a.InputDigest {
		return r.refuse("accept other input")
	}
	r.Action, r.Capability, r.Tenant = a.Action, a.Capability, a.Tenant
	r.InputDigest, r.IdempotencyKey, r.Deadline = a.InputDigest, a.IdempotencyKey, a.Deadline
	r.State, r.Fence, r.AcceptedAt = Accepted, a.Fence.Number, a.At
	r.Refusal, r.Evidence, r.Plan, r.Compensates, r.Pruned = nil, nil, nil, a.Compensates, false
	return nil
}

// Intend writes down that the provider is about to be called.
func (r *Record) Intend() error { return r.move(Intent, Accepted) }

// StartCall must be durable before the first byte goes to the provider. Under one
// fence it succeeds once (G25).
func (r *Record) StartCall() error {
	if r.Fence <= r.Called || r.Fence <= r.Closed {
		return r.refuse("call")
	}
	if err := r.move(CallStarted, Intent, Planned); err != nil {
		return err
	}
	r.Called = r.Fence
	r.Calls++
	return nil
}

// Checkpoint keeps what the provider said about the operation under way.
func (r *Record) Checkpoint(operation json.RawMessage) error {
	if r.State != CallStarted {
		return r.refuse("checkpoint")
	}
	r.Operation = slices.Clone(operation)
	return nil
}

// Finish writes the definite outcome, found by the call or by reconciliation.
func (r *Record) Finish(document json.RawMessage) error {
	if err := r.move(Result, Planning, CallStarted, Unknown); err != nil {
		return err
	}
	r.Document, r.Evidence, r.Plan = slices.Clone(document), nil, nil
	return nil
}

// Lose writes that the outcome of a call is not known, or that a plan may still be
// held.
func (r *Record) Lose(evidence json.RawMessage) error {
	if r.State != Releasing {
		if err := r.move(Unknown, CallStarted, Unknown); err != nil {
			return err
		}
	}
	r.Evidence = slices.Clone(evidence)
	return nil
}

// Abandon ends an execution of which it is proved that no call was written, or whose
// plan was given back, and closes its fence.
func (r *Record) Abandon(why Refusal) error {
	if err := r.move(NotStarted, Accepted, Intent, Planning, CallStarted, Releasing); err != nil {
		return err
	}
	r.Plan = nil
	r.shut(r.Fence, why)
	return nil
}

// Close promises that the fence and every older one never execute (G41). The fence
// may be older than the newest one seen.
func (r *Record) Close(action fleet.ActionID, fence fleet.Fence, why Refusal) error {
	if fence.Number >= r.Highest.Number {
		if err := r.See(fence); err != nil {
			return err
		}
	}
	if r.State != None && r.State != NotStarted {
		return r.refuse("close")
	}
	r.Action, r.State, r.Fence = action, NotStarted, max(r.Fence, fence.Number)
	r.shut(fence.Number, why)
	return nil
}

func (r *Record) shut(fence uint64, why Refusal) {
	if fence > r.Closed {
		r.Closed, r.Refusal = fence, &why
	}
}

// Cancel leaves a tombstone, as long as no call was made. Document is the result
// that says so.
func (r *Record) Cancel(action fleet.ActionID, fence fleet.Fence, document json.RawMessage) error {
	if err := r.move(Cancelled, None, NotStarted, Accepted, Intent); err != nil {
		return err
	}
	r.Action, r.Document = action, slices.Clone(document)
	if fence.Number > r.Highest.Number {
		r.Highest = fence
	}
	r.Closed = max(r.Closed, r.Highest.Number)
	return nil
}

// Took reports whether the record holds this signed decision.
func (r *Record) Took(signed []byte) bool {
	return slices.ContainsFunc(r.Decisions, func(have []byte) bool { return bytes.Equal(have, signed) })
}

// Decide keeps an operator's signed decision that no attempt up to fence happened.
// It must cover the newest call. Afterwards the action counts as not started, and
// the attempts it covers are closed.
func (r *Record) Decide(action fleet.ActionID, fence uint64, signed []byte) error {
	if r.State != None && r.State != NotStarted && r.State != Unknown || fence < r.Called {
		return r.refuse("decided")
	}
	r.Action, r.State = action, NotStarted
	if fence > r.Decided {
		r.Decided = fence
		r.Decisions = append(r.Decisions, slices.Clone(signed))
	}
	r.shut(fence, Refusal{Check: 6, Code: "host.decided", Why: "an operator decided that it did not happen"})
	return nil
}

// recover is what a restart means for the record: G26.
func (r *Record) recover() bool {
	switch r.State {
	case Accepted, Intent:
		r.State = NotStarted
		r.Evidence = json.RawMessage(`{"reason":"restart","before":"call_started"}`)
	case Planning, Planned:
		r.State = Releasing
		r.Evidence = json.RawMessage(`{"reason":"restart","after":"plan","before":"call_started"}`)
	case CallStarted:
		r.State = Unknown
		r.Evidence = json.RawMessage(`{"reason":"restart","after":"call_started"}`)
	default:
		return false
	}
	return true
}

func (r *Record) move(to State, from ...State) error {
	if !slices.Contains(from, r.State) {
		return r.refuse(string(to))
	}
	r.State = to
	return nil
}

func (r *Record) refuse(wanted string) error {
	state := r.State
	if state == None {
		state = "nothing"
	}
	e := fleet.Errorf(fleet.Conflict, CodeTransition, "the action cannot go to %s", wanted)
	return e.Because("the journal says %s (fence %d, closed %d, called %d)", state, r.Fence, r.Closed, r.Called)
}

func fenceLost(why string) error {
	return fleet.Errorf(fleet.FenceLost, CodeFence, "the attempt is superseded").Because("%s", why)
}
