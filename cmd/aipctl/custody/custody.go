// Package custody is aipctl accept and retire: what an operator says about a replica
// whose host cannot speak for its past any more.
//
// It answers "what is lost if I go on?" before it asks: what is uncertain on the
// replica is counted and named, and stays listed and resolvable afterwards (G38).
package custody

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/get"
	"github.com/aipfleet/aipfleet/cmd/aipctl/impact"
	"github.com/aipfleet/aipfleet/cmd/aipctl/publish"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// AcceptCommand makes aipctl accept.
func AcceptCommand(a *app.App) *cobra.Command {
	return app.GroupCommand("accept", "Accept what only an operator can", app.GroupChange, journalCommand(a))
}

func journalCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "journal REPLICA", Short: "Let a replica come back with another journal; what the old one knew is lost",
		Long: "A host whose journal is gone is refused (lease.journal_changed): the old journal was the only witness of what it did.\n" +
			"Put the old journal back if there is one. Otherwise accept the new one: the host may serve again, executes nothing that an\n" +
			"earlier attempt may have done, and what is uncertain stays listed until somebody decides it.",
		Example: "  aipctl accept journal crepl_desk_a1 --reason 'the disk died, ticket 42'",
		Args:    app.ExactArgs(1, "a replica id"), ValidArgsFunction: get.CompleteIDs(a, "replicas"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return on(cmd.Context(), a, args[0], func(reg *app.Registry, r registry.ReplicaRecord, open []fleet.Reconciliation) error {
				return accept(cmd.Context(), a, reg, r, open)
			})
		},
	}
}

// RetireCommand makes aipctl retire.
func RetireCommand(a *app.App) *cobra.Command {
	return app.GroupCommand("retire", "End an identity for ever", app.GroupChange, replicaCommand(a))
}

func replicaCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "replica ID", Short: "End a drained or lost replica for ever; what is uncertain on it becomes the operator's",
		Long: "The identity never gets a lease again. Open questions about what its host did are handed to the operator, and no host is\n" +
			"asked any more. An action pinned to it that is known not to have happened ends as failed (route_lost): it never moves.",
		Example: "  aipctl retire replica crepl_desk_a1 --reason 'the machine is gone' --confirm crepl_desk_a1",
		Args:    app.ExactArgs(1, "a replica id"), ValidArgsFunction: get.CompleteIDs(a, "replicas"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return on(cmd.Context(), a, args[0], func(reg *app.Registry, r registry.ReplicaRecord, open []fleet.Reconciliation) error {
				return retire(cmd.Context(), a, reg, r, open)
			})
		},
	}
}

// on reads the replica, and what is uncertain about it, once.
func on(ctx context.Context, a *app.App, name string, do func(*app.Registry, registry.ReplicaRecord, []fleet.Reconciliation) error) error {
	id, err := fleet.ParseReplicaID(name)
	if err != nil {
		return err
	}
	if a.Reason == "" {
		return app.Usagef("usage.reason", "this needs --reason").Because("the reason becomes part of the registry's journal")
	}
	reg, err := a.OpenRegistry(ctx, app.Control)
	if err != nil {
		return err
	}
	defer reg.Close()
	page, err := reg.List(ctx, registry.Selection{Noun: registry.Replicas, IDs: []string{name}})
	if err != nil {
		return err
	}
	if len(page.Replicas) == 0 {
		return fleet.Errorf(fleet.NotFound, "replica.not_found", "no replica %s", id).Advise("aipctl get replicas")
	}
	open, err := publish.ReadUndecided(ctx, reg, id)
	if err != nil {
		return err
	}
	return do(reg, page.Replicas[0], open)
}

func accept(ctx context.Context, a *app.App, reg *app.Registry, r registry.ReplicaRecord, open []fleet.Reconciliation) error {
	offered := r.Live.OfferedJournal
	if offered.IsZero() {
		return fleet.Errorf(fleet.Conflict, "lease.journal_not_offered", "no host of replica %s came with another journal", r.ID).
			Because("it is known by journal %s", r.Live.Journal).
			Advise("start the host; it is refused once, and then there is something to accept")
	}
	summary := append([]string{
		fmt.Sprintf("replica %s comes back with journal %s", r.ID, offered),
		fmt.Sprintf("what journal %s knew is lost: nobody can ask it any more", r.Live.Journal),
	}, uncertainLines(open)...)
	if err := a.Confirm(app.ConfirmYes, strings.Join(summary, "\n"), r.ID.String()); err != nil {
		return err
	}
	live, err := reg.AcceptJournal(ctx, registry.JournalAcceptance{Replica: r.ID, Journal: offered, Actor: a.Actor(), Reason: a.Reason})
	if err != nil {
		return err
	}
	return print(a, "JournalAcceptance", outcome{Replica: r.ID, Status: live.Status, Journal: live.Journal, Lost: r.Live.Journal, Uncertain: actions(open)})
}

func retire(ctx context.Context, a *app.App, reg *app.Registry, r registry.ReplicaRecord, open []fleet.Reconciliation) error {
	all, err := publish.ReadFleet(ctx, reg)
	if err != nil {
		return err
	}
	judged := impact.Of(all, func(other registry.ReplicaRecord) bool { return other.ID == r.ID }, impact.NoBinding)
	summary := append([]string{fmt.Sprintf("replica %s is retired for ever: it never gets a lease again", r.ID)}, uncertainLines(open)...)
	summary = append(summary, judged.Lines()...)
	if r.Live.Status != fleet.ReplicaRetired {
		if err := a.Confirm(app.ConfirmName, strings.Join(summary, "\n"), r.ID.String()); err != nil {
			return err
		}
	}
	done, err := reg.Retire(ctx, registry.Retirement{Replica: r.ID, Actor: a.Actor(), Reason: a.Reason})
	if err != nil {
		return err
	}
	return print(a, "Retirement", outcome{Replica: r.ID, Status: done.Live.Status, HandedOver: done.HandedOver, Uncertain: actions(open)})
}

// uncertainLines names what stays open, a few at most.
func uncertainLines(open []fleet.Reconciliation) []string {
	if len(open) == 0 {
		return []string{"nothing is uncertain on it"}
	}
	const shown = 5
	var names []string
	for i, u := range open {
		if i == shown {
			names = append(names, fmt.Sprintf("and %d more", len(open)-shown))
			break
		}
		names = append(names, u.Action.String())
	}
	return []string{fmt.Sprintf("%s stay uncertain until somebody decides: %s", app.Plural(len(open), "attempt"), strings.Join(names, ", "))}
}

func actions(open []fleet.Reconciliation) []fleet.ActionID {
	ids := []fleet.ActionID{}
	for _, u := range open {
		ids = append(ids, u.Action)
	}
	return ids
}

// outcome is what was done.
type outcome struct {
	Replica    fleet.ReplicaID     `json:"replica_id"`
	Status     fleet.ReplicaStatus `json:"status"`
	Journal    fleet.JournalID     `json:"journal_id,omitzero"`
	Lost       fleet.JournalID     `json:"lost_journal_id,omitzero"`
	HandedOver int                 `json:"handed_over"`
	Uncertain  []fleet.ActionID    `json:"uncertain"`
}

func print(a *app.App, kind string, o outcome) error {
	return a.Print(app.View{
		Kind: kind, Item: o, Name: func(any) string { return o.Replica.String() },
		Text: func() app.Page {
			fields := []app.Field{{Label: "replica", Value: o.Replica.String()}, {Label: "status", Value: app.Status(string(o.Status))}}
			if !o.Journal.IsZero() {
				fields = append(fields, app.Field{Label: "journal", Value: o.Journal.String()}, app.Field{Label: "lost", Value: o.Lost.String()})
			}
			fields = append(fields, app.Field{Label: "uncertain", Value: app.Plural(len(o.Uncertain), "attempt")})
			page := app.Page{{Fields: fields}}
			if len(o.Uncertain) > 0 {
				page = append(page, app.Section{Title: "Next", Lines: []string{
					"aipctl reconcile list", "aipctl reconcile show " + o.Uncertain[0].String(),
				}})
			}
			if len(o.Uncertain) > 1 && o.Status == fleet.ReplicaRetired {
				page = append(page, app.Section{Title: "All at once, on evidence that covers all", Lines: []string{
					fmt.Sprintf("aipctl reconcile resolve --replica %s --outcome happened|did-not-happen --evidence FILE --reason TEXT", o.Replica),
				}})
			}
			return page
		},
	})
}
