package protocol

import (
	"encoding/json"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

const (
	maxErrorCode    = 128
	maxErrorMessage = 4096
)

// Error is a protocol error: the body of an error message, and the error of a
// failed result (AIP 1.0).
type Error struct {
	Code         string          `json:"code"`
	Message      string          `json:"message"`
	Category     string          `json:"category"`
	Retryable    bool            `json:"retryable,omitempty"`
	RetryAfterMS uint64          `json:"retry_after_ms,omitempty"`
	Details      json.RawMessage `json:"details,omitempty"`
	Source       string          `json:"source,omitempty"` // who failed: gateway, host, connector, provider
}

// BodyKey implements Document.
func (Error) BodyKey() string { return "error" }

// MessageType implements Document.
func (Error) MessageType() string { return TypeError }

// Validate implements Document.
func (e Error) Validate() error {
	return first(
		refuse(e.Code == "" || badText(e.Code, maxErrorCode), "error", "code", "it needs 1..128 bytes"),
		refuse(badText(e.Message, maxErrorMessage), "error", "message", tooLong),
		refuse(e.Category == "" || badText(e.Category, maxErrorCode), "error", "category", "it needs 1..128 bytes"),
	)
}

// ErrorOf describes a fleet error to the other side: the code and category of
// its kind, what and why in the message, its own stable code and the next step in
// the details. The wrapped cause stays here: it may hold what others must not see.
func ErrorOf(err *fleet.Error, source string) Error {
	info := err.Kind.Info()
	message := err.What
	if err.Why != "" {
		message += ": " + err.Why
	}
	own := struct {
		Code string `json:"code"`
		Next string `json:"next,omitempty"`
	}{err.Code, err.Next}
	details, _ := json.Marshal(own) // a struct of plain strings always marshals
	return Error{
		Code: info.Code, Category: info.Category, Message: fleet.Printable(message, maxErrorMessage-len("…")),
		Retryable: info.Retryable, RetryAfterMS: uint64(max(err.RetryAfter.Milliseconds(), 0)),
		Details: details, Source: source,
	}
}

// RefusalClass says what a host's refusal means for the attempt.
type RefusalClass string

// Refusal classes.
const (
	// ClassNotStarted promises that this fence never executes (G41).
	ClassNotStarted RefusalClass = "not_started"
	// ClassUnknown says that an effect cannot be excluded.
	ClassUnknown RefusalClass = "unknown"
	// ClassRefused says that the message was refused before the action was
	// looked at: it proves nothing about an earlier copy.
	ClassRefused RefusalClass = "refused"
)

// Valid reports whether c is one of the classes.
func (c RefusalClass) Valid() bool {
	return c == ClassNotStarted || c == ClassUnknown || c == ClassRefused
}

// HostRefusal is the details of a host's error: which of its ordered checks
// refused (G40), and what that means.
type HostRefusal struct {
	Check int          `json:"check"` // 1..12
	Code  string       `json:"code"`  // host.…
	Class RefusalClass `json:"class"`
	// Action and Fence say which attempt the refusal is about; absent when the
	// host could not tell.
	Action fleet.ActionID `json:"action_id,omitzero"`
	Fence  uint64         `json:"fence,omitempty"`
	// Message is the SHA-256 of the refused bytes as they were received, given
	// when they were refused before their signature was checked: the sender
	// compares it with what it sent, so that a refusal of a forged copy cannot
	// be passed off as one of the genuine message.
	Message fleet.Digest `json:"message_digest,omitzero"`
}

// Validate checks the details.
func (r HostRefusal) Validate() error {
	const doc = "error"
	return first(
		refuse(r.Check < 1 || r.Check > 12, doc, "details.check", "it is not 1..12"),
		refuse(r.Code == "" || badText(r.Code, maxErrorCode), doc, "details.code", "it needs 1..128 bytes"),
		refuse(!r.Class.Valid(), doc, "details.class", notListed),
	)
}

// Refuse is ErrorOf with the refusal as its details.
func (r HostRefusal) Refuse(err *fleet.Error) Error {
	out := ErrorOf(err, "host")
	out.Details, _ = json.Marshal(r) // a struct of plain strings and numbers always marshals
	return out
}

// Refusal reads the host's refusal out of the details; false when they hold none.
func (e Error) Refusal() (HostRefusal, bool) {
	var r HostRefusal
	if len(e.Details) == 0 || envelope.DecodeStrict(e.Details, envelope.Limits{}, &r) != nil {
		return HostRefusal{}, false
	}
	return r, r.Validate() == nil
}
