package sigstore

import (
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"slices"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/aipfleet/aipfleet/pkg/admission"
)

// proving is one bundle on its way through the steps.
type proving struct {
	bundle   admission.Bundle
	entity   *bundle.Bundle
	content  verify.VerificationContent
	signed   verify.SignatureContent
	root     *admission.Root // nil: the key's signature alone
	material root.TrustedMaterial
	verifier signature.Verifier
	leaf     *x509.Certificate // nil for a key
	chains   [][]*x509.Certificate
	observed []admission.Observed
	logs     int
	stamps   int
}

// step is one check. A bundle passes when every step does.
type step struct {
	name string
	do   func(*proving) error
}

func steps() []step {
	return []step{
		{"observers", (*proving).checkEvaluated},
		{"log", (*proving).checkLog},
		{"timestamp", (*proving).checkTimestamps},
		{"threshold", (*proving).checkThresholds},
		{"chain", (*proving).checkChain},
		{"certificate_log", (*proving).checkCertificateLogs},
		{"signature", (*proving).checkSignature},
	}
}

// Verify implements admission.Bundles.
func (v Verifier) Verify(b admission.Bundle, against admission.Anchor) (admission.Proof, error) {
	p, err := prepare(b, against)
	if err != nil {
		return admission.Proof{}, err
	}
	for _, s := range steps() {
		if v.without[s.name] {
			continue
		}
		if err := s.do(p); err != nil {
			return admission.Proof{}, err
		}
	}
	proof := admission.Proof{Observed: p.observed}
	if p.leaf != nil {
		identity, err := identityOf(p.leaf)
		if err != nil {
			return admission.Proof{}, err
		}
		proof.Identity, proof.Lifetime = &identity, p.leaf.NotAfter.Sub(p.leaf.NotBefore)
	}
	return proof, nil
}

// prepare collects what the steps look at.
func prepare(b admission.Bundle, against admission.Anchor) (*proving, error) {
	entity, ok := b.Opaque.(*bundle.Bundle)
	if !ok {
		return nil, refuse("bundle_malformed", "the bundle was not parsed here")
	}
	p := &proving{bundle: b, entity: entity, root: against.Root, material: root.TrustedMaterialCollection{}}
	var err error
	if p.content, err = entity.VerificationContent(); err != nil {
		return nil, refuse("bundle_malformed", "the bundle does not say who signed")
	}
	if p.signed, err = entity.SignatureContent(); err != nil {
		return nil, refuse("bundle_malformed", "the bundle holds no signature")
	}
	var materials root.TrustedMaterialCollection
	if against.Root != nil {
		trusted, err := root.NewTrustedRootFromJSON(against.Root.TrustedRoot)
		if err != nil {
			return nil, refuse("root_malformed", "the trusted root %s cannot be read", against.Root.ID)
		}
		materials = append(materials, trusted)
	}
	if p.leaf = p.content.Certificate(); p.leaf != nil {
		p.leaf = withoutOtherName(p.leaf)
		p.verifier, err = signature.LoadDefaultVerifier(p.leaf.PublicKey)
	} else {
		p.verifier, err = keyMaterial(b, against, &materials)
	}
	p.material = materials
	return p, err
}

// keyMaterial lets the libraries find the anchor's key under the bundle's hint.
func keyMaterial(b admission.Bundle, against admission.Anchor, materials *root.TrustedMaterialCollection) (signature.Verifier, error) {
	if against.Key == nil {
		return nil, refuse("signature_invalid", "there is no key to verify with")
	}
	verifier, err := signature.LoadVerifier(against.Key.Public(), crypto.SHA256)
	if err != nil {
		return nil, refuse("signature_invalid", "key %s cannot verify", against.Key.ID)
	}
	expiring := root.NewExpiringKey(verifier, time.Time{}, time.Time{}) // windows are the policy's business
	*materials = append(*materials, root.NewTrustedPublicKeyMaterialFromMapping(map[string]*root.ExpiringKey{b.Hint: expiring}))
	return verifier, nil
}

// withoutOtherName marks a subject alternative name of kind otherName as handled:
// identityOf reads it, and the standard library does not know it.
func withoutOtherName(leaf *x509.Certificate) *x509.Certificate {
	leaf.UnhandledCriticalExtensions = slices.DeleteFunc(leaf.UnhandledCriticalExtensions, func(oid asn1.ObjectIdentifier) bool {
		return oid.Equal(cryptoutils.SANOID)
	})
	return leaf
}

// checkEvaluated refuses observers that nothing is there to evaluate.
func (p *proving) checkEvaluated() error {
	if p.root == nil && p.bundle.Logs+p.bundle.Timestamps > 0 {
		return refuse("bundle_log_not_evaluated", "the bundle carries log entries or timestamps, which are not evaluated for this key").
			Advise("sign without a log and a timestamp authority, or give the key a root in the trust policy")
	}
	return nil
}

// checkThresholds compares what was observed with what the root asks for.
func (p *proving) checkThresholds() error {
	if p.root == nil {
		return nil
	}
	needed := p.root.Timestamps
	if p.leaf != nil {
		needed = max(needed, 1)
	}
	switch {
	case p.logs < p.root.LogEntries:
		return refuse("log_threshold", "%d log(s) hold the signature, needed are %d", p.logs, p.root.LogEntries)
	case p.stamps < p.root.SignedTimestamps:
		return refuse("timestamp_threshold", "%d timestamp authorities saw the signature, needed are %d", p.stamps, p.root.SignedTimestamps)
	case len(p.observed) < needed:
		return refuse("time_unknown", "%d trusted observer(s) say when it was signed, needed are %d", len(p.observed), needed)
	}
	return nil
}

// CheckRoot implements admission.Bundles.
func (Verifier) CheckRoot(document []byte) error {
	trusted, err := root.NewTrustedRootFromJSON(document)
	if err != nil {
		return refuse("root_malformed", "the document is not a Sigstore trusted root")
	}
	if len(trusted.FulcioCertificateAuthorities())+len(trusted.TimestampingAuthorities())+len(trusted.RekorLogs()) == 0 {
		return refuse("root_malformed", "the trusted root trusts nobody")
	}
	return nil
}
