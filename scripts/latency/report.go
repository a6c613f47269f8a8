package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// report is the result as its file holds it; every benchmark of this repository writes
// this form.
type report struct {
	Machine machine `json:"machine"`
	Results []row   `json:"results"`
}

type machine struct {
	System     string    `json:"system"`
	Processor  string    `json:"processor"`
	Processors int       `json:"processors"`
	Go         string    `json:"go"`
	Settings   []string  `json:"settings"`
	Started    time.Time `json:"started"`
	Seconds    float64   `json:"seconds"`
	LoadBefore string    `json:"load_before"`
	LoadAfter  string    `json:"load_after"`
	Quick      bool      `json:"quick"`
}

type row struct {
	Case         string             `json:"case"`
	Variant      string             `json:"variant"`
	Clients      int                `json:"clients"`
	OpsPerSecond float64            `json:"ops_per_s"`
	Ratio        float64            `json:"ratio_to_floor"`
	P50          float64            `json:"p50_ms"`
	P99          float64            `json:"p99_ms"`
	Errors       int                `json:"errors"`
	ErrorsBy     map[string]int     `json:"errors_by,omitempty"`
	More         map[string]float64 `json:"more,omitempty"`
}

func rowsOf(clients int, floor, through *sample) []row {
	make := func(name string, s *sample) row {
		return row{
			Case: caseName, Variant: name, Clients: clients, OpsPerSecond: rounded(median(s.rates)),
			P50: s.quantile(0.50), P99: s.quantile(0.99), Errors: s.failed(), ErrorsBy: s.errors,
		}
	}
	a, b := make(floorName, floor), make(fleetName, through)
	a.Ratio = 1
	if a.OpsPerSecond > 0 {
		b.Ratio = rounded(b.OpsPerSecond / a.OpsPerSecond)
	}
	b.More = map[string]float64{"added_p50_ms": rounded(b.P50 - a.P50), "added_p99_ms": rounded(b.P99 - a.P99)}
	for who, used := range through.used {
		b.More["cpu_ms_"+who] = rounded(1000 * used.Seconds() / float64(max(through.counted, 1)))
	}
	return []row{a, b}
}

func describe(quick bool) machine {
	return machine{
		System: runtime.GOOS + "/" + runtime.GOARCH, Processor: processor(), Processors: runtime.NumCPU(), Go: runtime.Version(),
		Settings: []string{"PostgreSQL with fsync", "host journal with fsync", "ticket desk with fsync", "everything on one machine"},
		Started:  time.Now().UTC().Truncate(time.Second), LoadBefore: load(), Quick: quick,
	}
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// load is the load average, "" where there is none to read.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

// printUse says what one call costs whom.
func printUse(x row) {
	fmt.Printf("processor time of a call with %d clients:", x.Clients)
	for _, who := range users {
		fmt.Printf(" %s %.2f ms", who, x.More["cpu_ms_"+who])
	}
	fmt.Println()
}

func (r report) print() {
	w := tabwriter.NewWriter(os.Stdout, 2, 4, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "case\tvariant\tclients\tops/s\tof floor\tp50 ms\tp99 ms\tadded p50\tadded p99\terrors\t")
	for _, x := range r.Results {
		if x.Case != caseName {
			continue
		}
		added := func(name string) string {
			if v, ok := x.More[name]; ok {
				return fmt.Sprintf("%.2f", v)
			}
			return ""
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%s\t%s\t%d\t\n", x.Case, x.Variant, x.Clients, x.OpsPerSecond, x.Ratio,
			x.P50, x.P99, added("added_p50_ms"), added("added_p99_ms"), x.Errors)
	}
	_ = w.Flush()
	for _, x := range r.Results {
		if x.Case == caseName && x.Variant == fleetName {
			printUse(x)
		}
	}
	for _, x := range r.Results {
		switch x.Case {
		case "idle":
			fmt.Printf("idle %s: %.1f MiB resident, %.2f %% of one processor\n", x.Variant, x.More["resident_mib"], x.More["cpu_percent"])
		case "journal":
			fmt.Printf("journal with %d writers: %.0f durable changes/s, %.1f in one sync\n", x.Clients, x.OpsPerSecond, x.More["changes_per_sync"])
		}
	}
	fmt.Printf("load before %s, after %s\n", r.Machine.LoadBefore, r.Machine.LoadAfter)
}
