package crash_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/scripts/crash"
)

// TestProcess_G39_KilledUnderLoad kills each daemon in the middle of work.
func TestProcess_G39_KilledUnderLoad(t *testing.T) {
	names := append([]string{crash.First, crash.Second, crash.Lifecycle}, append(rig.Hosts(acme), only)...)
	if quick() { // one of each kind: of the hosts the one that others can stand in for, and the one that is alone
		names = []string{crash.First, crash.Lifecycle, rig.Hosts(acme)[0], only}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			for range rounds() {
				stop := load(t, acme, globex)
				time.Sleep(250 * time.Millisecond)
				must(t, rig.Daemons[name].Kill())
				struck(t, "SIGKILL under load", rig.Daemons[name].Killed())
				time.Sleep(250 * time.Millisecond)
				settle(t, stop())
			}
		})
	}
}

// TestProcess_G24_AStaleHostExecutesNothingAndSaysWhy stops a host for two lease times
// and lets it go on: what reaches it then finds a lease that is over.
func TestProcess_G24_AStaleHostExecutesNothingAndSaysWhy(t *testing.T) {
	host, network := rig.Daemons[only], rig.Network[only]
	network.Catch("aip.") // status queries as well: nothing of the action has reached the host
	o := order(t, crash.First, globex, "for a stale host")
	becomes(t, o, action.Uncertain)
	network.Catch("")
	network.Blackhole(true)
	must(t, rig.Daemons[crash.Lifecycle].Signal(syscall.SIGSTOP)) // it cannot get a new lease either
	defer func() { _ = rig.Daemons[crash.Lifecycle].Signal(syscall.SIGCONT) }()
	must(t, host.Signal(syscall.SIGSTOP))
	time.Sleep(2 * crash.LeaseTTL)
	must(t, host.Signal(syscall.SIGCONT))
	struck(t, "SIGSTOP of a host for two lease times", host.Alive())
	refused := replayed(t, network, o)
	t.Logf("the stale host says: %s", refused[max(0, strings.Index(refused, "{")):])
	if !strings.Contains(refused, "host.not_ready") && !strings.Contains(refused, "host.fence_lost") {
		t.Errorf("the stale host says %s", refused)
	}
	if calls, err := rig.Calls(o); err != nil || calls != 0 {
		t.Errorf("the stale host called the provider %d times, %v", calls, err)
	}
	must(t, rig.Daemons[crash.Lifecycle].Signal(syscall.SIGCONT))
	settle(t, []*crash.Order{o})
}

// TestProcess_G39_StoppedAndContinued stops daemons for longer than anybody waits for
// them, under work.
func TestProcess_G39_StoppedAndContinued(t *testing.T) {
	pauses := map[string]time.Duration{
		crash.First: 2 * crash.OwnerLease, crash.Lifecycle: crash.LeaseTTL, rig.Hosts(acme)[0]: 2 * crash.LeaseTTL,
	}
	if quick() {
		delete(pauses, crash.Lifecycle) // the stale host's test stops it as well
	}
	for name, pause := range pauses {
		t.Run(name, func(t *testing.T) {
			stop := load(t, acme)
			time.Sleep(200 * time.Millisecond)
			d := rig.Daemons[name]
			must(t, d.Signal(syscall.SIGSTOP))
			time.Sleep(pause)
			must(t, d.Signal(syscall.SIGCONT))
			struck(t, "SIGSTOP and SIGCONT", d.Alive())
			settle(t, stop())
		})
	}
}

// TestProcess_G25_StoppedAtAPoint stops a host exactly between two steps, lets central
// give it up, and lets it go on.
func TestProcess_G25_StoppedAtAPoint(t *testing.T) {
	points := []crashpoint.Name{crashpoint.CallStarted, crashpoint.IntentPersisted, crashpoint.ProviderEffect, crashpoint.BeforeAck}
	if quick() {
		points = points[:1]
	}
	for _, point := range points {
		t.Run(string(point), func(t *testing.T) {
			host := rig.Daemons[only]
			must(t, host.Arm(point, "stop"))
			o := order(t, crash.First, globex, "stopped at "+string(point))
			until(t, "the host stops at "+string(point), func(context.Context) (bool, error) { return host.Struck(), nil })
			time.Sleep(2 * crash.LeaseTTL)
			must(t, host.Signal(syscall.SIGCONT))
			struck(t, "SIGSTOP at "+string(point), host.Alive())
			settle(t, []*crash.Order{o})
		})
	}
}

// TestProcess_G26_TheDiskFails: a host whose journal cannot be written stops itself; what
// it had begun is found again.
func TestProcess_G26_TheDiskFails(t *testing.T) {
	for _, how := range []string{"full", "sync"} {
		t.Run(how, func(t *testing.T) {
			host := rig.Daemons[only]
			must(t, host.BreakDisk(how))
			o := order(t, crash.First, globex, "disk "+how)
			until(t, "the host stops itself", func(context.Context) (bool, error) { return host.DiskBroke() && !host.Alive(), nil })
			struck(t, "disk: "+how, !host.Killed())
			if log := host.LogTail(30); !strings.Contains(log, "journal.failed") {
				t.Errorf("the host does not say why it stopped:\n%s", log)
			}
			settle(t, []*crash.Order{o})
		})
	}
}

// TestProcess_G24_ClocksStep turns clocks by ten minutes, each way, under work.
func TestProcess_G24_ClocksStep(t *testing.T) {
	steps := []time.Duration{10 * time.Minute, -10 * time.Minute}
	for i, name := range []string{only, crash.First, crash.Lifecycle} {
		for n, by := range steps {
			if quick() && n != i%2 {
				continue
			}
			t.Run(name+"_"+by.String(), func(t *testing.T) {
				d := rig.Daemons[name]
				stop := load(t, globex)
				time.Sleep(200 * time.Millisecond)
				must(t, d.StepClock(by))
				time.Sleep(1500 * time.Millisecond)
				struck(t, "clock stepped by ten minutes", d.Alive())
				must(t, d.StepClock(0))
				settle(t, stop())
			})
		}
	}
}

// TestProcess_G26_TheConnectorDies before and after its effect; the host goes on.
func TestProcess_G26_TheConnectorDies(t *testing.T) {
	for _, at := range []string{desk.BeforeEffect, desk.AfterEffect} {
		t.Run(at, func(t *testing.T) {
			account := rig.Fleet.Place().Account(globex)
			title := "the connector dies " + at
			must(t, desk.WriteFaults(account, desk.Faults{Rules: []desk.Rule{{ID: title, TitlePrefix: title, At: at, Action: desk.ActionCrash}}}))
			o := order(t, crash.First, globex, title)
			until(t, "the rule fires", func(context.Context) (bool, error) {
				fired, err := desk.ReadFired(account)
				for _, f := range fired {
					if f.Rule == title {
						return true, err
					}
				}
				return false, err
			})
			struck(t, "connector killed "+at, rig.Daemons[only].Alive())
			settle(t, []*crash.Order{o})
			must(t, desk.WriteFaults(account, desk.Faults{}))
		})
	}
}

// TestProcess_G25_AJournalIsWiped after an effect whose answer never came: the host that
// comes back knows nothing of it and is refused, by a code that names the way out. An
// operator accepts its journal; it does nothing of what may have been done, and the doubt
// stays accounted for.
func TestProcess_G25_AJournalIsWipedAfterAnUnknown(t *testing.T) {
	host := rig.Daemons[only]
	must(t, host.Arm(crashpoint.ProviderEffect, "kill"))
	o := order(t, crash.First, globex, "and the journal is gone")
	until(t, "the host dies", func(context.Context) (bool, error) { return host.Struck() && !host.Alive(), nil })
	must(t, os.Remove(filepath.Join(rig.Fleet.Place().HostState(only), "journal.db")))
	struck(t, "journal wiped", true)
	becomes(t, o, action.Uncertain)
	must(t, host.Launch())
	acceptJournal(t, host)
	must(t, host.AwaitReady(20*time.Second))
	must(t, rig.AwaitLeases(bounded(t)))
	route := routeOf(t, o)
	until(t, "the new journal is asked", func(ctx context.Context) (bool, error) {
		rec, err := question(ctx, o)
		return err == nil && rec.ProbeCount > 0 && rec.Probes[len(rec.Probes)-1].Answer == "unknown", err
	})
	if calls, err := rig.Calls(o); err != nil || calls != 1 {
		t.Errorf("%d calls, %v: want the first alone", calls, err)
	}
	happened(t, o)
	settle(t, []*crash.Order{o})
	if after := routeOf(t, o); after.Route.Replica != route.Route.Replica || len(after.Attempts) != len(route.Attempts) {
		t.Errorf("its route moved: %+v", after)
	}
	if calls, err := rig.Calls(o); err != nil || calls != 1 {
		t.Errorf("%d calls in the end, %v", calls, err)
	}
}

// acceptJournal is the operator who sees a host refused for its journal, and lets it in.
func acceptJournal(t *testing.T, host *crash.Daemon) {
	t.Helper()
	until(t, "the host is refused and says why", func(context.Context) (bool, error) {
		log, err := os.ReadFile(host.LogPath())
		return bytes.Contains(log, []byte("lease.journal_changed")) && bytes.Contains(log, []byte("aipctl accept journal "+host.Name)), err
	})
	until(t, "its old lease ends, and the journal is on offer", func(context.Context) (bool, error) {
		live := replica(t).Live
		return live.Status == fleet.ReplicaOffline && !live.OfferedJournal.IsZero(), fmt.Errorf("it is %s and offers %q", live.Status, live.OfferedJournal)
	})
	result, err := rig.Fleet.Aipctl(bounded(t), "accept", "journal", host.Name, "--reason", "the disk died", "--yes", "-o", "json")
	must(t, err)
	must(t, result.Failed(0))
	events, err := rig.Registry.List(bounded(t), registry.Selection{Noun: registry.Events, Limit: 50})
	must(t, err)
	for _, e := range events.Events {
		if e.Kind == registry.EventJournal && e.Subject == host.Name && e.Reason == "the disk died" {
			return
		}
	}
	t.Error("no event says who accepted the journal, and why")
}

// happened is the operator's decision that an effect is there.
func happened(t *testing.T, o *crash.Order) {
	t.Helper()
	if n, err := rig.Effects(o); err != nil || n != 1 {
		t.Fatalf("%d effects, %v: the decision would be wrong", n, err)
	}
	evidence := filepath.Join(t.TempDir(), "evidence.txt")
	must(t, os.WriteFile(evidence, []byte("the desk shows the ticket\n"), 0o644))
	result, err := rig.Fleet.Aipctl(bounded(t), "reconcile", "resolve", o.ID().String(), "--outcome", "happened", "--evidence", evidence,
		"--reason", "the ticket is there", "--yes")
	must(t, err)
	must(t, result.Failed(0))
}

func routeOf(t *testing.T, o *crash.Order) registry.RouteRecord {
	t.Helper()
	c, err := rig.Client(crash.Second, o.Tenant)
	must(t, err)
	route, err := c.Route(bounded(t), o.ID())
	must(t, err)
	return route
}

func question(ctx context.Context, o *crash.Order) (fleet.Reconciliation, error) {
	all, err := rig.Registry.List(ctx, registry.Selection{Noun: registry.Reconciliations, IDs: []string{o.ID().String()}})
	if err != nil {
		return fleet.Reconciliation{}, err
	}
	for _, rec := range all.Reconciliations {
		if rec.Action == o.ID() {
			return rec, nil
		}
	}
	return fleet.Reconciliation{}, fleet.Errorf(fleet.NotFound, "crash.record", "no record")
}

// becomes waits for a state.
func becomes(t *testing.T, o *crash.Order, state action.State) action.View {
	t.Helper()
	var v action.View
	until(t, o.ID().String()+" becomes "+string(state), func(ctx context.Context) (_ bool, err error) {
		v, err = rig.Look(ctx, o)
		return err == nil && v.State == state, err
	})
	return v
}
