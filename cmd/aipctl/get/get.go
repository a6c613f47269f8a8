// Package get is aipctl get: typed lists of every record.
//
// It answers "what is there?". Filters by tenant, instance, version, replica and
// state are evaluated by the registry; --where, -l and --sort-by work on the JSON
// form of what came back. It changes nothing and opens the registry read-only.
package get

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Options is one get.
type Options struct {
	App *app.App

	Noun     string
	IDs      []string
	Tenant   string
	Instance string
	Version  string
	Replica  string
	State    string
	Reserved bool
	Since    string
	Until    string
	Labels   []string
	Where    string
	SortBy   string
	Columns  []string
	Limit    int
	Page     string
	All      bool
	Watch    bool
	Interval time.Duration
}

// Command makes aipctl get.
func Command(a *app.App) *cobra.Command {
	o := &Options{App: a}
	cmd := &cobra.Command{
		Use:     "get NOUN [ID…]",
		Short:   "List records: " + strings.Join(noun.Plurals(), ", "),
		GroupID: app.GroupLook,
		Example: "  aipctl get replicas --where 'status=draining && lease<10s'\n  aipctl get routes --tenant acme --reserved -o json\n" +
			"  aipctl get archived --tenant acme --since 720h --until 2030-01-31T12:00:00Z",
		Args: app.MinArgs(1, "a noun"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Noun, o.IDs = args[0], args[1:]
			return o.Run(cmd.Context())
		},
		ValidArgsFunction: CompleteNounAndIDs(a, append(noun.Plurals(), noun.Actions().Plural)),
	}
	o.bind(cmd)
	return cmd
}

func (o *Options) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Tenant, "tenant", "", "only of this tenant")
	f.StringVar(&o.Instance, "instance", "", "only of this instance")
	f.StringVar(&o.Version, "version", "", "only of this connector version")
	f.StringVar(&o.Replica, "replica", "", "only of this replica")
	f.StringVar(&o.State, "state", "", "only in this status or state")
	f.BoolVar(&o.Reserved, "reserved", false, "routes: only those with an unsettled attempt")
	f.StringVar(&o.Since, "since", "", "routes, reconciliations, events, archived: only from this `time` on, as in 2030-01-31T12:00:00Z or 48h ago")
	f.StringVar(&o.Until, "until", "", "and only before this `time`")
	f.StringSliceVarP(&o.Labels, "selector", "l", nil, "`name=value` pairs that must hold, joined by commas")
	f.StringVar(&o.Where, "where", "", "`conditions` on columns or JSON paths: 'status=draining && lease<10s'")
	f.StringVar(&o.SortBy, "sort-by", "", "`column` to sort by; -column reverses")
	f.StringSliceVar(&o.Columns, "columns", nil, "columns to show, joined by commas")
	f.IntVar(&o.Limit, "limit", 100, "records of one page")
	f.StringVar(&o.Page, "page", "", "`cursor` of the page to show, from the page before")
	f.BoolVar(&o.All, "all", false, "every page")
	f.BoolVar(&o.Watch, "watch", false, "go on, and print again what changes; with -o jsonl for programs")
	f.DurationVar(&o.Interval, "interval", time.Second, "how often to look while watching")
}

// Run lists and prints.
func (o *Options) Run(ctx context.Context) error {
	if err := o.checkWatch(); err != nil {
		return err
	}
	if o.Noun == noun.Actions().Plural || o.Noun == noun.Actions().Single {
		return o.actions(ctx)
	}
	n, err := noun.Find(o.Noun)
	if err != nil {
		return err
	}
	selection, err := o.selection(n)
	if err != nil {
		return err
	}
	where, columns, err := o.choices(n)
	if err != nil {
		return err
	}
	reg, err := o.App.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return err
	}
	defer reg.Close()
	return o.list(ctx, n, o.lookup(reg, n, selection), chosen{where, columns})
}

// look reads the records of one list.
type look func(context.Context) (registry.Records, []noun.Record, error)

// lookup reads from the registry; ids that name nothing are refused.
func (o *Options) lookup(reader registry.Reader, n noun.Noun, s registry.Selection) look {
	return func(ctx context.Context) (registry.Records, []noun.Record, error) {
		page, records, err := n.List(ctx, reader, s, o.All)
		if err == nil && len(o.IDs) > 0 && len(records) == 0 {
			err = NotFound(ctx, reader, n, o.IDs)
		}
		if o.All {
			page.Next = ""
		}
		return page, records, err
	}
}

func (o *Options) list(ctx context.Context, n noun.Noun, look look, c chosen) error {
	if o.Watch {
		return o.watch(ctx, n, look, c)
	}
	page, records, err := look(ctx)
	if err != nil {
		return err
	}
	return o.finish(n, page, records, c)
}

// chosen is what to keep of the records and what to show of them.
type chosen struct {
	where   noun.Where
	columns []noun.Column
}

func (o *Options) finish(n noun.Noun, page registry.Records, records []noun.Record, c chosen) error {
	kept := records[:0:0]
	for _, r := range records {
		if c.where.Match(r, o.App.Now()) {
			kept = append(kept, r)
		}
	}
	if err := n.Sort(kept, o.SortBy); err != nil {
		return err
	}
	return o.print(n, page, kept, c.columns)
}

func (o *Options) choices(n noun.Noun) (noun.Where, []noun.Column, error) {
	where, err := n.ParseWhere(o.Where)
	if err != nil {
		return nil, nil, err
	}
	labels, err := n.ParseLabels(o.Labels)
	if err != nil {
		return nil, nil, err
	}
	columns, err := n.Choose(o.Columns, o.App.Output == "wide")
	if err != nil {
		return nil, nil, err
	}
	if o.SortBy != "" {
		if err := n.Sort(nil, o.SortBy); err != nil {
			return nil, nil, err
		}
	}
	return append(where, labels...), columns, nil
}

func (o *Options) selection(n noun.Noun) (registry.Selection, error) {
	s := registry.Selection{Noun: n.Registry(), IDs: o.IDs, State: o.State, After: o.Page, Limit: o.Limit, Reserved: o.Reserved}
	if o.Limit < 1 || o.Limit > registry.MaxListItems {
		return s, app.Usagef("usage.limit", "--limit %d is not in 1..%d", o.Limit, registry.MaxListItems)
	}
	if o.All {
		s.Limit = registry.MaxListItems
	}
	for flag, value := range map[string]string{"tenant": o.Tenant, "instance": o.Instance, "version": o.Version, "replica": o.Replica, "state": o.State} {
		if value != "" && !n.Honours(flag) {
			return s, app.Usagef("usage.filter", "%s cannot be filtered by --%s", n.Plural, flag).Advise("use --where or -l")
		}
	}
	if o.Reserved && n.Registry() != registry.Routes {
		return s, app.Usagef("usage.filter", "--reserved is only for routes")
	}
	if (o.Since != "" || o.Until != "") && !n.Honours("time") {
		return s, app.Usagef("usage.filter", "%s have no time by which the registry finds them", n.Plural).Advise("use --where or -l")
	}
	if err := o.parseTimes(&s); err != nil {
		return s, err
	}
	return s, o.parseIDs(&s)
}

// parseTimes reads the times; a duration is so long ago.
func (o *Options) parseTimes(s *registry.Selection) (err error) {
	if s.Since, err = o.moment("since", o.Since); err != nil {
		return err
	}
	if s.Until, err = o.moment("until", o.Until); err != nil {
		return err
	}
	if !s.Since.IsZero() && !s.Until.IsZero() && !s.Since.Before(s.Until) {
		return app.Usagef("usage.time", "--since %s is not before --until %s", o.Since, o.Until)
	}
	return nil
}

func (o *Options) moment(flag, text string) (time.Time, error) {
	text = strings.TrimSpace(strings.TrimSuffix(text, "ago"))
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return o.App.Now().Add(-d).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, app.Usagef("usage.time", "--%s %s is no time", flag, fleet.Printable(text, 40)).
			Advise("write 2030-01-31T12:00:00Z, or how long ago: 48h")
	}
	return t, nil
}

func (o *Options) parseIDs(s *registry.Selection) (err error) {
	if o.Tenant != "" {
		if s.Tenant, err = fleet.ParseTenantID(o.Tenant); err != nil {
			return err
		}
	}
	if o.Instance != "" {
		if s.Instance, err = fleet.ParseInstanceID(o.Instance); err != nil {
			return err
		}
	}
	if o.Version != "" {
		if s.Version, err = fleet.ParseVersionID(o.Version); err != nil {
			return err
		}
	}
	if o.Replica != "" {
		s.Replica, err = fleet.ParseReplicaID(o.Replica)
	}
	return err
}

func (o *Options) print(n noun.Noun, page registry.Records, records []noun.Record, columns []noun.Column) error {
	items, names := make([]any, len(records)), make([]string, len(records))
	for i, r := range records {
		items[i], names[i] = r.Item, n.Name(r)
	}
	view := app.View{
		Kind: n.Kind, Revision: page.Revision, NextPage: page.Next, Items: items,
		Table: func(bool) app.Table { return n.Table(o.App, records, columns) },
	}
	at := 0
	view.Name = func(any) string { at++; return names[at-1] }
	if len(records) == 0 {
		view.Note = fmt.Sprintf("no %s match", n.Plural)
	}
	return o.App.Print(view)
}
