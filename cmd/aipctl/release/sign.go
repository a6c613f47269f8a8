package release

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// filing says where evidence goes.
type filing struct {
	key     string
	replace bool
	add     bool
}

func (o *filing) bind(f *pflag.FlagSet) {
	f.StringVar(&o.key, "key", "", "private key `file`, PKCS#8 PEM (required)")
	f.BoolVar(&o.replace, "replace", false, "replace the slot's evidence")
	f.BoolVar(&o.add, "add", false, "add a further document to the slot, by another key")
}

// filed is what sign and attest tell.
type filed struct {
	Package       string       `json:"package"`
	Slot          string       `json:"slot"`
	File          string       `json:"file"`
	Digest        fleet.Digest `json:"digest"`
	PredicateType string       `json:"predicate_type,omitempty"`
	Hint          string       `json:"hint"`
}

func signCommand(a *app.App) *cobra.Command {
	var o filing
	var message bool
	cmd := &cobra.Command{
		Use: "sign PKG", Short: "Sign a package: the artifact, and the manifest and release.yaml with it",
		Long: "Writes evidence/signature.sigstore.json. The signed statement binds artifact, manifest and release.yaml.\n" +
			"With --message the bare artifact is signed, as cosign sign-blob does; then the provenance must bind the rest.",
		Example: "  aipctl release sign dist/ticketdesk --key keys/release.key",
		Args:    app.ExactArgs(1, "a package directory"),
		RunE:    func(_ *cobra.Command, args []string) error { return sign(a, args[0], o, message) },
	}
	o.bind(cmd.Flags())
	cmd.Flags().BoolVar(&message, "message", false, "sign the bare artifact (ECDSA P-256 keys)")
	return cmd
}

func sign(a *app.App, dir string, o filing, message bool) error {
	signer, err := LoadSigner(o.key)
	if err != nil {
		return err
	}
	p, err := admission.OpenPackage(dir, admission.Limits{})
	if err != nil {
		return err
	}
	out := filed{Package: dir, Slot: admission.SlotSignature, Hint: signer.Hint()}
	var bundle []byte
	if message {
		bundle, err = signer.SignMessage(p.ArtifactDigest())
	} else {
		out.PredicateType = admission.PredicateRelease
		bundle, err = signStatement(p, signer, out.PredicateType, p.ReleaseStatement(a.Now()))
	}
	if err != nil {
		return err
	}
	return o.file(a, bundle, out)
}

type statementSigner interface {
	SignStatement(statement []byte) ([]byte, error)
}

func signStatement(p *admission.Package, s statementSigner, predicateType string, predicate any) ([]byte, error) {
	raw, err := json.Marshal(predicate)
	if err != nil {
		return nil, fleet.AsError(err, "attest.predicate")
	}
	statement, err := p.Statement(predicateType, raw)
	if err != nil {
		return nil, err
	}
	return s.SignStatement(statement)
}

// file writes a bundle into its slot and tells about it.
func (o filing) file(a *app.App, bundle []byte, out filed) error {
	out, err := o.put(bundle, out)
	if err != nil {
		return err
	}
	return a.Print(app.View{
		Kind: "Evidence", Item: out, Name: func(any) string { return out.File },
		Text: func() app.Page {
			return app.Page{{Fields: []app.Field{
				{Label: "Slot", Value: out.Slot}, {Label: "File", Value: filepath.Join(out.Package, out.File)}, {Label: "Key hint", Value: out.Hint},
				{Label: "Predicate", Value: out.PredicateType}, {Label: "Digest", Value: out.Digest.String()},
			}}}
		},
	})
}

// put writes a bundle into its slot.
func (o filing) put(bundle []byte, out filed) (filed, error) {
	out.File = admission.EvidencePath(out.Slot)
	for n := 2; o.add && n < 17 && exists(filepath.Join(out.Package, out.File)); n++ {
		out.File = admission.EvidencePath(fmt.Sprintf("%s.%d", out.Slot, n))
	}
	full := filepath.Join(out.Package, filepath.FromSlash(out.File))
	if exists(full) && !o.replace {
		return out, fleet.Errorf(fleet.Conflict, "release.evidence_exists", "slot %s has evidence already", out.Slot).
			Advise("repeat with --replace, or with --add for a further key")
	}
	if exists(full) {
		if err := os.Remove(full); err != nil {
			return out, app.Usagef("release.file", "%s cannot be replaced", full).Caused(err)
		}
	}
	out.Digest = fleet.DigestBytes(bundle)
	return out, writeFile(full, bundle)
}
