package release

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/trust"
	"github.com/aipfleet/aipfleet/pkg/admission"
)

// approveOptions is one approver's word.
type approveOptions struct {
	app      *app.App
	filing   filing
	policy   string
	revision uint64
	rollback uint64
	comment  string
}

func approveCommand(a *app.App) *cobra.Command {
	o := &approveOptions{app: a}
	cmd := &cobra.Command{
		Use: "approve PKG --key FILE", Short: "Approve a package under the trust policy in force",
		Long: "Signs that this package, as it is but for other approvals, may be admitted under this policy. Any later change of\n" +
			"the package or of the policy undoes the approval. --rollback-from N lets an older release follow sequence N.\n" +
			"The policy is the registry's; --policy FILE with --trust-revision N names it without one.",
		Example: "  aipctl release approve dist/ticketdesk --key keys/alice.key\n  aipctl release approve dist/ticketdesk --key keys/bob.key --add",
		Args:    app.ExactArgs(1, "a package directory"),
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	f := cmd.Flags()
	o.filing.bind(f)
	f.StringVar(&o.policy, "policy", "", "trust policy `file` instead of the one in force")
	f.Uint64Var(&o.revision, "trust-revision", 0, "its `number`")
	f.Uint64Var(&o.rollback, "rollback-from", 0, "release `sequence` that this older release may follow")
	f.StringVar(&o.comment, "comment", "", "why, for those who read it later")
	return cmd
}

func (o *approveOptions) run(ctx context.Context, dir string) error {
	p, err := admission.OpenPackage(dir, admission.Limits{})
	if err != nil {
		return err
	}
	policy, number, err := o.inForce(ctx)
	if err != nil {
		return err
	}
	return o.filing.attest(o.app, dir, p, Attestation{
		Slot: admission.SlotApproval, PredicateType: admission.PredicateApproval, Predicate: admission.Approval{
			PackageDigest: p.ApprovalDigest(), PolicyDigest: policy.Digest(), TrustRevision: number,
			ApprovedAt: o.app.Now().UTC().Truncate(time.Second), RollbackFrom: o.rollback, Comment: o.comment,
		},
	})
}

func (o *approveOptions) inForce(ctx context.Context) (*admission.Policy, uint64, error) {
	if o.policy != "" {
		data, err := o.app.ReadInput(o.policy, admission.MaxPolicyBytes)
		if err != nil {
			return nil, 0, err
		}
		policy, err := admission.ParsePolicy(data)
		return policy, o.revision, err
	}
	reg, err := o.app.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return nil, 0, err
	}
	defer reg.Close()
	revision, policy, err := trust.Current(ctx, reg)
	return policy, revision.Number, err
}
