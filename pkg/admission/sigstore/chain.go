package sigstore

import (
	"crypto/x509"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// checkChain proves that a trusted authority issued the certificate, and that every
// certificate on the way was valid at every time at which the signature was seen.
func (p *proving) checkChain() error {
	if p.leaf == nil {
		return nil
	}
	if p.root == nil {
		return refuse("certificate_untrusted", "no root says who may issue certificates")
	}
	for _, o := range p.observed {
		chains, err := verify.VerifyLeafCertificate(o.At, p.leaf, p.material)
		if err != nil {
			return p.whyUntrusted(o.At)
		}
		p.chains = chains
	}
	return nil
}

// whyUntrusted attributes a refusal of the library.
func (p *proving) whyUntrusted(at time.Time) error {
	stamp := at.UTC().Format(time.RFC3339)
	if at.Before(p.leaf.NotBefore) || at.After(p.leaf.NotAfter) {
		return refuse("certificate_expired", "the certificate was not valid when the signature was seen, at %s", stamp)
	}
	for _, a := range p.material.FulcioCertificateAuthorities() {
		known, ok := a.(*root.FulcioCertificateAuthority)
		if !ok {
			continue
		}
		for _, issuer := range append([]*x509.Certificate{known.Root}, known.Intermediates...) {
			if p.leaf.CheckSignatureFrom(issuer) == nil {
				return refuse("certificate_authority_expired", "the authority did not count any more, or not yet, when the signature was seen, at %s", stamp)
			}
		}
	}
	return refuse("certificate_untrusted", "no certificate authority of root %s issued the certificate", p.root.ID)
}

// checkCertificateLogs proves that as many certificate logs as the root asks for saw
// the certificate.
func (p *proving) checkCertificateLogs() error {
	if p.leaf == nil || p.root == nil || p.root.CertificateLogs == 0 {
		return nil
	}
	if err := verify.VerifySignedCertificateTimestamp(p.chains, p.root.CertificateLogs, p.material); err != nil {
		return refuse("certificate_log_threshold", "fewer than %d certificate log(s) saw the certificate", p.root.CertificateLogs)
	}
	return nil
}
