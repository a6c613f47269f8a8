package reconcile

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
	"github.com/aipfleet/aipfleet/cmd/aipctl/publish"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// oneOrReplica wants an action, or a replica and no action.
func oneOrReplica(o *Options) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case o.Replica == "":
			return app.ExactArgs(1, "an action id")(cmd, args)
		case len(args) > 0 || o.Fence != 0:
			return app.Usagef("usage.arguments", "--replica decides for every action; name none, and no fence")
		}
		return nil
	}
}

// runAll decides every undecided attempt on a retired replica alike. One that lives may
// still answer for itself.
func (o *Options) runAll(ctx context.Context) error {
	id, err := fleet.ParseReplicaID(o.Replica)
	if err != nil {
		return err
	}
	d, err := o.ready(ctx)
	if err != nil {
		return err
	}
	defer d.reg.Close()
	open, err := undecided(ctx, d.reg, id)
	if err != nil {
		return err
	}
	lines := []string{fmt.Sprintf("%s on retired replica %s: the effect %s", app.Plural(len(open), "attempt"), id, o.Outcome)}
	for _, u := range open {
		lines = append(lines, fmt.Sprintf("  %s, attempt %d", u.Action, u.Fence))
	}
	lines = append(lines, "evidence "+d.evidence.String(), "the first decision stands")
	if len(open) > 0 {
		if err := o.App.Confirm(app.ConfirmName, strings.Join(lines, "\n"), id.String()); err != nil {
			return err
		}
	}
	decided := []fleet.Reconciliation{}
	for _, u := range open {
		record, _, err := d.decide(ctx, u)
		if err != nil && len(decided) > 0 {
			e := fleet.AsError(err, "reconcile.resolve").Advise("%d of %d were decided; repeat the command", len(decided), len(open))
			return app.WithExit(e, app.ExitPartial)
		}
		if err != nil {
			return err
		}
		decided = append(decided, record)
	}
	return o.printAll(decided)
}

// undecided lists what waits for a decision on a replica that is retired.
func undecided(ctx context.Context, reader registry.Reader, id fleet.ReplicaID) ([]fleet.Reconciliation, error) {
	page, err := reader.List(ctx, registry.Selection{Noun: registry.Replicas, IDs: []string{id.String()}})
	if err != nil {
		return nil, err
	}
	switch {
	case len(page.Replicas) == 0:
		return nil, fleet.Errorf(fleet.NotFound, "replica.not_found", "no replica %s", id).Advise("aipctl get replicas --where status=retired")
	case page.Replicas[0].Live.Status != fleet.ReplicaRetired:
		return nil, fleet.Errorf(fleet.Conflict, "reconcile.not_retired", "replica %s is %s: its host may still answer for itself", id, page.Replicas[0].Live.Status).
			Advise("decide one action at a time, or, if the host is gone for ever: aipctl retire replica %s --reason TEXT", id)
	}
	return publish.ReadUndecided(ctx, reader, id)
}

func (o *Options) printAll(decided []fleet.Reconciliation) error {
	n, err := noun.Find("reconciliations")
	if err != nil {
		return err
	}
	items := app.Items(decided)
	records, err := noun.Wrap(items)
	if err != nil {
		return err
	}
	columns, err := n.Choose(nil, o.App.Output == "wide")
	if err != nil {
		return err
	}
	view := app.View{Kind: n.Kind, Items: items, Table: func(bool) app.Table { return n.Table(o.App, records, columns) }}
	if len(decided) == 0 {
		view.Note = "nothing is undecided there"
	}
	return o.App.Print(view)
}
