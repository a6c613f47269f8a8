package apply

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/publish"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Options is one plan or apply.
type Options struct {
	App      *app.App
	File     string
	Plan     bool
	ExitCode bool
	Revision uint64
}

// PlanCommand makes aipctl plan.
func PlanCommand(a *app.App) *cobra.Command {
	o := &Options{App: a, Plan: true}
	cmd := &cobra.Command{
		Use: "plan -f fleet.yaml", Short: "Show what a fleet file would change, field by field",
		GroupID: app.GroupChange, Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context()) },
	}
	cmd.Flags().StringVarP(&o.File, "file", "f", "", "fleet `file`, - for stdin (required)")
	cmd.Flags().BoolVar(&o.ExitCode, "exit-code", false, "exit 10 when there is something to change")
	return cmd
}

// Command makes aipctl apply.
func Command(a *app.App) *cobra.Command {
	o := &Options{App: a}
	cmd := &cobra.Command{
		Use: "apply -f fleet.yaml", Short: "Publish a fleet file as one change set and one revision",
		GroupID: app.GroupChange, Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context()) },
	}
	cmd.Flags().StringVarP(&o.File, "file", "f", "", "fleet `file`, - for stdin (required)")
	cmd.Flags().Uint64Var(&o.Revision, "revision", 0, "refuse unless the registry is still at this revision, the one a plan showed")
	return cmd
}

// Run reads, completes, and plans or publishes.
func (o *Options) Run(ctx context.Context) error {
	if o.File == "" {
		return app.Usagef("usage.flag", "-f FILE is needed").Advise("aipctl plan -f fleet.yaml")
	}
	data, err := o.App.ReadInput(o.File, MaxFileBytes)
	if err != nil {
		return err
	}
	set, err := Parse(data)
	if err != nil {
		return err
	}
	reg, err := o.App.OpenRegistry(ctx, app.Control)
	if err != nil {
		return err
	}
	defer reg.Close()
	return o.publish(ctx, reg, set)
}

func (o *Options) publish(ctx context.Context, reg *app.Registry, set registry.ChangeSet) error {
	if err := Complete(ctx, reg, &set); err != nil {
		return err
	}
	set.Actor, set.Reason = o.App.Actor(), o.App.ReasonOr("apply "+filepath.Base(o.File))
	if o.Plan {
		return publish.Plan(ctx, o.App, reg, set, o.ExitCode)
	}
	target, err := o.App.Target()
	if err != nil {
		return err
	}
	return publish.Apply(ctx, o.App, reg, publish.Change{Set: set, Name: target.Name, Revision: o.Revision})
}
