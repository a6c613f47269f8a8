package release

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/envelope"
)

// attestOptions is one attestation.
type attestOptions struct {
	app           *app.App
	filing        filing
	slot          string
	predicate     string
	predicateType string
	build         buildFacts
}

func attestCommand(a *app.App) *cobra.Command {
	o := &attestOptions{app: a}
	cmd := &cobra.Command{
		Use: "attest PKG --slot provenance|sbom", Short: "Attest where the artifact came from, or what is in it",
		Long: "Signs an in-toto statement about the artifact. --predicate FILE takes a predicate from your builder or scanner.\n" +
			"Without it, provenance is written from the flags, and a bill of materials (SPDX 2.3) from the Go build\n" +
			"information inside the artifact; licences that are not known are not asserted.",
		Example: "  aipctl release attest dist/ticketdesk --slot sbom --key keys/build.key\n" +
			"  aipctl release attest dist/ticketdesk --slot provenance --key keys/build.key \\\n" +
			"      --builder-id https://ci.example/builder --source-repository https://git.example/desk --source-ref refs/tags/v1.0.0",
		Args: app.ExactArgs(1, "a package directory"),
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args[0]) },
	}
	f := cmd.Flags()
	o.filing.bind(f)
	f.StringVar(&o.slot, "slot", "", "provenance or sbom (required)")
	f.StringVar(&o.predicate, "predicate", "", "`file` with the predicate as JSON, - for stdin")
	f.StringVar(&o.predicateType, "predicate-type", "", "its `type`, when it cannot be seen from the slot and the document")
	o.build.bind(f)
	return cmd
}

func (o *attestOptions) run(dir string) error {
	if o.slot != admission.SlotProvenance && o.slot != admission.SlotSBOM {
		return app.Unknown("usage.slot", "slot", o.slot, []string{admission.SlotProvenance, admission.SlotSBOM})
	}
	signer, err := LoadSigner(o.filing.key)
	if err != nil {
		return err
	}
	p, err := admission.OpenPackage(dir, admission.Limits{})
	if err != nil {
		return err
	}
	predicateType, predicate, err := o.document(dir, p)
	if err != nil {
		return err
	}
	bundle, err := signStatement(p, signer, predicateType, predicate)
	if err != nil {
		return err
	}
	return o.filing.file(o.app, bundle, filed{Package: dir, Slot: o.slot, PredicateType: predicateType, Hint: signer.Hint()})
}

// document is the predicate: given, or generated.
func (o *attestOptions) document(dir string, p *admission.Package) (string, any, error) {
	if o.predicate != "" {
		return o.given()
	}
	if o.slot == admission.SlotProvenance {
		predicate, err := o.build.provenance(dir, p, o.app.Now())
		return admission.PredicateProvenance, predicate, err
	}
	predicate, err := billOf(dir, p, o.app.Now())
	return admission.PredicateSPDX, predicate, err
}

func (o *attestOptions) given() (string, any, error) {
	data, err := o.app.ReadInput(o.predicate, 8<<20)
	if err != nil {
		return "", nil, err
	}
	v, err := envelope.ParseStrict(data, envelope.Limits{MaxBytes: 8 << 20, SafeIntegers: true})
	if err != nil {
		return "", nil, err
	}
	kind := o.predicateType
	_, cyclone := v.Get("bomFormat")
	switch {
	case kind != "":
	case o.slot == admission.SlotProvenance:
		kind = admission.PredicateProvenance
	case cyclone:
		kind = admission.PredicateCycloneDX
	default:
		kind = admission.PredicateSPDX
	}
	return kind, json.RawMessage(v.Raw()), nil
}
