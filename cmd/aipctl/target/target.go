// Package target is aipctl context: the named fleets that commands work on.
//
// It answers "which fleet am I about to change?". The file holds no secret, only
// files and environment variables that hold one (G21).
package target

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
)

// Command makes aipctl context.
func Command(a *app.App) *cobra.Command {
	return app.GroupCommand("context", "Named targets", app.GroupAdmin,
		listCommand(a), useCommand(a), showCommand(a), setCommand(a))
}

// row is a target as list shows it.
type row struct {
	app.Target
	Current bool `json:"current"`
}

func listCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the targets", Args: app.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.Config()
			if err != nil {
				return err
			}
			var rows []row
			for _, name := range slices.Sorted(maps.Keys(c.Contexts)) {
				rows = append(rows, row{c.Contexts[name], name == c.Current})
			}
			return a.Print(app.View{Kind: "Contexts", Items: app.Items(rows), Table: func(bool) app.Table { return table(rows) }})
		},
	}
}

func table(rows []row) app.Table {
	t := app.Table{Header: []string{"CURRENT", "NAME", "AIPD", "REGISTRY", "OPERATOR KEY", "PRODUCTION"}}
	for _, r := range rows {
		current, production := "", "no"
		if r.Current {
			current = "*"
		}
		if r.Production {
			production = "yes"
		}
		t.Rows = append(t.Rows, []string{current, r.Name, r.Aipd.URL, where(r.Target), r.OperatorKey, production})
	}
	return t
}

// where says which role URLs a target names.
func where(t app.Target) string {
	roles := ""
	for _, r := range []struct{ name, file, env string }{
		{"control", t.Registry.ControlURLFile, t.Registry.ControlURLEnv},
		{"readonly", t.Registry.ReadonlyURLFile, t.Registry.ReadonlyURLEnv},
		{"migrate", t.Registry.MigrateURLFile, t.Registry.MigrateURLEnv},
		{"admin", t.Registry.AdminURLFile, t.Registry.AdminURLEnv},
	} {
		if r.file == "" && r.env == "" {
			continue
		}
		if roles != "" {
			roles += ","
		}
		roles += r.name
	}
	return roles
}

func useCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Make a target the current one", Args: app.ExactArgs(1, "the name of a context"),
		ValidArgsFunction: names(a),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := a.Config()
			if err != nil {
				return err
			}
			if _, ok := c.Contexts[args[0]]; !ok {
				return app.Unknown("context.unknown", "context", args[0], slices.Sorted(maps.Keys(c.Contexts)))
			}
			c.Current = args[0]
			if err := a.SaveConfig(c); err != nil {
				return err
			}
			return print(a, c.Contexts[args[0]])
		},
	}
}

func names(a *app.App) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		c, err := a.Config()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return slices.Sorted(maps.Keys(c.Contexts)), cobra.ShellCompDirectiveNoFileComp
	}
}

func showCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the target in force", Args: app.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			t, err := a.Target()
			if err != nil {
				return err
			}
			return print(a, t)
		},
	}
}

// print shows a target: references only, never what they lead to.
func print(a *app.App, t app.Target) error {
	return a.Print(app.View{Kind: "Context", Item: t, Text: func() app.Page {
		ref := func(file, env string) string {
			if file != "" {
				return "file " + file
			}
			if env != "" {
				return "environment variable " + env
			}
			return ""
		}
		r := t.Registry
		return app.Page{{Fields: []app.Field{
			{Label: "name", Value: t.Name},
			{Label: "aipd", Value: t.Aipd.URL},
			{Label: "token", Value: ref(t.Aipd.TokenFile, t.Aipd.TokenEnv)},
			{Label: "control", Value: ref(r.ControlURLFile, r.ControlURLEnv)},
			{Label: "readonly", Value: ref(r.ReadonlyURLFile, r.ReadonlyURLEnv)},
			{Label: "migrate", Value: ref(r.MigrateURLFile, r.MigrateURLEnv)},
			{Label: "admin", Value: ref(r.AdminURLFile, r.AdminURLEnv)},
			{Label: "operator key", Value: t.OperatorKey},
			{Label: "production", Value: fmt.Sprint(t.Production)},
		}}}
	}})
}
