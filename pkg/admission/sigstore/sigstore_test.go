package sigstore_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

var artifact = fleet.DigestBytes([]byte("artifact"))

func statement() []byte {
	return []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"a","digest":{"sha256":"` + artifact.Hex() +
		`"}}],"predicateType":"https://example.com/p","predicate":{}}`)
}

func newKey(t *testing.T, algorithm string) (sigstore.Signer, admission.Key) {
	t.Helper()
	pair, err := sigstore.GenerateKey(algorithm)
	must(t, err)
	signer, err := sigstore.NewSigner(pair.Private)
	must(t, err)
	key, err := admission.NewKey("k", string(pair.Public))
	must(t, err)
	return signer, key
}

// verify1 verifies with a key alone.
func verify1(b admission.Bundle, key admission.Key) error {
	_, err := sigstore.Verifier{}.Verify(b, admission.Anchor{Key: &key})
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestVerifier_G33_StatementVerifiesWithItsKeyAlone(t *testing.T) {
	for _, algorithm := range []string{"ed25519", "ecdsa-p256"} {
		t.Run(algorithm, func(t *testing.T) {
			signer, key := newKey(t, algorithm)
			_, other := newKey(t, algorithm)
			made, err := signer.SignStatement(statement())
			must(t, err)
			b, err := sigstore.Verifier{}.Parse(made)
			must(t, err)
			if b.Hint != key.Hint() || b.MediaType != sigstore.MediaType || !bytes.Equal(b.Statement.Payload, statement()) {
				t.Errorf("parsed %+v", b)
			}
			must(t, verify1(b, key))
			if err := verify1(b, other); fleet.CodeOf(err) != "signature_invalid" {
				t.Errorf("another key: %v", err)
			}
			b.Statement.PayloadType = "application/json"
			if err := verify1(b, key); fleet.CodeOf(err) != "signature_invalid" {
				t.Errorf("another payload type: %v", err)
			}
		})
	}
}

func TestVerifier_G35_MessageSignatureNeedsNoMoreThanTheDigest(t *testing.T) {
	signer, key := newKey(t, "ecdsa-p256")
	made, err := signer.SignMessage(artifact)
	must(t, err)
	b, err := sigstore.Verifier{}.Parse(made)
	must(t, err)
	must(t, verify1(b, key))
	b.Message.Digest = fleet.DigestBytes([]byte("another"))
	if err := verify1(b, key); fleet.CodeOf(err) != "signature_invalid" {
		t.Errorf("another digest: %v", err)
	}
	_, pure := newKey(t, "ed25519")
	if err := verify1(b, pure); fleet.CodeOf(err) != "signature_not_repeatable" {
		t.Errorf("an Ed25519 key: %v", err)
	}
}

// trusted is sigstore-go's trusted material for one key.
func trusted(t *testing.T, key admission.Key) root.TrustedMaterial {
	t.Helper()
	verifier, err := signature.LoadVerifier(key.Public(), crypto.SHA256)
	must(t, err)
	return root.NewTrustedPublicKeyMaterialFromMapping(map[string]*root.ExpiringKey{
		key.Hint(): root.NewExpiringKey(verifier, time.Time{}, time.Time{}),
	})
}

// TestVerifier_G33_AnotherImplementationAgrees has Sigstore's own verifier read what
// is made here.
func TestVerifier_G33_AnotherImplementationAgrees(t *testing.T) {
	for _, algorithm := range []string{"ed25519", "ecdsa-p256"} {
		signer, key := newKey(t, algorithm)
		made := map[string]func() ([]byte, error){"statement": func() ([]byte, error) { return signer.SignStatement(statement()) }}
		if algorithm == "ecdsa-p256" {
			made["message"] = func() ([]byte, error) { return signer.SignMessage(artifact) }
		}
		for form, make := range made {
			t.Run(algorithm+"/"+form, func(t *testing.T) {
				raw, err := make()
				must(t, err)
				var b bundle.Bundle
				must(t, b.UnmarshalJSON(raw))
				verifier, err := verify.NewVerifier(trusted(t, key), verify.WithNoObserverTimestamps())
				must(t, err)
				for want, digest := range map[bool]fleet.Digest{true: artifact, false: fleet.DigestBytes([]byte("x"))} {
					sum, err := hex.DecodeString(digest.Hex())
					must(t, err)
					_, err = verifier.Verify(&b, verify.NewPolicy(verify.WithArtifactDigest("sha256", sum), verify.WithKey()))
					if (err == nil) != want {
						t.Errorf("digest %s: %v", digest, err)
					}
				}
			})
		}
	}
}

func TestVerifier_G33_HostileBundles(t *testing.T) {
	signer, _ := newKey(t, "ecdsa-p256")
	raw, err := signer.SignMessage(artifact)
	must(t, err)
	cases := map[string]struct{ from, to, want string }{
		"other spelling of a name": {`"mediaType"`, `"media_type": "x", "mediaType"`, "bundle_malformed"},
		"unknown member":           {`"mediaType"`, `"extra": 1, "mediaType"`, "bundle_malformed"},
		"trailing value":           {"\n}\n", "\n}\n{}", "bundle_malformed"},
		"weak message digest":      {"SHA2_256", "SHA2_384", "message_digest_weak"},
		"no message digest":        {`"algorithm": "SHA2_256",`, ``, "message_digest_weak"},
		"short message digest":     {`"digest": "`, `"digest": "AAAA`, "bundle_malformed"},
		"empty hint":               {signer.Hint(), "", "bundle_hint_missing"},
		"no material":              {`"publicKey"`, `"publicKey_"`, "bundle_malformed"},
		"old media type":           {"bundle.v0.3+json", "bundle+json;version=0.4", "bundle_media_type"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(string(raw), c.from, c.to, 1)
			if changed == string(raw) {
				t.Fatalf("the bundle does not hold %q:\n%s", c.from, raw)
			}
			if _, err := (sigstore.Verifier{}).Parse([]byte(changed)); fleet.CodeOf(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	for _, media := range []string{"0.1", "0.2", "0.3"} {
		older := strings.Replace(string(raw), "bundle.v0.3+json", "bundle+json;version="+media, 1)
		if _, err := (sigstore.Verifier{}).Parse([]byte(older)); err != nil {
			t.Errorf("version %s: %v", media, err)
		}
	}
}

func TestSigner_G21_NeverPrintsItsKey(t *testing.T) {
	signer, key := newKey(t, "ed25519")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, signer); got != key.Hint() {
			t.Errorf("%s prints %q", verb, got)
		}
	}
}

func TestSigner_G33_KeysOfOtherKindsAreRefused(t *testing.T) {
	for _, text := range []string{"", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", p384(t)} {
		if _, err := sigstore.NewSigner([]byte(text)); fleet.CodeOf(err) != "sign.key" {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := sigstore.GenerateKey("rsa"); fleet.CodeOf(err) != "sign.algorithm" {
		t.Errorf("rsa: %v", err)
	}
}

// p384 is a genuine key of a curve that is not accepted.
func p384(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
