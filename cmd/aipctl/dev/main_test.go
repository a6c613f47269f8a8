package dev_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/client"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// live is the one fleet of real processes that the tests of this package share. They
// run one after the other, and each leaves it as it found it.
var live *localfleet.Fleet

// bin is where the programs were built for these tests.
var bin string

// TestMain builds the programs, starts the fleet, and stops it whatever happens.
func TestMain(m *testing.M) {
	code, err := withFleet(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the fleet of the tests:", err)
		code = 1
	}
	os.Exit(code)
}

func withFleet(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "aipfleet-dev-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bin = filepath.Join(dir, "bin")
	if err := build(bin); err != nil {
		return 1, err
	}
	programs, err := localfleet.FindPrograms(filepath.Join(bin, "aipctl"))
	if err != nil {
		return 1, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	live, err = localfleet.Up(ctx, localfleet.Options{
		Dir: filepath.Join(dir, "fleet"), Programs: programs, LeaseTTL: 5 * time.Second, Brisk: true, Now: time.Now,
	})
	if live != nil {
		defer func() {
			stopping, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			err = errors.Join(err, live.Purge(stopping))
		}()
	}
	if err != nil {
		return 1, err
	}
	return run(), nil
}

func build(into string) error {
	for _, packages := range [][]string{
		{"-o", into + "/", "./cmd/aipctl", "./cmd/aipd", "./cmd/aiphost"},
		{"-o", filepath.Join(into, "ticketdesk"), "./examples/ticketdesk/server"},
	} {
		cmd := exec.Command("go", append([]string{"build", "-buildvcs=false"}, packages...)...)
		cmd.Dir = filepath.Join("..", "..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	return nil
}

// limit bounds every wait of the tests.
const limit = 30 * time.Second

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// aipctl runs the real program against the fleet.
func aipctl(t *testing.T, args ...string) localfleet.Result {
	t.Helper()
	r, err := live.Aipctl(bounded(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// exits is aipctl with an expected exit code.
func exits(t *testing.T, want int, args ...string) localfleet.Result {
	t.Helper()
	r := aipctl(t, args...)
	if r.Exit != want {
		t.Fatalf("%s: exit code %d, want %d\nstdout: %s\nstderr: %s", r.Line(), r.Exit, want, r.Stdout, r.Stderr)
	}
	return r
}

func agent(t *testing.T, tenant string) *client.Client {
	t.Helper()
	c, err := live.Client(tenant)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// until looks until it finds.
func until(t *testing.T, what string, look func(ctx context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		found, err := look(ctx)
		if found {
			return
		}
		if app.Pause(ctx, 30*time.Millisecond) != nil {
			t.Fatalf("waited %s in vain: %s (%v)", limit, what, err)
		}
	}
}

// ticket is a request to open one.
func ticket(t *testing.T, title string) action.Request {
	t.Helper()
	return call(t, desk.OpenTicketTool, map[string]any{"title": title})
}

func call(t *testing.T, tool string, input map[string]any) action.Request {
	t.Helper()
	capability, err := fleet.ParseCapabilityID(localfleet.Connector + ":" + tool)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	return action.Request{ID: fleet.NewActionID(time.Now()), Capability: capability, Input: data, TimeoutMS: uint64(limit.Milliseconds())}
}

func submit(t *testing.T, tenant string, r action.Request, wait time.Duration) action.View {
	t.Helper()
	v, err := agent(t, tenant).Submit(bounded(t), r, wait)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// becomes waits until an action is in a state.
func becomes(t *testing.T, tenant string, id fleet.ActionID, want action.State) action.View {
	t.Helper()
	var v action.View
	until(t, "action "+id.String()+" becomes "+string(want), func(ctx context.Context) (bool, error) {
		got, err := agent(t, tenant).Get(ctx, id, 0)
		if err == nil && got.State.Final() && got.State != want {
			t.Fatalf("action %s is %s, want %s: %s", id, got.State, want, got.Result)
		}
		v = got
		return err == nil && got.State == want, err
	})
	return v
}

// effects counts what the provider's own store has of an action.
func effects(t *testing.T, tenant string, id fleet.ActionID) int {
	t.Helper()
	all, err := desk.ReadEffects(live.Place().Account(tenant))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range all {
		if e.ActionID == id.String() {
			n++
		}
	}
	return n
}

// held submits a ticket whose call stalls at a point, and waits until it does. The
// stall ends when the test ends, or earlier with release.
func held(t *testing.T, tenant, at string) (r action.Request, replica string, release func()) {
	t.Helper()
	store := live.Place().Account(tenant)
	r = ticket(t, t.Name())
	rule := desk.Rule{ID: r.ID.String(), Tool: desk.OpenTicketTool, TitlePrefix: t.Name(), At: at, Action: desk.ActionStall, StallMS: 60_000}
	if err := desk.WriteFaults(store, desk.Faults{Rules: []desk.Rule{rule}}); err != nil {
		t.Fatal(err)
	}
	release = func() {
		if err := desk.Release(store); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		release()
		if err := errors.Join(desk.WriteFaults(store, desk.Faults{}), desk.HoldAgain(store)); err != nil {
			t.Error(err)
		}
	})
	submit(t, tenant, r, 0)
	until(t, "the provider holds the call", func(context.Context) (bool, error) {
		fired, err := desk.ReadFired(store)
		for _, f := range fired {
			if f.Rule == r.ID.String() {
				return true, nil
			}
		}
		return false, err
	})
	route, err := agent(t, tenant).Route(bounded(t), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	return r, route.Route.Replica.String(), release
}

// kill ends a process as a crash would; it is started again when the test ends.
func kill(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() { start(t, name) })
	if err := live.Kill(bounded(t), name); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := live.Start(ctx, name); err != nil {
		t.Fatal(err)
	}
}

// ready waits until the registry says that a replica takes work.
func ready(t *testing.T, replica string) {
	t.Helper()
	exits(t, 0, "wait", "replica", replica, "--for", "status=ready && healthy=true", "--timeout", limit.String())
}
