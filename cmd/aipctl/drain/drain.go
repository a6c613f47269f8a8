// Package drain is aipctl drain and undrain: taking replicas out of service without
// losing work.
//
// It answers "may this process be stopped now?". A replica is drained only when its
// observed lease says that it takes no work, no assignment is active and no attempt
// is unsettled; the intent alone proves nothing (G37). What still holds it is named
// by action id.
package drain

import (
	"context"
	"slices"
	"strings"
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
	App      *app.App
	Want     fleet.OperatorIntent
	Noun     string
	IDs      []string
	Deadline time.Duration
	Interval time.Duration
	Detach   bool
	DryRun   bool
}

var targets = []string{"replica", "instance", "version", "zone"}

// Command makes aipctl drain.
func Command(a *app.App) *cobra.Command {
	o := &Options{App: a, Want: fleet.IntentDrain}
	cmd := &cobra.Command{
		Use: "drain replica|instance|version|zone ID…", Short: "Take replicas out of service and wait for their pinned work",
		GroupID: app.GroupChange, Args: app.MinArgs(2, "a noun and an id"), ValidArgsFunction: get.CompleteNounAndIDs(a, targets),
		Example: "  aipctl drain replica crepl_desk_a1 --deadline 2m",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Noun, o.IDs = args[0], args[1:]
			return o.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.Deadline, "deadline", 10*time.Minute, "stop waiting after this long (exit 6); the drain goes on")
	f.DurationVar(&o.Interval, "interval", 500*time.Millisecond, "how often to look")
	f.BoolVar(&o.Detach, "detach", false, "set the intent and do not wait")
	f.BoolVar(&o.DryRun, "dry-run", false, "show what would be drained, and change nothing")
	return cmd
}

// UndrainCommand makes aipctl undrain.
func UndrainCommand(a *app.App) *cobra.Command {
	o := &Options{App: a, Want: fleet.IntentRun, Detach: true}
	cmd := &cobra.Command{
		Use: "undrain replica|instance|version|zone ID…", Short: "Let drained replicas take work again",
		GroupID: app.GroupChange, Args: app.MinArgs(2, "a noun and an id"), ValidArgsFunction: get.CompleteNounAndIDs(a, targets),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Noun, o.IDs = args[0], args[1:]
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "show what would change, and change nothing")
	return cmd
}

// Run resolves the selector once, asks, sets the intent and waits.
func (o *Options) Run(ctx context.Context) error {
	reg, err := o.App.OpenRegistry(ctx, app.Control)
	if err != nil {
		return err
	}
	defer reg.Close()
	all, err := publish.ReadFleet(ctx, reg)
	if err != nil {
		return err
	}
	chosen, err := o.choose(all.Replicas)
	if err != nil {
		return err
	}
	ids := make([]fleet.ReplicaID, len(chosen))
	for i, r := range chosen {
		ids[i] = r.ID
	}
	if !o.DryRun {
		if err := o.confirm(all, ids); err != nil {
			return err
		}
		if err := o.intend(ctx, reg, ids); err != nil {
			return err
		}
	}
	if o.Detach || o.DryRun {
		states, err := observe(ctx, o.App, reg, ids)
		if err != nil {
			return err
		}
		return o.print(states)
	}
	return o.wait(ctx, reg, ids)
}

func (o *Options) choose(all []registry.ReplicaRecord) ([]registry.ReplicaRecord, error) {
	if !slices.Contains(targets, o.Noun) {
		return nil, app.Unknown("usage.noun", "drain target", o.Noun, targets)
	}
	key := map[string]func(registry.ReplicaRecord) string{
		"replica":  func(r registry.ReplicaRecord) string { return r.ID.String() },
		"instance": func(r registry.ReplicaRecord) string { return r.Instance.String() },
		"version":  func(r registry.ReplicaRecord) string { return r.Version.String() },
		"zone":     func(r registry.ReplicaRecord) string { return r.Topology.Zone },
	}[o.Noun]
	var chosen []registry.ReplicaRecord
	known, found := []string{}, map[string]bool{}
	for _, r := range all {
		known = append(known, key(r))
		if r.Live.Status == fleet.ReplicaRetired && o.Noun != "replica" {
			continue
		}
		if slices.Contains(o.IDs, key(r)) {
			chosen, found[key(r)] = append(chosen, r), true
		}
	}
	for _, id := range o.IDs {
		if !found[id] {
			e := fleet.Errorf(fleet.NotFound, o.Noun+".not_found", "no replica belongs to %s %s", o.Noun, fleet.Printable(id, 120))
			if o.Noun == "replica" {
				e = fleet.Errorf(fleet.NotFound, "replica.not_found", "no replica %s", fleet.Printable(id, 120))
			}
			if near := app.Suggest(id, slices.Compact(known)); len(near) > 0 {
				return nil, e.Advise("did you mean %s?", strings.Join(near, " or "))
			}
			return nil, e.Advise("aipctl get replicas")
		}
	}
	return chosen, nil
}

func (o *Options) confirm(all impact.Fleet, ids []fleet.ReplicaID) error {
	if o.Want == fleet.IntentRun {
		return o.App.Confirm(levelFor(len(ids)), app.Plural(len(ids), "replica")+" may take work again", o.IDs[0])
	}
	judged := impact.Of(all, func(r registry.ReplicaRecord) bool { return slices.Contains(ids, r.ID) }, impact.NoBinding)
	lines := []string{app.Plural(len(ids), "replica") + " to take no new work and to finish what is pinned:"}
	for _, id := range ids {
		lines = append(lines, "  "+id.String())
	}
	lines = append(lines, judged.Lines()...)
	return o.App.Confirm(judged.Level(app.ConfirmYes), strings.Join(lines, "\n"), o.IDs[0])
}

func levelFor(n int) app.Level {
	if n > 1 {
		return app.ConfirmYes
	}
	return app.ConfirmNone
}

func (o *Options) intend(ctx context.Context, f registry.Fleet, ids []fleet.ReplicaID) error {
	for n, id := range ids {
		_, err := f.Intend(ctx, registry.Intent{Replica: id, Want: o.Want, Actor: o.App.Actor(), Reason: o.App.ReasonOr("operator " + string(o.Want))})
		if err != nil && n > 0 {
			return app.WithExit(fleet.AsError(err, "drain.intent").Advise("the first %d of %d were changed; repeat the command", n, len(ids)), app.ExitPartial)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
