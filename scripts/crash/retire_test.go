package crash_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/scripts/crash"
)

// ownRig starts a fleet for one test alone: what the test does to it cannot be undone.
func ownRig(t *testing.T) *crash.Rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "aipfleet-crash-own-")
	must(t, err)
	must(t, os.Chmod(dir, 0o755)) // the database server may run as another account
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	own, err := crash.Up(ctx, dir, programs)
	t.Cleanup(func() {
		stopping, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if own != nil {
			if err := own.Down(stopping); err != nil {
				t.Error(err)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	must(t, err)
	return own
}

// TestRetire_G38_ARetiredReplicaLeavesNoUnknownForgotten: a host dies after effects whose
// answers never came, and is gone for ever. Its replica is retired: every doubt is the
// operator's, nobody is asked, each is decided on evidence, and what did not happen ends as
// failed, for it can never move.
func TestRetire_G38_ARetiredReplicaLeavesNoUnknownForgotten(t *testing.T) {
	shared := rig
	rig = ownRig(t)
	t.Cleanup(func() { rig = shared })
	host := rig.Daemons[only]
	must(t, host.Arm(crashpoint.CallStarted, "kill"))
	never := order(t, crash.First, globex, "never done")
	until(t, "the host dies", func(context.Context) (bool, error) { return host.Struck() && !host.Alive(), nil })
	must(t, host.Launch())
	must(t, host.AwaitReady(20*time.Second))
	must(t, host.Arm(crashpoint.ProviderEffect, "kill"))
	done := order(t, crash.First, globex, "done and never answered")
	until(t, "the host dies again", func(context.Context) (bool, error) { return host.Struck() && !host.Alive(), nil })
	struck(t, "host gone for ever", host.Killed())

	retire := []string{"retire", "replica", only, "--reason", "the machine is gone", "--yes", "--confirm", only, "-o", "json"}
	result, err := rig.Fleet.Aipctl(bounded(t), retire...)
	must(t, err)
	if result.Failed(5) != nil {
		t.Errorf("retired while its lease lives: %v", result.Failed(5))
	}
	becomes(t, never, action.Uncertain)
	until(t, "nothing is reserved on it", func(context.Context) (bool, error) {
		live := replica(t).Live
		return live.Status == fleet.ReplicaOffline && live.Active == 0, nil
	})
	result, err = rig.Fleet.Aipctl(bounded(t), retire...)
	must(t, err)
	must(t, result.Failed(0))
	if live := replica(t).Live; live.Status != fleet.ReplicaRetired {
		t.Fatalf("the replica is %s", live.Status)
	}

	time.Sleep(questionTime) // a question that was on its way is answered, or given up
	waiting := questions(t, fleet.ReconcileOperator)
	if open := questions(t, fleet.ReconcileOpen); len(open) > 0 {
		t.Errorf("%d questions are left for a host that is gone", len(open))
	}
	asked := map[fleet.ActionID]uint32{}
	for _, u := range waiting {
		asked[u.Action] = u.ProbeCount
	}
	if _, known := asked[never.ID()]; !known {
		t.Fatalf("the doubt about %s is forgotten: %+v", never.ID(), waiting)
	}
	must(t, host.Launch()) // somebody starts the machine again
	until(t, "the host is refused", func(context.Context) (bool, error) { return logged(host, "lease.retired") })
	time.Sleep(3 * time.Second) // several rounds of the reconciler
	for _, u := range questions(t, fleet.ReconcileOperator) {
		if u.ProbeCount != asked[u.Action] {
			t.Errorf("%s was asked about after the retirement: %+v", u.Action, u.Probes)
		}
		outcome := "did-not-happen"
		if u.Action == done.ID() {
			outcome = "happened"
		}
		resolve(t, u.Action, outcome)
	}
	v := becomes(t, never, action.Failed)
	if !bytes.Contains(v.Result, []byte(registry.CodeRouteLost)) {
		t.Errorf("it failed with %s", v.Result)
	}
	if v, err := rig.Submit(bounded(t), crash.Second, never); err != nil || v.State != action.Failed {
		t.Errorf("submitted again: %s, %v", v.State, err)
	}
	becomes(t, done, action.Completed)
	if calls, err := rig.Calls(never); err != nil || calls != 0 {
		t.Errorf("%d calls of what never happened, %v", calls, err)
	}
	if calls, err := rig.Calls(done); err != nil || calls != 1 {
		t.Errorf("%d calls of what happened, %v", calls, err)
	}
	must(t, rig.AwaitQuiet(bounded(t)))
	snapshot, err := rig.Registry.Snapshot(bounded(t))
	must(t, err)
	for _, v := range registry.Audit(snapshot) {
		t.Errorf("audit: %s broken by %s: %s", v.Guarantee, v.Subject, v.What)
	}
}

// questionTime is longer than an aipd asks a host that is not there.
const questionTime = 4 * time.Second

func questions(t *testing.T, state fleet.ReconciliationState) []fleet.Reconciliation {
	t.Helper()
	all, err := rig.Registry.List(bounded(t), registry.Selection{Noun: registry.Reconciliations, State: string(state)})
	must(t, err)
	return all.Reconciliations
}

func logged(d *crash.Daemon, text string) (bool, error) {
	log, err := os.ReadFile(d.LogPath())
	return bytes.Contains(log, []byte(text)), err
}

func resolve(t *testing.T, id fleet.ActionID, outcome string) {
	t.Helper()
	evidence := filepath.Join(t.TempDir(), "evidence.txt")
	must(t, os.WriteFile(evidence, []byte("the desk was asked about "+id.String()+"\n"), 0o644))
	result, err := rig.Fleet.Aipctl(bounded(t), "reconcile", "resolve", id.String(), "--outcome", outcome, "--evidence", evidence,
		"--reason", "the desk was asked", "--yes")
	must(t, err)
	must(t, result.Failed(0))
}
