// Package registrycmd is aipctl registry: making, migrating and checking the
// database behind the fleet.
//
// It answers "is the database the one that these programs need, and is what it says
// true?". Only here the roles aip_migrate and the administrator are used; every other
// command works under control or readonly (G20).
package registrycmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

// Command makes aipctl registry.
func Command(a *app.App) *cobra.Command {
	return app.GroupCommand("registry", "Make, migrate and check the registry's database", app.GroupAdmin,
		initCommand(a), migrateCommand(a), statusCommand(a), verifyCommand(a), rolesCommand(a), auditCommand(a), archiveCommand(a))
}

// url follows the target's reference for a role.
func url(a *app.App, access app.Access) (string, error) {
	t, err := a.Target()
	if err != nil {
		return "", err
	}
	return a.DatabaseURL(t, access)
}

func migrateCommand(a *app.App) *cobra.Command {
	down := false
	cmd := &cobra.Command{
		Use: "migrate", Short: "Apply the pending migrations, as aip_migrate", Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if down {
				return stepDown(cmd.Context(), a)
			}
			target, err := url(a, app.Migrate)
			if err != nil {
				return err
			}
			a.Progressf("migrating")
			if err := migrate.Up(cmd.Context(), target); err != nil {
				return err
			}
			return schemaStatus(cmd.Context(), a, target)
		},
	}
	cmd.Flags().BoolVar(&down, "down", false, "undo the newest migration, and with the first one everything")
	return cmd
}

func stepDown(ctx context.Context, a *app.App) error {
	target, err := url(a, app.Migrate)
	if err != nil {
		return err
	}
	report, err := migrate.Status(ctx, target)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("migration-%d", report.Current)
	if err := a.Confirm(app.ConfirmName, fmt.Sprintf("migration %d is undone; what it stored is lost", report.Current), name); err != nil {
		return err
	}
	if err := migrate.Down(ctx, target); err != nil {
		return err
	}
	return schemaStatus(ctx, a, target)
}

// report is what registry status prints.
type report struct {
	Schema postgres.SchemaReport `json:"schema"`
	Fleet  *registry.Status      `json:"fleet,omitempty"`
}

func statusCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the schema's version and the fleet's counts", Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			target, err := url(a, app.ReadOnly)
			if err != nil {
				return err
			}
			schema, err := migrate.Status(cmd.Context(), target)
			if err != nil {
				return err
			}
			r := report{Schema: schema}
			if err := r.addFleet(cmd.Context(), a); err != nil {
				return err
			}
			return printReport(a, r)
		},
	}
}

// addFleet adds the counts when the schema can be used at all.
func (r *report) addFleet(ctx context.Context, a *app.App) error {
	if r.Schema.Usable() != nil {
		return nil
	}
	reg, err := a.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return err
	}
	defer reg.Close()
	status, err := reg.Status(ctx)
	if err != nil {
		return err
	}
	r.Fleet = &status
	return nil
}

func schemaStatus(ctx context.Context, a *app.App, target string) error {
	schema, err := migrate.Status(ctx, target)
	if err != nil {
		return err
	}
	return printReport(a, report{Schema: schema})
}

func printReport(a *app.App, r report) error {
	view := app.View{Kind: "RegistryStatus", Item: r, Name: func(any) string { return fmt.Sprintf("schema/%d", r.Schema.Current) }}
	if r.Fleet != nil {
		view.Revision = r.Fleet.Revision
	}
	view.Text = func() app.Page { return r.page(a) }
	return a.Print(view)
}

func (r report) page(a *app.App) app.Page {
	usable := app.Status("ok")
	if err := r.Schema.Usable(); err != nil {
		usable = app.Status("fail") + ": " + err.Error()
	}
	p := app.Page{{Title: "Schema", Fields: []app.Field{
		{Label: "version", Value: fmt.Sprintf("%d (this program works on %d..%d)", r.Schema.Current, r.Schema.Min, r.Schema.Max)},
		{Label: "usable", Value: usable},
	}}}
	t := app.Table{Header: []string{"FILE", "STATE", "APPLIED"}}
	for _, f := range r.Schema.Files {
		if f.State != postgres.MigrationApplied || a.Output == "wide" || f.Version > 0 {
			t.Rows = append(t.Rows, []string{f.Name, app.Status(string(f.State)), a.Since(f.AppliedAt)})
		}
	}
	p = append(p, app.Section{Title: "Files", Table: &t})
	if r.Fleet != nil {
		p = append(p, app.Section{Title: "Fleet", Fields: FleetFields(*r.Fleet)})
	}
	return p
}

// FleetFields writes the aggregate state of a fleet.
func FleetFields(s registry.Status) []app.Field {
	return []app.Field{
		{Label: "revision", Value: fmt.Sprint(s.Revision)},
		{Label: "replicas", Value: fmt.Sprintf("%d declared, %d ready, %d draining, %d offline", s.ReplicasDeclared,
			s.Replicas["ready"], s.Replicas["draining"], s.Replicas["offline"])},
		{Label: "unhealthy", Value: fmt.Sprint(s.Unhealthy)},
		{Label: "circuits open", Value: fmt.Sprint(s.CircuitsOpen)},
		{Label: "capacity", Value: fmt.Sprintf("%d of %d in use", s.Active, s.Capacity)},
		{Label: "routes", Value: fmt.Sprint(s.Routes)},
		{Label: "instances", Value: fmt.Sprint(s.Instances)},
		{Label: "bindings", Value: fmt.Sprint(s.Bindings)},
		{Label: "uncertain", Value: fmt.Sprintf("%d being asked, %d for an operator", s.Uncertain["open"], s.Uncertain["operator"])},
	}
}
