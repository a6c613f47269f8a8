// Package revocation is aipctl revocation: signed, numbered lists of what is not
// trusted any more.
//
// It answers "what was taken back, by whom, and what did that end?". Applying a list
// revokes every version that it names in the same revision (G33); every list repeats
// the earlier ones. It does not own who may revoke: the trust policy says that.
package revocation

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/publish"
	"github.com/aipfleet/aipfleet/cmd/aipctl/release"
	"github.com/aipfleet/aipfleet/cmd/aipctl/trust"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Command makes aipctl revocation.
func Command(a *app.App) *cobra.Command {
	return app.GroupCommand("revocation", "Sign, apply and show revocation lists", app.GroupRelease,
		signCommand(a), applyCommand(a), showCommand(a))
}

// History lists every revocation list, oldest first, and the catalog revision they
// were read at.
func History(ctx context.Context, reader registry.Reader) ([]registry.RevocationList, uint64, error) {
	all, err := publish.ReadAll(ctx, reader, registry.Selection{Noun: registry.Revocations})
	return all.Revocations, all.Revision, err
}

// Current is the list in force; nil when there is none.
func Current(ctx context.Context, reader registry.Reader) (*admission.RevocationList, error) {
	all, _, err := History(ctx, reader)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return admission.RevocationsOf(all[len(all)-1]), nil
}

func signCommand(a *app.App) *cobra.Command {
	var key, out string
	cmd := &cobra.Command{
		Use: "sign FILE --key FILE --out FILE", Short: "Sign a revocation list, for revocation apply",
		Long: "FILE is the list in YAML or JSON: format, number, issued_at, and entries of kind package, artifact, manifest,\n" +
			"evidence, version or signer, each with value and reason. Needs no registry.",
		Example: "  aipctl revocation sign revoked.yaml --key keys/security.key --out revoked.sigstore.json",
		Args:    app.ExactArgs(1, "a revocation list, - for stdin"),
		RunE:    func(_ *cobra.Command, args []string) error { return sign(a, args[0], key, out) },
	}
	cmd.Flags().StringVar(&key, "key", "", "private key `file`, PKCS#8 PEM (required)")
	cmd.Flags().StringVar(&out, "out", "", "`file` to write (required)")
	return cmd
}

// signed is what revocation sign tells.
type signed struct {
	Number  uint64       `json:"number"`
	Entries int          `json:"entries"`
	File    string       `json:"file"`
	Digest  fleet.Digest `json:"digest"`
	Hint    string       `json:"hint"`
}

func sign(a *app.App, file, key, out string) error {
	if out == "" {
		return app.Usagef("usage.flag", "--out FILE is needed")
	}
	signer, err := release.LoadSigner(key)
	if err != nil {
		return err
	}
	data, err := a.ReadInput(file, admission.MaxPolicyBytes)
	if err != nil {
		return err
	}
	list, err := admission.ParseRevocations(data)
	if err != nil {
		return err
	}
	payload, err := list.Payload()
	if err != nil {
		return err
	}
	bundle, err := signer.SignPayload(admission.PayloadRevocations, payload)
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, bundle, 0o644); err != nil {
		return app.Usagef("revocation.file", "%s cannot be written", out).Caused(err)
	}
	r := signed{list.Number, len(list.Entries), out, fleet.DigestBytes(bundle), signer.Hint()}
	return a.Print(app.View{Kind: "SignedRevocationList", Item: r, Name: func(any) string { return r.File }, Text: func() app.Page {
		return app.Page{{Lines: []string{fmt.Sprintf("list %d of %s is in %s, signed by %s", r.Number, app.Plural(r.Entries, "entry"), r.File, r.Hint)}}}
	}})
}

func applyCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "apply FILE --reason TEXT", Short: "Put a signed revocation list into force, and revoke what it names",
		Long: "Verifies the list by the trust policy in force, shows which versions it ends, asks, and writes both in one revision.\n" +
			"Revoked versions take no new work at once; what runs may end, and what is uncertain stays to be reconciled.",
		Example: "  aipctl revocation apply revoked.sigstore.json --reason \"build key lost\"",
		Args:    app.ExactArgs(1, "a signed revocation list, - for stdin"),
		RunE:    func(cmd *cobra.Command, args []string) error { return apply(cmd.Context(), a, args[0]) },
	}
}

func apply(ctx context.Context, a *app.App, file string) error {
	data, err := a.ReadInput(file, admission.MaxPolicyBytes)
	if err != nil {
		return err
	}
	if a.Reason == "" {
		return app.Usagef("usage.reason", "revocation apply needs --reason").Because("every list is journaled with its reason").
			Advise("aipctl revocation apply %s --reason TEXT", file)
	}
	reg, err := a.OpenRegistry(ctx, app.Control)
	if err != nil {
		return err
	}
	defer reg.Close()
	list, err := verify(ctx, a, reg, data)
	if err != nil || list == nil {
		return err
	}
	set := registry.ChangeSet{Actor: a.Actor(), Reason: a.Reason, Revocation: &registry.RevocationList{
		Number: list.Number, Digest: fleet.DigestBytes(data), Document: data, Entries: list.Entries, IssuedAt: list.IssuedAt,
		Actor: a.Actor(), Reason: a.Reason,
	}}
	return publish.Apply(ctx, a, reg, publish.Change{Set: set, Name: fmt.Sprintf("list-%d", list.Number), Level: app.ConfirmYes})
}

// verify judges the list by the policy in force. All findings are shown at once. The
// list in force again is not held against itself: applying it changes nothing.
func verify(ctx context.Context, a *app.App, reader registry.Reader, data []byte) (*admission.RevocationList, error) {
	_, policy, err := trust.Current(ctx, reader)
	if err != nil {
		return nil, err
	}
	all, _, err := History(ctx, reader)
	if err != nil {
		return nil, err
	}
	var earlier *admission.RevocationList
	if len(all) > 0 && all[len(all)-1].Digest != fleet.DigestBytes(data) {
		earlier = admission.RevocationsOf(all[len(all)-1])
	}
	list, found := admission.Evaluator{Bundles: sigstore.Verifier{}}.OpenRevocations(data, policy, earlier, a.Now())
	if len(found) > 0 {
		return nil, release.ShowRefused(a, "the revocation list", found)
	}
	return list, nil
}

func showCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "show [N]", Short: "Show the revocation list in force, or list N",
		Args: app.AtMostArgs(1, "one list number"),
		RunE: func(cmd *cobra.Command, args []string) error { return show(cmd.Context(), a, args) },
	}
}

func show(ctx context.Context, a *app.App, args []string) error {
	reg, err := a.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return err
	}
	defer reg.Close()
	all, revision, err := History(ctx, reg)
	if err != nil {
		return err
	}
	list, err := choose(all, args)
	if err != nil {
		return err
	}
	return a.Print(app.View{
		Kind: "RevocationList", Revision: revision, Item: list, Name: func(any) string { return fmt.Sprintf("revocation/%d", list.Number) },
		Text: func() app.Page { return page(a, list) },
	})
}

func choose(all []registry.RevocationList, args []string) (registry.RevocationList, error) {
	if len(args) == 0 && len(all) > 0 {
		return all[len(all)-1], nil
	}
	if len(args) == 0 {
		return registry.RevocationList{}, fleet.Errorf(fleet.NotFound, "revocation.none", "there is no revocation list").
			Advise("aipctl revocation apply FILE --reason TEXT")
	}
	return app.Numbered(all, func(l registry.RevocationList) uint64 { return l.Number }, app.Number{
		Text: args[0], What: "revocation list", Code: "revocation.list", Next: "aipctl get revocations",
	})
}

func page(a *app.App, l registry.RevocationList) app.Page {
	entries := app.Table{Header: []string{"KIND", "VALUE", "REASON"}}
	for _, e := range l.Entries {
		entries.Rows = append(entries.Rows, []string{string(e.Kind), e.Value, e.Reason})
	}
	p := app.Page{{Title: fmt.Sprintf("Revocation list %d", l.Number), Fields: []app.Field{
		{Label: "Issued", Value: app.Stamp(l.IssuedAt)}, {Label: "Applied", Value: a.Since(l.AppliedAt)}, {Label: "By", Value: l.Actor},
		{Label: "Reason", Value: l.Reason}, {Label: "Digest", Value: l.Digest.String()},
	}}}
	if len(l.Entries) == 0 {
		return append(p, app.Section{Lines: []string{"it names nothing"}})
	}
	return append(p, app.Section{Title: strings.ToUpper("entries"), Table: &entries})
}
