package main

import (
	"context"
	"os"
	"path/filepath"
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
