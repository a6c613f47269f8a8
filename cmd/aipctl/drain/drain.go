// Package drain is aipctl drain and undrain: taking replicas out of service without
// losing work.
//
// It answers "may these processes be stopped now?". A replica is drained only when its
// observed lease says that it takes no work, no assignment is active and no attempt
// is unsettled; the intent alone proves nothing (G37). What still holds it is named
// by action id. Of many, a bounded number is drained at a time and, when asked for, a
// bounded number of each instance is out of routing; each has a result of its own, and
// the exit code says whether all are drained.
package drain

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/get"
	"github.com/aipfleet/aipfleet/cmd/aipctl/impact"
	"github.com/aipfleet/aipfleet/cmd/aipctl/publish"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Options is one drain or undrain.
type Options struct {
	App       *app.App
	Want      fleet.OperatorIntent
	Noun      string
	IDs       []string
	File      string        // more ids, one a line; - is stdin
	Deadline  time.Duration // for each batch
	Interval  time.Duration
	Batch     int           // replicas that are drained at a time; 0 is all
	BatchWait time.Duration // between batches
	OnError   string        // continue or stop
	// MaxUnavailable bounds how many replicas of an instance may be out of routing: a
	// number, a share such as 25%, or "".
	MaxUnavailable string
	Detach         bool
	DryRun         bool
}

// DefaultBatch is how many replicas are drained at a time when nobody says.
const DefaultBatch = 10

var targets = []string{"replica", "instance", "version", "zone", "region"}

const use = "replica|instance|version|zone|region ID…"

// Command makes aipctl drain.
func Command(a *app.App) *cobra.Command {
	o := &Options{App: a, Want: fleet.IntentDrain}
	cmd := o.command("drain", "Take replicas out of service and wait for their pinned work")
	cmd.Long = "Sets the intent of every replica that is named, and waits until each is observed to be drained: its host takes no work,\n" +
		"nothing is active, nothing is unsettled. At most --batch are drained at a time; the next ones are begun when those are\n" +
		"drained or their --deadline is over. One that fails does not keep the others: every replica has a result of its own, and\n" +
		"the exit code is 0 only when all are drained (6: some still wait for pinned work; 8: some failed or were not begun).\n\n" +
		"With --max-unavailable a replica is begun only when, after that, no more than so many of its instance's replicas are out\n" +
		"of routing, whatever took the others out. Until then it waits for some to be brought back or replaced, and at the deadline\n" +
		"is left alone. How many have to stay is fixed at the beginning, by what is declared and not retired. Two commands at the\n" +
		"same time do not know of each other."
	cmd.Example = "  aipctl drain replica crepl_desk_a1 --deadline 2m\n" +
		"  aipctl drain region north --batch 5 --batch-wait 30s --dry-run\n" +
		"  aipctl drain zone a --max-unavailable 25% --deadline 1h --reason 'new kernel'\n" +
		"  aipctl get replicas --where 'zone=a' -o name | aipctl drain replica -f - --yes --confirm crepl_desk_a1 --reason 'new kernel'"
	f := cmd.Flags()
	f.DurationVar(&o.Deadline, "deadline", 10*time.Minute, "stop waiting for a batch after this long (exit 6); its drain goes on")
	f.DurationVar(&o.Interval, "interval", 500*time.Millisecond, "how often to look")
	f.IntVar(&o.Batch, "batch", DefaultBatch, "drain so many replicas at a time; 0 is all at once")
	f.DurationVar(&o.BatchWait, "batch-wait", 0, "pause between batches")
	f.StringVar(&o.MaxUnavailable, "max-unavailable", "", "let at most so `many` replicas of an instance be out of routing at a time, such as 1 or 25%")
	f.StringVar(&o.OnError, "on-error", "continue", "after a batch in which one is not drained: continue, or stop and leave the rest alone")
	f.BoolVar(&o.Detach, "detach", false, "set the intents and do not wait; --batch and --batch-wait bound how fast")
	f.BoolVar(&o.DryRun, "dry-run", false, "show what would be drained and what is in flight there, and change nothing")
	return cmd
}

// UndrainCommand makes aipctl undrain.
func UndrainCommand(a *app.App) *cobra.Command {
	o := &Options{App: a, Want: fleet.IntentRun, Detach: true, OnError: "continue"}
	cmd := o.command("undrain", "Let drained replicas take work again")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "show what would change, and change nothing")
	return cmd
}

func (o *Options) command(verb, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " " + use, Short: short, GroupID: app.GroupChange, ValidArgsFunction: get.CompleteNounAndIDs(o.App, targets),
		Args: func(cmd *cobra.Command, args []string) error {
			if o.File != "" {
				return app.MinArgs(1, "a noun")(cmd, args)
			}
			return app.MinArgs(2, "a noun and an id, or -f FILE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Noun, o.IDs = args[0], args[1:]
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&o.File, "file", "f", "", "`file` with more ids, one a line, # begins a comment; - is stdin")
	return cmd
}

// Run resolves the selector once, shows, asks, and drains batch by batch.
func (o *Options) Run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	reg, err := o.App.OpenRegistry(ctx, app.Control)
	if err != nil {
		return err
	}
	defer reg.Close()
	all, err := publish.ReadFleet(ctx, reg)
	if err != nil {
		return err
	}
	ids, err := o.choose(all.Replicas)
	if err != nil {
		return err
	}
	states, err := observe(ctx, o.App, reg, ids)
	if err != nil {
		return err
	}
	room, err := newRoom(o.MaxUnavailable, all.Replicas)
	if err != nil {
		return err
	}
	w := newWork(o, reg, states, room)
	judged := impact.Of(all, func(r registry.ReplicaRecord) bool { return slices.Contains(ids, r.ID) }, impact.NoBinding)
	if o.DryRun {
		return w.preview(judged)
	}
	if err := w.confirm(judged); err != nil {
		return err
	}
	return w.run(ctx)
}

func (o *Options) check() error {
	switch {
	case !slices.Contains(targets, o.Noun):
		return app.Unknown("usage.noun", "drain target", o.Noun, targets)
	case o.Batch < 0 || o.BatchWait < 0:
		return app.Usagef("usage.batch", "--batch and --batch-wait are not negative")
	case o.OnError != "continue" && o.OnError != "stop":
		return app.Unknown("usage.on_error", "choice of --on-error", o.OnError, []string{"continue", "stop"})
	}
	if o.MaxUnavailable != "" {
		if _, err := leave(o.MaxUnavailable, 1); err != nil {
			return err
		}
	}
	if o.File == "" {
		return nil
	}
	listed, err := o.readList()
	o.IDs = append(o.IDs, listed...)
	return err
}
