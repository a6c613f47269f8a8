// Package bind is aipctl bind, unbind, enable and disable: one record changed
// without a file, through the same change set as apply.
//
// It answers "let this tenant's capability use this instance" and "switch this one
// off". Unbinding and disabling remove nothing: routes that exist keep their target
// (G09), and what is switched off takes no new work.
package bind

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/apply"
	"github.com/aipfleet/aipfleet/cmd/aipctl/publish"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Options is one bind or unbind.
type Options struct {
	App        *app.App
	Args       []string // tenant, capability, instance
	Enabled    bool
	Priority   uint32
	Credential string
	Quota      string
	DryRun     bool
	changed    func(flag string) bool
}

// Command makes aipctl bind.
func Command(a *app.App) *cobra.Command {
	o := &Options{App: a, Enabled: true}
	cmd := &cobra.Command{
		Use: "bind TENANT CAPABILITY INSTANCE", Short: "Let a tenant's capability use an instance",
		GroupID: app.GroupChange, Args: app.ExactArgs(3, "tenant, capability and instance"),
		Example: "  aipctl bind acme ticketdesk:open_ticket cinst_acme --priority 10",
	}
	f := cmd.Flags()
	f.Uint32Var(&o.Priority, "priority", 0, "lower wins")
	f.StringVar(&o.Credential, "credential-revision", "", "`ref` of the credential revision the host must hold")
	f.StringVar(&o.Quota, "quota", "", "`ref` of the quota policy")
	f.BoolVar(&o.DryRun, "dry-run", false, "show the change and make none")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Args, o.changed = args, cmd.Flags().Changed
		return o.Run(cmd.Context())
	}
	return cmd
}

// UnbindCommand makes aipctl unbind.
func UnbindCommand(a *app.App) *cobra.Command {
	o := &Options{App: a, changed: func(string) bool { return false }}
	cmd := &cobra.Command{
		Use: "unbind TENANT CAPABILITY INSTANCE", Short: "Switch a binding off; pinned work keeps its route",
		GroupID: app.GroupChange, Args: app.ExactArgs(3, "tenant, capability and instance"),
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "show the change and make none")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Args = args
		return o.Run(cmd.Context())
	}
	return cmd
}

// Run publishes the one binding.
func (o *Options) Run(ctx context.Context) error {
	key, err := parseKey(o.Args)
	if err != nil {
		return err
	}
	reg, err := o.App.OpenRegistry(ctx, app.Control)
	if err != nil {
		return err
	}
	defer reg.Close()
	b, found, err := published(ctx, reg, key)
	if err != nil {
		return err
	}
	if !found && !o.Enabled {
		return missingBinding(key)
	}
	b.BindingKey, b.Enabled, b.PolicyRevision = key, o.Enabled, 0
	if o.changed("priority") {
		b.Priority = o.Priority
	}
	if o.changed("credential-revision") {
		b.CredentialRevisionRef = o.Credential
	}
	if o.changed("quota") {
		b.QuotaPolicyRef = o.Quota
	}
	verb := "unbind"
	if o.Enabled {
		verb = "bind"
	}
	set := registry.ChangeSet{Bindings: []fleet.CapabilityBinding{b}, Reason: fmt.Sprintf("%s %s %s", verb, key.Tenant, key.Capability)}
	return change(ctx, o.App, reg, request{set, key.Capability.String(), o.DryRun})
}

// request is one imperative change.
type request struct {
	set    registry.ChangeSet
	name   string
	dryRun bool
}

// change completes the revisions and plans or publishes.
func change(ctx context.Context, a *app.App, reg *app.Registry, r request) error {
	if err := apply.Complete(ctx, reg, &r.set); err != nil {
		return err
	}
	r.set.Actor, r.set.Reason = a.Actor(), a.ReasonOr(r.set.Reason)
	if r.dryRun {
		return publish.Plan(ctx, a, reg, r.set, false)
	}
	return publish.Apply(ctx, a, reg, publish.Change{Set: r.set, Name: r.name})
}

func parseKey(args []string) (k fleet.BindingKey, err error) {
	if k.Tenant, err = fleet.ParseTenantID(args[0]); err != nil {
		return k, err
	}
	if k.Capability, err = fleet.ParseCapabilityID(args[1]); err != nil {
		return k, err
	}
	k.Instance, err = fleet.ParseInstanceID(args[2])
	return k, err
}

func published(ctx context.Context, reader registry.Reader, key fleet.BindingKey) (fleet.CapabilityBinding, bool, error) {
	page, err := publish.ReadAll(ctx, reader, registry.Selection{Noun: registry.Bindings, Tenant: key.Tenant, Instance: key.Instance})
	if err != nil {
		return fleet.CapabilityBinding{}, false, err
	}
	for _, b := range page.Bindings {
		if b.BindingKey == key {
			return b, true, nil
		}
	}
	return fleet.CapabilityBinding{}, false, nil
}

func missingBinding(key fleet.BindingKey) error {
	return fleet.Errorf(fleet.NotFound, "binding.not_found", "no binding of %s for %s to %s", key.Tenant, key.Capability, key.Instance).
		Advise("aipctl get bindings --tenant %s", key.Tenant)
}
