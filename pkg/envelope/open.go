package envelope

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Freshness bounds where an Expect field is zero.
const (
	DefaultMaxAge   = 300 * time.Second
	DefaultMaxAhead = 30 * time.Second
)

// Expect is what a receiver insists on. Purpose, Audience, Now and one of Peer
// and Keys are required; without them nothing opens.
type Expect struct {
	Purpose  Purpose
	Audience DID // the receiver's own identity
	// Peer is the one pinned identity the message must come from. When set,
	// Keys is not consulted.
	Peer DID
	// Keys are the identities the message may come from.
	Keys KeySet
	Now  time.Time
	// MaxAge and MaxAhead bound sent_at against Now; zero means the defaults.
	MaxAge, MaxAhead time.Duration
	Limits           Limits
	// MessageTypes lists what the endpoint takes; empty takes every type.
	MessageTypes []string
}

// Opened is a message whose every check passed. Only Open makes one.
type Opened struct {
	env    Envelope
	key    string
	body   json.RawMessage
	raw    []byte
	digest fleet.Digest
}

// Envelope is the decoded message. Its raw members share memory with o.
func (o Opened) Envelope() Envelope { return o.env }

// BodyKey is the name of the body's single member.
func (o Opened) BodyKey() string { return o.key }

// Body is the value of the body's single member, as received.
func (o Opened) Body() json.RawMessage { return o.body }

// Route is security.route as received, nil when absent.
func (o Opened) Route() json.RawMessage { return o.env.Security.Route }

// Signer is the identity that signed; it is the pinned peer or a key of the set.
func (o Opened) Signer() DID { return o.env.Security.Signer }

// Digest identifies the message: SHA-256 of its canonical form, signature
// included. Two copies that differ in white space or member order are one.
func (o Opened) Digest() fleet.Digest { return o.digest }

// Raw is the message as received.
func (o Opened) Raw() []byte { return o.raw }

// Open proves that data is a message that the expected peer signed, for this
// purpose and receiver, recently. Checks run in this order, and the first that
// fails names itself: size, strict parse, schema, key, signature, purpose,
// audience, freshness. Nothing may be stored for a message that did not open.
// Whether the message was seen before is the caller's question.
func Open(data []byte, want Expect) (Opened, error) {
	v, err := ParseStrict(data, want.Limits)
	if err != nil {
		return Opened{}, err
	}
	env, err := decodeEnvelope(v)
	if err != nil {
		return Opened{}, err
	}
	if err := want.trusts(env); err != nil {
		return Opened{}, err
	}
	if err := verify(v, env.Security); err != nil {
		return Opened{}, err
	}
	if err := want.accepts(env); err != nil {
		return Opened{}, err
	}
	body, _ := v.Get("body")
	key, member, err := soleMember(body)
	if err != nil {
		return Opened{}, err
	}
	raw := slices.Clone(data)
	return Opened{env: env, key: key, body: member.Raw(), raw: raw, digest: fleet.DigestBytes(v.Canonical())}, nil
}

// decodeEnvelope reads the tree into an Envelope. Top-level members beyond
// those of AIP 1.0 are refused: extensions is their place.
func decodeEnvelope(v Value) (Envelope, error) {
	var env Envelope
	if v.Kind() != Object {
		return env, schemaError("", "a message is an object")
	}
	for _, m := range v.Members() {
		if !envelopeMember(m.Name) {
			return env, schemaError(m.Name, "an envelope has no such member")
		}
		if m.Value.Kind() == Null {
			return env, schemaError(m.Name, "null stands for nothing here")
		}
	}
	if err := v.Decode(&env); err != nil {
		return env, err
	}
	if err := env.Validate(); err != nil {
		return env, err
	}
	if env.Security == nil {
		return env, denied(CodeSignature, "the message is not accepted", "it is not signed")
	}
	security, _ := v.Get("security")
	return env, safeCounters(security)
}

func envelopeMember(name string) bool {
	switch name {
	case "aip_version", "message_type", "message_id", "sent_at", "body", "session_id", "correlation_id",
		"in_response_to", "idempotency_key", "from", "to", "trace", "security", "extensions":
		return true
	}
	return false
}

// safeCounters refuses numbers in the security member, all of them counters of
// ours, that a float64 would round.
func safeCounters(v Value) error {
	switch v.Kind() {
	case Number:
		if !safeNumber(v.Text()) {
			return schemaError("security", "a number is outside the safe integers")
		}
	case Array:
		for _, item := range v.Items() {
			if err := safeCounters(item); err != nil {
				return err
			}
		}
	case Object:
		for _, m := range v.Members() {
			if err := safeCounters(m.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (want Expect) trusts(env Envelope) error {
	signer := env.Security.Signer
	if signer.IsZero() {
		return denied(CodeKey, "the sender is not accepted", "the message names no signer")
	}
	trusted := want.Keys.Trusts(signer, want.Now)
	if !want.Peer.IsZero() {
		trusted = signer == want.Peer
	}
	if !trusted {
		return denied(CodeKey, "the sender is not accepted", "the signer is not a key trusted here now")
	}
	return nil
}

// verify checks the signature over the received tree, not over what was decoded.
func verify(v Value, security *Security) error {
	signature, err := base64.StdEncoding.DecodeString(security.Signature)
	// The decoder skips line breaks and ignores trailing bits; comparing refuses both.
	if err != nil || len(signature) != ed25519.SignatureSize ||
		base64.StdEncoding.EncodeToString(signature) != security.Signature {
		return denied(CodeSignature, "the message is not accepted", "the signature is not 64 bytes in padded base64")
	}
	signed := v.Without("security", "signature").Canonical()
	if !ed25519.Verify(security.Signer.PublicKey(), signed, signature) {
		return denied(CodeSignature, "the message is not accepted", "the signature does not fit the message")
	}
	return nil
}

// accepts checks what the signed content says: purpose, audience, freshness.
func (want Expect) accepts(env Envelope) error {
	security := env.Security
	if !want.Purpose.Valid() || security.Purpose != want.Purpose {
		return denied(CodePurpose, "the message is not accepted", "it was signed for another purpose")
	}
	if len(want.MessageTypes) > 0 && !slices.Contains(want.MessageTypes, env.MessageType) {
		return denied(CodePurpose, "the message is not accepted", "its type is not taken here")
	}
	if want.Audience.IsZero() || security.Audience != want.Audience {
		return denied(CodeAudience, "the message is not accepted", "it was signed for another receiver")
	}
	if err := checkParties(env, security.Signer, security.Audience); err != nil {
		return err
	}
	return want.fresh(env.SentAt)
}

func (want Expect) fresh(sentAt time.Time) error {
	maxAge, maxAhead := want.MaxAge, want.MaxAhead
	if maxAge <= 0 {
		maxAge = DefaultMaxAge
	}
	if maxAhead <= 0 {
		maxAhead = DefaultMaxAhead
	}
	switch {
	case want.Now.IsZero() || sentAt.Before(want.Now.Add(-maxAge)):
		return denied(CodeStale, "the message is not accepted", "it is too old")
	case sentAt.After(want.Now.Add(maxAhead)):
		e := fleet.Errorf(fleet.Denied, CodeStale, "the message is not accepted").Because("it comes from the future")
		return e.Advise("compare the clocks of both machines")
	}
	return nil
}
