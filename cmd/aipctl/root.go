package main

import (
	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/about"
	"github.com/aipfleet/aipfleet/cmd/aipctl/action"
	"github.com/aipfleet/aipfleet/cmd/aipctl/admit"
	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/apply"
	"github.com/aipfleet/aipfleet/cmd/aipctl/bind"
	"github.com/aipfleet/aipfleet/cmd/aipctl/conform"
	"github.com/aipfleet/aipfleet/cmd/aipctl/custody"
	"github.com/aipfleet/aipfleet/cmd/aipctl/dash"
	"github.com/aipfleet/aipfleet/cmd/aipctl/describe"
	"github.com/aipfleet/aipfleet/cmd/aipctl/dev"
	"github.com/aipfleet/aipfleet/cmd/aipctl/doctor"
	"github.com/aipfleet/aipfleet/cmd/aipctl/drain"
	"github.com/aipfleet/aipfleet/cmd/aipctl/events"
	"github.com/aipfleet/aipfleet/cmd/aipctl/get"
	"github.com/aipfleet/aipfleet/cmd/aipctl/reconcile"
	"github.com/aipfleet/aipfleet/cmd/aipctl/registrycmd"
	"github.com/aipfleet/aipfleet/cmd/aipctl/release"
	"github.com/aipfleet/aipfleet/cmd/aipctl/reverify"
	"github.com/aipfleet/aipfleet/cmd/aipctl/revocation"
	"github.com/aipfleet/aipfleet/cmd/aipctl/route"
	"github.com/aipfleet/aipfleet/cmd/aipctl/target"
	"github.com/aipfleet/aipfleet/cmd/aipctl/transition"
	"github.com/aipfleet/aipfleet/cmd/aipctl/trust"
	"github.com/aipfleet/aipfleet/cmd/aipctl/wait"
)

// root assembles the command tree.
func root(a *app.App) *cobra.Command {
	releases := release.Command(a)
	releases.AddCommand(conform.Command(a))
	trusted := trust.Command(a)
	trusted.AddCommand(reverify.Command(a))
	r := a.Root(
		get.Command(a), describe.Command(a), route.Command(a), events.Command(a), events.AuditCommand(a),
		wait.Command(a), doctor.Command(a), dash.Command(a),
		apply.PlanCommand(a), apply.Command(a), bind.Command(a), bind.UnbindCommand(a), bind.EnableCommand(a), bind.DisableCommand(a),
		drain.Command(a), drain.UndrainCommand(a), custody.AcceptCommand(a), custody.RetireCommand(a),
		action.Command(a), reconcile.Command(a),
		admit.Command(a), releases, trusted, revocation.Command(a),
		registrycmd.Command(a), target.Command(a), dev.Command(a),
	)
	r.AddCommand(transition.Commands(a)...)
	r.AddCommand(about.Commands(a)...)
	return r
}
