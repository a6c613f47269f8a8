package protocol

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Types of the messages about actions.
const (
	TypeAction              = "aip.core.v1.action"
	TypeActionResult        = "aip.core.v1.action_result"
	TypeAck                 = "aip.core.v1.ack"
	TypeCancel              = "aip.core.v1.cancel"
	TypeError               = "aip.core.v1.error"
	TypeStreamChunk         = "aip.core.v1.stream_chunk"
	TypeActionStatusRequest = "aip.lifecycle.v1.action_status_request"
	TypeActionResultRequest = "aip.lifecycle.v1.action_result_request"
	TypeActionStatus        = "aip.lifecycle.v1.action_status"
)

// Mode is how the client wants to hear of the result.
type Mode string

// Modes. An empty mode means sync.
const (
	ModeSync      Mode = "sync"
	ModeAsync     Mode = "async"
	ModeStreaming Mode = "streaming"
)

// Valid reports whether m is a mode; the empty mode is not.
func (m Mode) Valid() bool { return m == ModeSync || m == ModeAsync || m == ModeStreaming }

const (
	maxIdempotencyKey = 256
	maxReason         = 2048
	maxTimeoutMS      = fleet.MaxTimeToLiveSeconds * 1000
)

// Action is a request to invoke one capability (AIP 1.0).
type Action struct {
	ID             fleet.ActionID     `json:"id"`
	Capability     fleet.CapabilityID `json:"capability_id"`
	Input          json.RawMessage    `json:"input"`
	Mode           Mode               `json:"mode,omitempty"`
	IdempotencyKey string             `json:"idempotency_key,omitempty"` // at most 256 bytes
	TimeoutMS      uint64             `json:"timeout_ms,omitempty"`      // 0 leaves it to the receiver; at most a day
	Identity       json.RawMessage    `json:"identity,omitempty"`
	Approval       json.RawMessage    `json:"approval,omitempty"`
	Transaction    json.RawMessage    `json:"transaction,omitempty"`
	Callback       json.RawMessage    `json:"callback,omitempty"`
	Observability  json.RawMessage    `json:"observability,omitempty"`
}

// BodyKey implements Document.
func (Action) BodyKey() string { return "action" }

// MessageType implements Document.
func (Action) MessageType() string { return TypeAction }

// Validate implements Document.
func (a Action) Validate() error {
	return first(
		refuse(a.ID.IsZero(), "action", "id", missing),
		refuse(a.Capability.IsZero(), "action", "capability_id", missing),
		refuse(len(a.Input) == 0, "action", "input", missing),
		refuse(a.Mode != "" && !a.Mode.Valid(), "action", "mode", notListed),
		refuse(badText(a.IdempotencyKey, maxIdempotencyKey), "action", "idempotency_key", tooLong),
		refuse(a.TimeoutMS > maxTimeoutMS, "action", "timeout_ms", "it is more than a day"),
	)
}

// Timeout is TimeoutMS as a duration, or otherwise when it is absent.
func (a Action) Timeout(otherwise time.Duration) time.Duration {
	if a.TimeoutMS == 0 {
		return otherwise
	}
	return time.Duration(a.TimeoutMS) * time.Millisecond
}

// InputDigest is the digest of the input's canonical form: two actions with the
// same id must have the same one (G27).
func (a Action) InputDigest() (fleet.Digest, error) {
	v, err := envelope.ParseStrict(a.Input, envelope.Limits{})
	if err != nil {
		return fleet.Digest{}, err
	}
	return fleet.DigestBytes(v.Canonical()), nil
}

// ResultStatus is how an action stands in an ActionResult.
type ResultStatus string

// Result statuses. Completed, failed and cancelled are definite.
const (
	ResultCompleted       ResultStatus = "completed"
	ResultFailed          ResultStatus = "failed"
	ResultCancelled       ResultStatus = "cancelled"
	ResultPendingApproval ResultStatus = "pending_approval"
	ResultRequiresHuman   ResultStatus = "requires_human"
)

// Valid reports whether s is one of the statuses.
func (s ResultStatus) Valid() bool {
	switch s {
	case ResultCompleted, ResultFailed, ResultCancelled, ResultPendingApproval, ResultRequiresHuman:
		return true
	}
	return false
}

// Definite reports whether the status is final for the action (G44).
func (s ResultStatus) Definite() bool {
	return s == ResultCompleted || s == ResultFailed || s == ResultCancelled
}

// ActionResult is the outcome of an action (AIP 1.0).
type ActionResult struct {
	ActionID fleet.ActionID  `json:"action_id"`
	Status   ResultStatus    `json:"status"`
	Output   json.RawMessage `json:"output,omitempty"`
	// Content is what the connector said beside Output, each part an object of its
	// protocol (a text, an image, a resource) as it came. It is no member of AIP 1.0.
	Content []json.RawMessage `json:"content,omitempty"`
	Error   *Error            `json:"error,omitempty"` // required when failed
	Usage   json.RawMessage   `json:"usage,omitempty"`
	Receipt json.RawMessage   `json:"receipt,omitempty"`
}

// BodyKey implements Document.
func (ActionResult) BodyKey() string { return "action_result" }

// MessageType implements Document.
func (ActionResult) MessageType() string { return TypeActionResult }

// Validate implements Document.
func (r ActionResult) Validate() error {
	err := first(
		refuse(r.ActionID.IsZero(), "action_result", "action_id", missing),
		refuse(!r.Status.Valid(), "action_result", "status", notListed),
		refuse(r.Status == ResultFailed && r.Error == nil, "action_result", "error", "a failed action says why"),
		refuse(r.Status == ResultCompleted && r.Error != nil, "action_result", "error", "a completed action has none"),
		refuse(slices.ContainsFunc(r.Content, func(part json.RawMessage) bool { return !isObject(part) }), "action_result", "content", "a part of it is not an object"),
	)
	if err == nil && r.Error != nil {
		return r.Error.Validate()
	}
	return err
}

// Cancel asks to stop an action. It is answered with an ActionStatus.
type Cancel struct {
	ActionID fleet.ActionID `json:"action_id"`
	Reason   string         `json:"reason,omitempty"` // at most 2048 bytes
}

// BodyKey implements Document.
func (Cancel) BodyKey() string { return "cancel" }

// MessageType implements Document.
func (Cancel) MessageType() string { return TypeCancel }

// Validate implements Document.
func (c Cancel) Validate() error {
	return first(
		refuse(c.ActionID.IsZero(), "cancel", "action_id", missing),
		refuse(badText(c.Reason, maxReason), "cancel", "reason", tooLong),
	)
}

// Ack says that a message was taken, and nothing about its outcome.
type Ack struct {
	MessageID fleet.MessageID `json:"message_id"` // the message acknowledged
	ActionID  fleet.ActionID  `json:"action_id,omitzero"`
	Digest    fleet.Digest    `json:"digest,omitzero"` // of what was taken, where the sender must know
}

// BodyKey implements Document.
func (Ack) BodyKey() string { return "ack" }

// MessageType implements Document.
func (Ack) MessageType() string { return TypeAck }

// Validate implements Document.
func (a Ack) Validate() error { return refuse(a.MessageID.IsZero(), "ack", "message_id", missing) }

// ChunkKind is what a StreamChunk carries.
type ChunkKind string

// Chunk kinds. Nothing follows done.
const (
	ChunkData     ChunkKind = "data"
	ChunkProgress ChunkKind = "progress"
	ChunkTool     ChunkKind = "tool"
	ChunkThought  ChunkKind = "thought"
	ChunkPreview  ChunkKind = "preview"
	ChunkError    ChunkKind = "error"
	ChunkDone     ChunkKind = "done"
)

// Valid reports whether k is one of the kinds.
func (k ChunkKind) Valid() bool {
	switch k {
	case ChunkData, ChunkProgress, ChunkTool, ChunkThought, ChunkPreview, ChunkError, ChunkDone:
		return true
	}
	return false
}

// StreamChunk is one part of a streamed action.
type StreamChunk struct {
	ActionID fleet.ActionID  `json:"action_id"`
	Sequence uint64          `json:"sequence"` // from 0, without gaps
	Kind     ChunkKind       `json:"kind"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// BodyKey implements Document.
func (StreamChunk) BodyKey() string { return "stream_chunk" }

// MessageType implements Document.
func (StreamChunk) MessageType() string { return TypeStreamChunk }

// Validate implements Document.
func (c StreamChunk) Validate() error {
	return first(
		refuse(c.ActionID.IsZero(), "stream_chunk", "action_id", missing),
		refuse(!c.Kind.Valid(), "stream_chunk", "kind", notListed),
	)
}
