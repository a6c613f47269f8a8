package envelope

import "github.com/aipfleet/aipfleet/pkg/fleet"

// Codes of the refusals, in the order in which Open checks. They are stable.
const (
	CodeSize      = "envelope.size"      // larger than allowed; Kind invalid
	CodeMalformed = "envelope.malformed" // not strict JSON; Kind invalid
	CodeSchema    = "envelope.schema"    // not an envelope, or not the document expected; Kind invalid
	CodeKey       = "envelope.key"       // the signer is not a trusted key; Kind denied
	CodeSignature = "envelope.signature" // the signature does not fit; Kind denied
	CodePurpose   = "envelope.purpose"   // signed for another purpose or endpoint; Kind denied
	CodeAudience  = "envelope.audience"  // signed for another receiver; Kind denied
	CodeStale     = "envelope.stale"     // too old, or from the future; Kind denied
)

func tooLarge(have, most int) error {
	return fleet.Invalidf(CodeSize, "the document is too large").Because("it has %d bytes and %d are allowed", have, most)
}

func malformed(why string) error {
	return fleet.Invalidf(CodeMalformed, "the document is not strict JSON").Because("%s", why)
}

func schemaError(place, why string) error {
	if place != "" {
		why = fleet.Printable(place, 120) + ": " + why
	}
	return fleet.Invalidf(CodeSchema, "the document is not as its schema says").Because("%s", why)
}

func keyError(why string) error {
	return fleet.Errorf(fleet.Denied, CodeKey, "the key is not accepted").Because("%s", why)
}

func denied(code, what, why string) error {
	return fleet.Errorf(fleet.Denied, code, "%s", what).Because("%s", why)
}
