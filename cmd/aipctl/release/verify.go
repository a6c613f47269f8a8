package release

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
)

// verifiedPackage is a package without findings.
type verifiedPackage struct {
	Package  string              `json:"package"`
	Verified bool                `json:"verified"`
	Findings []admission.Finding `json:"findings"`
	Report   admission.Report    `json:"report"`
}

func verifyCommand(a *app.App) *cobra.Command {
	var policy, at string
	var revision uint64
	var access Access
	cmd := &cobra.Command{
		Use: "verify PKG --policy FILE", Short: "Judge a package by a trust policy, offline",
		Long: "Reports every finding at once, each with its code, its place and what would satisfy it.\n" +
			"What only the registry knows (earlier releases of the type) is judged by admit release.",
		Args: app.ExactArgs(1, "a package directory, or a reference to one"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, done, err := Source(cmd.Context(), args[0], access)
			if err != nil {
				return err
			}
			defer done()
			return verify(a, dir, policy, at, revision)
		},
	}
	access.Bind(cmd.Flags())
	cmd.Flags().StringVar(&policy, "policy", "", "trust policy `file`, YAML or JSON (required)")
	cmd.Flags().StringVar(&at, "at", "", "judge as of this `time`, RFC 3339 (default: now)")
	cmd.Flags().Uint64Var(&revision, "trust-revision", 0, "the policy's `number`, which approvals name (default: approvals are held against its digest alone)")
	return cmd
}

func verify(a *app.App, dir, policyFile, at string, revision uint64) error {
	if policyFile == "" {
		return app.Usagef("usage.flag", "--policy FILE is needed").Advise("aipctl trust show prints the one in force")
	}
	data, err := a.ReadInput(policyFile, admission.MaxPolicyBytes)
	if err != nil {
		return err
	}
	policy, err := admission.ParsePolicy(data)
	if err != nil {
		return err
	}
	when := a.Now()
	if at != "" {
		if when, err = time.Parse(time.RFC3339, at); err != nil {
			return app.Usagef("usage.flag", "--at is not a time in RFC 3339").Caused(err)
		}
	}
	p, found := admission.ReadPackage(dir, admission.Limits{})
	var verified admission.Verified
	if len(found) == 0 {
		verified, found = admission.Evaluator{Bundles: sigstore.Verifier{}}.Evaluate(admission.Request{Package: p, Policy: policy, TrustRevision: revision, At: when})
	}
	if len(found) > 0 {
		return showRefused(a, refused{Package: dir, Findings: found})
	}
	result := verifiedPackage{Package: dir, Verified: true, Findings: []admission.Finding{}, Report: verified.Report()}
	return a.Print(app.View{
		Kind: "Verification", Item: result, Name: func(any) string { return "verified" },
		Text: func() app.Page { return append(app.Page{{Title: dir + " passes"}}, ReportPage(result.Report)...) },
	})
}

// ReportPage writes what a decision was made from.
func ReportPage(r admission.Report) app.Page {
	list := app.Table{Header: []string{"SLOT", "SIGNER", "PREDICATE", "DIGEST"}}
	for _, d := range r.Documents {
		list.Rows = append(list.Rows, []string{d.Slot, d.Signer, d.PredicateType, d.Digest.String()})
	}
	return app.Page{
		{Fields: []app.Field{
			{Label: "Package digest", Value: r.PackageDigest.String()}, {Label: "Artifact digest", Value: r.ArtifactDigest.String()},
			{Label: "Manifest digest", Value: r.ManifestDigest.String()}, {Label: "Policy digest", Value: r.PolicyDigest.String()},
			{Label: "Evaluated at", Value: app.Stamp(r.EvaluatedAt)},
		}},
		{Title: "Evidence", Table: &list},
	}
}

func inspectCommand(a *app.App) *cobra.Command {
	var access Access
	cmd := &cobra.Command{
		Use: "inspect PKG", Short: "Show what a package holds, without trusting it",
		Args: app.ExactArgs(1, "a package directory, or a reference to one"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, done, err := Source(cmd.Context(), args[0], access)
			if err != nil {
				return err
			}
			defer done()
			p, found := admission.ReadPackage(dir, admission.Limits{})
			if len(found) > 0 {
				return showRefused(a, refused{Package: args[0], Findings: found})
			}
			return showPackage(a, "Package", describe(args[0], p))
		},
	}
	access.Bind(cmd.Flags())
	return cmd
}
