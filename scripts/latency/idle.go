package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// idle measures what the daemons use while nobody calls: memory and processor time.
// Where /proc does not tell, there are no rows.
func (s *site) idle(ctx context.Context, window time.Duration) []row {
	type use struct {
		name   string
		pid    int
		before time.Duration
	}
	var all []use
	for _, p := range s.fleet.Status() {
		if used, ok := processorTime(p.PID); ok {
			all = append(all, use{p.Name, p.PID, used})
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(window):
	}
	var rows []row
	for _, p := range all {
		after, ok := processorTime(p.pid)
		resident, known := residentMiB(p.pid)
		if !ok || !known {
			continue
		}
		rows = append(rows, row{Case: "idle", Variant: p.name, More: map[string]float64{
			"resident_mib": rounded(resident), "cpu_percent": rounded(100 * (after - p.before).Seconds() / window.Seconds()),
		}})
	}
	return rows
}

// processorTime is what a process has used since its start.
func processorTime(pid int) (time.Duration, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	_, rest, ok := strings.Cut(string(text), ") ") // the name before it may hold anything
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * (time.Second / 100), err1 == nil && err2 == nil // in hundredths, as Linux has it
}

func residentMiB(pid int) (float64, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kib / 1024, err == nil
		}
	}
	return 0, false
}
