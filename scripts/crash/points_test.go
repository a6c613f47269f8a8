package crash_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/scripts/crash"
)

// where says which daemons pass a point.
func where(point crashpoint.Name) []string {
	switch point {
	case crashpoint.AfterResolve, crashpoint.AfterSend, crashpoint.BeforeSettle, crashpoint.AfterSettle:
		return []string{crash.First}
	case crashpoint.BeforeLease, crashpoint.AfterLease:
		return []string{crash.Lifecycle}
	}
	return rig.Hosts(acme)
}

// TestPoint_G25_G26_G39_KilledAtEveryNamedPoint kills the process that passes each
// point, under work, as often as there are rounds.
func TestPoint_G25_G26_G39_KilledAtEveryNamedPoint(t *testing.T) {
	for _, point := range crashpoint.Names() {
		for round := range rounds() {
			t.Run(fmt.Sprintf("%s_%d", point, round+1), func(t *testing.T) { killAt(t, point) })
		}
	}
}

func killAt(t *testing.T, point crashpoint.Name) {
	var armed []*crash.Daemon
	for _, name := range where(point) {
		d := rig.Daemons[name]
		must(t, d.Arm(point, "kill"))
		armed = append(armed, d)
	}
	var orders []*crash.Order
	for n := 0; n < 40 && !anyKilled(armed); n++ {
		o, err := crash.NewOrder(acme, fmt.Sprintf("at %s %d", point, n))
		must(t, err)
		orders = append(orders, o)
		_, _ = rig.Submit(bounded(t), crash.First, o) // the one who answers may be the one who dies
		for wait := 0; wait < 40 && !anyKilled(armed); wait++ {
			if v, err := rig.Look(bounded(t), o); err == nil && v.Final {
				break
			}
			time.Sleep(25 * time.Millisecond)
		}
	}
	for _, d := range armed {
		if d.Struck() {
			must(t, d.AwaitEnd(10*time.Second))
			struck(t, "SIGKILL at "+string(point), d.Killed())
		}
		d.Disarm()
	}
	if !anyKilled(armed) {
		t.Errorf("nobody was killed at %s", point)
	}
	settle(t, orders)
}

func anyKilled(all []*crash.Daemon) bool {
	for _, d := range all {
		if d.Struck() {
			return true
		}
	}
	return false
}
