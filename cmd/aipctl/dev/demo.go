package dev

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/showcase"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// demoLeaseTTL is short, so that what depends on the end of a lease is quick to see.
const demoLeaseTTL = 5 * time.Second

func demoCommand(a *app.App) *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use: "demo", Short: "Start a new private fleet, break it on purpose, and show what it promises", Args: app.NoArgs,
		Long: "Every step names the guarantees that it shows (docs/guarantees.md). At the end everything is stopped and\n" +
			"counted anew from the registry, the hosts' journals and the provider's own store; DIR/summary.json keeps it.\n" +
			"What an earlier demonstration left in the directory is removed first. Exit 1 when a check fails.",
		RunE: func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), a, dir) },
	}
	cmd.Flags().StringVar(&dir, "dir", ".run/demo", "`directory` of the fleet")
	return cmd
}

func demo(ctx context.Context, a *app.App, dir string) error {
	o, err := options(a, dir)
	if err != nil {
		return err
	}
	if err := clear(ctx, o); err != nil {
		return err
	}
	o.LeaseTTL, o.Brisk = demoLeaseTTL, true
	o.Say = func(format string, args ...any) { a.Progressf("    "+format, args...) }
	summary, err := showcase.Run(ctx, showcase.Options{Fleet: o, Registry: reader(a, dir), Now: a.Now, Say: a.Progressf})
	if summary.StartedAt.IsZero() {
		return err // it broke off before there was anything to count
	}
	path, werr := writeSummary(dir, summary)
	if werr != nil {
		return errors.Join(err, werr)
	}
	a.Progressf("")
	if perr := printSummary(a, summary, path); perr != nil {
		return errors.Join(err, perr)
	}
	return err
}

// clear removes what an earlier demonstration left. A directory that holds something
// else is refused when the fleet is made.
func clear(ctx context.Context, o localfleet.Options) error {
	f, err := localfleet.Open(o)
	if fleet.KindOf(err) == fleet.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Purge(ctx)
}

// reader opens the registry of the fleet in dir under the readonly role.
func reader(a *app.App, dir string) func(context.Context) (*app.Registry, error) {
	return func(ctx context.Context) (*app.Registry, error) {
		place, err := localfleet.PlaceOf(dir)
		if err != nil {
			return nil, err
		}
		target := app.Target{Name: "demo", Registry: app.RegistryRef{ReadonlyURLFile: place.Secret("readonly.url")}}
		return a.Open(ctx, target, app.ReadOnly)
	}
}

func writeSummary(dir string, s showcase.Summary) (string, error) {
	path := filepath.Join(dir, "summary.json")
	data, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(data, '\n'), 0o644)
	}
	if err != nil {
		return path, fleet.Errorf(fleet.Unavailable, "dev.write", "the summary cannot be written").Caused(err)
	}
	return path, nil
}

func printSummary(a *app.App, s showcase.Summary, path string) error {
	return a.Print(app.View{
		Kind: "DemoSummary", Item: s, Name: func(any) string { return path },
		Text: func() app.Page { return summaryPage(s, path) },
	})
}
