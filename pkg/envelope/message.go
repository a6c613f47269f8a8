package envelope

import (
	"encoding/json"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Version is the one AIP version this package speaks.
const Version = "1.0"

// Purpose is what a signature was given for. A receiver accepts one purpose, so
// that a signature can never be replayed as another (G19).
type Purpose string

// The purposes.
const (
	Dispatch          Purpose = "dispatch"           // gateway to host: do, cancel or report on an action
	Response          Purpose = "response"           // host to gateway: the answer to a dispatch
	Lifecycle         Purpose = "lifecycle"          // host to lifecycle: register, beat, drain, offline
	LifecycleResponse Purpose = "lifecycle_response" // lifecycle to host
	Event             Purpose = "event"              // host to gateway: provider events
	Callback          Purpose = "callback"           // host to gateway: stream chunks
	Plan              Purpose = "plan"               // an orchestration plan
	Decision          Purpose = "decision"           // an operator's decision about an uncertain attempt
	Publication       Purpose = "publication"        // a catalog publication
	Native            Purpose = "native"             // a client's own signed message
)

// Valid reports whether p is one of the purposes.
func (p Purpose) Valid() bool {
	switch p {
	case Dispatch, Response, Lifecycle, LifecycleResponse, Event, Callback, Plan, Decision, Publication, Native:
		return true
	}
	return false
}

// Principal is who acts (AIP 1.0).
type Principal struct {
	ID          string `json:"id"`
	Kind        string `json:"kind"` // human, agent, service, tenant, system, …
	DID         DID    `json:"did,omitzero"`
	TrustDomain string `json:"trust_domain,omitempty"`
}

// Security is the signed protection of an envelope. The time that freshness is
// judged by is the envelope's own sent_at, which the signature covers as well.
type Security struct {
	Purpose  Purpose         `json:"purpose"`
	Signer   DID             `json:"signer,omitzero"`
	Audience DID             `json:"audience,omitzero"`
	Route    json.RawMessage `json:"route,omitempty"` // route coordinates of a dispatch
	// Signature is padded base64 of the Ed25519 signature over the canonical
	// form of the message without this member.
	Signature string `json:"signature,omitempty"`
}

// Envelope is one AIP 1.0 message.
type Envelope struct {
	AIPVersion     string                     `json:"aip_version"`
	MessageType    string                     `json:"message_type"`
	MessageID      fleet.MessageID            `json:"message_id"`
	SentAt         time.Time                  `json:"sent_at"` // RFC 3339, nanoseconds allowed
	Body           json.RawMessage            `json:"body"`    // an object with exactly one snake_case member
	SessionID      string                     `json:"session_id,omitempty"`
	CorrelationID  string                     `json:"correlation_id,omitempty"`
	InResponseTo   fleet.MessageID            `json:"in_response_to,omitzero"`
	IdempotencyKey string                     `json:"idempotency_key,omitempty"`
	From           *Principal                 `json:"from,omitempty"`
	To             *Principal                 `json:"to,omitempty"`
	Trace          json.RawMessage            `json:"trace,omitempty"`
	Security       *Security                  `json:"security,omitempty"`
	Extensions     map[string]json.RawMessage `json:"extensions,omitempty"`
}

// NewBody makes the body {key: doc}.
func NewBody(key string, doc any) (json.RawMessage, error) {
	if !snakeCase(key) {
		return nil, schemaError("body", "the member name is not snake_case")
	}
	v, err := valueOf(map[string]any{key: doc})
	if err != nil {
		return nil, err
	}
	return v.Canonical(), nil
}

// Bounds of the texts of an envelope, in bytes.
const (
	maxMessageType = 128
	maxKeyText     = 256
	maxPrincipalID = 256
)

// Validate checks what AIP 1.0 asks of an envelope, signed or not. The error
// has code envelope.schema and names the member.
func (e Envelope) Validate() error {
	switch {
	case e.AIPVersion != Version:
		return schemaError("aip_version", "only version "+Version+" is spoken here")
	case !messageType(e.MessageType):
		return schemaError("message_type", "it is not a dotted lower-case name")
	case e.MessageID.IsZero():
		return schemaError("message_id", "it is missing")
	case e.SentAt.IsZero():
		return schemaError("sent_at", "it is missing")
	}
	texts := []struct{ name, text string }{
		{"session_id", e.SessionID}, {"correlation_id", e.CorrelationID}, {"idempotency_key", e.IdempotencyKey},
	}
	for _, t := range texts {
		if len(t.text) > maxKeyText || !printableText(t.text) {
			return schemaError(t.name, "it is longer than 256 bytes or holds control characters")
		}
	}
	if err := e.From.validate("from"); err != nil {
		return err
	}
	if err := e.To.validate("to"); err != nil {
		return err
	}
	_, _, err := bodyMember(e.Body)
	return err
}

func (p *Principal) validate(place string) error {
	if p == nil {
		return nil
	}
	if p.ID == "" || len(p.ID) > maxPrincipalID || !printableText(p.ID) {
		return schemaError(place+".id", "it needs 1..256 bytes without control characters")
	}
	if !snakeCase(p.Kind) {
		return schemaError(place+".kind", "it is not a snake_case word")
	}
	if len(p.TrustDomain) > maxPrincipalID || !printableText(p.TrustDomain) {
		return schemaError(place+".trust_domain", "it is longer than 256 bytes or holds control characters")
	}
	return nil
}

// bodyMember takes the single member of a body.
func bodyMember(body json.RawMessage) (string, Value, error) {
	v, err := ParseStrict(body, Limits{MaxBytes: maxOwnBytes, MaxDepth: maxDepthCeiling})
	if err != nil {
		return "", Value{}, schemaError("body", "it is missing or not strict JSON")
	}
	return soleMember(v)
}

func soleMember(body Value) (string, Value, error) {
	members := body.Members()
	if len(members) != 1 || !snakeCase(members[0].Name) {
		return "", Value{}, schemaError("body", "it is not an object with exactly one snake_case member")
	}
	return members[0].Name, members[0].Value, nil
}

func messageType(s string) bool {
	if s == "" || len(s) > maxMessageType {
		return false
	}
	dots := 0
	for i, c := range s {
		switch {
		case c >= 'a' && c <= 'z':
		case i > 0 && (c >= '0' && c <= '9' || c == '_'):
		case i > 0 && c == '.' && s[i-1] != '.':
			dots++
		default:
			return false
		}
	}
	return dots > 0 && s[len(s)-1] != '.'
}

func snakeCase(s string) bool {
	if s == "" || len(s) > maxMessageType || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

func printableText(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return false
		}
	}
	return true
}
