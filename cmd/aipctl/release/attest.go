package release

import (
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// attestOptions is one attestation.
type attestOptions struct {
	app           *app.App
	filing        filing
	slot          string
	predicate     string
	predicateType string
	scannedAt     string
	build         buildFacts
}

func attestCommand(a *app.App) *cobra.Command {
	o := &attestOptions{app: a}
	cmd := &cobra.Command{
		Use: "attest PKG --slot SLOT", Short: "Attest where the artifact came from, what is in it, or what a scan of it found",
		Long: "Signs an in-toto statement. --predicate FILE takes a document from your builder or scanner.\n" +
			"Without it, provenance is written from the flags, and a bill of materials (SPDX 2.3) from the Go build\n" +
			"information inside the artifact; licences that are not known are not asserted.\n" +
			"Slot vulnerability takes what grype, trivy or osv-scanner wrote (JSON), an in-toto vulns v0.2 predicate, or an\n" +
			"OpenVEX document with --add. It is bound to the bill of materials that the package holds: attest that first.",
		Example: "  aipctl release attest dist/ticketdesk --slot sbom --key keys/build.key\n" +
			"  aipctl release attest dist/ticketdesk --slot provenance --key keys/build.key \\\n" +
			"      --builder-id https://ci.example/builder --source-repository https://git.example/desk --source-ref refs/tags/v1.0.0\n" +
			"  aipctl release attest dist/ticketdesk --slot vulnerability --key keys/scan.key --predicate grype.json",
		Args: app.ExactArgs(1, "a package directory"),
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args[0]) },
	}
	f := cmd.Flags()
	o.filing.bind(f)
	f.StringVar(&o.slot, "slot", "", "provenance, sbom or vulnerability (required)")
	f.StringVar(&o.predicate, "predicate", "", "`file` with the document as JSON, - for stdin")
	f.StringVar(&o.predicateType, "predicate-type", "", "its `type`, when it cannot be seen from the slot and the document")
	f.StringVar(&o.scannedAt, "scanned-at", "", "vulnerability: when the scan was made, RFC 3339 (default: now, for attesting right after scanning)")
	o.build.bind(f)
	return cmd
}

func (o *attestOptions) run(dir string) error {
	slots := []string{admission.SlotProvenance, admission.SlotSBOM, admission.SlotVulnerability}
	if !slices.Contains(slots, o.slot) {
		return app.Unknown("usage.slot", "slot", o.slot, slots)
	}
	p, err := admission.OpenPackage(dir, admission.Limits{})
	if err != nil {
		return err
	}
	predicateType, predicate, err := o.document(dir, p)
	if err != nil {
		return err
	}
	what := Attestation{Slot: o.slot, PredicateType: predicateType, Predicate: predicate}
	if predicateType == admission.PredicateVulns {
		if what.SBOM, err = billDigest(p); err != nil {
			return err
		}
	}
	return o.filing.attest(o.app, dir, p, what)
}

// Attestation is one document to sign and file.
type Attestation struct {
	Slot, PredicateType string
	Predicate           any
	SBOM                fleet.Digest // of the bill that a scan in in-toto's form is about
}

// File signs a document about a package and files it, replacing an earlier one.
func File(dir, key string, what Attestation) error {
	p, err := admission.OpenPackage(dir, admission.Limits{})
	if err != nil {
		return err
	}
	bundle, out, err := filing{key: key}.sign(dir, p, what)
	if err != nil {
		return err
	}
	_, err = filing{replace: true}.put(bundle, out)
	return err
}

func (o filing) attest(a *app.App, dir string, p *admission.Package, what Attestation) error {
	bundle, out, err := o.sign(dir, p, what)
	if err != nil {
		return err
	}
	return o.file(a, bundle, out)
}

func (o filing) sign(dir string, p *admission.Package, what Attestation) ([]byte, filed, error) {
	out := filed{Package: dir, Slot: what.Slot, PredicateType: what.PredicateType}
	signer, err := LoadSigner(o.key)
	if err != nil {
		return nil, out, err
	}
	out.Hint = signer.Hint()
	raw, err := json.Marshal(what.Predicate)
	if err != nil {
		return nil, out, fleet.AsError(err, "attest.predicate")
	}
	var statement []byte
	if what.PredicateType == admission.PredicateVulns {
		statement, err = admission.StatementOnSBOM(what.SBOM, what.PredicateType, raw)
	} else {
		statement, err = p.Statement(what.PredicateType, raw)
	}
	if err != nil {
		return nil, out, err
	}
	bundle, err := signer.SignStatement(statement)
	return bundle, out, err
}

// document is the predicate: given, or generated.
func (o *attestOptions) document(dir string, p *admission.Package) (string, any, error) {
	switch {
	case o.slot == admission.SlotVulnerability:
		return o.scanned(p)
	case o.predicate != "":
		return o.given()
	case o.slot == admission.SlotProvenance:
		predicate, err := o.build.provenance(dir, p, o.app.Now())
		return admission.PredicateProvenance, predicate, err
	}
	predicate, err := billOf(dir, p, o.app.Now())
	return admission.PredicateSPDX, predicate, err
}

// read takes the given document.
func (o *attestOptions) read() (envelope.Value, error) {
	data, err := o.app.ReadInput(o.predicate, 8<<20)
	if err != nil {
		return envelope.Value{}, err
	}
	return envelope.ParseStrict(data, envelope.Limits{MaxBytes: 8 << 20, SafeIntegers: true})
}

func (o *attestOptions) given() (string, any, error) {
	v, err := o.read()
	if err != nil {
		return "", nil, err
	}
	kind := o.predicateType
	_, cyclone := v.Get("bomFormat")
	_, old := v.Get("invocation")
	switch {
	case kind != "":
	case o.slot == admission.SlotProvenance && old:
		kind = admission.PredicateProvenance02
	case o.slot == admission.SlotProvenance:
		kind = admission.PredicateProvenance
	case cyclone:
		kind = admission.PredicateCycloneDX
	default:
		kind = admission.PredicateSPDX
	}
	return kind, json.RawMessage(v.Raw()), nil
}
