// Package dash is aipctl dash: the dashboard on this terminal.
//
// It answers "who gives the dashboard its terminal, clock, registry and clipboard?".
// It guarantees that the terminal is as it was when the dashboard ends, however it
// ends, that the registry is closed after the last read, and that a program asking
// for JSON gets the envelope on stdout alone. It changes nothing in the registry: it
// reads under the role that may only read, and opens the one that explanations need
// when somebody asks why (G20).
package dash

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	_ "github.com/aipfleet/aipfleet/cmd/aipctl/dash/silence" // before the terminal library
	"github.com/aipfleet/aipfleet/tui"
)

// Options is one run of the dashboard.
type Options struct {
	App      *app.App
	Once     bool
	Linear   bool
	ReadOnly bool
	Width    int
	Height   int
	Interval time.Duration
	Screen   string
	Theme    string
	Rows     int
}

// readTimeout bounds one reading; a slower registry shows as stale.
const readTimeout = 10 * time.Second

// Command makes aipctl dash.
func Command(a *app.App) *cobra.Command {
	o := &Options{App: a}
	cmd := &cobra.Command{
		Use: "dash", Short: "Show the fleet on one screen, live", GroupID: app.GroupLook,
		Long: "Show the fleet on one screen, live: overview, replicas, routes; filter, drill down, ask why.\n" +
			"It reads only. ? inside shows the keys. Without a terminal use --once or --linear.",
		Example: "  aipctl dash\n  aipctl dash --once --width 120 --height 40 --screen replicas\n  aipctl dash --once -o json\n  aipctl dash --linear",
		Args:    app.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.Once, "once", false, "print one frame to stdout and end; needs no terminal")
	f.BoolVar(&o.Linear, "linear", false, "print changes as lines, for screen readers and logs (also with ACCESSIBLE=1)")
	f.BoolVar(&o.ReadOnly, "readonly", true, "change nothing; this version never does")
	f.IntVar(&o.Width, "width", 0, "columns of the frame of --once (default: the terminal's, or 80)")
	f.IntVar(&o.Height, "height", 0, "lines of the frame of --once (default 24)")
	f.DurationVar(&o.Interval, "interval", tui.DefaultInterval, "time between readings")
	f.StringVar(&o.Screen, "screen", "overview", "screen to start on: overview, replicas, routes")
	f.StringVar(&o.Theme, "theme", "", "dark, light, high-contrast, mono, plain (default: dark, or mono without colour)")
	f.IntVar(&o.Rows, "max-rows", tui.DefaultMaxRows, "most rows read of one list")
	return cmd
}

// Run shows the dashboard in the form that was asked for.
func (o *Options) Run(ctx context.Context) error {
	if o.App.Accessible() && !o.Once {
		o.Linear = true
	}
	c, err := o.config()
	if err != nil {
		return err
	}
	target, err := o.App.Target()
	if err != nil {
		return err
	}
	c.Context, c.Production = target.Name, target.Production
	reg, err := o.App.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return err
	}
	defer reg.Close()
	asker := &asker{open: o.App.OpenRegistry}
	defer asker.close()
	begin, wait := tui.Bounded(ctx, readTimeout)
	defer wait()
	c.Reader, c.Router, c.Begin, c.Now = reg.Reader, asker, begin, o.App.Now
	switch {
	case o.Once:
		return o.once(c)
	case o.Linear:
		return o.linear(ctx, c)
	}
	return o.live(ctx, c)
}

// config reads the flags, before anything is opened.
func (o *Options) config() (c tui.Config, err error) {
	screen, ok := tui.FindScreen(o.Screen)
	if !ok {
		return c, app.Unknown("usage.screen", "screen", o.Screen, screenNames())
	}
	theme, ok := tui.FindTheme(o.theme())
	if !ok {
		return c, app.Unknown("usage.theme", "theme", o.Theme, tui.Themes())
	}
	switch {
	case !o.ReadOnly:
		return c, app.Usagef("usage.readonly", "the dashboard of this version only reads").Advise("aipctl drain, bind and apply make changes")
	case o.Interval < tui.MinInterval:
		return c, app.Usagef("usage.interval", "an interval is at least %s", tui.MinInterval)
	case o.Rows < 1:
		return c, app.Usagef("usage.max_rows", "--max-rows is at least 1")
	case o.Once && o.Linear:
		return c, app.Usagef("usage.flag", "--once and --linear exclude each other")
	case o.App.Machine() && !o.Once:
		return c, app.Usagef("usage.output", "a live dashboard has no %s form", o.App.Output).Advise("aipctl dash --once -o %s", o.App.Output)
	case o.App.Machine() && screen != tui.Overview:
		return c, app.Usagef("usage.output", "only the overview has a %s form", o.App.Output).Advise("aipctl get %s -o %s", screen, o.App.Output)
	case !o.Once && !o.Linear && !(o.App.InTTY && o.App.OutTTY):
		return c, app.Usagef("usage.terminal", "a live dashboard needs a terminal").Advise("aipctl dash --once, or aipctl dash --linear")
	}
	return tui.Config{Interval: o.Interval, MaxRows: o.Rows, Theme: theme, Screen: screen}, o.size()
}

// size fills the frame's size and refuses one that cannot be drawn.
func (o *Options) size() error {
	if o.Width == 0 {
		if o.Width = o.App.Width; o.Width < tui.MinWidth {
			o.Width = 80
		}
	}
	if o.Height == 0 {
		o.Height = 24
	}
	if o.Width < tui.MinWidth || o.Height < tui.MinHeight || o.Width > 1000 || o.Height > 1000 {
		return app.Usagef("usage.size", "a frame of %dx%d cannot be drawn", o.Width, o.Height).
			Because("sizes from %dx%d to 1000x1000 can", tui.MinWidth, tui.MinHeight)
	}
	return nil
}

func screenNames() (names []string) {
	for _, s := range tui.Screens() {
		names = append(names, s.String())
	}
	return names
}

// theme chooses the theme: as asked for, else by what the terminal and its user want.
func (o *Options) theme() string {
	switch {
	case o.Theme != "":
		return o.Theme
	case o.App.Color == "always":
		return "dark"
	case !o.App.OutTTY || o.App.Env("TERM") == "dumb":
		return "plain"
	case o.App.Color == "never" || o.App.Env("NO_COLOR") != "":
		if o.Once {
			return "plain"
		}
		return "mono"
	}
	return "dark"
}
