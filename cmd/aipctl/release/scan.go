package release

import (
	"encoding/json"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// scanned makes the predicate of the slot vulnerability out of what a scanner, or
// somebody who answers its findings, wrote.
func (o *attestOptions) scanned(p *admission.Package) (string, any, error) {
	if o.predicate == "" {
		return "", nil, app.Usagef("usage.flag", "slot vulnerability needs --predicate FILE").Advise("grype -o json PKG/artifact > grype.json")
	}
	v, err := o.read()
	if err != nil {
		return "", nil, err
	}
	raw := json.RawMessage(v.Raw())
	if _, isVEX := v.Get("@context"); isVEX || o.predicateType == admission.PredicateVEX {
		return admission.PredicateVEX, raw, nil
	}
	if _, inToto := v.Get("scanner"); inToto {
		return admission.PredicateVulns, raw, nil
	}
	format := admission.ScanFormat(raw)
	if format == "" {
		return "", nil, app.Usagef("attest.scan", "the document is of no scanner that is known").
			Because("known are the JSON documents of grype, trivy and osv-scanner, in-toto vulns v0.2, and OpenVEX").Advise("write one of these")
	}
	at := o.app.Now().UTC().Truncate(time.Second)
	if o.scannedAt != "" {
		if at, err = time.Parse(time.RFC3339, o.scannedAt); err != nil {
			return "", nil, app.Usagef("usage.flag", "--scanned-at is not a time in RFC 3339").Caused(err)
		}
	}
	sbom, err := billDigest(p)
	return admission.PredicateScan, admission.Scan{Format: format, SBOMDigest: sbom, ScannedAt: at.UTC(), Report: raw}, err
}

// billDigest is how scans name the bill of materials that the package holds.
func billDigest(p *admission.Package) (fleet.Digest, error) {
	data, ok := p.File(admission.EvidencePath(admission.SlotSBOM))
	if !ok {
		return fleet.Digest{}, app.Usagef("attest.sbom", "the package holds no bill of materials to bind the scan to").
			Advise("aipctl release attest PKG --slot sbom --key FILE")
	}
	bundle, err := sigstore.Verifier{}.Parse(data)
	if err != nil {
		return fleet.Digest{}, err
	}
	if bundle.Statement == nil {
		return fleet.Digest{}, app.Usagef("attest.sbom", "the slot sbom holds no statement")
	}
	return admission.PredicateDigest(bundle.Statement.Payload)
}
