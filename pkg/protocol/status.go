package protocol

import (
	"encoding/json"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// ActionStatusRequest asks the pinned host what it knows of an action (G43).
type ActionStatusRequest struct {
	ActionID fleet.ActionID `json:"action_id"`
}

// BodyKey implements Document.
func (ActionStatusRequest) BodyKey() string { return "action_status_request" }

// MessageType implements Document.
func (ActionStatusRequest) MessageType() string { return TypeActionStatusRequest }

// Validate implements Document.
func (r ActionStatusRequest) Validate() error {
	return refuse(r.ActionID.IsZero(), "action_status_request", "action_id", missing)
}

// ActionResultRequest asks for the stored result of an action.
type ActionResultRequest struct {
	ActionID fleet.ActionID `json:"action_id"`
}

// BodyKey implements Document.
func (ActionResultRequest) BodyKey() string { return "action_result_request" }

// MessageType implements Document.
func (ActionResultRequest) MessageType() string { return TypeActionResultRequest }

// Validate implements Document.
func (r ActionResultRequest) Validate() error {
	return refuse(r.ActionID.IsZero(), "action_result_request", "action_id", missing)
}

// ActionState is what a host's journal says about an action.
type ActionState string

// Action states. NotStarted and Cancelled are promises: the fence named in the
// answer, and every older one, never executes afterwards (G41).
const (
	StateNotStarted ActionState = "not_started"
	StateRunning    ActionState = "running"
	StateCompleted  ActionState = "completed" // Result is definite
	StateCancelled  ActionState = "cancelled"
	StateUnknown    ActionState = "unknown" // Evidence says what is known
)

// Valid reports whether s is one of the states.
func (s ActionState) Valid() bool {
	switch s {
	case StateNotStarted, StateRunning, StateCompleted, StateCancelled, StateUnknown:
		return true
	}
	return false
}

// ActionStatus answers a status request or a cancel.
type ActionStatus struct {
	ActionID fleet.ActionID  `json:"action_id"`
	State    ActionState     `json:"state"`
	Fence    uint64          `json:"fence,omitempty"`     // newest fence the answer speaks for
	Journal  fleet.JournalID `json:"journal_id,omitzero"` // of the answering host
	Result   *ActionResult   `json:"result,omitempty"`    // required when completed
	Evidence json.RawMessage `json:"evidence,omitempty"`  // what is known when unknown
}

// BodyKey implements Document.
func (ActionStatus) BodyKey() string { return "action_status" }

// MessageType implements Document.
func (ActionStatus) MessageType() string { return TypeActionStatus }

// Validate implements Document.
func (s ActionStatus) Validate() error {
	const doc = "action_status"
	err := first(
		refuse(s.ActionID.IsZero(), doc, "action_id", missing),
		refuse(!s.State.Valid(), doc, "state", notListed),
		refuse((s.State == StateCompleted) != (s.Result != nil), doc, "result", "a completed action has one, and no other has"),
	)
	if err != nil || s.Result == nil {
		return err
	}
	return first(
		refuse(s.Result.ActionID != s.ActionID, doc, "result.action_id", "it is of another action"),
		refuse(!s.Result.Status.Definite(), doc, "result.status", "it is not definite"),
		s.Result.Validate(),
	)
}
