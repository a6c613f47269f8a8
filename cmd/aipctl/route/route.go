// Package route is aipctl route: where an action went, where one would go, and why.
//
// It answers "which replica is this action pinned to, what happened there, and what
// would a retry do now?" (G09, G40). It reserves nothing and reads only.
package route

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/get"
	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Command makes aipctl route.
func Command(a *app.App) *cobra.Command {
	return app.GroupCommand("route", "Where an action went, or would go, and why", app.GroupLook,
		inspectCommand(a), explainCommand(a), listCommand(a))
}

func listCommand(a *app.App) *cobra.Command {
	list := get.Command(a)
	list.Use, list.Short, list.GroupID, list.Example = "list [ACTION…]", "List routes, newest first", "", ""
	list.Args = cobra.ArbitraryArgs
	run := list.RunE
	list.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, append([]string{"routes"}, args...)) }
	list.ValidArgsFunction = get.CompleteIDs(a, "routes")
	return list
}

func inspectCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "inspect ACTION", Short: "Show the pinned route of an action and what a retry would do",
		Args: app.ExactArgs(1, "an action id"), ValidArgsFunction: get.CompleteIDs(a, "routes"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := fleet.ParseActionID(args[0])
			if err != nil {
				return err
			}
			return inspect(cmd.Context(), a, id)
		},
	}
}

// Inspection is what route inspect prints in the machine formats.
type Inspection struct {
	Route           fleet.RouteAssignment   `json:"route"`
	State           string                  `json:"state"`
	Attempts        []fleet.Attempt         `json:"attempts"`
	Replica         *registry.ReplicaRecord `json:"replica,omitempty"`
	VersionStatus   fleet.VersionStatus     `json:"version_status,omitempty"`
	Reconciliations []fleet.Reconciliation  `json:"reconciliations"`
	Retry           Retry                   `json:"retry"`
}

// open opens the registry as one who may ask the router: that takes the ring key,
// which the readonly role cannot see. A target without that role still shows what is
// stored.
func open(ctx context.Context, a *app.App) (*app.Registry, error) {
	reg, err := a.OpenRegistry(ctx, app.Control)
	if fleet.CodeOf(err) == "context.registry" {
		return a.OpenRegistry(ctx, app.ReadOnly)
	}
	return reg, err
}

func inspect(ctx context.Context, a *app.App, id fleet.ActionID) error {
	reg, err := open(ctx, a)
	if err != nil {
		return err
	}
	defer reg.Close()
	i, revision, err := read(ctx, reg, id)
	if err != nil {
		return err
	}
	return a.Print(app.View{
		Kind: "RouteInspection", Revision: revision, Item: i,
		Name: func(any) string { return id.String() },
		Text: func() app.Page { return i.page(a) },
	})
}

// read gathers what is known of an action's route.
func read(ctx context.Context, reg *app.Registry, id fleet.ActionID) (Inspection, uint64, error) {
	page, err := reg.List(ctx, registry.Selection{Noun: registry.Routes, IDs: []string{id.String()}})
	if err != nil {
		return Inspection{}, 0, err
	}
	if len(page.Routes) == 0 {
		return Inspection{}, 0, absent(ctx, reg, id)
	}
	view := noun.Route(page.Routes[0])
	i := Inspection{Route: view.Route, State: view.State, Attempts: view.Attempts, Reconciliations: []fleet.Reconciliation{}}
	if err := i.readTarget(ctx, reg); err != nil {
		return i, 0, err
	}
	i.Retry, err = retry(ctx, reg, i)
	return i, page.Revision, err
}

// absent says why there is no route: it was archived, or there never was one.
func absent(ctx context.Context, reg *app.Registry, id fleet.ActionID) error {
	page, err := reg.List(ctx, registry.Selection{Noun: registry.Archived, IDs: []string{id.String()}})
	if err != nil {
		return err
	}
	if len(page.Archived) == 1 && page.Archived[0].Route != nil {
		return fleet.Errorf(fleet.NotFound, "route.archived", "the route of action %s was archived at %s", id, app.Stamp(page.Archived[0].Route.ArchivedAt)).
			Because("nothing is retried or settled on it any more; its id stays taken").Advise("aipctl get archived %s -o yaml", id)
	}
	return fleet.Errorf(fleet.NotFound, "route.action", "no route for action %s", id).
		Because("no attempt was ever reserved for it, or it does not exist").Advise("aipctl action status %s", id)
}

// readTarget reads the state of the pinned replica and version, and what is uncertain.
func (i *Inspection) readTarget(ctx context.Context, reg *app.Registry) error {
	replicas, err := reg.List(ctx, registry.Selection{Noun: registry.Replicas, IDs: []string{i.Route.Replica.String()}})
	if err != nil {
		return err
	}
	if len(replicas.Replicas) == 1 {
		i.Replica = &replicas.Replicas[0]
	}
	versions, err := reg.List(ctx, registry.Selection{Noun: registry.Versions, IDs: []string{i.Route.Version.String()}})
	if err != nil {
		return err
	}
	if len(versions.Versions) == 1 {
		i.VersionStatus = versions.Versions[0].Status
	}
	uncertain, err := reg.List(ctx, registry.Selection{Noun: registry.Reconciliations, IDs: []string{i.Route.Action.String()}})
	if err != nil {
		return err
	}
	i.Reconciliations = append(i.Reconciliations, uncertain.Reconciliations...)
	return nil
}

// request is the question that a retry of the action would put to the router.
func (i Inspection) request() registry.RouteRequest {
	return registry.RouteRequest{Action: i.Route.Action, Capability: i.Route.Capability, Tenant: i.Route.Tenant}
}
