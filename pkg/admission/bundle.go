package admission

import "github.com/aipfleet/aipfleet/pkg/fleet"

// Bundle is one evidence file, parsed. Exactly one of Message and Statement is set.
type Bundle struct {
	MediaType string
	Hint      string // which public key it claims
	Message   *MessageSignature
	Statement *SignedStatement
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

// Bundles is the cryptography below the policy: what an evidence file holds, and
// whether a key made its signature. It knows no policy: it never chooses a key
// and never looks at what a payload says.
type Bundles interface {
	// Parse reads one evidence file. It refuses with a *fleet.Error whose code is
	// the last part of the finding's: "bundle_malformed", "bundle_media_type",
	// "bundle_not_keyed", "bundle_log_not_evaluated", "bundle_signature_count".
	Parse(document []byte) (Bundle, error)
	// Verify proves that key made the bundle's signature over exactly the bundle's
	// content. An error means it did not, or that it cannot be proved from what the
	// registry keeps: code "signature_invalid" or "signature_not_repeatable".
	Verify(bundle Bundle, key Key) error
}
