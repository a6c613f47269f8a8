package dev

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Command makes aipctl dev.
func Command(a *app.App) *cobra.Command {
	return app.GroupCommand("dev", "Run a private fleet on this machine, or a demonstration of one", app.GroupAdmin,
		upCommand(a), statusCommand(a), downCommand(a), demoCommand(a))
}

// defaultDir is where a fleet is kept unless --dir says otherwise.
const defaultDir = ".run/dev"

// options describes the fleet in a directory to package localfleet.
func options(a *app.App, dir string) (localfleet.Options, error) {
	executable, err := os.Executable()
	if err != nil {
		return localfleet.Options{}, fleet.Errorf(fleet.Internal, "dev.programs", "the path of this program is not known").Caused(err)
	}
	programs, err := localfleet.FindPrograms(executable)
	return localfleet.Options{Dir: dir, Programs: programs, Now: a.Now, Say: a.Progressf}, err
}

func upCommand(a *app.App) *cobra.Command {
	var dir string
	var hosts int
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "up", Short: "Start a private fleet and leave it running", Args: app.NoArgs,
		Long: "Starts PostgreSQL, aipd lifecycle, aipd serve and connector hosts below one directory, and admits and binds\n" +
			"the example connector. Running it again starts what does not run and changes nothing else.",
		Example: "  aipctl dev up\n  export AIPCTL_CONFIG=.run/dev/aipctl.yaml\n  aipctl get replicas",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := options(a, dir)
			if err != nil {
				return err
			}
			o.Hosts, o.LeaseTTL = hosts, ttl
			f, err := localfleet.Up(cmd.Context(), o)
			if err != nil {
				return err
			}
			return printStatus(a, f)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", defaultDir, "`directory` of the fleet")
	cmd.Flags().IntVar(&hosts, "hosts", 0, "connector hosts of a new fleet, 3 to 12 (default 3)")
	cmd.Flags().DurationVar(&ttl, "lease-ttl", 0, "how long a host's lease lasts without a beat (default 30s)")
	return cmd
}

func statusCommand(a *app.App) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "status", Short: "Show the processes of a private fleet; exit 1 when one does not run", Args: app.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			f, err := localfleet.Open(localfleet.Options{Dir: dir, Now: a.Now})
			if err != nil {
				return err
			}
			if err := printStatus(a, f); err != nil {
				return err
			}
			for _, row := range f.Status() {
				if row.State != localfleet.Running {
					return app.Exit(1)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", defaultDir, "`directory` of the fleet")
	return cmd
}

func downCommand(a *app.App) *cobra.Command {
	var dir string
	var purge bool
	cmd := &cobra.Command{
		Use: "down", Short: "Stop a private fleet; what it stored stays unless --purge", Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := localfleet.Open(localfleet.Options{Dir: dir, Now: a.Now, Say: a.Progressf})
			if fleet.KindOf(err) == fleet.NotFound {
				a.Progressf("there is no fleet in %s: nothing to stop", dir)
				return printRows(a, nil, "")
			}
			if err != nil {
				return err
			}
			if purge {
				err = f.Purge(cmd.Context())
			} else {
				err = f.Down(cmd.Context())
			}
			if err != nil {
				return err
			}
			a.Progressf("%s", map[bool]string{true: "stopped, and removed " + f.Place().Dir(), false: "stopped; aipctl dev up starts it again"}[purge])
			return printStatus(a, f)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", defaultDir, "`directory` of the fleet")
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the directory too, with everything that the fleet stored")
	return cmd
}

// mark writes the state of a process as a glyph and a word.
func mark(state string) string {
	if state == localfleet.Running {
		return "● " + state
	}
	return "○ " + state
}

// printStatus shows every process, and how to reach a fleet that runs.
func printStatus(a *app.App, f *localfleet.Fleet) error {
	note := ""
	if f.Alive() {
		note = "export AIPCTL_CONFIG=" + f.Place().Context()
	}
	return printRows(a, f.Status(), note)
}

func printRows(a *app.App, rows []localfleet.Row, note string) error {
	return a.Print(app.View{
		Kind: "DevProcesses", Items: app.Items(rows), Note: note,
		Name: func(item any) string { row, _ := item.(localfleet.Row); return row.Name },
		Table: func(bool) app.Table {
			t := app.Table{Header: []string{"PROCESS", "STATE", "PID", "ADDRESS", "LOG"}}
			for _, r := range rows {
				t.Rows = append(t.Rows, []string{r.Name, mark(r.State), r.Number(), r.At, r.Log})
			}
			return t
		},
	})
}
