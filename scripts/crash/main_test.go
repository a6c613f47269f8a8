package crash_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/scripts/crash"
)

const (
	acme   = localfleet.Acme
	globex = localfleet.Globex
	only   = "crepl_globex_desk_a" // the one host of globex; a proxy stands before it
)

// rig is the one fleet that the tests share. They run one after the other; each leaves
// it whole and quiet.
var rig *crash.Rig

// programs is where the programs with crash points are.
var programs string

// score is what the tests did and found.
var score tally

type tally struct {
	mu         sync.Mutex
	faults     map[string]int
	points     map[crashpoint.Name]int
	violations int
	duplicates int
	lost       int
}

func TestMain(m *testing.M) {
	score.faults, score.points = map[string]int{}, map[crashpoint.Name]int{}
	code, err := withRig(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the fleet of the tests:", err)
		code = 1
	}
	os.Exit(max(code, score.print()))
}

// print sums up in one line, and fails a run that injected nothing.
func (s *tally) print() int {
	total := 0
	for _, kind := range sorted(s.faults) {
		fmt.Printf("%6d  %s\n", s.faults[kind], kind)
		total += s.faults[kind]
	}
	fmt.Printf("crash: faults=%d points=%d violations=%d duplicates=%d lost=%d\n", total, len(s.points), s.violations, s.duplicates, s.lost)
	if total == 0 || s.violations+s.duplicates+s.lost > 0 {
		return 1
	}
	return 0
}

func sorted(counts map[string]int) []string {
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func withRig(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "aipfleet-crash-")
	if err != nil {
		return 1, err
	}
	keep := false
	defer func() {
		if !keep {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil { // the database server may run as another account
		return 1, err
	}
	bin := filepath.Join(dir, "bin")
	if err := build(bin); err != nil {
		return 1, err
	}
	programs = bin
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	rig, err = crash.Up(ctx, dir, bin)
	if rig != nil {
		defer func() {
			stopping, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			err = errors.Join(err, rig.Down(stopping))
		}()
	}
	if err != nil {
		return 1, err
	}
	defer onInterrupt(dir)()
	code = run()
	keep = code != 0 && os.Getenv("CRASH_KEEP") != ""
	if keep {
		fmt.Println("kept:", dir)
	}
	return code, nil
}

// onInterrupt takes the fleet down when the run is broken off: its processes would
// outlive it. The returned function ends the watch.
func onInterrupt(dir string) (end func()) {
	signals, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-over:
		case <-signals:
			stopping, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			err := errors.Join(rig.Down(stopping), os.RemoveAll(dir))
			fmt.Fprintln(os.Stderr, "crash: broken off", err)
			os.Exit(130)
		}
	}()
	return func() { signal.Stop(signals); close(over) }
}

// build makes the programs with the seams that tests need.
func build(into string) error {
	for _, packages := range [][]string{
		{"-o", into + "/", "./cmd/aipctl", "./cmd/aipd", "./cmd/aiphost"},
		{"-o", filepath.Join(into, "ticketdesk"), "./examples/ticketdesk/server"},
	} {
		cmd := exec.Command("go", append([]string{"build", "-buildvcs=false", "-tags", "crashpoints"}, packages...)...)
		cmd.Dir = filepath.Join("..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	return nil
}

// rounds is how often each fault is injected: once in a quick run.
func rounds() int {
	if quick() {
		return 1
	}
	return 3
}

// bounded is the time that one test may take.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// struck counts an injected fault, which must have happened.
func struck(t *testing.T, kind string, happened bool) {
	t.Helper()
	if !happened {
		t.Errorf("the fault was not injected: %s", kind)
		return
	}
	score.mu.Lock()
	defer score.mu.Unlock()
	score.faults[kind]++
	if _, point, at := strings.Cut(kind, " at "); at && slices.Contains(crashpoint.Names(), crashpoint.Name(point)) {
		score.points[crashpoint.Name(point)]++
	}
}

// quick reports whether one of each kind is enough.
func quick() bool { return os.Getenv("CRASH_FULL") == "" }

// settle heals the fleet, ends the orders and reports every broken promise.
func settle(t *testing.T, orders []*crash.Order) {
	t.Helper()
	f := rig.Settle(bounded(t), orders)
	for _, lines := range [][]string{f.Violations, f.Duplicates, f.Lost} {
		for _, line := range lines {
			t.Error(line)
		}
	}
	score.mu.Lock()
	defer score.mu.Unlock()
	score.violations += len(f.Violations)
	score.duplicates += len(f.Duplicates)
	score.lost += len(f.Lost)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// order makes and places one order at an aipd.
func order(t *testing.T, aipd, tenant, title string) *crash.Order {
	t.Helper()
	o, err := crash.NewOrder(tenant, title)
	must(t, err)
	_, err = rig.Submit(bounded(t), aipd, o)
	must(t, err)
	return o
}

// until looks until it finds.
func until(t *testing.T, what string, look func(ctx context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	for {
		found, err := look(ctx)
		if found {
			return
		}
		select {
		case <-time.After(30 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("it never happened: %s (%v)", what, err)
		}
	}
}

// load works in the background until it is stopped, and gives every order that it made.
func load(t *testing.T, tenants ...string) (stop func() []*crash.Order) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var all []*crash.Order
	var clients sync.WaitGroup
	for i, tenant := range tenants {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				o, err := crash.NewOrder(tenant, fmt.Sprintf("load %d of %d", n, i))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				all = append(all, o)
				mu.Unlock()
				_ = rig.Place(ctx, o) // settle places it again
				select {
				case <-time.After(25 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	stop = sync.OnceValue(func() []*crash.Order {
		cancel()
		clients.Wait()
		return all
	})
	t.Cleanup(func() { stop() }) // a test that fails must not load the others
	return stop
}
