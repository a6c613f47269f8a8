package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestMeasure_CountsFailuresAndWhatIsAdded on calls of known length.
func TestMeasure_CountsFailuresAndWhatIsAdded(t *testing.T) {
	n := 0
	floor, through := &sample{errors: map[string]int{}}, &sample{errors: map[string]int{}}
	p := plan{rounds: 1, window: 60 * time.Millisecond}
	floor.slice(t.Context(), func(context.Context, string) string { time.Sleep(time.Millisecond); return "" }, 1, p)
	through.slice(t.Context(), func(context.Context, string) string {
		time.Sleep(5 * time.Millisecond)
		if n++; n%2 == 0 {
			return "uncertain"
		}
		return ""
	}, 1, p)
	rows := rowsOf(1, floor, through)
	if len(rows) != 2 || rows[0].Ratio != 1 || rows[0].Errors != 0 {
		t.Fatalf("rows %+v", rows)
	}
	if r := rows[1]; r.Errors == 0 || r.ErrorsBy["uncertain"] != r.Errors || r.Ratio >= 1 || r.More["added_p50_ms"] < 1 {
		t.Errorf("the slower one: %+v", r)
	}
}

// TestMeasure_CountsWhatEndedInTheWindow, also when it began before: of calls that take
// longer than the window none would count otherwise, however many end in it.
func TestMeasure_CountsWhatEndedInTheWindow(t *testing.T) {
	s := &sample{errors: map[string]int{}, look: func() map[string]time.Duration {
		used, _ := processorTime(os.Getpid())
		return map[string]time.Duration{userServe: used}
	}}
	s.slice(t.Context(), func(context.Context, string) string { time.Sleep(800 * time.Millisecond); return "" }, 4, plan{window: time.Second, warmUp: 50 * time.Millisecond})
	if s.counted != 4 {
		t.Errorf("%d calls ended in the window, want 4", s.counted)
	}
	if _, known := s.used[userServe]; !known {
		t.Errorf("nothing is known of what was used: %v", s.used)
	}
}

func TestUse_KnowsTheChildrenOfThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc here")
	}
	child := exec.CommandContext(t.Context(), "sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	if got := childrenOf()[os.Getpid()]; !slices.Contains(got, child.Process.Pid) {
		t.Errorf("children %v, want %d among them", got, child.Process.Pid)
	}
}

// TestJournal_G25_CountsDurableChanges: a sync carries at least one change, and of many
// writers it carries several.
func TestJournal_G25_CountsDurableChanges(t *testing.T) {
	r, err := writeJournal(t.Context(), filepath.Join(t.TempDir(), "journal.db"), 32, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if r.Errors != 0 || r.OpsPerSecond <= 0 || r.More["changes_per_sync"] <= 1 {
		t.Errorf("%+v", r)
	}
}

func TestIdle_ReadsThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc here")
	}
	_, known := processorTime(os.Getpid())
	resident, also := residentMiB(os.Getpid())
	if !known || !also || resident <= 0 {
		t.Errorf("processor time known %v, resident %v %v", known, resident, also)
	}
}
