package sim_test

import (
	"os"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/scripts/sim"
)

// play runs one seed in a bubble of its own.
func play(t *testing.T, seed uint64, o sim.Options) sim.Report {
	t.Helper()
	dir, err := os.MkdirTemp(memory(), "aipfleet-sim-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	o.Dir = dir
	var r sim.Report
	synctest.Test(t, func(*testing.T) { r = sim.Run(seed, o) })
	return r
}

// memory is a directory whose files are in memory, where there is one: journals of a
// run need not outlive it.
func memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// few is how many seeds the ordinary test run plays; make sim plays many.
const few = 24

// TestSim_G25_G38_NoSeedBreaksAPromise is the simulation, in short.
func TestSim_G25_G38_NoSeedBreaksAPromise(t *testing.T) {
	var sum sim.Report
	for seed := range uint64(few) {
		sum.Add(play(t, seed, sim.Options{}))
	}
	for _, v := range sum.Violations {
		t.Errorf("seed %d: %s broken by %s: %s", v.Seed, v.Guarantee, v.Subject, v.What)
	}
	if sum.Effects < few*30 || len(sum.Faults) < 40 {
		t.Errorf("%d effects and %d kinds of faults: nothing was tested", sum.Effects, len(sum.Faults))
	}
}

// TestSim_ASeedRepeatsItsRun: the same seed is the same run, event for event; so a
// violation can be looked at again.
func TestSim_ASeedRepeatsItsRun(t *testing.T) {
	for _, seed := range []uint64{3, 7, 13} {
		var lines [2][]string
		var digests [2]uint64
		for i := range 2 {
			digests[i] = play(t, seed, sim.Options{Lines: func(l string) { lines[i] = append(lines[i], l) }}).Trace
			slices.Sort(lines[i]) // what happens at one instant has no order
		}
		if digests[0] != digests[1] {
			t.Errorf("seed %d does not repeat: %s", seed, difference(lines[0], lines[1]))
		}
	}
	if play(t, 3, sim.Options{}).Trace == play(t, 4, sim.Options{}).Trace {
		t.Error("two seeds have one trace: it says nothing")
	}
}

func difference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "\n" + a[i] + "\n" + b[i]
		}
	}
	return "one has more events"
}

// plants are the defects that the simulation must find.
func plants() map[string]sim.Plant {
	return map[string]sim.Plant{
		"G06_AnOldFenceAccepted":                  {Host: host.Defects{OldFence: true}},
		"G41_NoClosingOfAFenceAnsweredNotStarted": {Host: host.Defects{OpenFence: true}},
		"G25_ALostJournalThatExecutes":            {Host: host.Defects{LostJournal: true}},
		"G09_ANewTargetAfterARefusedConnection":   {NewTarget: true},
		"G25_ClassificationByTheLastSendOnly":     {LastSend: true},
	}
}

// patience is how many seeds a planted defect may hide from.
const patience = 150

// TestSim_FindsPlantedDefects: a suite that finds no mistake proves nothing.
func TestSim_FindsPlantedDefects(t *testing.T) {
	for name, plant := range plants() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(patience) {
				if r := play(t, seed, sim.Options{Plant: plant}); len(r.Violations) > 0 {
					v := r.Violations[0]
					t.Logf("seed %d finds it: %s broken by %s: %s (%d violations)", v.Seed, v.Guarantee, v.Subject, v.What, len(r.Violations))
					return
				}
			}
			t.Errorf("%d seeds do not find it", patience)
		})
	}
}
