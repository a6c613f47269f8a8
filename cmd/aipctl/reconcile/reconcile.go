// Package reconcile is aipctl reconcile: the attempts that nobody has a definite
// answer for yet.
//
// It answers "what may have happened without our knowing, and who decides?" (G38).
// Automatic asking belongs to aipd; what it cannot decide an operator does here, on
// evidence, with a signed document that the pinned host can verify (G25).
package reconcile

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/get"
	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Command makes aipctl reconcile.
func Command(a *app.App) *cobra.Command {
	return app.GroupCommand("reconcile", "Attempts without a definite answer", app.GroupActions,
		listCommand(a), showCommand(a), probeCommand(a), resolveCommand(a))
}

func listCommand(a *app.App) *cobra.Command {
	var state, tenant string
	var all, every bool
	limit, after := 100, ""
	cmd := &cobra.Command{
		Use: "list", Short: "List uncertain attempts, newest first", Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := registry.Selection{State: state, Limit: limit, After: after}
			if tenant != "" {
				id, err := fleet.ParseTenantID(tenant)
				if err != nil {
					return err
				}
				s.Tenant = id
			}
			return list(cmd.Context(), a, s, all, every)
		},
	}
	f := cmd.Flags()
	f.StringVar(&state, "state", "", "only in this state: open, operator, resolved")
	f.StringVar(&tenant, "tenant", "", "only of this tenant")
	f.BoolVar(&all, "resolved", false, "the resolved ones too")
	f.IntVar(&limit, "limit", limit, "records of one page")
	f.StringVar(&after, "page", "", "`cursor` of the page to show, from the page before")
	f.BoolVar(&every, "all", false, "every page")
	return cmd
}

func list(ctx context.Context, a *app.App, s registry.Selection, resolved, every bool) error {
	known := []string{string(fleet.ReconcileOpen), string(fleet.ReconcileOperator), string(fleet.ReconcileResolved)}
	if s.State != "" && s.State != known[0] && s.State != known[1] && s.State != known[2] {
		return app.Unknown("usage.state", "reconciliation state", s.State, known)
	}
	reg, err := a.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return err
	}
	defer reg.Close()
	n, err := noun.Find("reconciliations")
	if err != nil {
		return err
	}
	page, records, err := n.List(ctx, reg, s, every)
	if err != nil {
		return err
	}
	kept, items := []noun.Record{}, []any{}
	for _, r := range records {
		if resolved || s.State != "" || r.Get("state") != string(fleet.ReconcileResolved) {
			kept, items = append(kept, r), append(items, r.Item)
		}
	}
	columns, err := n.Choose(nil, a.Output == "wide")
	if err != nil {
		return err
	}
	next := page.Next
	if every {
		next = ""
	}
	view := app.View{Kind: n.Kind, Revision: page.Revision, NextPage: next, Items: items,
		Table: func(bool) app.Table { return n.Table(a, kept, columns) }}
	if len(kept) == 0 {
		view.Note = "nothing is uncertain"
	}
	return a.Print(view)
}

func showCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "show ACTION", Short: "Show what is known of an uncertain action", Args: app.ExactArgs(1, "an action id"), ValidArgsFunction: get.CompleteIDs(a, "reconciliations"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := fleet.ParseActionID(args[0])
			if err != nil {
				return err
			}
			return show(cmd.Context(), a, id)
		},
	}
}

func show(ctx context.Context, a *app.App, id fleet.ActionID) error {
	reg, err := a.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return err
	}
	defer reg.Close()
	records, revision, err := read(ctx, reg, id)
	if err != nil {
		return err
	}
	return a.Print(app.View{
		Kind: "Reconciliations", Revision: revision, Items: app.Items(records),
		Text: func() app.Page {
			var p app.Page
			for _, r := range records {
				p = append(p, sections(a, r)...)
			}
			return p
		},
	})
}

// read returns the action's records, the newest fence first.
func read(ctx context.Context, reader registry.Reader, id fleet.ActionID) ([]fleet.Reconciliation, uint64, error) {
	page, err := reader.List(ctx, registry.Selection{Noun: registry.Reconciliations, IDs: []string{id.String()}})
	if err != nil {
		return nil, 0, err
	}
	if len(page.Reconciliations) == 0 {
		return nil, 0, fleet.Errorf(fleet.NotFound, "reconciliation.not_found", "nothing about action %s is uncertain", id).
			Because("no attempt of it was released without a definite answer").Advise("aipctl route inspect %s", id)
	}
	return page.Reconciliations, page.Revision, nil
}

func sections(a *app.App, r fleet.Reconciliation) app.Page {
	head := app.Section{Title: fmt.Sprintf("Action %s, attempt %d", r.Action, r.Fence), Fields: []app.Field{
		{Label: "state", Value: app.Status(string(r.State))},
		{Label: "tenant", Value: r.Tenant.String()},
		{Label: "capability", Value: r.Capability.String()},
		{Label: "instance", Value: r.Instance.String()},
		{Label: "replica", Value: r.Replica.String()},
		{Label: "cause", Value: r.Cause},
		{Label: "opened", Value: app.Stamp(r.OpenedAt) + " (" + a.Since(r.OpenedAt) + ")"},
	}}
	if r.State != fleet.ReconcileResolved {
		head.Fields = append(head.Fields, app.Field{Label: "next probe", Value: a.Until(r.NextProbeAt)})
	} else {
		head.Fields = append(head.Fields,
			app.Field{Label: "resolution", Value: string(r.Resolution)},
			app.Field{Label: "by", Value: r.ResolvedBy},
			app.Field{Label: "evidence", Value: r.Evidence.String()})
	}
	p := app.Page{head}
	if len(r.Probes) > 0 {
		t := app.Table{Header: []string{"ASKED", "ANSWER", "DETAIL", "EVIDENCE"}}
		for _, probe := range r.Probes {
			t.Rows = append(t.Rows, []string{a.Since(probe.At), probe.Answer, probe.Detail, probe.Evidence.String()})
		}
		p = append(p, app.Section{Title: fmt.Sprintf("Probes (%d in all)", r.ProbeCount), Table: &t})
	}
	if r.State != fleet.ReconcileResolved {
		p = append(p, app.Section{Title: "Next", Lines: []string{
			"aipctl reconcile probe " + r.Action.String(),
			fmt.Sprintf("aipctl reconcile resolve %s --outcome happened|did-not-happen --evidence FILE --reason TEXT", r.Action),
		}})
	}
	return p
}
