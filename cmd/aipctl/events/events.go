// Package events is aipctl events and audit log: the registry's journal.
//
// It answers "what changed, who changed it, and why?". It polls by sequence number,
// so nothing is shown twice or missed while following, and it reads only.
package events

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Options is one look at the journal.
type Options struct {
	App      *app.App
	Kinds    []string
	Subject  string
	Actor    string
	From     uint64
	Limit    int
	Follow   bool
	Interval time.Duration
	authored bool // only what somebody did for a reason
}

// Command makes aipctl events.
func Command(a *app.App) *cobra.Command {
	o := &Options{App: a}
	cmd := &cobra.Command{
		Use: "events", Short: "Show the registry's journal, oldest first; --follow goes on", GroupID: app.GroupLook, Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context()) },
	}
	o.bind(cmd)
	cmd.Flags().BoolVar(&o.Follow, "follow", false, "go on until interrupted; with -o jsonl for programs")
	cmd.Flags().DurationVar(&o.Interval, "interval", time.Second, "how often to look while following")
	return cmd
}

// AuditCommand makes aipctl audit.
func AuditCommand(a *app.App) *cobra.Command {
	o := &Options{App: a, authored: true}
	log := &cobra.Command{
		Use: "log", Short: "Show what operators and publishers did, and their reasons", Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context()) },
	}
	o.bind(log)
	return app.GroupCommand("audit", "Who changed what, and why", app.GroupLook, log)
}

func (o *Options) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&o.Kinds, "kind", nil, "only these kinds of event")
	f.StringVar(&o.Subject, "subject", "", "only about this record")
	f.StringVar(&o.Actor, "actor", "", "only by this actor")
	f.Uint64Var(&o.From, "from-revision", 0, "only from this catalog revision on")
	f.IntVar(&o.Limit, "limit", 100, "the newest so many")
}

// Run prints, and goes on with --follow.
func (o *Options) Run(ctx context.Context) error {
	if o.Limit < 1 || o.Limit > registry.MaxListItems {
		return app.Usagef("usage.limit", "--limit %d is not in 1..%d", o.Limit, registry.MaxListItems)
	}
	if o.Follow && (o.App.Output == "json" || o.App.Output == "yaml") {
		return app.Usagef("usage.output", "--follow never ends, and %s is one document", o.App.Output).Advise("use -o jsonl")
	}
	reg, err := o.App.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return err
	}
	defer reg.Close()
	seen, err := o.first(ctx, reg)
	if err != nil || !o.Follow {
		return err
	}
	for {
		if err := app.Pause(ctx, o.Interval); err != nil {
			return err
		}
		if seen, err = o.more(ctx, reg, seen); err != nil {
			return err
		}
	}
}

// first prints the newest events in the order in which they happened, and returns
// the last sequence number seen.
func (o *Options) first(ctx context.Context, reader registry.Reader) (uint64, error) {
	var kept []registry.Event
	s := registry.Selection{Noun: registry.Events, Limit: registry.MaxListItems}
	seen, revision := uint64(0), uint64(0)
	for len(kept) < o.Limit {
		page, err := reader.List(ctx, s)
		if err != nil {
			return 0, err
		}
		revision = page.Revision
		for _, e := range page.Events {
			seen = max(seen, e.Sequence)
			if o.wants(e) && len(kept) < o.Limit {
				kept = append(kept, e)
			}
		}
		if page.Next == "" || len(page.Events) > 0 && page.Events[len(page.Events)-1].Revision < o.From {
			break
		}
		s.After = page.Next
	}
	slices.Reverse(kept)
	return seen, o.print(kept, revision)
}

// more prints what came after a sequence number.
func (o *Options) more(ctx context.Context, reader registry.Reader, seen uint64) (uint64, error) {
	var kept []registry.Event
	s := registry.Selection{Noun: registry.Events, Limit: registry.MaxListItems}
	newest, revision := seen, uint64(0)
	for {
		page, err := reader.List(ctx, s)
		if err != nil {
			return seen, err
		}
		revision = page.Revision
		reached := page.Next == ""
		for _, e := range page.Events {
			if e.Sequence <= seen {
				reached = true
				continue
			}
			newest = max(newest, e.Sequence)
			if o.wants(e) {
				kept = append(kept, e)
			}
		}
		if reached {
			break
		}
		s.After = page.Next
	}
	if len(kept) == 0 {
		return newest, nil
	}
	slices.Reverse(kept)
	return newest, o.print(kept, revision)
}

func (o *Options) wants(e registry.Event) bool {
	switch {
	case len(o.Kinds) > 0 && !slices.Contains(o.Kinds, e.Kind),
		o.Subject != "" && e.Subject != o.Subject,
		o.Actor != "" && e.Actor != o.Actor,
		e.Revision < o.From,
		o.authored && (e.Kind == "lease" || e.Kind == "circuit" || e.Actor == ""):
		return false
	}
	return true
}

func (o *Options) print(events []registry.Event, revision uint64) error {
	n, err := noun.Find("events")
	if err != nil {
		return err
	}
	records, err := noun.Wrap(app.Items(events))
	if err != nil {
		return err
	}
	columns, err := n.Choose(nil, o.App.Output == "wide")
	if err != nil {
		return err
	}
	return o.App.Print(app.View{Kind: n.Kind, Revision: revision, Items: app.Items(events),
		Name:  func(item any) string { e, _ := item.(registry.Event); return e.Subject },
		Table: func(bool) app.Table { return n.Table(o.App, records, columns) }})
}
