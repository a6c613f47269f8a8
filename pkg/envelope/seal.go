package envelope

import (
	"encoding/base64"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// CodeSeal is the code of a message that cannot be signed as asked.
const CodeSeal = "envelope.seal"

// Seal signs env for one purpose and one receiver and returns the canonical
// bytes to send. It keeps env.Security.Route and sets everything else of the
// security member. A from.did or to.did that env carries must be the signer's
// and the audience's.
func Seal(env Envelope, purpose Purpose, signer Signer, audience DID) ([]byte, error) {
	if err := sealable(purpose, signer, audience); err != nil {
		return nil, err
	}
	security := Security{Purpose: purpose, Signer: signer.DID(), Audience: audience}
	if env.Security != nil {
		security.Route = env.Security.Route
	}
	env.Security = &security
	if err := env.Validate(); err != nil {
		return nil, err
	}
	if err := checkParties(env, signer.DID(), audience); err != nil {
		return nil, err
	}
	unsigned, err := CanonicalOf(env)
	if err != nil {
		return nil, err
	}
	security.Signature = base64.StdEncoding.EncodeToString(signer.sign(unsigned))
	return CanonicalOf(env)
}

func sealable(purpose Purpose, signer Signer, audience DID) error {
	switch {
	case signer.IsZero():
		return fleet.Invalidf(CodeSeal, "the message cannot be signed").Because("there is no key")
	case audience.IsZero():
		return fleet.Invalidf(CodeSeal, "the message cannot be signed").Because("it names no receiver")
	case !purpose.Valid():
		return fleet.Invalidf(CodeSeal, "the message cannot be signed").Because("its purpose is not known")
	}
	return nil
}

// checkParties refuses a from or to that names another identity than the
// security member does.
func checkParties(env Envelope, signer, audience DID) error {
	if env.From != nil && !env.From.DID.IsZero() && env.From.DID != signer {
		return denied(CodeKey, "the sender is not accepted", "from names another identity than the signer")
	}
	if env.To != nil && !env.To.DID.IsZero() && env.To.DID != audience {
		return denied(CodeAudience, "the message is for somebody else", "to names another identity than the audience")
	}
	return nil
}
