package sigstore

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	dssepb "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/options"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Signer makes bundles with one key. It never shows the key (G21).
type Signer struct {
	signer signature.Signer
	public admission.Key
}

// NewSigner reads a PKCS#8 PEM private key, Ed25519 or ECDSA P-256.
func NewSigner(privatePEM []byte) (Signer, error) {
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(privatePEM, nil)
	if err != nil {
		return Signer{}, fleet.Invalidf("sign.key", "the private key is not unencrypted PKCS#8 in PEM")
	}
	signer, err := signature.LoadSigner(private, crypto.SHA256)
	if err != nil {
		return Signer{}, fleet.Invalidf("sign.key", "the private key cannot sign")
	}
	public, err := signer.PublicKey()
	if err != nil {
		return Signer{}, fleet.Invalidf("sign.key", "the private key has no public key")
	}
	text, err := cryptoutils.MarshalPublicKeyToPEM(public)
	if err != nil {
		return Signer{}, fleet.Invalidf("sign.key", "the public key cannot be written")
	}
	key, err := admission.NewKey("", string(text))
	if err != nil {
		return Signer{}, fleet.Invalidf("sign.key", "the private key is of a kind that is not accepted").Because("%v", err)
	}
	return Signer{signer: signer, public: key}, nil
}

// Hint is how bundles name the key.
func (s Signer) Hint() string { return s.public.Hint() }

// String is the hint, so that printing a signer shows no key.
func (s Signer) String() string { return s.Hint() }

// GoString is String, for %#v.
func (s Signer) GoString() string { return s.Hint() }

// SignStatement wraps an in-toto statement into a v0.3 bundle.
func (s Signer) SignStatement(statement []byte) ([]byte, error) {
	return s.SignPayload(admission.PayloadInToto, statement)
}

// SignPayload wraps any payload under its type into a v0.3 bundle.
func (s Signer) SignPayload(payloadType string, payload []byte) ([]byte, error) {
	raw, err := dsse.WrapSigner(s.signer, payloadType).SignMessage(bytes.NewReader(payload))
	if err != nil {
		return nil, fleet.Errorf(fleet.Internal, "sign.failed", "the statement cannot be signed").Caused(err)
	}
	var e envelopeJSON
	if err := json.Unmarshal(raw, &e); err != nil || len(e.Signatures) != 1 {
		return nil, fleet.Errorf(fleet.Internal, "sign.failed", "the signed envelope cannot be read").Caused(err)
	}
	sig, err := base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
	if err != nil {
		return nil, fleet.Errorf(fleet.Internal, "sign.failed", "the signature cannot be read").Caused(err)
	}
	return s.bundle(&bundlepb.Bundle{Content: &bundlepb.Bundle_DsseEnvelope{DsseEnvelope: &dssepb.Envelope{
		Payload: payload, PayloadType: payloadType, Signatures: []*dssepb.Signature{{Sig: sig}},
	}}})
}

// SignMessage signs a bare artifact by its digest, as cosign sign-blob does with
// an ECDSA key. An Ed25519 key is refused: see Keyed.Verify.
func (s Signer) SignMessage(artifact fleet.Digest) ([]byte, error) {
	if _, pure := s.public.Public().(ed25519.PublicKey); pure {
		return nil, fleet.Invalidf("sign.key", "an Ed25519 key cannot sign a bare digest").Advise("sign a statement, or use an ECDSA P-256 key")
	}
	digest, err := hex.DecodeString(artifact.Hex())
	if err != nil {
		return nil, fleet.Invalidf("sign.digest", "there is no digest to sign")
	}
	sig, err := s.signer.SignMessage(nil, options.WithDigest(digest))
	if err != nil {
		return nil, fleet.Errorf(fleet.Internal, "sign.failed", "the digest cannot be signed").Caused(err)
	}
	return s.bundle(&bundlepb.Bundle{Content: &bundlepb.Bundle_MessageSignature{MessageSignature: &commonpb.MessageSignature{
		MessageDigest: &commonpb.HashOutput{Algorithm: commonpb.HashAlgorithm_SHA2_256, Digest: digest}, Signature: sig,
	}}})
}

func (s Signer) bundle(b *bundlepb.Bundle) ([]byte, error) {
	b.MediaType = MediaType
	b.VerificationMaterial = &bundlepb.VerificationMaterial{
		Content: &bundlepb.VerificationMaterial_PublicKey{PublicKey: &commonpb.PublicKeyIdentifier{Hint: s.Hint()}},
	}
	raw, err := protojson.Marshal(b)
	if err != nil {
		return nil, fleet.Errorf(fleet.Internal, "sign.failed", "the bundle cannot be written").Caused(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil { // also evens out protojson's random spaces
		return nil, fleet.Errorf(fleet.Internal, "sign.failed", "the bundle cannot be written").Caused(err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// KeyPair is a new key in PEM: PKCS#8 and PKIX.
type KeyPair struct{ Private, Public []byte }

// GenerateKey makes a key: "ed25519" or "ecdsa-p256".
func GenerateKey(algorithm string) (KeyPair, error) {
	var private crypto.Signer
	var err error
	switch algorithm {
	case "ed25519":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case "ecdsa-p256":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		return KeyPair{}, fleet.Invalidf("sign.algorithm", "algorithm %q is not known", fleet.Printable(algorithm, 40)).Advise("use ed25519 or ecdsa-p256")
	}
	if err != nil {
		return KeyPair{}, fleet.Errorf(fleet.Internal, "sign.key", "no key can be made").Caused(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return KeyPair{}, fleet.Errorf(fleet.Internal, "sign.key", "the key cannot be written").Caused(err)
	}
	public, err := cryptoutils.MarshalPublicKeyToPEM(private.Public())
	if err != nil {
		return KeyPair{}, fleet.Errorf(fleet.Internal, "sign.key", "the public key cannot be written").Caused(err)
	}
	return KeyPair{Private: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), Public: public}, nil
}
