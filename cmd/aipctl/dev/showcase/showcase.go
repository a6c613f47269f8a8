package showcase

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/pkg/client"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Options of a demonstration. Every field is required.
type Options struct {
	Fleet    localfleet.Options
	Registry func(ctx context.Context) (*app.Registry, error) // under the readonly role
	Now      func() time.Time
	Say      func(format string, args ...any)
}

// Check is one thing that the demonstration found to be true, or not.
type Check struct {
	Name       string   `json:"name"`
	Guarantees []string `json:"guarantees"`
	OK         bool     `json:"ok"`
	Detail     string   `json:"detail"`
}

// step is one numbered part.
type step struct {
	title      string
	guarantees []string
	run        func(ctx context.Context) error
}

// show is one running demonstration.
type show struct {
	Options
	fleet   *localfleet.Fleet
	clients map[string]*client.Client
	checks  []Check
	current step

	// What later steps need of earlier ones; none of it is counted.
	finished   fleet.ActionID // a completed action of acme
	lost       fleet.ActionID // the one whose host was killed
	inspection []byte         // aipctl route inspect of it, as JSON
	record     record         // what was stored, read at the end
	left       int            // processes that did not end
}

// Run starts a fleet, drives it through every step, stops it and counts. The error
// is nil only when every check holds. Whatever happens, no process is left.
func Run(ctx context.Context, o Options) (Summary, error) {
	began := o.Now()
	s := &show{Options: o, clients: map[string]*client.Client{}}
	err := s.play(ctx)
	switch {
	case err == nil || s.fleet == nil:
	case ctx.Err() != nil:
		s.Say("interrupted: stopping every process")
	default:
		s.logTails()
	}
	if s.fleet != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		if derr := s.fleet.Down(stopping); derr != nil && err == nil {
			err = derr
		}
	}
	if err != nil {
		return Summary{Checks: s.checks}, err
	}
	return s.conclude(began)
}

func (s *show) play(ctx context.Context) error {
	for i, st := range s.steps() {
		s.current = st
		s.Say("")
		s.Say("%2d  %s  [%s]", i+1, st.title, strings.Join(st.guarantees, " "))
		if err := st.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *show) steps() []step {
	return []step{
		{"A fleet is made from nothing, and a signed release is admitted", []string{"G20", "G28", "G33"}, s.start},
		{"Two tenants call the same capability at once, on accounts of their own", []string{"G01", "G18", "G25"}, s.manyActions},
		{"A finished action, asked for again, gives the stored result byte for byte", []string{"G27", "G44"}, s.repeat},
		{"The same action id with another meaning is refused; an unknown one is not found", []string{"G03", "G18", "G40"}, s.refusals},
		{"A host is killed after the provider's effect and before its answer", []string{"G25", "G26", "G38", "G42"}, s.lostAnswer},
		{"A host is killed before the effect: no host can tell, an operator decides, signed", []string{"G25", "G26", "G38"}, s.undecidable},
		{"A host is down, is started again, and the pinned action then works", []string{"G09", "G44"}, s.hostRestart},
		{"The central daemon is killed in the middle of an action, then the database server", []string{"G12", "G38", "G39"}, s.killCentral},
		{"A drain waits for the work that is pinned to the replica", []string{"G08", "G23", "G37"}, s.drain},
		{"Wrong packages are refused, with the reasons, and nothing is written", []string{"G13", "G33", "G40"}, s.wrongPackages},
		{"The route of one action, as an operator sees it", []string{"G02", "G06"}, s.inspect},
		{"Everything is stopped, and counted anew from what was stored", []string{"G04", "G12", "G39"}, s.finale},
	}
}

// check notes a finding and says it.
func (s *show) check(ok bool, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	s.checks = append(s.checks, Check{Name: s.current.title, Guarantees: s.current.guarantees, OK: ok, Detail: detail})
	mark := "ok  "
	if !ok {
		mark = "FAIL"
	}
	s.Say("    %s %s", mark, detail)
}

// command shows a run of aipctl and the first lines of what it printed.
func (s *show) command(r localfleet.Result, lines int) {
	s.Say("    $ %s", r.Line())
	text := strings.TrimRight(string(r.Stdout), "\n")
	if text == "" {
		text = strings.TrimRight(string(r.Stderr), "\n")
	}
	all := strings.Split(text, "\n")
	for i, line := range all {
		if i == lines {
			s.Say("      … %d more lines", len(all)-lines)
			break
		}
		s.Say("      %s", line)
	}
	if r.Exit != 0 {
		s.Say("      (exit code %d)", r.Exit)
	}
}

// logTails shows the end of every log, for a demonstration that broke off.
func (s *show) logTails() {
	for _, row := range s.fleet.Status() {
		if tail := s.fleet.LogTail(row.Name, 15); row.Name != "postgres" && tail != "" {
			s.Say("--- the end of %s", row.Log)
			for line := range strings.Lines(tail) {
				s.Say("%s", strings.TrimRight(line, "\n"))
			}
		}
	}
}

// until looks every 50 ms until what it looks for is there, for at most limit.
func until(ctx context.Context, limit time.Duration, what string, look func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		found, err := look(ctx)
		if found {
			return nil
		}
		if perr := app.Pause(ctx, 50*time.Millisecond); perr != nil {
			return fleet.Errorf(fleet.Unavailable, "demo.timeout", "waited %s in vain: %s", app.Duration(limit), what).Caused(err)
		}
	}
}
