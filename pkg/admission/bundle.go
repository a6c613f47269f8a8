package admission

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Bundle is one evidence file, parsed. Exactly one of Message and Statement is
// set, and exactly one of Hint and Claim. Nothing in it is proven yet.
type Bundle struct {
	MediaType  string
	Hint       string    // which public key it names
	Claim      *Identity // whom its certificate names
	Logs       int       // transparency log entries
	Timestamps int       // RFC 3161 timestamps
	Message    *MessageSignature
	Statement  *SignedStatement
	Opaque     any // what the implementation keeps from Parse to Verify
}

// MessageSignature is a signature over the artifact itself.
type MessageSignature struct {
	Digest    fleet.Digest // that the bundle states; compared with the artifact's
	Signature []byte
}

// SignedStatement is a DSSE envelope with exactly one signature.
type SignedStatement struct {
	PayloadType string
	Payload     []byte
	KeyID       string // as the envelope says, often ""
	Signature   []byte
}

// Identity is whom a certificate was issued to: the issuer of the login and the
// one subject alternative name.
type Identity struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// Anchor is what a bundle is verified against. At least one of the two is set: a
// key signs, or the root's certificate authorities say who did. Logs and
// timestamps count only with a root.
type Anchor struct {
	Key  *Key
	Root *Root
}

// Observed is a time at which somebody trusted saw the signature.
type Observed struct {
	By string    `json:"by"` // "log" or "timestamp"
	At time.Time `json:"at"`
}

// Proof is what verification proved beyond the signature.
type Proof struct {
	Identity *Identity  // of the certificate; nil for a key
	Observed []Observed // by distinct logs and authorities
	Lifetime time.Duration
}

// Bundles is the cryptography below the policy: what an evidence file holds, and
// whether its signature, certificate, log entries and timestamps are genuine. It
// knows no policy: it never chooses whom to trust, takes every threshold from the
// root it is given, never from the bundle, and never looks at what a payload says.
// Its answers do not depend on the time at which it is asked (G35).
type Bundles interface {
	// Parse reads one evidence file. It refuses with a *fleet.Error whose code is
	// the last part of the finding's: see docs/admission.md for all of them.
	Parse(document []byte) (Bundle, error)
	// Verify proves that the bundle's signature is over exactly its content, by the
	// anchor's key or by a certificate of the anchor's root, and that the log entries
	// and timestamps it carries are genuine and as many as the root asks for. What it
	// cannot evaluate it refuses.
	Verify(bundle Bundle, against Anchor) (Proof, error)
	// CheckRoot refuses a trusted root document that Verify could not use.
	CheckRoot(document []byte) error
}
