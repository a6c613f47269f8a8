package sigstore

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/options"

	"github.com/aipfleet/aipfleet/pkg/admission"
)

// Verify implements admission.Bundles.
func (Keyed) Verify(b admission.Bundle, key admission.Key) error {
	verifier, err := signature.LoadVerifier(key.Public(), crypto.SHA256)
	if err != nil {
		return refuse("signature_invalid", "key %s cannot verify", key.ID)
	}
	switch {
	case b.Statement != nil:
		return verifyStatement(verifier, *b.Statement, key)
	case b.Message != nil:
		return verifyMessage(verifier, *b.Message, key)
	}
	return refuse("bundle_malformed", "the bundle holds no signature")
}

// envelopeJSON is a DSSE envelope as Sigstore's verifier reads it.
type envelopeJSON struct {
	PayloadType string              `json:"payloadType"`
	Payload     string              `json:"payload"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	KeyID string `json:"keyid,omitempty"`
	Sig   string `json:"sig"`
}

func verifyStatement(v signature.Verifier, s admission.SignedStatement, key admission.Key) error {
	if s.KeyID != "" && s.KeyID != key.ID && s.KeyID != key.Hint() {
		return refuse("signature_key_disagrees", "the envelope names key %q, the bundle key %s", s.KeyID, key.ID)
	}
	data, err := json.Marshal(envelopeJSON{
		PayloadType: s.PayloadType, Payload: base64.StdEncoding.EncodeToString(s.Payload),
		Signatures: []envelopeSignature{{Sig: base64.StdEncoding.EncodeToString(s.Signature)}},
	})
	if err != nil {
		return refuse("bundle_malformed", "the envelope cannot be written")
	}
	var payload []byte
	verifier := dsse.WrapVerifier(v, dsse.WithDecodedPayload(&payload))
	if err := verifier.VerifySignature(bytes.NewReader(data), nil); err != nil || !bytes.Equal(payload, s.Payload) {
		return refuse("signature_invalid", "key %s did not sign this statement", key.ID)
	}
	return nil
}

// verifyMessage proves a signature over the artifact from its digest. Ed25519
// signs the bytes themselves, which the registry does not keep: such a decision
// could not be made again, so it is not made at all (G35).
func verifyMessage(v signature.Verifier, m admission.MessageSignature, key admission.Key) error {
	if _, pure := key.Public().(ed25519.PublicKey); pure {
		return refuse("signature_not_repeatable", "an Ed25519 signature over the artifact cannot be verified again without its bytes").
			Advise("sign a statement with release sign, or use an ECDSA P-256 key")
	}
	digest, err := hex.DecodeString(m.Digest.Hex())
	if err != nil || len(digest) != sha256Size {
		return refuse("bundle_malformed", "the message digest is not SHA-256")
	}
	if err := v.VerifySignature(bytes.NewReader(m.Signature), nil, options.WithDigest(digest)); err != nil {
		return refuse("signature_invalid", "key %s did not sign this artifact", key.ID)
	}
	return nil
}

const sha256Size = 32
