package get

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// watch prints the list, and again whenever what it shows changes: the whole table
// for people, the changed records for programs. Columns that only count time do not
// count as a change.
func (o *Options) watch(ctx context.Context, n noun.Noun, look look, c chosen) error {
	last := map[string]string{}
	for first := true; ; first = false {
		page, records, err := look(ctx)
		if err != nil {
			return err
		}
		now, changed := map[string]string{}, records[:0:0]
		for _, r := range records {
			name := n.Name(r)
			now[name] = shown(r, c.columns)
			if last[name] != now[name] {
				changed = append(changed, r)
			}
		}
		if !o.App.Machine() {
			changed = records
		}
		if first || !same(now, last) {
			if err := o.finish(n, page, changed, c); err != nil {
				return err
			}
		}
		last = now
		if err := app.Pause(ctx, o.Interval); err != nil {
			return err
		}
	}
}

func same(x, y map[string]string) bool {
	if len(x) != len(y) {
		return false
	}
	for k, v := range x {
		if y[k] != v {
			return false
		}
	}
	return true
}

func shown(r noun.Record, columns []noun.Column) string {
	var values []any
	for _, c := range columns {
		if c.Form != noun.Since && c.Form != noun.Until {
			values = append(values, r.Get(c.Path))
		}
	}
	data, err := json.Marshal(values)
	if err != nil {
		return ""
	}
	return string(data)
}

// checkWatch refuses formats that are one document.
func (o *Options) checkWatch() error {
	if !o.Watch {
		return nil
	}
	if slices.Contains([]string{"json", "yaml"}, o.App.Output) {
		return app.Usagef("usage.output", "--watch never ends, and %s is one document", o.App.Output).Advise("use -o jsonl")
	}
	if o.Interval <= 0 {
		return fleet.Invalidf("usage.interval", "--interval must be more than zero")
	}
	return nil
}
