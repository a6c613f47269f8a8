package sigstore

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"strings"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	dssepb "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// MediaType is that of the bundles made here.
const MediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// Verifier implements admission.Bundles.
type Verifier struct {
	without map[string]bool // steps that a broken verifier lacks; only tests set it
}

var _ admission.Bundles = Verifier{}

// Parse implements admission.Bundles. The document passes the strict JSON gate
// before protobuf sees it: protobuf alone would take other spellings of a name.
func (Verifier) Parse(document []byte) (admission.Bundle, error) {
	tree, err := envelope.ParseStrict(document, envelope.Limits{MaxBytes: 8 << 20, MaxDepth: 32})
	if err != nil {
		return admission.Bundle{}, refuse("bundle_malformed", "the bundle is not one strict JSON document").Because("%v", err)
	}
	b := &bundlepb.Bundle{}
	if err := protojson.Unmarshal(document, b); err != nil {
		// The library's text differs between builds on purpose, and findings must not.
		return admission.Bundle{}, refuse("bundle_malformed", "the document is not a Sigstore bundle")
	}
	if !knownMediaType(b.GetMediaType()) {
		return admission.Bundle{}, refuse("bundle_media_type", "media type %q is not a bundle version 0.1 to 0.3", b.GetMediaType()).Advise("make a bundle of %s", MediaType)
	}
	if err := checkObservers(b.GetVerificationMaterial()); err != nil {
		return admission.Bundle{}, err
	}
	out := admission.Bundle{
		MediaType: b.GetMediaType(), Logs: len(b.GetVerificationMaterial().GetTlogEntries()),
		Timestamps: len(b.GetVerificationMaterial().GetTimestampVerificationData().GetRfc3161Timestamps()),
	}
	if err := claim(b.GetVerificationMaterial(), &out); err != nil {
		return admission.Bundle{}, err
	}
	if err := content(b, &out); err != nil {
		return admission.Bundle{}, err
	}
	if err := oneSpelling(tree, out); err != nil {
		return admission.Bundle{}, err
	}
	parsed, err := bundle.NewBundle(b)
	if err != nil {
		return admission.Bundle{}, refuse("bundle_malformed", "the bundle does not hold what its version asks for")
	}
	out.Opaque = parsed
	return out, nil
}

// oneSpelling refuses payloads and signatures in another base64 than the padded one of
// the standard alphabet: protobuf reads several texts as the same bytes, and each would
// be another document of the same signature.
func oneSpelling(tree envelope.Value, b admission.Bundle) error {
	texts := map[string][]byte{}
	if s := b.Statement; s != nil {
		payload, _ := tree.Get("dsseEnvelope", "payload")
		signatures, _ := tree.Get("dsseEnvelope", "signatures")
		texts[payload.Text()] = s.Payload
		for _, item := range signatures.Items() {
			signature, _ := item.Get("sig")
			texts[signature.Text()] = s.Signature
		}
	}
	if m := b.Message; m != nil {
		signature, _ := tree.Get("messageSignature", "signature")
		texts[signature.Text()] = m.Signature
	}
	for text, bytes := range texts {
		if base64.StdEncoding.EncodeToString(bytes) != text {
			return refuse("bundle_malformed", "the bundle's payload or signature is not padded base64 of the standard alphabet")
		}
	}
	return nil
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

// checkObservers bounds log entries and timestamps, and refuses proofs that prove
// nothing.
func checkObservers(m *bundlepb.VerificationMaterial) error {
	logs, stamps := m.GetTlogEntries(), m.GetTimestampVerificationData().GetRfc3161Timestamps()
	if len(logs) > admission.MaxLogEntries || len(stamps) > admission.MaxLogEntries {
		return refuse("bundle_too_large", "the bundle has %d log entries and %d timestamps, allowed are %d of each", len(logs), len(stamps), admission.MaxLogEntries)
	}
	seen := map[string]bool{}
	for _, entry := range logs {
		if p := entry.GetInclusionProof(); p != nil && p.GetCheckpoint().GetEnvelope() == "" {
			return refuse("log_proof_without_checkpoint", "an inclusion proof carries no checkpoint, so nobody signed the tree it leads to")
		}
		id := string(entry.GetLogId().GetKeyId())
		if seen[id] {
			return refuse("log_repeated", "one log is named twice").Advise("carry one entry of each log")
		}
		seen[id] = true
	}
	return nil
}

// claim takes who is said to have signed.
func claim(m *bundlepb.VerificationMaterial, out *admission.Bundle) error {
	raw := m.GetCertificate().GetRawBytes()
	if chain := m.GetX509CertificateChain().GetCertificates(); len(chain) > 0 {
		raw = chain[0].GetRawBytes()
	}
	if raw == nil {
		out.Hint = m.GetPublicKey().GetHint()
		if out.Hint == "" {
			return refuse("bundle_hint_missing", "the bundle does not say which key signed").Advise("name the key in verificationMaterial.publicKey.hint: base64 of the SHA-256 of its DER form")
		}
		return nil
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		return refuse("certificate_malformed", "the certificate cannot be read")
	}
	identity, err := identityOf(leaf)
	out.Claim = &identity
	return err
}

// identityOf reads whom a certificate names. One that names several is refused: a
// rule might look at another of them than its author thought.
func identityOf(leaf *x509.Certificate) (admission.Identity, error) {
	summary, err := certificate.SummarizeCertificate(leaf)
	if err != nil || summary.Issuer == "" {
		return admission.Identity{}, refuse("certificate_identity", "the certificate does not name an issuer and a subject")
	}
	if len(leaf.URIs)+len(leaf.EmailAddresses)+len(leaf.DNSNames)+len(leaf.IPAddresses) > 1 {
		return admission.Identity{}, refuse("certificate_identity", "the certificate names more than one subject")
	}
	return admission.Identity{Issuer: summary.Issuer, Subject: summary.SubjectAlternativeName}, nil
}

func content(b *bundlepb.Bundle, out *admission.Bundle) (err error) {
	switch {
	case b.GetDsseEnvelope() != nil:
		out.Statement, err = statementOf(b.GetDsseEnvelope())
	case b.GetMessageSignature() != nil:
		out.Message, err = messageOf(b.GetMessageSignature())
	default:
		err = refuse("bundle_malformed", "the bundle holds no signature")
	}
	return err
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
