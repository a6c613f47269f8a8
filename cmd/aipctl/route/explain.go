package route

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

// explainOptions is one question.
type explainOptions struct {
	app        *app.App
	tenant     string
	capability string
	action     string
	topology   fleet.TopologyPreference
}

func explainCommand(a *app.App) *cobra.Command {
	o := &explainOptions{app: a}
	cmd := &cobra.Command{
		Use: "explain --tenant T --capability C", Short: "Say which replica an action would get now, and why; reserves nothing",
		Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.tenant, "tenant", "", "tenant `id` (required)")
	f.StringVar(&o.capability, "capability", "", "capability `id` (required)")
	f.StringVar(&o.action, "action", "", "action `id`; the tie-break depends on it, and a pinned one is explained as it is")
	f.StringVar(&o.topology.Region, "region", "", "preferred region")
	f.StringVar(&o.topology.Zone, "zone", "", "preferred zone")
	f.StringVar(&o.topology.CapacityClass, "class", "", "required capacity class")
	f.BoolVar(&o.topology.ForbidCrossRegion, "forbid-cross-region", false, "only the preferred region")
	return cmd
}

func (o *explainOptions) request() (r registry.RouteRequest, err error) {
	if o.tenant == "" || o.capability == "" {
		return r, app.Usagef("usage.flag", "--tenant and --capability are needed").Advise("aipctl route explain --tenant T --capability C")
	}
	if r.Tenant, err = fleet.ParseTenantID(o.tenant); err != nil {
		return r, err
	}
	if r.Capability, err = fleet.ParseCapabilityID(o.capability); err != nil {
		return r, err
	}
	r.Action, r.Topology = fleet.NewActionID(o.app.Now()), o.topology
	if o.action != "" {
		r.Action, err = fleet.ParseActionID(o.action)
	}
	return r, err
}

func (o *explainOptions) run(ctx context.Context) error {
	request, err := o.request()
	if err != nil {
		return err
	}
	reg, err := open(ctx, o.app)
	if err != nil {
		return err
	}
	defer reg.Close()
	e, err := reg.Explain(ctx, request)
	if err != nil {
		return err
	}
	return o.app.Print(app.View{
		Kind: "RouteExplanation", Revision: e.Revision, Item: e,
		Name: func(any) string { return e.Winner.String() },
		Text: func() app.Page { return explanationPage(o.app, e) },
	})
}

func explanationPage(a *app.App, e routing.Explanation) app.Page {
	p := app.Page{{Fields: fields("tenant", e.Tenant, "capability", e.Capability, "action", e.Action,
		"revision", e.Revision, "candidates", e.Total, "winner", e.Winner)}}
	if e.Refusal != nil {
		p = append(p, app.Section{Title: "Refusal " + e.Refusal.Code, Lines: []string{e.Refusal.What}})
	}
	if e.Pinned != nil {
		p = append(p, pinnedSection(*e.Pinned))
	}
	if len(e.Counts) > 0 {
		t := app.Table{Header: []string{"REMOVED BY", "CANDIDATES"}}
		for _, reason := range slices.Sorted(maps.Keys(e.Counts)) {
			t.Rows = append(t.Rows, []string{string(reason), fmt.Sprint(e.Counts[reason])})
		}
		p = append(p, app.Section{Title: "Removed", Table: &t})
	}
	if len(e.Candidates) > 0 {
		p = append(p, candidateSection(e, a.Output == "wide"))
	}
	return p
}

func pinnedSection(pin routing.PinnedExplanation) app.Section {
	now := "it would be reserved again"
	switch {
	case pin.Reserved:
		now = "it holds the reservation"
	case pin.Removed != "":
		now = "it cannot be reserved now: " + string(pin.Removed)
	}
	return app.Section{Title: "Pinned", Fields: fields("replica", pin.Replica, "now", now)}
}

func candidateSection(e routing.Explanation, wide bool) app.Section {
	t := app.Table{Header: []string{"RANK", "REPLICA", "INSTANCE", "REMOVED BY", "PRIORITY", "REGION", "ZONE", "ACTIVE"}}
	if wide {
		t.Header = append(t.Header, "DISTANCE", "VERSION")
	}
	for _, c := range e.Candidates {
		rank := ""
		if c.Rank > 0 {
			rank = fmt.Sprint(c.Rank)
		}
		row := []string{rank, c.Replica.String(), c.Instance.String(), string(c.Removed), fmt.Sprint(c.Keys.Priority),
			match(c.Keys.RegionMatch), match(c.Keys.ZoneMatch), fmt.Sprint(c.Keys.ActiveBefore)}
		if wide {
			row = append(row, fmt.Sprint(c.Distance), c.Version.String())
		}
		t.Rows = append(t.Rows, row)
	}
	return app.Section{Title: "Candidates", Table: &t}
}

func match(yes bool) string {
	if yes {
		return "match"
	}
	return "other"
}
