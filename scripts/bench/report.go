package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is the whole result, as the file holds it.
type report struct {
	Machine  machine  `json:"machine"`
	Results  []row    `json:"results"`
	Problems []string `json:"problems,omitempty"`
}

func columns() []string {
	return []string{"case", "point", "variant", "clients", "ops/s", "of floor", "(spread)", "p50 ms", "p99 ms", "settle p99", "server us/op", "client us/op", "errors", "more"}
}

// cells writes one row as the table shows it.
func (r row) cells() []string {
	spread := ""
	if r.RatioHigh > 0 {
		spread = fmt.Sprintf("%.2f-%.2f", r.RatioLow, r.RatioHigh)
	}
	cell := func(format string, v float64) string {
		if v == 0 {
			return ""
		}
		return fmt.Sprintf(format, v)
	}
	return []string{
		r.Case, r.Point, r.Variant, fmt.Sprint(r.Clients), fmt.Sprintf("%.0f", r.OpsPerSecond), cell("%.2f", r.Ratio), spread,
		cell("%.2f", r.P50), cell("%.2f", r.P99), cell("%.2f", r.SettleP99), cell("%.0f", r.ServerMicros), cell("%.0f", r.ClientMicros),
		fmt.Sprint(r.Errors), r.remarks(),
	}
}

// remarks writes what only some rows have, in a stable order.
func (r row) remarks() string {
	var parts []string
	if r.HotP99 > 0 {
		parts = append(parts, fmt.Sprintf("hot_p99_ms=%.2f", r.HotP99))
	}
	for _, name := range slices.Sorted(maps.Keys(r.More)) {
		parts = append(parts, fmt.Sprintf("%s=%.5g", name, r.More[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(r.ErrorsBy)) {
		parts = append(parts, fmt.Sprintf("[%s: %d]", name, r.ErrorsBy[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Retries)) {
		parts = append(parts, fmt.Sprintf("retried %s: %d", name, r.Retries[name]))
	}
	return strings.Join(parts, " ")
}

func printRows(w io.Writer, rows []row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r.cells(), "\t"))
	}
	_ = t.Flush() // to a terminal or a pipe that went away
}

func printTable(w io.Writer, rows []row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(columns(), "\t"))
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r.cells(), "\t"))
	}
	_ = t.Flush()
}

func writeJSON(path string, r report) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(path, append(data, '\n'))
}

// replaceFile writes beside the file and renames, so that a reader never sees half.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".bench-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	if _, err := f.Write(data); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Chmod(f.Name(), 0o644); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Marks between which the page holds generated text.
const (
	markBegin = "<!-- registry: made by `make bench BENCH=registry`, do not edit -->"
	markEnd   = "<!-- registry: end -->"
)

// writeMarkdown puts the table between the marks of the page.
func writeMarkdown(path string, r report) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), markBegin)
	if !ok {
		return fmt.Errorf("%s has no line %q", path, markBegin)
	}
	_, after, ok := strings.Cut(rest, markEnd)
	if !ok {
		return fmt.Errorf("%s has no line %q", path, markEnd)
	}
	return replaceFile(path, []byte(before+markBegin+"\n\n"+markdown(r)+"\n"+markEnd+after))
}

func markdown(r report) string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "Measured %s on %s, %s, %d processors, %.0f GiB, PostgreSQL %s (%s), %s; load average before %s, after %s; %.0f s.\n\n",
		m.Started.Format("2006-01-02"), m.System, m.Processor, m.Processors, m.MemoryGiB, m.PostgreSQL, strings.Join(m.Settings, ", "),
		m.Go, m.LoadBefore, m.LoadAfter, m.Seconds)
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(columns())
	b.WriteString("|" + strings.Repeat("---|", len(columns())) + "\n")
	for _, row := range r.Results {
		line(row.cells())
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "\nProblem: %s\n", p)
	}
	return b.String()
}
