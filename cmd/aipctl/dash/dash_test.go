package dash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/apptest"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/tui"
)

func root(a *app.App) *cobra.Command { return a.Root(Command(a)) }

func populated(t *testing.T) *apptest.Harness {
	t.Helper()
	h := apptest.New(t, root)
	h.Populate()
	return h
}

// TestOnce_G40_PrintsOneFrame: a frame of the asked size, without a terminal and
// without escape sequences.
func TestOnce_G40_PrintsOneFrame(t *testing.T) {
	h := populated(t)
	out := h.OK("dash", "--once", "--width", "100", "--height", "30", "--screen", "routes")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != 30 || strings.ContainsRune(out, '\x1b') {
		t.Errorf("%d lines, or escapes:\n%s", len(lines), out)
	}
	for _, want := range []string{"[4 routes]", "act_lost", "outcome_unknown", "LIVE r1", "test NON-PROD RO"} {
		if !strings.Contains(out, want) {
			t.Errorf("the frame does not show %q:\n%s", want, out)
		}
	}
	h.Configure("    production: true\n")
	if out := h.OK("dash", "--once", "--color", "always"); !strings.Contains(out, "PRODUCTION") || !strings.ContainsRune(out, '\x1b') {
		t.Errorf("no badge of production, or no colour although it was asked for:\n%s", out)
	}
	h.TTY, h.Env["NO_COLOR"] = true, "1"
	if out := h.OK("dash", "--once"); strings.ContainsRune(out, '\x1b') {
		t.Errorf("NO_COLOR is not respected:\n%q", out)
	}
}

// TestOnce_G38_JSONIsTheEnvelope: -o json is the overview as one document.
func TestOnce_G38_JSONIsTheEnvelope(t *testing.T) {
	h := populated(t)
	d := h.Document(h.OK("dash", "--once", "-o", "json"))
	var report tui.Report
	if err := json.Unmarshal(d.Item, &report); err != nil {
		t.Fatal(err)
	}
	if d.Kind != "Overview" || d.Metadata.Revision != 1 || report.Status.ReplicasDeclared != 3 || report.Status.Uncertain[fleet.ReconcileOpen] != 1 ||
		len(report.Attention) == 0 || report.Attention[0].State != "uncertain" {
		t.Errorf("the document is %s", d.Item)
	}
}

// TestFlags_G40_RefuseWithTheRuleAndTheNextCommand covers what cannot be shown.
func TestFlags_G40_RefuseWithTheRuleAndTheNextCommand(t *testing.T) {
	for line, want := range map[string]string{
		"dash":                                   "error[usage.terminal]",
		"dash --once --screen replica":           "did you mean replicas?",
		"dash --once --theme drak":               "did you mean dark?",
		"dash --once --width 20":                 "error[usage.size]",
		"dash --once --linear":                   "error[usage.flag]",
		"dash --linear -o json":                  "usage.output",
		"dash --once --screen routes -o json":    "aipctl get routes -o json",
		"dash --once --interval 1ms":             "error[usage.interval]",
		"dash --once --readonly=false":           "error[usage.readonly]",
		"dash --once --max-rows 0":               "error[usage.max_rows]",
		"dash --once --context nowhere":          "error[context.unknown]",
		"dash --once something":                  "error[usage.arguments]",
		"dash --once --height 4 --screen routes": "60x12",
	} {
		r := populated(t).Run(strings.Fields(line)...)
		if r.Code != app.ExitUsage || r.Stdout != "" || !strings.Contains(r.Stderr, want) {
			t.Errorf("aipctl %s: exit %d, wants 2 and %q\n%s%s", line, r.Code, want, r.Stdout, r.Stderr)
		}
	}
}

// broken is a registry whose reads fail, or panic.
type broken struct {
	registry.Reader
	panics bool
}

func (b broken) Status(context.Context) (registry.Status, error) {
	if b.panics {
		panic("a defect")
	}
	return registry.Status{}, fleet.Errorf(fleet.Unavailable, "registry.connect", "the registry cannot be reached")
}

// TestOnce_G40_ARegistryAwayIsExitNine: no frame is printed for what was not read.
func TestOnce_G40_ARegistryAwayIsExitNine(t *testing.T) {
	h := populated(t)
	var out, errs bytes.Buffer
	a := h.App(&out, &errs)
	a.Open = func(context.Context, app.Target, app.Access) (*app.Registry, error) {
		return &app.Registry{Reader: broken{}, Close: func() {}}, nil
	}
	if code := a.Run(t.Context(), root(a), []string{"dash", "--once"}); code != 9 || out.Len() > 0 || !strings.Contains(errs.String(), "error[registry.connect]") {
		t.Errorf("exit %d\n%s%s", code, out.String(), errs.String())
	}
}

// TestOpen_G20_UnderTheReadonlyRole: the dashboard asks for the least role.
func TestOpen_G20_UnderTheReadonlyRole(t *testing.T) {
	h := populated(t)
	var out, errs bytes.Buffer
	a := h.App(&out, &errs)
	open, closed := a.Open, false
	a.Open = func(ctx context.Context, target app.Target, access app.Access) (*app.Registry, error) {
		if access != app.ReadOnly {
			t.Errorf("opened under %s", access)
		}
		r, err := open(ctx, target, access)
		r.Close = func() { closed = true }
		return r, err
	}
	if code := a.Run(t.Context(), root(a), []string{"dash", "--once"}); code != 0 || !closed {
		t.Errorf("exit %d, closed %v\n%s", code, closed, errs.String())
	}
}

// TestWhy_G20_OpensTheControlRoleOnceAndOnlyWhenAsked: reading needs no more than the
// readonly role; the question why opens the other once and closes it.
func TestWhy_G20_OpensTheControlRoleOnceAndOnlyWhenAsked(t *testing.T) {
	h := populated(t)
	opened, closed := 0, 0
	a := &asker{open: func(_ context.Context, access app.Access) (*app.Registry, error) {
		if access != app.Control {
			t.Errorf("opened under %s", access)
		}
		opened++
		return &app.Registry{Router: h.Registry, Close: func() { closed++ }}, nil
	}}
	for range 2 {
		e, err := a.Explain(t.Context(), registry.RouteRequest{Action: apptest.Action("act_new"), Capability: apptest.Capability("desk:open"), Tenant: apptest.Tenant("acme")})
		if err != nil || e.Winner.IsZero() {
			t.Errorf("explanation %+v, error %v", e, err)
		}
	}
	a.close()
	(&asker{}).close()
	if opened != 1 || closed != 1 {
		t.Errorf("opened %d times, closed %d times", opened, closed)
	}
	a = &asker{open: func(context.Context, app.Access) (*app.Registry, error) {
		return nil, fleet.Invalidf("context.registry", "no URL")
	}}
	if _, err := a.Explain(t.Context(), registry.RouteRequest{}); fleet.CodeOf(err) != "context.registry" {
		t.Errorf("error %v", err)
	}
}

// terminal plays a terminal for a live dashboard: it types when it has seen.
type terminal struct {
	out  bytes.Buffer
	keys chan string
	seen string // what has to be on the screen before the keys are typed
}

func (t *terminal) Read(p []byte) (int, error) {
	k, ok := <-t.keys
	if !ok {
		return 0, io.EOF
	}
	return copy(p, k), nil
}

func (t *terminal) Write(p []byte) (int, error) {
	t.out.Write(p)
	if t.seen != "" && strings.Contains(t.out.String(), t.seen) {
		t.seen = ""
		t.keys <- "q"
	}
	return len(p), nil
}

// play runs a live dashboard on a played terminal until it has ended.
func play(t *testing.T, ctx context.Context, screen *terminal, reader registry.Reader, open func(*app.App)) (int, string, string) {
	t.Helper()
	h := populated(t)
	var errs bytes.Buffer
	a := h.App(new(bytes.Buffer), &errs)
	a.Now = time.Now
	a.IO.In, a.IO.Out, a.IO.InTTY, a.IO.OutTTY = screen, screen, true, true
	if reader != nil {
		a.Open = func(context.Context, app.Target, app.Access) (*app.Registry, error) {
			return &app.Registry{Reader: reader, Close: func() {}}, nil
		}
	}
	if open != nil {
		open(a)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	code := a.Run(ctx, root(a), []string{"dash", "--screen", "replicas"})
	return code, screen.out.String(), errs.String()
}

// left reports whether the output ends with the main screen and a visible cursor.
func left(out string) bool {
	const leave, show = "\x1b[?1049l", "\x1b[?25h"
	i := strings.LastIndex(out, leave)
	return strings.Contains(out, "\x1b[?1049h") && i > strings.LastIndex(out, "\x1b[?1049h") &&
		strings.LastIndex(out, show) > i && !strings.Contains(out[i:], "\x1b[?25l")
}

// TestLive_G40_QuitLeavesACleanTerminal: q ends with exit code 0 and the terminal as it was.
func TestLive_G40_QuitLeavesACleanTerminal(t *testing.T) {
	screen := &terminal{keys: make(chan string, 1), seen: "crepl_acme_a"}
	code, out, errs := play(t, t.Context(), screen, nil, nil)
	if code != 0 || errs != "" || !left(out) {
		t.Errorf("exit %d, stderr %q, output ends with %q", code, errs, tail(out))
	}
}

// TestLive_G40_AKilledOneLeavesACleanTerminal: a signal ends it as well, with exit code 130.
func TestLive_G40_AKilledOneLeavesACleanTerminal(t *testing.T) {
	ctx, kill := context.WithCancel(t.Context())
	screen := &terminal{keys: make(chan string, 1)}
	defer close(screen.keys)
	killing := killer{broken{}, kill}
	code, out, _ := play(t, ctx, screen, killing, nil)
	if code != app.ExitInterrupted || !left(out) {
		t.Errorf("exit %d, output ends with %q", code, tail(out))
	}
}

// killer cancels the dashboard's context when it is first read.
type killer struct {
	broken
	kill context.CancelFunc
}

func (k killer) Status(ctx context.Context) (registry.Status, error) {
	k.kill()
	<-ctx.Done()
	return registry.Status{}, ctx.Err()
}

// TestLive_G40_APanicLeavesACleanTerminal: a defect ends it with an error that names
// it, and the terminal as it was.
func TestLive_G40_APanicLeavesACleanTerminal(t *testing.T) {
	screen := &terminal{keys: make(chan string, 1)}
	defer close(screen.keys)
	code, out, errs := play(t, t.Context(), screen, broken{panics: true}, nil)
	if code != 1 || !left(out) || !strings.Contains(errs, "error[dash.panic]") {
		t.Errorf("exit %d, stderr %q, output ends with %q", code, errs, tail(out))
	}
}

func tail(s string) string { return s[max(len(s)-120, 0):] }

// TestLinear_G37_SaysChangesUntilInterrupted: the state first, then each change.
func TestLinear_G37_SaysChangesUntilInterrupted(t *testing.T) {
	h := populated(t)
	ctx, stop := context.WithCancel(t.Context())
	h.Env["ACCESSIBLE"] = "1"
	var errs bytes.Buffer
	out := &listener{stop: stop}
	out.then = func() {
		_, err := h.Registry.Intend(context.Background(), registry.Intent{Replica: apptest.Replica("crepl_acme_a"), Want: fleet.IntentDrain, Actor: "t", Reason: "t"})
		if err != nil {
			t.Error(err)
		}
	}
	a := h.App(new(bytes.Buffer), &errs)
	a.IO.Out = out
	code := a.Run(ctx, root(a), []string{"dash", "--interval", "200ms"})
	if code != app.ExitInterrupted || !strings.Contains(out.String(), "revision 1: 3 of 3 replicas ready") ||
		!strings.Contains(out.String(), "replica crepl_acme_a is ready, to be drained, was ready\n") {
		t.Errorf("exit %d\n%s%s", code, out.String(), errs.String())
	}
}

// listener changes the fleet after the first line, and stops after the second.
type listener struct {
	bytes.Buffer
	then func()
	stop context.CancelFunc
}

func (l *listener) Write(p []byte) (int, error) {
	n, err := l.Buffer.Write(p)
	if l.then != nil {
		l.then()
		l.then = nil
	} else {
		l.stop()
	}
	return n, err
}

// TestClipboard_G18_IsEncodedAndBounded: what is copied cannot write to the terminal
// itself, and too much is refused.
func TestClipboard_G18_IsEncodedAndBounded(t *testing.T) {
	var b bytes.Buffer
	w, put := shared(&b)
	if err := put("crepl_x\x1b[2J"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "frame"); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "\x1b]52;c;Y3JlcGxfeBtbMko=\x07frame"; got != want {
		t.Errorf("written %q, want %q", got, want)
	}
	if err := put(strings.Repeat("x", maxCopied+1)); err == nil {
		t.Error("more than a terminal takes is not refused")
	}
	w, put = shared(failing{})
	if _, err := w.Write([]byte("x")); err == nil || put("x") == nil {
		t.Error("a writer that fails is not noticed")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }
