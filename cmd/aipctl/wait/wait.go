// Package wait is aipctl wait: holding a script until a record says what it waits for.
//
// It answers "tell me when". Conditions are those of get --where. Reaching the
// timeout is exit code 6: nothing failed, it is still going on.
package wait

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/get"
	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Options is one wait.
type Options struct {
	App      *app.App
	Noun     string
	IDs      []string
	For      string
	FailOn   string
	Timeout  time.Duration
	Interval time.Duration
}

// Command makes aipctl wait.
func Command(a *app.App) *cobra.Command {
	o := &Options{App: a}
	cmd := &cobra.Command{
		Use: "wait NOUN ID… --for CONDITION", Short: "Wait until records satisfy a condition",
		GroupID: app.GroupLook, Args: app.MinArgs(2, "a noun and an id"),
		Example:           "  aipctl wait replica crepl_a --for 'status=ready && healthy=true' --timeout 1m\n  aipctl wait action act_… --for state=completed --fail-on state=failed",
		ValidArgsFunction: get.CompleteNounAndIDs(a, append(noun.Plurals(), noun.Actions().Plural)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Noun, o.IDs = args[0], args[1:]
			return o.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.For, "for", "", "`condition` as in get --where (required)")
	f.StringVar(&o.FailOn, "fail-on", "", "`condition` that ends waiting with exit 1")
	f.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "stop waiting after this long (exit 6)")
	f.DurationVar(&o.Interval, "interval", 500*time.Millisecond, "how often to look")
	return cmd
}

// lookup reads the records waited for.
type lookup func(context.Context) ([]noun.Record, error)

// Run parses the conditions and waits.
func (o *Options) Run(ctx context.Context) error {
	n, err := o.noun()
	if err != nil {
		return err
	}
	if o.For == "" {
		return app.Usagef("usage.flag", "--for CONDITION is needed").Advise("aipctl wait %s %s --for status=ready", o.Noun, o.IDs[0])
	}
	want, err := n.ParseWhere(o.For)
	if err != nil {
		return err
	}
	fail, err := n.ParseWhere(o.FailOn)
	if err != nil {
		return err
	}
	look, done, err := o.source(ctx, n)
	if err != nil {
		return err
	}
	defer done()
	return o.wait(ctx, n, look, conditions{want, fail})
}

func (o *Options) noun() (noun.Noun, error) {
	if o.Noun == "action" || o.Noun == "actions" {
		return noun.Actions(), nil
	}
	return noun.Find(o.Noun)
}

// source opens what the noun is read from: aipd for actions, the registry for the rest.
func (o *Options) source(ctx context.Context, n noun.Noun) (lookup, func(), error) {
	if n.Plural == noun.Actions().Plural {
		c, err := o.App.Client()
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) ([]noun.Record, error) {
			var items []any
			for _, text := range o.IDs {
				id, err := fleet.ParseActionID(text)
				if err != nil {
					return nil, err
				}
				v, err := c.Get(ctx, id, 0)
				if err != nil {
					return nil, err
				}
				items = append(items, v)
			}
			return noun.Wrap(items)
		}, func() {}, nil
	}
	reg, err := o.App.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) ([]noun.Record, error) {
		_, records, err := n.List(ctx, reg, registry.Selection{IDs: o.IDs, Limit: registry.MaxListItems}, false)
		if err == nil && len(records) < len(o.IDs) {
			err = get.NotFound(ctx, reg, n, o.IDs)
		}
		return records, err
	}, reg.Close, nil
}

type conditions struct{ want, fail noun.Where }

const nameLaggards = 10 * time.Second

func (o *Options) wait(ctx context.Context, n noun.Noun, look lookup, c conditions) error {
	start, told := o.App.Now(), o.App.Now()
	for {
		records, err := look(ctx)
		if err != nil {
			return err
		}
		now := o.App.Now()
		lag, failed := c.judge(n, records, now)
		switch {
		case len(failed) > 0:
			return o.end(n, records, fleet.Errorf(fleet.Internal, "wait.failed", "%s: %s", strings.Join(failed, ", "), o.FailOn), 1)
		case len(lag) == 0:
			return o.end(n, records, nil, 0)
		case now.Sub(start) >= o.Timeout:
			e := fleet.Errorf(fleet.Unavailable, "wait.timeout", "not %s within %s", o.For, app.Duration(o.Timeout)).
				Because("%s", strings.Join(lag, ", ")).Advise("it goes on: wait longer with --timeout")
			return o.end(n, records, e, app.ExitTimeout)
		case now.Sub(told) >= nameLaggards:
			o.App.Progressf("waiting %s for %s", app.Duration(now.Sub(start)), strings.Join(lag, ", "))
			told = now
		}
		if err := app.Pause(ctx, o.Interval); err != nil {
			return err
		}
	}
}

// judge names the records that lag behind the condition and those that failed it.
func (c conditions) judge(n noun.Noun, records []noun.Record, now time.Time) (lag, failed []string) {
	for _, r := range records {
		switch {
		case c.want.Match(r, now):
		case len(c.fail) > 0 && c.fail.Match(r, now):
			failed = append(failed, n.Name(r))
		default:
			lag = append(lag, fmt.Sprintf("%s (%s)", n.Name(r), c.want.Have(r)))
		}
	}
	return lag, failed
}

// end prints the records as they are and gives the error its exit code.
func (o *Options) end(n noun.Noun, records []noun.Record, err error, code int) error {
	columns, cerr := n.Choose(nil, false)
	if cerr != nil {
		return cerr
	}
	items := make([]any, len(records))
	for i, r := range records {
		items[i] = r.Item
	}
	perr := o.App.Print(app.View{Kind: n.Kind, Items: items, Table: func(bool) app.Table { return n.Table(o.App, records, columns) }})
	if perr != nil || err == nil {
		return perr
	}
	return app.WithExit(err, code)
}
