package sigstore

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"

	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/options"

	"github.com/aipfleet/aipfleet/pkg/admission"
)

// checkSignature proves the signature itself.
func (p *proving) checkSignature() error {
	switch {
	case p.bundle.Statement != nil:
		return p.checkStatement(*p.bundle.Statement)
	case p.bundle.Message != nil:
		return p.checkMessage(*p.bundle.Message)
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

// checkStatement verifies the envelope. Its key id is not signed: it is not looked at.
func (p *proving) checkStatement(s admission.SignedStatement) error {
	data, err := json.Marshal(envelopeJSON{
		PayloadType: s.PayloadType, Payload: base64.StdEncoding.EncodeToString(s.Payload),
		Signatures: []envelopeSignature{{Sig: base64.StdEncoding.EncodeToString(s.Signature)}},
	})
	if err != nil {
		return refuse("bundle_malformed", "the envelope cannot be written")
	}
	var payload []byte
	verifier := dsse.WrapVerifier(p.verifier, dsse.WithDecodedPayload(&payload))
	if err := verifier.VerifySignature(bytes.NewReader(data), nil); err != nil || !bytes.Equal(payload, s.Payload) {
		return refuse("signature_invalid", "the named signer did not sign this statement")
	}
	return nil
}

// checkMessage proves a signature over the artifact from its digest. Ed25519
// signs the bytes themselves, which the registry does not keep: such a decision
// could not be made again, so it is not made at all (G35).
func (p *proving) checkMessage(m admission.MessageSignature) error {
	public, err := p.verifier.PublicKey()
	if err != nil {
		return refuse("signature_invalid", "the signer's key cannot be read")
	}
	if _, pure := public.(ed25519.PublicKey); pure {
		return refuse("signature_not_repeatable", "an Ed25519 signature over the artifact cannot be verified again without its bytes").
			Advise("sign a statement with release sign, or use an ECDSA P-256 key")
	}
	digest, err := hex.DecodeString(m.Digest.Hex())
	if err != nil {
		return refuse("bundle_malformed", "the message digest is not SHA-256")
	}
	if err := p.verifier.VerifySignature(bytes.NewReader(m.Signature), nil, options.WithDigest(digest)); err != nil {
		return refuse("signature_invalid", "the named signer did not sign this artifact")
	}
	return nil
}
