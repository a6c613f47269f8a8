package reconcile

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/get"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// probeOptions is one request to ask a host again.
type probeOptions struct {
	app      *app.App
	wait     time.Duration
	interval time.Duration
}

func probeCommand(a *app.App) *cobra.Command {
	o := &probeOptions{app: a}
	cmd := &cobra.Command{
		Use: "probe ACTION", Short: "Have the pinned host asked again now, and show what it says",
		Long: "Makes the record due, so that aipd asks the pinned host at its next round, and waits for the answer.\nThe question itself is signed by aipd: this program holds no key that a host would answer.",
		Args: app.ExactArgs(1, "an action id"), ValidArgsFunction: get.CompleteIDs(a, "reconciliations"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := fleet.ParseActionID(args[0])
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), id)
		},
	}
	cmd.Flags().DurationVar(&o.wait, "timeout", 30*time.Second, "wait at most this long for the answer (exit 6)")
	cmd.Flags().DurationVar(&o.interval, "interval", 500*time.Millisecond, "how often to look")
	return cmd
}

// asked is the note that an operator's request leaves in the record.
const asked = "an operator asked for another probe"

func (o *probeOptions) run(ctx context.Context, id fleet.ActionID) error {
	reg, err := o.app.OpenRegistry(ctx, app.Control)
	if err != nil {
		return err
	}
	defer reg.Close()
	record, err := (&Options{App: o.app}).pick(ctx, reg, id)
	if err != nil {
		return err
	}
	if record.State == fleet.ReconcileResolved {
		return fleet.Errorf(fleet.Conflict, "reconcile.decided", "action %s is decided: %s", id, record.Resolution).
			Advise("aipctl reconcile show %s", id)
	}
	if err := answerable(ctx, reg, record); err != nil {
		return err
	}
	now := o.app.Now()
	key := registry.ReconciliationKey{Action: id, Fence: record.Fence}
	note := fleet.Probe{At: now, Answer: "unknown", Detail: asked}
	if err := reg.Note(ctx, key, note, now, fleet.ReconcileOpen); err != nil {
		return err
	}
	return o.await(ctx, reg, record)
}

// answerable refuses to have a host asked that is gone for ever.
func answerable(ctx context.Context, reader registry.Reader, rec fleet.Reconciliation) error {
	page, err := reader.List(ctx, registry.Selection{Noun: registry.Replicas, IDs: []string{rec.Replica.String()}})
	if err != nil {
		return err
	}
	for _, r := range page.Replicas {
		if r.Live.Status == fleet.ReplicaRetired {
			return fleet.Errorf(fleet.Conflict, "reconcile.retired", "replica %s is retired: nobody is there to be asked", r.ID).
				Advise("decide on evidence: aipctl reconcile resolve %s --outcome happened|did-not-happen --evidence FILE --reason TEXT", rec.Action)
		}
	}
	return nil
}

// await looks until a probe newer than our own note is there, or the record is closed.
func (o *probeOptions) await(ctx context.Context, reg *app.Registry, before fleet.Reconciliation) error {
	until := o.app.Now().Add(o.wait)
	for {
		records, revision, err := read(ctx, reg, before.Action)
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.Fence == before.Fence && (r.State == fleet.ReconcileResolved || r.ProbeCount > before.ProbeCount+1) {
				return o.print(r, revision)
			}
		}
		if !o.app.Now().Before(until) {
			e := fleet.Errorf(fleet.Unavailable, "reconcile.no_answer", "no answer about %s within %s", before.Action, app.Duration(o.wait)).
				Because("aipd has not asked yet, or its reconciler does not run").Advise("aipctl reconcile show %s", before.Action)
			return app.WithExit(e, app.ExitTimeout)
		}
		if err := app.Pause(ctx, o.interval); err != nil {
			return err
		}
	}
}

func (o *probeOptions) print(r fleet.Reconciliation, revision uint64) error {
	err := o.app.Print(app.View{
		Kind: "Reconciliation", Item: r, Revision: revision,
		Name: func(any) string { return r.Action.String() },
		Text: func() app.Page { return sections(o.app, r) },
	})
	if err == nil && r.State != fleet.ReconcileResolved {
		return app.Exit(app.ExitUncertain)
	}
	return err
}
