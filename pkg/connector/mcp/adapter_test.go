package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/connector/mcp"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// serverPath is the ticket desk's server, built once for all tests.
var serverPath string //nolint:gochecknoglobals // made by TestMain

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) != "" {
		serveOverStdio()
		return
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ticketdesk")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	serverPath = filepath.Join(dir, "ticketdesk")
	build := exec.Command("go", "build", "-o", serverPath, "github.com/aipfleet/aipfleet/examples/ticketdesk/server")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func capability(tool string) fleet.CapabilityID {
	id, err := fleet.ParseCapabilityID("ticketdesk:" + tool)
	if err != nil {
		panic(err)
	}
	return id
}

// manifest is the release's, as far as the tests use it; the schemas come from the
// server itself.
func manifest(t *testing.T) fleet.Manifest {
	t.Helper()
	bare := mcp.New(mcp.Config{Program: program(t.TempDir()), Log: slog.New(slog.DiscardHandler), Now: time.Now})
	bare.Start()
	defer bare.Close()
	healthy(t, bare)
	offers, err := bare.Discover(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	m := fleet.Manifest{AIPVersion: "1.0", Name: "ticketdesk", Version: "1"}
	for _, o := range offers {
		m.Capabilities = append(m.Capabilities, fleet.CapabilityDefinition{ID: capability(o.Tool), InputSchema: o.InputSchema})
		m.Implementations = append(m.Implementations, fleet.Implementation{
			Capability: capability(o.Tool), Adapter: "mcp", Tool: o.Tool, ReconcileTool: "find_operation",
		})
	}
	return m
}

func program(dir string) func(context.Context) (mcp.Program, error) {
	return func(context.Context) (mcp.Program, error) { return mcp.Program{Path: serverPath, Dir: dir}, nil }
}

type rig struct {
	*mcp.Adapter
	store string
}

func newRig(t *testing.T) rig {
	t.Helper()
	r := rig{store: t.TempDir()}
	r.Adapter = mcp.New(mcp.Config{
		Program: program(r.store), Manifest: manifest(t), Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Env: []string{"TICKETDESK_DIR=" + r.store, "TICKETDESK_ACCOUNT=acme"},
		Secrets: func(context.Context) (map[string]connector.Secret, error) {
			return map[string]connector.Secret{"TICKETDESK_TOKEN": token("tok-2718281828")}, nil
		},
	})
	r.Start()
	t.Cleanup(r.Close)
	healthy(t, r.Adapter)
	return r
}

type token string

func (t token) Reveal() string { return string(t) }
func (t token) String() string { return "hidden" }

func healthy(t *testing.T, a *mcp.Adapter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := a.AwaitHealthy(ctx); err != nil {
		t.Fatal(err)
	}
}

func (r rig) open(t *testing.T, key, title string, limit time.Duration) connector.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	input, err := json.Marshal(map[string]string{"title": title})
	if err != nil {
		t.Fatal(err)
	}
	result, err := r.Invoke(ctx, connector.Call{
		Action: fleet.NewActionID(time.Now()), Capability: capability("open_ticket"), Input: input, IdempotencyKey: key,
	})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func (r rig) find(t *testing.T, key string) connector.Finding {
	t.Helper()
	// A child that has just ended is noticed a moment later.
	for deadline := time.Now().Add(30 * time.Second); ; {
		healthy(t, r.Adapter)
		found, err := r.Reconcile(context.Background(), connector.Query{Capability: capability("open_ticket"), IdempotencyKey: key})
		if err == nil {
			return found
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func (r rig) fault(t *testing.T, rule desk.Rule) {
	t.Helper()
	rule.ID = "r-" + rule.At + rule.Action
	if err := desk.WriteFaults(r.store, desk.Faults{Rules: []desk.Rule{rule}}); err != nil {
		t.Fatal(err)
	}
}

func (r rig) effects(t *testing.T) int {
	t.Helper()
	all, err := desk.ReadEffects(r.store)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestInvoke_G25_TheSameKeyIsOneEffect(t *testing.T) {
	r := newRig(t)
	first, again := r.open(t, "k1", "<b>&</b>", time.Minute), r.open(t, "k1", "<b>&</b>", time.Minute)
	if first.Class != connector.Succeeded || !bytes.Equal(first.Output, again.Output) {
		t.Fatalf("%+v\n%+v", first, again)
	}
	if found := r.find(t, "k1"); !found.Found || !sameJSON(t, found.Result.Output, first.Output) {
		t.Errorf("found %s, was %s", found.Result.Output, first.Output)
	}
	if n := r.effects(t); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}

func TestInvoke_G26_ClassesFollowWhatIsProved(t *testing.T) {
	for _, c := range []struct {
		name    string
		rule    desk.Rule
		limit   time.Duration
		want    connector.Class
		effects int
	}{
		{"refused by the tool", desk.Rule{At: desk.BeforeEffect, Action: desk.ActionError}, time.Minute, connector.Failed, 0},
		{"internal error after the effect", desk.Rule{At: desk.AfterEffect, Action: desk.ActionError}, time.Minute, connector.Unknown, 1},
		{"crash before the effect", desk.Rule{At: desk.BeforeEffect, Action: desk.ActionCrash}, time.Minute, connector.Unknown, 0},
		{"crash after the effect", desk.Rule{At: desk.AfterEffect, Action: desk.ActionCrash}, time.Minute, connector.Unknown, 1},
		{"stall past the deadline", desk.Rule{At: desk.AfterEffect, Action: desk.ActionStall}, 2 * time.Second, connector.Unknown, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.fault(t, c.rule)
			got := r.open(t, "k", "x", c.limit)
			if got.Class != c.want {
				t.Fatalf("got %+v, want %s", got, c.want)
			}
			if found := r.find(t, "k"); found.Found != (c.effects == 1) {
				t.Errorf("found: %+v", found)
			}
			if n := r.effects(t); n != c.effects {
				t.Errorf("%d effects, want %d", n, c.effects)
			}
			if strings.HasPrefix(c.name, "crash") && r.Starts() < 2 {
				t.Error("the crashed child was not started again")
			}
		})
	}
}

func TestInvoke_G41_NotStartedOnlyWithProof(t *testing.T) {
	r := newRig(t)
	late, cancel := context.WithCancel(context.Background())
	cancel()
	got, err := r.Invoke(late, connector.Call{Capability: capability("open_ticket"), Input: json.RawMessage(`{"title":"x"}`)})
	if err != nil || got.Class != connector.NotStarted {
		t.Errorf("after its deadline: %+v %v", got, err)
	}
	got, err = r.Invoke(context.Background(), connector.Call{Capability: capability("no_such"), Input: json.RawMessage(`{}`)})
	if err != nil || got.Class != connector.NotStarted {
		t.Errorf("without a tool: %+v %v", got, err)
	}
	r.Close()
	if got := r.open(t, "k", "x", time.Minute); got.Class != connector.NotStarted {
		t.Errorf("after Close: %+v", got)
	}
	if n := r.effects(t); n != 0 {
		t.Errorf("%d effects", n)
	}
}

func TestHealth_G34_NamesTheToolThatDiffers(t *testing.T) {
	m := manifest(t)
	for i, c := range m.Capabilities {
		if c.ID == capability("close_ticket") {
			m.Capabilities[i].InputSchema = json.RawMessage(`{"type":"object"}`)
		}
	}
	for name, m := range map[string]fleet.Manifest{"close_ticket": m, "reopen_ticket": withTool(manifest(t), "reopen_ticket")} {
		a := mcp.New(mcp.Config{Program: program(t.TempDir()), Manifest: m, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		a.Start()
		err := awaitCode(a, mcp.CodeManifest)
		got, _ := a.Invoke(context.Background(), connector.Call{Capability: capability("open_ticket"), Input: json.RawMessage(`{"title":"x"}`)})
		a.Close()
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want a refusal that names %s, got %v", name, err)
		}
		if got.Class != connector.NotStarted {
			t.Errorf("a connector that differs was called: %+v", got)
		}
	}
}

func withTool(m fleet.Manifest, tool string) fleet.Manifest {
	m.Implementations = append(m.Implementations, fleet.Implementation{Capability: capability(tool), Adapter: "mcp", Tool: tool})
	return m
}

// awaitCode waits until Health says the code, for at most half a minute.
func awaitCode(a *mcp.Adapter, code string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if err := a.Health(ctx); fleet.CodeOf(err) == code {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

func TestStart_G28_NothingRunsWithoutItsProof(t *testing.T) {
	refused := fleet.Errorf(fleet.NotAdmitted, "artifact.digest", "the artifact is not the admitted one")
	a := mcp.New(mcp.Config{
		Program: func(context.Context) (mcp.Program, error) { return mcp.Program{Path: serverPath}, refused },
		Log:     slog.New(slog.DiscardHandler), Now: time.Now,
	})
	a.Start()
	defer a.Close()
	if err := awaitCode(a, "artifact.digest"); err == nil {
		t.Error("health does not say why nothing runs")
	}
	if a.Starts() != 0 {
		t.Error("the program was started")
	}
}

// TestEnvironment_G21_GivenAndNothingElse runs a child that prints its environment
// to its log.
func TestEnvironment_G21_GivenAndNothingElse(t *testing.T) {
	t.Setenv("HOST_ONLY", "leak-161803")
	var mu sync.Mutex
	var said bytes.Buffer
	a := mcp.New(mcp.Config{
		Program: func(context.Context) (mcp.Program, error) {
			return mcp.Program{Path: "/bin/sh", Args: []string{"-c", "/usr/bin/env >&2; echo end >&2"}, Dir: t.TempDir()}, nil
		},
		Env: []string{"GIVEN=yes"}, Log: slog.New(slog.NewTextHandler(locked{&mu, &said}, nil)), Now: time.Now, Stderr: locked{&mu, &said},
		Secrets: func(context.Context) (map[string]connector.Secret, error) {
			return map[string]connector.Secret{"TOKEN": token("tok-2718281828")}, nil
		},
	})
	a.Start()
	deadline := time.Now().Add(30 * time.Second)
	text := func() string { mu.Lock(); defer mu.Unlock(); return said.String() }
	for !strings.Contains(text(), "end\n") && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	a.Close()
	got := text()
	if !strings.Contains(got, "GIVEN=yes") || !strings.Contains(got, "TOKEN=[redacted]") {
		t.Errorf("the child did not get what it was given:\n%s", got)
	}
	if strings.Contains(got, "tok-2718281828") || strings.Contains(got, "leak-161803") {
		t.Errorf("a value that must not be seen was seen:\n%s", got)
	}
}

type locked struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
