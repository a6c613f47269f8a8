package action

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/client"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// show prints one action.
func show(a *app.App, v action.View) error {
	return a.Print(app.View{
		Kind: "Action", Item: v,
		Name: func(any) string { return v.ID.String() },
		Text: func() app.Page { return page(a, v) },
	})
}

func page(a *app.App, v action.View) app.Page {
	p := app.Page{{Fields: []app.Field{
		{Label: "action", Value: v.ID.String()},
		{Label: "state", Value: app.Status(string(v.State))},
		{Label: "capability", Value: v.Capability.String()},
		{Label: "tenant", Value: v.Tenant.String()},
		{Label: "fence", Value: strconv.FormatUint(v.Fence, 10)},
		{Label: "created", Value: a.Since(v.CreatedAt)},
		{Label: "updated", Value: a.Since(v.UpdatedAt)},
	}}}
	if v.Problem != nil {
		e := v.Problem.Error()
		p = append(p, app.Section{Title: "Problem " + e.Code, Lines: sentences(e)})
	}
	if len(v.Result) > 0 {
		p = append(p, app.Section{Title: "Result", Lines: pretty(v.Result)})
	}
	if next := nextOf(v); next != "" {
		p = append(p, app.Section{Title: "Next", Lines: []string{next}})
	}
	return p
}

func sentences(e *fleet.Error) []string {
	lines := []string{e.What}
	for _, s := range []string{e.Why, e.Next} {
		if s != "" {
			lines = append(lines, s)
		}
	}
	return lines
}

// pretty lays JSON out in lines; bytes that are not JSON stay one line.
func pretty(data []byte) []string {
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return []string{string(data)}
	}
	return strings.Split(b.String(), "\n")
}

func nextOf(v action.View) string {
	switch v.State {
	case action.Uncertain:
		return "aipctl reconcile show " + v.ID.String()
	case action.Retryable:
		return "submit it again with --id " + v.ID.String() + ": it is known not to have started"
	case action.Accepted, action.Queued, action.Dispatched:
		return "aipctl action watch " + v.ID.String()
	}
	return ""
}

// printResult writes the stored bytes as they are, or as the item of a document.
func printResult(a *app.App, id fleet.ActionID, data []byte) error {
	if !a.Machine() {
		return a.Raw(bytes.NewReader(append(app.SafeJSON(data), '\n')))
	}
	return a.Print(app.View{Kind: "ActionResult", Item: json.RawMessage(data), Name: func(any) string { return id.String() }})
}

func listCommand(a *app.App) *cobra.Command {
	q, all := client.ListQuery{}, false
	var state string
	cmd := &cobra.Command{
		Use: "list", Short: "List the tenant's actions, newest first", Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q.State = action.State(state)
			return List(cmd.Context(), a, q, all)
		},
	}
	f := cmd.Flags()
	f.StringVar(&state, "state", "", "only in this state")
	f.IntVar(&q.Limit, "limit", 50, "actions of one page")
	f.StringVar(&q.After, "page", "", "`cursor` of the page to show, from the page before")
	f.BoolVar(&all, "all", false, "every page")
	return cmd
}

// List prints the actions that the target's token may see.
func List(ctx context.Context, a *app.App, q client.ListQuery, all bool) error {
	if q.State != "" && !q.State.Valid() {
		var known []string
		for _, s := range action.States() {
			known = append(known, string(s))
		}
		return app.Unknown("usage.state", "action state", string(q.State), known)
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	var views []action.View
	next := ""
	for {
		page, err := c.List(ctx, q)
		if err != nil {
			return err
		}
		views, next = append(views, page.Actions...), page.Next
		if !all || next == "" {
			break
		}
		q.After = next
	}
	return a.Print(app.View{
		Kind: "Actions", NextPage: next, Items: app.Items(views),
		Table: func(wide bool) app.Table { return table(a, views, wide) },
	})
}

func table(a *app.App, views []action.View, wide bool) app.Table {
	t := app.Table{Header: []string{"ACTION", "CAPABILITY", "STATE", "FENCE", "CREATED", "UPDATED"}}
	if wide {
		t.Header = append(t.Header, "TENANT", "PRINCIPAL", "RUNS", "PROBLEM")
	}
	for _, v := range views {
		row := []string{v.ID.String(), v.Capability.String(), app.Status(string(v.State)), strconv.FormatUint(v.Fence, 10), a.Since(v.CreatedAt), a.Since(v.UpdatedAt)}
		if wide {
			problem := ""
			if v.Problem != nil {
				problem = v.Problem.Code
			}
			row = append(row, v.Tenant.String(), v.Principal, strconv.FormatUint(uint64(v.Runs), 10), problem)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
