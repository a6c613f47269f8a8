package action

import (
	"encoding/json"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// State is where an action stands.
type State string

// The states.
const (
	Accepted   State = "accepted"   // durable, waiting for nothing but a worker
	Queued     State = "queued"     // waiting for a place among the tenants
	Dispatched State = "dispatched" // an attempt may have left for its host
	Completed  State = "completed"  // definite success; final
	Failed     State = "failed"     // definite failure; final
	Cancelled  State = "cancelled"  // it never ran and never will; final
	Uncertain  State = "uncertain"  // it may have happened; being reconciled
	Retryable  State = "retryable"  // known not to have started; submitting it again runs it
)

// States lists every state, in the order of an action's life.
func States() []State {
	return []State{Accepted, Queued, Dispatched, Uncertain, Retryable, Completed, Failed, Cancelled}
}

// Valid reports whether s is one of the states.
func (s State) Valid() bool {
	for _, known := range States() {
		if s == known {
			return true
		}
	}
	return false
}

// Final reports whether the state never changes again (G44).
func (s State) Final() bool { return s == Completed || s == Failed || s == Cancelled }

// Running reports whether an owner is, or should be, working on the action.
func (s State) Running() bool { return s == Accepted || s == Queued || s == Dispatched }

// Submission is what a client asked for, after authentication and validation.
type Submission struct {
	ID             fleet.ActionID
	Tenant         fleet.TenantID // verified, never from a body (G19)
	Capability     fleet.CapabilityID
	Principal      string          // verified submitter
	Input          json.RawMessage // as received
	IdempotencyKey string          // "" is none; unique per (tenant, capability)
	Mode           string          // sync, async or streaming
	Timeout        time.Duration   // of one run; more than zero
	Owner          string          // the aipd that will run it
}

// ContentDigest identifies what a submission means: the capability, the input's
// canonical form, and the idempotency key. Mode and timeout do not count.
func (s Submission) ContentDigest() (fleet.Digest, error) {
	canonical, err := envelope.CanonicalOf(struct {
		Capability fleet.CapabilityID `json:"capability_id"`
		Input      json.RawMessage    `json:"input"`
		Key        string             `json:"idempotency_key"`
	}{s.Capability, s.Input, s.IdempotencyKey})
	if err != nil {
		return fleet.Digest{}, err
	}
	return fleet.DigestBytes(canonical), nil
}

// Record is the central life of one action.
type Record struct {
	Submission
	Content         fleet.Digest // of the submission
	State           State
	Revision        uint64 // grows by one per change; the compare of compare-and-set
	Runs            uint32 // how many times it was taken up, the first included
	Fence           uint64 // highest fence whose request may have been written; 0 is none
	Unsettled       bool   // its reservation may still be open
	CancelRequested bool
	Result          []byte       // exact bytes of the action_result document; only in final states
	Evidence        fleet.Digest // of the signed answer or decision behind the state
	Problem         *Problem     // why it is retryable or uncertain, or failed here
	CreatedAt       time.Time
	UpdatedAt       time.Time
	Deadline        time.Time // of the current run
}

// NewRecord is the first record of a submission.
func NewRecord(s Submission, now time.Time) (Record, error) {
	content, err := s.ContentDigest()
	if err != nil {
		return Record{}, err
	}
	if s.ID.IsZero() || s.Tenant.IsZero() || s.Capability.IsZero() || s.Owner == "" || s.Timeout <= 0 {
		return Record{}, fleet.Invalidf(CodeSubmission, "the submission is not complete")
	}
	now = micro(now)
	return Record{
		Submission: s, Content: content, State: Accepted, Revision: 1, Runs: 1,
		CreatedAt: now, UpdatedAt: now, Deadline: micro(now.Add(s.Timeout)),
	}, nil
}

// micro cuts a time to what every store keeps: UTC, microseconds.
func micro(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Codes of this package's refusals.
const (
	CodeSubmission = "action.submission" // Invalid
	CodeUnknown    = "action.unknown"    // NotFound: no such action of this tenant
	CodeConflict   = "action.conflict"   // Conflict: the id or key means something else already
	CodeTransition = "action.transition" // Conflict: the state machine has no such step
	CodeMoved      = "action.moved"      // Conflict: somebody else changed it; read again
)

// NotFoundError is the answer to an action that does not exist or belongs to
// another tenant: the two cannot be told apart (G18).
func NotFoundError(id fleet.ActionID) *fleet.Error {
	return fleet.Errorf(fleet.NotFound, CodeUnknown, "there is no action %s", id).
		Advise("list yours with: aipctl action list")
}

// ConflictError is the answer to an id or key that is taken by other content (G03).
func ConflictError(what string) *fleet.Error {
	return fleet.Errorf(fleet.Conflict, CodeConflict, "%s is already used for something else", what).
		Because("the same id or key with other content, capability or tenant is not a repeat").
		Advise("submit the new content under a new action id and idempotency key")
}

// MovedError is the answer to a change based on an older revision.
func MovedError(id fleet.ActionID) *fleet.Error {
	return fleet.Errorf(fleet.Conflict, CodeMoved, "action %s was changed by somebody else", id)
}
