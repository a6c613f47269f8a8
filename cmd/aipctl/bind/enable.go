package bind

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/get"
	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// switchOptions is one enable or disable.
type switchOptions struct {
	app    *app.App
	on     bool
	dryRun bool
}

var switchable = []string{"type", "instance", "binding", "quota"}

// EnableCommand makes aipctl enable.
func EnableCommand(a *app.App) *cobra.Command {
	return switchCommand(a, "enable", "Switch a record on", true)
}

// DisableCommand makes aipctl disable.
func DisableCommand(a *app.App) *cobra.Command {
	return switchCommand(a, "disable", "Switch a record off; pinned work keeps its route", false)
}

func switchCommand(a *app.App, verb, short string, on bool) *cobra.Command {
	o := &switchOptions{app: a, on: on}
	cmd := &cobra.Command{
		Use: verb + " type|instance|quota ID, or " + verb + " binding TENANT CAPABILITY INSTANCE", Short: short,
		GroupID: app.GroupChange, Args: app.MinArgs(2, "a noun and an id"), ValidArgsFunction: get.CompleteNounAndIDs(a, switchable),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0], args[1:]) },
	}
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show the change and make none")
	return cmd
}

func (o *switchOptions) run(ctx context.Context, what string, args []string) error {
	want := 1
	if what == "binding" {
		want = 3
	}
	if len(args) != want {
		return app.Usagef("usage.arguments", "%s takes %d arguments, got %d", what, want, len(args))
	}
	reg, err := o.app.OpenRegistry(ctx, app.Control)
	if err != nil {
		return err
	}
	defer reg.Close()
	set, err := o.set(ctx, reg, what, args)
	if err != nil {
		return err
	}
	verb := "disable "
	if o.on {
		verb = "enable "
	}
	set.Reason = verb + what + " " + args[0]
	return change(ctx, o.app, reg, request{set, args[0], o.dryRun})
}

// set reads the record and makes the change set that switches it.
func (o *switchOptions) set(ctx context.Context, reg *app.Registry, what string, args []string) (set registry.ChangeSet, err error) {
	if what == "binding" {
		return o.binding(ctx, reg, args)
	}
	nouns := map[string]registry.Noun{"type": registry.Types, "instance": registry.Instances, "quota": registry.Quotas}
	noun, ok := nouns[what]
	if !ok {
		return set, app.Unknown("usage.noun", "noun", what, switchable)
	}
	page, err := reg.List(ctx, registry.Selection{Noun: noun, IDs: args})
	if err != nil {
		return set, err
	}
	for _, t := range page.Types {
		t.Enabled = o.on
		set.Types = append(set.Types, t)
	}
	for _, i := range page.Instances {
		i.Enabled, i.ConfigRevision = o.on, 0
		set.Instances = append(set.Instances, i)
	}
	for _, q := range page.Quotas {
		q.Enabled, q.Revision = o.on, 0
		set.Quotas = append(set.Quotas, q)
	}
	if len(set.Types)+len(set.Instances)+len(set.Quotas) == 0 {
		return set, missing(ctx, reg, what, args)
	}
	return set, nil
}

func (o *switchOptions) binding(ctx context.Context, reg *app.Registry, args []string) (registry.ChangeSet, error) {
	key, err := parseKey(args)
	if err != nil {
		return registry.ChangeSet{}, err
	}
	b, found, err := published(ctx, reg, key)
	if err != nil {
		return registry.ChangeSet{}, err
	}
	if !found {
		return registry.ChangeSet{}, missingBinding(key)
	}
	b.Enabled, b.PolicyRevision = o.on, 0
	return registry.ChangeSet{Bindings: []fleet.CapabilityBinding{b}}, nil
}

func missing(ctx context.Context, reader registry.Reader, what string, ids []string) error {
	n, err := noun.Find(what)
	if err != nil {
		return err
	}
	return get.NotFound(ctx, reader, n, ids)
}
