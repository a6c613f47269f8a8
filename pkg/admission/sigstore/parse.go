package sigstore

import (
	"encoding/hex"
	"strings"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	dssepb "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// MediaType is that of the bundles made here.
const MediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// Keyed implements admission.Bundles for bundles signed with a key.
type Keyed struct{}

var _ admission.Bundles = Keyed{}

// Parse implements admission.Bundles. The document passes the strict JSON gate
// before protobuf sees it: protobuf alone would take other spellings of a name.
func (Keyed) Parse(document []byte) (admission.Bundle, error) {
	if _, err := envelope.ParseStrict(document, envelope.Limits{MaxBytes: 8 << 20, MaxDepth: 32}); err != nil {
		return admission.Bundle{}, refuse("bundle_malformed", "the bundle is not one strict JSON document").Because("%v", err)
	}
	var b bundlepb.Bundle
	if err := protojson.Unmarshal(document, &b); err != nil {
		// The library's text differs between builds on purpose, and findings must not.
		return admission.Bundle{}, refuse("bundle_malformed", "the document is not a Sigstore bundle")
	}
	if !knownMediaType(b.GetMediaType()) {
		return admission.Bundle{}, refuse("bundle_media_type", "media type %q is not a bundle version 0.1 to 0.3", b.GetMediaType()).Advise("make a bundle of %s", MediaType)
	}
	hint, err := keyHint(b.GetVerificationMaterial())
	if err != nil {
		return admission.Bundle{}, err
	}
	out := admission.Bundle{MediaType: b.GetMediaType(), Hint: hint}
	switch {
	case b.GetDsseEnvelope() != nil:
		out.Statement, err = statementOf(b.GetDsseEnvelope())
	case b.GetMessageSignature() != nil:
		out.Message, err = messageOf(b.GetMessageSignature())
	default:
		err = refuse("bundle_malformed", "the bundle holds no signature")
	}
	if err != nil {
		return admission.Bundle{}, err
	}
	return out, nil
}

func knownMediaType(s string) bool {
	switch s {
	case MediaType,
		"application/vnd.dev.sigstore.bundle+json;version=0.3",
		"application/vnd.dev.sigstore.bundle+json;version=0.2",
		"application/vnd.dev.sigstore.bundle+json;version=0.1":
		return true
	}
	return false
}

// keyHint takes the key's name, and refuses whatever else a bundle may claim and
// this package does not evaluate.
func keyHint(m *bundlepb.VerificationMaterial) (string, error) {
	if m.GetCertificate() != nil || m.GetX509CertificateChain() != nil || m.GetPublicKey() == nil {
		return "", refuse("bundle_not_keyed", "the bundle is not signed with a key").Advise("sign with a key of the trust policy")
	}
	if len(m.GetTlogEntries()) > 0 || len(m.GetTimestampVerificationData().GetRfc3161Timestamps()) > 0 {
		return "", refuse("bundle_log_not_evaluated", "the bundle carries log entries or timestamps, which are not evaluated").Advise("sign without a log and a timestamp authority")
	}
	hint := m.GetPublicKey().GetHint()
	if hint == "" {
		return "", refuse("bundle_hint_missing", "the bundle does not say which key signed").Advise("name the key in verificationMaterial.publicKey.hint: base64 of the SHA-256 of its DER form")
	}
	return hint, nil
}

func statementOf(e *dssepb.Envelope) (*admission.SignedStatement, error) {
	if n := len(e.GetSignatures()); n != 1 {
		return nil, refuse("bundle_signature_count", "the envelope has %d signatures", n).Advise("make one bundle with one signature for each key")
	}
	s := e.GetSignatures()[0]
	return &admission.SignedStatement{PayloadType: e.GetPayloadType(), Payload: e.GetPayload(), KeyID: s.GetKeyid(), Signature: s.GetSig()}, nil
}

func messageOf(m *commonpb.MessageSignature) (*admission.MessageSignature, error) {
	d := m.GetMessageDigest()
	if d.GetAlgorithm() != commonpb.HashAlgorithm_SHA2_256 {
		return nil, refuse("message_digest_weak", "the message digest is not SHA-256").Advise("sign with SHA-256")
	}
	digest, err := fleet.ParseDigest("sha256:" + hex.EncodeToString(d.GetDigest()))
	if err != nil {
		return nil, refuse("bundle_malformed", "the message digest is not 32 bytes")
	}
	return &admission.MessageSignature{Digest: digest, Signature: m.GetSignature()}, nil
}

// refuse makes an error whose code is the last part of a finding's.
func refuse(code, format string, args ...any) *fleet.Error {
	e := fleet.Errorf(fleet.NotAdmitted, code, format, args...)
	e.What = fleet.Printable(strings.TrimSpace(e.What), 300)
	return e
}
