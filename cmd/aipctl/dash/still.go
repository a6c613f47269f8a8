package dash

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/tui"
)

// once prints one frame, or the overview as a document.
func (o *Options) once(c tui.Config) error {
	m := tui.Still(tui.New(c), o.Width, o.Height)
	if err := m.Err(); err != nil {
		return err
	}
	report := m.Overview()
	if o.App.Machine() {
		return o.App.Print(app.View{Kind: "Overview", Revision: report.Status.Revision, Item: report, Name: func(any) string { return report.Context }})
	}
	if _, err := o.App.Out.Write([]byte(m.Frame())); err != nil {
		return fleet.Errorf(fleet.Internal, "output.write", "the frame cannot be written").Caused(err)
	}
	return nil
}

// linear prints what changes, one line each, until it is interrupted. A registry
// that does not answer is said once, and once more when it is back.
func (o *Options) linear(ctx context.Context, c tui.Config) error {
	before, err := o.observe(c)
	if err != nil {
		return err
	}
	if err := o.say(before.At(), before.Summary()); err != nil {
		return err
	}
	away := false
	for app.Pause(ctx, o.Interval) == nil {
		after, err := o.observe(c)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			if !away {
				o.App.Sayf("the registry does not answer, asking on: %v", err)
			}
			away = true
			continue
		}
		if away {
			o.App.Sayf("the registry answers again")
			away = false
		}
		for _, line := range tui.Changes(before, after) {
			if err := o.say(after.At(), line); err != nil {
				return err
			}
		}
		before = after
	}
	return app.Exit(app.ExitInterrupted)
}

func (o *Options) observe(c tui.Config) (tui.Observed, error) {
	ctx, done := c.Begin()
	defer done()
	return c.Observe(ctx)
}

func (o *Options) say(at time.Time, line string) error {
	text := at.UTC().Format("15:04:05") + " " + fleet.Printable(line, 4096) + "\n"
	if _, err := o.App.Out.Write([]byte(text)); err != nil {
		return fleet.Errorf(fleet.Internal, "output.write", "the line cannot be written").Caused(err)
	}
	return nil
}
