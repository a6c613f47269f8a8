package get

import (
	"context"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/client"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// actions lists what aipd keeps and the registry does not. They are those of the
// tenant that the target's token belongs to (G18).
func (o *Options) actions(ctx context.Context) error {
	n := noun.Actions()
	if o.Tenant+o.Instance+o.Version+o.Replica+o.Since+o.Until != "" || o.Reserved {
		return app.Usagef("usage.filter", "actions are those of the token's tenant; only --state filters them at aipd").Advise("use --where or -l")
	}
	where, columns, err := o.choices(n)
	if err != nil {
		return err
	}
	c, err := o.App.Client()
	if err != nil {
		return err
	}
	return o.list(ctx, n, func(ctx context.Context) (registry.Records, []noun.Record, error) {
		views, next, err := o.readActions(ctx, c)
		if err != nil {
			return registry.Records{}, nil, err
		}
		records, err := noun.Wrap(app.Items(views))
		return registry.Records{Next: next}, records, err
	}, chosen{where, columns})
}

func (o *Options) readActions(ctx context.Context, c *client.Client) ([]action.View, string, error) {
	var views []action.View
	for _, text := range o.IDs {
		id, err := fleet.ParseActionID(text)
		if err != nil {
			return nil, "", err
		}
		v, err := c.Get(ctx, id, 0)
		if err != nil {
			return nil, "", err
		}
		views = append(views, v)
	}
	if len(o.IDs) > 0 {
		return views, "", nil
	}
	q := client.ListQuery{State: action.State(o.State), After: o.Page, Limit: o.Limit}
	for {
		page, err := c.List(ctx, q)
		if err != nil {
			return nil, "", err
		}
		views = append(views, page.Actions...)
		if !o.All || page.Next == "" {
			return views, page.Next, nil
		}
		q.After = page.Next
	}
}
