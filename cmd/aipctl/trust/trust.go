// Package trust is aipctl trust: the trust policy under which releases are admitted.
//
// It answers "who may vouch for what, and since when?". A policy is a numbered,
// immutable revision in the registry; every admission records the one it was
// decided under (G33, G35). It does not own what a policy means: package admission
// does.
package trust

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/publish"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Command makes aipctl trust.
func Command(a *app.App) *cobra.Command {
	return app.GroupCommand("trust", "Apply and show the trust policy for releases", app.GroupRelease,
		applyCommand(a), showCommand(a), historyCommand(a))
}

// History lists every trust revision, oldest first, and the catalog revision they
// were read at.
func History(ctx context.Context, reader registry.Reader) ([]registry.TrustRevision, uint64, error) {
	all, err := publish.ReadAll(ctx, reader, registry.Selection{Noun: registry.TrustRevisions})
	return all.Trust, all.Revision, err
}

// Current is the newest trust revision with its parsed policy.
func Current(ctx context.Context, reader registry.Reader) (registry.TrustRevision, *admission.Policy, error) {
	all, _, err := History(ctx, reader)
	if err != nil {
		return registry.TrustRevision{}, nil, err
	}
	if len(all) == 0 {
		return registry.TrustRevision{}, nil, fleet.Errorf(fleet.NotFound, "trust.none", "the registry has no trust policy").
			Because("nothing can be admitted before somebody says who may vouch for it").Advise("aipctl trust apply policy.yaml --reason TEXT")
	}
	newest := all[len(all)-1]
	policy, err := admission.ParsePolicy(newest.Document)
	return newest, policy, err
}

func applyCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "apply FILE --reason TEXT", Short: "Put a trust policy into force as a new revision",
		Long:    "Releases that are admitted already stay admitted; new ones are judged by the new revision.",
		Example: "  aipctl trust apply policy.yaml --reason \"rotate the build key\"",
		Args:    app.ExactArgs(1, "a policy file, - for stdin"),
		RunE:    func(cmd *cobra.Command, args []string) error { return apply(cmd.Context(), a, args[0]) },
	}
}

// applied is what trust apply tells.
type applied struct {
	Number   uint64       `json:"number"`
	Digest   fleet.Digest `json:"digest"`
	Changed  bool         `json:"changed"`
	Revision uint64       `json:"catalog_revision"`
}

func apply(ctx context.Context, a *app.App, file string) error {
	data, err := a.ReadInput(file, admission.MaxPolicyBytes)
	if err != nil {
		return err
	}
	policy, err := admission.ParsePolicy(data)
	if err != nil {
		return err
	}
	if a.Reason == "" {
		return app.Usagef("usage.reason", "trust apply needs --reason").Because("every trust revision is recorded with its reason").
			Advise("aipctl trust apply %s --reason TEXT", file)
	}
	reg, err := a.OpenRegistry(ctx, app.Control)
	if err != nil {
		return err
	}
	defer reg.Close()
	all, revision, err := History(ctx, reg)
	if err != nil {
		return err
	}
	var newest registry.TrustRevision
	if len(all) > 0 {
		newest = all[len(all)-1]
	}
	if err := follows(policy, newest); err != nil {
		return err
	}
	if newest.Digest == policy.Digest() {
		return show(a, applied{Number: newest.Number, Digest: newest.Digest, Revision: revision})
	}
	return putIntoForce(ctx, a, reg, newest.Number+1, policy, revision)
}

// follows refuses a policy that is older than the one in force, and one with a trusted
// root that nothing can be verified with.
func follows(policy *admission.Policy, newest registry.TrustRevision) error {
	for _, r := range policy.Roots() {
		if err := (sigstore.Verifier{}).CheckRoot(r.TrustedRoot); err != nil {
			return fleet.Invalidf("trust.root", "the trusted root %s cannot be used", r.ID).Caused(err).Advise("take trusted_root.json as Sigstore publishes it")
		}
	}
	if newest.Number == 0 || newest.Digest == policy.Digest() {
		return nil
	}
	earlier, err := admission.ParsePolicy(newest.Document)
	if err != nil {
		return err
	}
	return policy.Follows(earlier)
}

func putIntoForce(ctx context.Context, a *app.App, reg *app.Registry, number uint64, policy *admission.Policy, revision uint64) error {
	summary := fmt.Sprintf("trust revision %d: %d keys, %d connector types", number, len(policy.Keys()), len(policy.Types()))
	target, err := a.Target()
	if err != nil {
		return err
	}
	if err := a.Confirm(app.ConfirmNone, summary, target.Name); err != nil {
		return err
	}
	done, err := reg.Apply(ctx, registry.ChangeSet{
		Actor: a.Actor(), Reason: a.Reason,
		Trust: &registry.TrustRevision{Number: number, Digest: policy.Digest(), Document: policy.Document(), Actor: a.Actor(), Reason: a.Reason},
	}, revision)
	if err != nil {
		return err
	}
	return show(a, applied{Number: number, Digest: policy.Digest(), Changed: done.Changed, Revision: done.After})
}

func show(a *app.App, r applied) error {
	return a.Print(app.View{
		Kind: "TrustRevision", Revision: r.Revision, Item: r, Name: func(any) string { return fmt.Sprintf("trust/%d", r.Number) },
		Text: func() app.Page {
			line := fmt.Sprintf("trust revision %d is in force, %s", r.Number, r.Digest)
			if !r.Changed {
				line = fmt.Sprintf("nothing to change: trust revision %d is this policy already", r.Number)
			}
			return app.Page{{Lines: []string{line}}}
		},
	})
}

func showCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "show [N]", Short: "Show the trust policy in force, or revision N",
		Args: app.AtMostArgs(1, "one revision number"),
		RunE: func(cmd *cobra.Command, args []string) error { return showRevision(cmd.Context(), a, args) },
	}
}

func showRevision(ctx context.Context, a *app.App, args []string) error {
	reg, err := a.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return err
	}
	defer reg.Close()
	found, err := choose(ctx, reg, args)
	if err != nil {
		return err
	}
	policy, err := admission.ParsePolicy(found.Document)
	if err != nil {
		return err
	}
	return a.Print(app.View{
		Kind: "TrustRevision", Item: found, Name: func(any) string { return fmt.Sprintf("trust/%d", found.Number) },
		Text: func() app.Page { return page(a, found, policy) },
	})
}

func choose(ctx context.Context, reg *app.Registry, args []string) (registry.TrustRevision, error) {
	if len(args) == 0 {
		found, _, err := Current(ctx, reg)
		return found, err
	}
	all, _, err := History(ctx, reg)
	if err != nil {
		return registry.TrustRevision{}, err
	}
	return app.Numbered(all, func(t registry.TrustRevision) uint64 { return t.Number }, app.Number{
		Text: args[0], What: "trust revision", Code: "trust.revision", Next: "aipctl trust history",
	})
}

func page(a *app.App, t registry.TrustRevision, policy *admission.Policy) app.Page {
	keys := app.Table{Header: []string{"KEY", "FROM", "UNTIL", "HINT"}}
	for _, k := range policy.Keys() {
		keys.Rows = append(keys.Rows, []string{k.ID, app.Stamp(k.NotBefore), app.Stamp(k.NotAfter), k.Hint()})
	}
	identities := app.Table{Header: []string{"IDENTITY", "ROOT", "ISSUER", "SUBJECT"}}
	for _, i := range policy.Identities() {
		identities.Rows = append(identities.Rows, []string{i.ID, i.Root, i.Issuer, i.Subject})
	}
	types := app.Table{Header: []string{"TYPE", "OWNERS", "SIGNERS"}}
	for _, r := range policy.Types() {
		types.Rows = append(types.Rows, []string{r.Type.String(), fmt.Sprint(r.Owners), fmt.Sprint(r.Signers)})
	}
	shown := app.Page{
		{Title: fmt.Sprintf("Trust revision %d", t.Number), Fields: []app.Field{
			{Label: "Digest", Value: t.Digest.String()}, {Label: "Applied", Value: a.Since(t.AppliedAt)},
			{Label: "By", Value: t.Actor}, {Label: "Reason", Value: t.Reason}, {Label: "Slots", Value: fmt.Sprint(policy.Slots())},
		}},
		{Title: "Keys", Table: &keys},
	}
	if len(identities.Rows) > 0 {
		shown = append(shown, app.Section{Title: "Identities", Table: &identities})
	}
	return append(shown, app.Section{Title: "Connector types", Table: &types})
}

func historyCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "history", Short: "List every trust revision", Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return history(cmd.Context(), a) },
	}
}

func history(ctx context.Context, a *app.App) error {
	reg, err := a.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return err
	}
	defer reg.Close()
	all, revision, err := History(ctx, reg)
	if err != nil {
		return err
	}
	return a.Print(app.View{
		Kind: "TrustRevisions", Revision: revision, Items: app.Items(all),
		Name: func(item any) string {
			t, _ := item.(registry.TrustRevision)
			return fmt.Sprintf("trust/%d", t.Number)
		},
		Table: func(bool) app.Table {
			t := app.Table{Header: []string{"NUMBER", "APPLIED", "BY", "REASON", "DIGEST"}}
			for _, r := range all {
				t.Rows = append(t.Rows, []string{strconv.FormatUint(r.Number, 10), a.Since(r.AppliedAt), r.Actor, r.Reason, r.Digest.String()})
			}
			return t
		},
	})
}
