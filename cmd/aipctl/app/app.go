package app

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// IO is the outside of the process as a command sees it.
type IO struct {
	In  io.Reader
	Out io.Writer // the result, and nothing else
	Err io.Writer // progress, prompts, warnings, errors

	InTTY, OutTTY, ErrTTY bool
	Width                 int // columns of the terminal at Out; 0 when there is none

	LookupEnv func(name string) (string, bool)
}

// Env returns an environment variable, or "".
func (s IO) Env(name string) string {
	if s.LookupEnv == nil {
		return ""
	}
	v, _ := s.LookupEnv(name)
	return v
}

// Global holds the flags that every command takes.
type Global struct {
	Output  string // -o: table, wide, json, jsonl, yaml, name, template=…
	Context string // --context: a named target
	Color   string // --color: auto, always, never
	Yes     bool   // --yes: answers the first step of the confirmation ladder
	Named   string // --confirm: the name that the last step wants typed
	Reason  string // --reason: recorded with the change
	Quiet   bool   // --quiet: no progress
	Verbose bool   // --verbose: the cause chain of errors
}

// Opener opens a registry of a target. Tests give the in-memory one.
type Opener func(ctx context.Context, target Target, access Access) (*Registry, error)

// App is one run of aipctl.
type App struct {
	IO
	Global
	Now    func() time.Time
	Open   Opener
	Verify Verifier // nil when no database is behind the registry
}

// Verifier compares a target's database with this program and returns what differs,
// one sentence each.
type Verifier func(ctx context.Context, target Target) ([]string, error)

// New makes an App. now and open are the only ways to the clock and to a registry.
func New(stdio IO, now func() time.Time, open Opener) *App {
	return &App{IO: stdio, Now: now, Open: open, Global: Global{Output: "table", Color: "auto"}}
}

// bindFlags declares the global flags.
func (a *App) bindFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&a.Output, "output", "o", a.Output, "output `format`: table, wide, json, jsonl, yaml, name, template=…")
	flags.StringVar(&a.Context, "context", "", "named target to use (default: the current one, or $AIPCTL_CONTEXT)")
	flags.StringVar(&a.Color, "color", a.Color, "colour: auto, always, never")
	flags.BoolVar(&a.Yes, "yes", false, "do not ask: go ahead")
	flags.StringVar(&a.Named, "confirm", "", "the `name` that a dangerous change asks to be typed")
	flags.StringVar(&a.Reason, "reason", "", "why; recorded with the change")
	flags.BoolVar(&a.Quiet, "quiet", false, "no progress on stderr")
	flags.BoolVarP(&a.Verbose, "verbose", "v", false, "show the causes behind an error")
}

// ReasonOr returns --reason, or a default for commands in which it is optional.
func (a *App) ReasonOr(text string) string {
	if a.Reason != "" {
		return a.Reason
	}
	return text
}

// Actor names who runs aipctl, for the registry's journal: $AIPCTL_ACTOR or $USER.
func (a *App) Actor() string {
	for _, name := range []string{"AIPCTL_ACTOR", "USER", "LOGNAME"} {
		if v := a.Env(name); v != "" {
			return "operator:" + v
		}
	}
	return "operator"
}

// Accessible reports whether the caller asked for output without layout
// (ACCESSIBLE=1): label and value, one to a line.
func (a *App) Accessible() bool { v := a.Env("ACCESSIBLE"); return v != "" && v != "0" }

// colors reports whether the result may carry colour.
func (a *App) colors() bool {
	switch a.Color {
	case "always":
		return true
	case "never":
		return false
	}
	return a.OutTTY && a.Env("NO_COLOR") == "" && a.Env("TERM") != "dumb" && !a.Accessible()
}

// Group ids of the commands in aipctl --help.
const (
	GroupLook    = "look"
	GroupChange  = "change"
	GroupActions = "actions"
	GroupRelease = "release"
	GroupAdmin   = "admin"
	GroupAbout   = "about"
)

// Root makes the root command with the global flags and groups of a.
func (a *App) Root(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           "aipctl",
		Short:         "Operate a fleet of connectors",
		Long:          "aipctl admits releases, binds them to tenants, and shows where every action went and why.",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return a.checkFlags()
		},
	}
	a.bindFlags(root.PersistentFlags())
	root.AddGroup(
		&cobra.Group{ID: GroupLook, Title: "Look:"},
		&cobra.Group{ID: GroupChange, Title: "Change:"},
		&cobra.Group{ID: GroupActions, Title: "Actions and what is uncertain:"},
		&cobra.Group{ID: GroupRelease, Title: "Releases and trust:"},
		&cobra.Group{ID: GroupAdmin, Title: "Registry, targets, development:"},
		&cobra.Group{ID: GroupAbout, Title: "About:"},
	)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommandGroupID(GroupAbout)
	root.AddCommand(commands...)
	return root
}

// Run executes the command line and returns the exit code. Errors are printed here.
func (a *App) Run(ctx context.Context, root *cobra.Command, args []string) int {
	a.Output = scanOutput(args, a.Output)
	root.SetArgs(append([]string{}, args...)) // never nil: cobra would take those of the process
	err := unknownCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && isCancellation(err) {
		return ExitInterrupted
	}
	a.printError(err)
	return ExitCode(err)
}
