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

// TestTakeover_G39_AnotherAipdFinishes what one that was killed had begun: after it
// reserved, after it sent, and before it settled.
func TestTakeover_G39_AnotherAipdFinishes(t *testing.T) {
	for _, point := range []crashpoint.Name{crashpoint.AfterResolve, crashpoint.AfterSend, crashpoint.BeforeSettle} {
		t.Run(string(point), func(t *testing.T) {
			first := rig.Daemons[crash.First]
			must(t, first.Arm(point, "kill"))
			o := order(t, crash.First, globex, "left at "+string(point))
			until(t, "the first aipd dies", func(context.Context) (bool, error) { return first.Struck() && !first.Alive(), nil })
			struck(t, "SIGKILL at "+string(point), first.Killed())
			v := becomes(t, o, action.Completed) // with the first one dead: the second did it
			if first.Alive() {
				t.Error("the first aipd lives")
			}
			if calls, err := rig.Calls(o); err != nil || calls != 1 || v.Runs != 1 {
				t.Errorf("%d calls in %d runs, %v", calls, v.Runs, err)
			}
			settle(t, []*crash.Order{o})
		})
	}
}

// TestCentral_G43_AnyAipdAnswersForAnAction: submitted to one, watched, cancelled and
// read at the other, whatever became of the first.
func TestCentral_G43_AnyAipdAnswersForAnAction(t *testing.T) {
	o := order(t, crash.First, acme, "asked elsewhere")
	other, err := rig.Client(crash.Second, acme)
	must(t, err)
	v, err := other.Get(bounded(t), o.ID(), 20*time.Second)
	must(t, err)
	if v.State != action.Completed {
		t.Fatalf("the second aipd says %s (%+v)", v.State, v.Problem)
	}
	here, err := rig.Client(crash.First, acme)
	must(t, err)
	a, err := here.Result(bounded(t), o.ID())
	must(t, err)
	b, err := other.Result(bounded(t), o.ID())
	must(t, err)
	if !bytes.Equal(a, b) {
		t.Errorf("two results:\n%s\n%s", a, b)
	}
	held := retryable(t, "cancelled elsewhere")
	there, err := rig.Client(crash.Second, globex)
	must(t, err)
	if v, err = there.Cancel(bounded(t), held.ID(), "not wanted"); err != nil || v.State != action.Cancelled {
		t.Errorf("cancel at the second aipd: %s, %v", v.State, err)
	}
	if v, err = there.Submit(bounded(t), held.Request, 0); err != nil || v.State != action.Cancelled {
		t.Errorf("submitted again: %s, %v", v.State, err)
	}
	settle(t, []*crash.Order{o, held})
}

// TestDecision_G25_ARetryAfterDidNotHappen: the host died before the provider was
// called, nobody can tell, the operator decides; the retry has exactly one effect.
func TestDecision_G25_ARetryAfterDidNotHappen(t *testing.T) {
	host := rig.Daemons[only]
	must(t, host.Arm(crashpoint.CallStarted, "kill"))
	o := order(t, crash.First, globex, "did it happen")
	until(t, "the host dies", func(context.Context) (bool, error) { return host.Struck() && !host.Alive(), nil })
	must(t, host.Start())
	becomes(t, o, action.Uncertain)
	until(t, "the host is asked and cannot tell", func(ctx context.Context) (bool, error) {
		rec, err := question(ctx, o)
		return err == nil && rec.ProbeCount > 0 && rec.Probes[len(rec.Probes)-1].Answer == "unknown", err
	})
	again, err := rig.Submit(bounded(t), crash.Second, o)
	if err != nil || again.State != action.Uncertain {
		t.Errorf("submitted again before the decision: %s, %v", again.State, err)
	}
	if calls, err := rig.Calls(o); err != nil || calls != 0 {
		t.Fatalf("%d calls before the decision, %v", calls, err)
	}
	settle(t, []*crash.Order{o}) // decides by the desk's word
	if calls, err := rig.Calls(o); err != nil || calls != 1 {
		t.Errorf("%d calls, %v: want the one of the retry", calls, err)
	}
	rec, err := question(bounded(t), o)
	if err != nil || rec.Resolution != fleet.ResolvedDidNotHappen || len(rec.Decision) == 0 {
		t.Errorf("the record is %s, %v", rec.Resolution, err)
	}
	struck(t, "SIGKILL at call_started", true)
}

// TestRestart_G22_APinnedRetryWorksAtOnce: a host that was killed has its lease again
// long before the old one would have ended, and takes the retry.
func TestRestart_G22_APinnedRetryWorksAtOnce(t *testing.T) {
	o := retryable(t, "pinned to a host that restarts")
	before := replica(t)
	must(t, rig.Daemons[only].Kill())
	must(t, rig.Daemons[only].Start())
	struck(t, "SIGKILL of an idle host", true)
	_, err := rig.Submit(bounded(t), crash.First, o)
	must(t, err)
	becomes(t, o, action.Completed)
	route := routeOf(t, o)
	retry := route.Attempts[len(route.Attempts)-1]
	if !retry.ReservedAt.Before(before.Live.LeaseExpiresAt) {
		t.Errorf("the retry was reserved at %s, the old lease would have ended at %s", retry.ReservedAt, before.Live.LeaseExpiresAt)
	}
	if retry.LeaseEpoch != before.Live.LeaseEpoch+1 || route.Route.Replica.String() != only {
		t.Errorf("the retry is of epoch %d on %s", retry.LeaseEpoch, route.Route.Replica)
	}
	settle(t, []*crash.Order{o})
}

func replica(t *testing.T) registry.ReplicaRecord {
	t.Helper()
	all, err := rig.Registry.List(bounded(t), registry.Selection{Noun: registry.Replicas, IDs: []string{only}})
	must(t, err)
	if len(all.Replicas) != 1 {
		t.Fatalf("%d replicas", len(all.Replicas))
	}
	return all.Replicas[0]
}

// TestDrain_G23_SurvivesTheRestart: a drained replica whose host is killed comes back
// draining, finishes what is pinned to it, and takes nothing new until the operator says.
func TestDrain_G23_SurvivesTheRestart(t *testing.T) {
	pinned := retryable(t, "pinned to a draining host")
	intend(t, fleet.IntentDrain)
	must(t, rig.Daemons[only].Kill())
	must(t, rig.Daemons[only].Start())
	struck(t, "SIGKILL of a draining host", true)
	until(t, "it comes back draining", func(context.Context) (bool, error) {
		return replica(t).Live.Status == fleet.ReplicaDraining, nil
	})
	fresh, err := crash.NewOrder(globex, "new work for a draining host")
	must(t, err)
	v, err := rig.Submit(bounded(t), crash.First, fresh)
	must(t, err)
	v = becomes(t, fresh, action.Retryable)
	if v.Problem == nil || v.Problem.Kind != fleet.ReplicaUnavailable {
		t.Errorf("new work is refused with %+v", v.Problem)
	}
	_, err = rig.Submit(bounded(t), crash.First, pinned)
	must(t, err)
	becomes(t, pinned, action.Completed)
	intend(t, fleet.IntentRun)
	settle(t, []*crash.Order{pinned, fresh})
}

func intend(t *testing.T, want fleet.OperatorIntent) {
	t.Helper()
	id, err := fleet.ParseReplicaID(only)
	must(t, err)
	_, err = rig.Registry.Intend(bounded(t), registry.Intent{Replica: id, Want: want, Actor: "operator", Reason: "test"})
	must(t, err)
}

// refusals counts the events of refused registrations of the replica.
func refusals(t *testing.T) int {
	t.Helper()
	events, err := rig.Registry.List(bounded(t), registry.Selection{Noun: registry.Events, Limit: registry.MaxListItems})
	must(t, err)
	count := 0
	for _, e := range events.Events {
		if e.Kind == "lease" && e.Subject == only && e.Reason == "refused" {
			count++
		}
	}
	return count
}

// TestIdentity_G22_TwoProcessesWithOneIdentity: the second is refused while the first
// lives, an event says so, and the first goes on.
func TestIdentity_G22_TwoProcessesWithOneIdentity(t *testing.T) {
	before := refusals(t)
	second := rig.Twin(t.TempDir(), only)
	must(t, second.Launch())
	defer func() { _ = second.Kill() }()
	until(t, "an event says that it was refused", func(context.Context) (bool, error) { return refusals(t) > before, nil })
	until(t, "the second host says why", func(context.Context) (bool, error) {
		log, err := os.ReadFile(second.LogPath())
		return bytes.Contains(log, []byte("lease.held")), err
	})
	struck(t, "two processes with one replica identity", true)
	orders, err := rig.Work(bounded(t), globex, "with a twin", 2)
	must(t, err)
	must(t, second.Kill())
	settle(t, orders)
	if _, err := os.Stat(filepath.Join(rig.Fleet.Place().HostState(only), "journal.db")); err != nil {
		t.Error(err)
	}
}
