package registrycmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
	"github.com/aipfleet/aipfleet/schema"
)

// finding is one thing that is not as it should be.
type finding struct {
	What string `json:"what"`
}

func verifyCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Compare migrations, functions and privileges with what they must be; exit 1 when they differ", Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			target, err := url(a, app.ReadOnly)
			if err != nil {
				return err
			}
			problems, err := migrate.Verify(cmd.Context(), target)
			if err != nil {
				return err
			}
			findings := make([]finding, len(problems))
			for i, p := range problems {
				findings[i] = finding{p}
			}
			return printFindings(a, findings)
		},
	}
}

func printFindings(a *app.App, findings []finding) error {
	view := app.View{Kind: "Findings", Items: app.Items(findings), Note: "the database is as it should be",
		Name: func(item any) string { return fmt.Sprint(item) },
		Table: func(bool) app.Table {
			t := app.Table{Header: []string{"DIFFERS"}}
			for _, f := range findings {
				t.Rows = append(t.Rows, []string{f.What})
			}
			return t
		}}
	if len(findings) > 0 {
		view.Note = ""
	}
	if err := a.Print(view); err != nil || len(findings) == 0 {
		return err
	}
	return app.WithExit(fleet.Errorf(fleet.Denied, "registry.verify", "the database differs in %d points", len(findings)).
		Advise("aipctl registry migrate, then aipctl registry verify"), 1)
}

// grant is one line of the privilege matrix and whether the database has it.
type grant struct {
	Role      string `json:"role"`
	Privilege string `json:"privilege"`
	State     string `json:"state"` // ok, lacks, more
}

func rolesCommand(a *app.App) *cobra.Command {
	role := ""
	cmd := &cobra.Command{
		Use: "roles", Short: "Show what each database role may do, and where the database differs; exit 1 when it does", Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			grants, err := readGrants(cmd.Context(), a)
			if err != nil {
				return err
			}
			if role != "" {
				grants = slices.DeleteFunc(grants, func(g grant) bool { return g.Role != role && g.Role != "aip_"+role })
			}
			return printGrants(a, grants)
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "only this role")
	return cmd
}

// readGrants joins the matrix that must be with the one that is.
func readGrants(ctx context.Context, a *app.App) ([]grant, error) {
	target, err := url(a, app.ReadOnly)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, target)
	if err != nil {
		return nil, fleet.Errorf(fleet.Unavailable, "registry.unreachable", "the database cannot be reached").
			Because("no connection under the readonly role").Advise("aipctl doctor")
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	live, err := postgres.ReadMatrix(ctx, conn)
	if err != nil {
		return nil, err
	}
	wanted, err := schema.Matrix()
	if err != nil {
		return nil, err
	}
	return joinGrants(wanted, live), nil
}

func joinGrants(wanted, live []string) []grant {
	state := map[string]string{}
	for _, line := range live {
		state[line] = "more"
	}
	for _, line := range wanted {
		if state[line] == "more" {
			state[line] = "ok"
		} else {
			state[line] = "lacks"
		}
	}
	grants := make([]grant, 0, len(state))
	for line, s := range state {
		role, privilege, _ := strings.Cut(line, " ")
		grants = append(grants, grant{role, privilege, s})
	}
	slices.SortFunc(grants, func(x, y grant) int {
		return strings.Compare(x.Role+" "+x.Privilege, y.Role+" "+y.Privilege)
	})
	return grants
}

func printGrants(a *app.App, grants []grant) error {
	different := 0
	t := app.Table{Header: []string{"ROLE", "MAY", "STATE"}}
	for _, g := range grants {
		word := map[string]string{"ok": "ok", "lacks": "fail", "more": "fail"}[g.State]
		text := app.Status(word)
		if g.State != "ok" {
			different++
			text += ": " + g.State
		}
		t.Rows = append(t.Rows, []string{g.Role, g.Privilege, text})
	}
	err := a.Print(app.View{Kind: "Grants", Items: app.Items(grants), Table: func(bool) app.Table { return t },
		Name: func(item any) string { return fmt.Sprint(item) }})
	if err != nil || different == 0 {
		return err
	}
	return app.WithExit(fleet.Errorf(fleet.Denied, "registry.privileges", "%d privileges are not those of the matrix", different).
		Advise("aipctl registry migrate, then aipctl registry roles"), 1)
}

func auditCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "audit", Short: "Check every invariant over the live data; exit 1 when one is broken", Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return audit(cmd.Context(), a) },
	}
}

func audit(ctx context.Context, a *app.App) error {
	reg, err := a.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return err
	}
	defer reg.Close()
	snapshot, err := reg.Snapshot(ctx)
	if err != nil {
		return err
	}
	broken := registry.Audit(snapshot)
	view := app.View{Kind: "Violations", Revision: snapshot.Revision, Items: app.Items(broken),
		Note: fmt.Sprintf("no invariant is broken: %d routes, %d replicas, %d uncertain attempts", len(snapshot.Routes), len(snapshot.Replicas), len(snapshot.Reconciliations)),
		Name: func(item any) string { return fmt.Sprint(item) },
		Table: func(bool) app.Table {
			t := app.Table{Header: []string{"GUARANTEE", "SUBJECT", "WHAT"}}
			for _, v := range broken {
				t.Rows = append(t.Rows, []string{v.Guarantee, v.Subject, v.What})
			}
			return t
		}}
	if len(broken) > 0 {
		view.Note = ""
	}
	if err := a.Print(view); err != nil || len(broken) == 0 {
		return err
	}
	return app.WithExit(fleet.Errorf(fleet.Internal, "registry.audit", "%d invariants are broken", len(broken)).
		Advise("keep the data as it is, and report it with: aipctl registry audit -o json"), 1)
}
