// Package admit is aipctl admit: from a package to an admitted version.
//
// It answers "may this release in, and what would it change?". It judges by the
// trust revision in force, shows all findings or the field-level difference, asks, and
// publishes in one revision with the journal entry (G13, G33, G35). A refused
// package writes nothing and ends with exit code 1.
//
// It does not own the rules of admission, nor how the registry publishes.
package admit

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/publish"
	"github.com/aipfleet/aipfleet/cmd/aipctl/release"
	"github.com/aipfleet/aipfleet/cmd/aipctl/revocation"
	"github.com/aipfleet/aipfleet/cmd/aipctl/trust"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Options is one admission.
type Options struct {
	App      *app.App
	Package  string
	Plan     bool   // judge and show the difference; write nothing
	DryRun   bool   // judge alone; write nothing
	Promote  bool   // make the version active afterwards
	Revision uint64 // refuse unless the registry is at this revision
	Digest   string // refuse unless the package has this digest
}

// Command makes aipctl admit.
func Command(a *app.App) *cobra.Command {
	o := &Options{App: a}
	var access release.Access
	cmd := &cobra.Command{
		Use: "release PKG", Short: "Verify a release package and publish it as an admitted version",
		Long: "Judges the package by the trust policy in force. Without findings it shows what would change, asks, and\n" +
			"publishes all of it as one revision. --revision and --digest tie it to a plan that was looked at before.",
		Example: "  aipctl admit release dist/ticketdesk --plan\n  aipctl admit release dist/ticketdesk --yes --promote",
		Args:    app.ExactArgs(1, "a package directory, or a reference to one"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, done, err := release.Source(cmd.Context(), args[0], access)
			if err != nil {
				return err
			}
			defer done()
			o.Package = dir
			return o.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	access.Bind(f)
	f.BoolVar(&o.Plan, "plan", false, "show findings and the difference; write nothing")
	f.BoolVar(&o.DryRun, "dry-run", false, "show findings alone; write nothing")
	f.BoolVar(&o.Promote, "promote", false, "make the version active once it is admitted")
	f.Uint64Var(&o.Revision, "revision", 0, "refuse unless the registry is still at this revision, the one a plan showed")
	f.StringVar(&o.Digest, "digest", "", "refuse unless the package has this digest, the one a plan showed")
	return app.GroupCommand("admit", "Admit a connector release", app.GroupRelease, cmd)
}

// Result is what admit release tells.
type Result struct {
	Outcome       string                `json:"outcome"` // refused, passes, planned, already_admitted, admitted
	Package       string                `json:"package"`
	PackageDigest fleet.Digest          `json:"package_digest"`
	Version       fleet.VersionID       `json:"version_id"`
	Status        fleet.VersionStatus   `json:"status,omitempty"`
	TrustRevision uint64                `json:"trust_revision"`
	Findings      []admission.Finding   `json:"findings"`
	Report        *admission.Report     `json:"report,omitempty"`
	Publication   *registry.Publication `json:"publication,omitempty"`
	Promotion     *registry.Publication `json:"promotion,omitempty"`
}

// Run judges, shows, asks and publishes.
func (o *Options) Run(ctx context.Context) error {
	access := app.Control
	if o.DryRun {
		access = app.ReadOnly
	}
	reg, err := o.App.OpenRegistry(ctx, access)
	if err != nil {
		return err
	}
	defer reg.Close()
	result := &Result{Package: o.Package, Findings: []admission.Finding{}}
	verified, err := o.judge(ctx, reg, result)
	if err != nil {
		return err
	}
	if len(result.Findings) > 0 {
		result.Outcome = "refused"
		if err := o.print(result); err != nil {
			return err
		}
		return admission.Refusal(result.Findings)
	}
	switch {
	case verified.AlreadyAdmitted():
		result.Outcome = "already_admitted"
		return o.again(ctx, reg, result)
	case o.DryRun:
		result.Outcome = "passes"
		return o.print(result)
	}
	return o.publish(ctx, reg, verified, result)
}

// judge evaluates the package under the newest trust revision.
func (o *Options) judge(ctx context.Context, reg *app.Registry, result *Result) (admission.Verified, error) {
	revision, policy, err := trust.Current(ctx, reg)
	if err != nil {
		return admission.Verified{}, err
	}
	result.TrustRevision = revision.Number
	p, found := admission.ReadPackage(o.Package, admission.Limits{})
	if len(found) > 0 {
		result.Findings = found
		return admission.Verified{}, nil
	}
	result.PackageDigest, result.Version = p.Digest(), p.Release().VersionID
	if err := o.planned(p); err != nil {
		return admission.Verified{}, err
	}
	list, err := revocation.Current(ctx, reg)
	if err != nil {
		return admission.Verified{}, err
	}
	known, err := knownOf(ctx, reg, p.Release().Type.ID)
	if err != nil {
		return admission.Verified{}, err
	}
	verified, found := admission.Evaluator{Bundles: sigstore.Verifier{}}.Evaluate(admission.Request{
		Package: p, Policy: policy, TrustRevision: revision.Number, Revocations: list, At: o.App.Now(), Known: known,
	})
	result.Findings = append(result.Findings, found...)
	if len(found) == 0 {
		report := verified.Report()
		result.Report = &report
	}
	return verified, nil
}

// planned refuses another package than the one that a plan showed.
func (o *Options) planned(p *admission.Package) error {
	if o.Digest == "" {
		return nil
	}
	digest, err := fleet.ParseDigest(o.Digest)
	if err != nil {
		return err
	}
	if err := p.Planned(digest); err != nil {
		return fleet.AsError(err, "").Advise("aipctl admit release %s --plan", o.Package)
	}
	return nil
}

// knownOf reads what the registry holds about a type.
func knownOf(ctx context.Context, reader registry.Reader, id fleet.TypeID) (admission.Known, error) {
	types, err := reader.List(ctx, registry.Selection{Noun: registry.Types, IDs: []string{id.String()}})
	if err != nil {
		return admission.Known{}, err
	}
	known := admission.Known{}
	if len(types.Types) > 0 {
		known.Type = &types.Types[0]
	}
	versions, err := publish.ReadAll(ctx, reader, registry.Selection{Noun: registry.Versions})
	for _, v := range versions.Versions {
		if v.Type == id {
			known.Versions = append(known.Versions, v)
		}
	}
	return known, err
}

// publish previews, asks and applies against the previewed revision.
func (o *Options) publish(ctx context.Context, reg *app.Registry, verified admission.Verified, result *Result) error {
	set, err := verified.ChangeSet(o.App.Actor(), o.App.ReasonOr("admit release "+verified.Version().Version))
	if err != nil {
		return err
	}
	preview, err := reg.Preview(ctx, set)
	if err != nil {
		return err
	}
	if o.Revision != 0 && o.Revision != preview.Before {
		return fleet.Errorf(fleet.Conflict, "publish.revision_moved", "the plan was made at revision %d, the registry is at %d", o.Revision, preview.Before).
			Because("somebody published in between").Advise("aipctl admit release %s --plan", o.Package)
	}
	if o.Plan {
		result.Outcome, result.Publication = "planned", &preview
		return o.print(result)
	}
	if err := o.confirm(preview, verified); err != nil {
		return err
	}
	done, err := reg.Apply(ctx, set, preview.Before)
	if err != nil {
		return err
	}
	result.Outcome, result.Publication, result.Status = "admitted", &done, fleet.VersionAdmitted
	if o.Promote {
		if err := o.promote(ctx, reg, result); err != nil {
			return err
		}
	}
	return o.print(result)
}

func (o *Options) confirm(preview registry.Publication, verified admission.Verified) error {
	lines := append([]string{fmt.Sprintf("%d records change at revision %d:", len(preview.Changes), preview.Before)}, publish.Lines(preview)...)
	return o.App.Confirm(app.ConfirmYes, strings.Join(lines, "\n"), verified.Version().ID.String())
}

// again tells that there is nothing to do, and still promotes when asked.
func (o *Options) again(ctx context.Context, reg *app.Registry, result *Result) error {
	page, err := reg.List(ctx, registry.Selection{Noun: registry.Versions, IDs: []string{result.Version.String()}})
	if err != nil {
		return err
	}
	if len(page.Versions) == 1 {
		result.Status = page.Versions[0].Status
	}
	if o.Promote && !o.Plan && !o.DryRun && result.Status == fleet.VersionAdmitted {
		if err := o.promote(ctx, reg, result); err != nil {
			return err
		}
	}
	return o.print(result)
}

func (o *Options) promote(ctx context.Context, reg *app.Registry, result *Result) error {
	done, err := reg.Transition(ctx, registry.VersionTransition{
		Version: result.Version, To: fleet.VersionActive, Actor: o.App.Actor(), Reason: o.App.ReasonOr("promote on admission"),
	})
	if err != nil {
		return err
	}
	result.Promotion, result.Status = &done, fleet.VersionActive
	return nil
}
