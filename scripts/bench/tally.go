package main

import (
	"maps"
	"slices"
	"time"
)

// kind is what an operation was.
type kind int

const (
	opWrite   kind = iota // the floor's transaction, a beat, an inserted job
	opResolve             // of any tenant but the hot one
	opSettle
	opHot // a resolve of the hot tenant
	kinds
)

// tally is what one client did. Operations count for the throughput when they end
// inside the window; their latencies count from the beginning of the window on, also
// when they end after it, so that slow ones are not lost.
type tally struct {
	from, until time.Time
	counted     int
	latencies   [kinds][]time.Duration
	errors      map[string]int
}

func newTally(from, until time.Time) *tally {
	return &tally{from: from, until: until, errors: map[string]int{}}
}

// done records a success.
func (t *tally) done(k kind, began time.Time) {
	now := time.Now()
	if now.Before(t.from) {
		return
	}
	if now.Before(t.until) {
		t.counted++
	}
	t.latencies[k] = append(t.latencies[k], now.Sub(began))
}

// failed records a refusal or failure by its name; none is left out, whenever it came.
func (t *tally) failed(name string) { t.errors[name]++ }

func (t *tally) merge(o *tally) {
	t.counted += o.counted
	for k := range kinds {
		t.latencies[k] = append(t.latencies[k], o.latencies[k]...)
	}
	for name, n := range o.errors {
		t.errors[name] += n
	}
}

// quantile returns the q-quantile in milliseconds, 0 when there is nothing. It sorts.
func quantile(latencies []time.Duration, q float64) float64 {
	if len(latencies) == 0 {
		return 0
	}
	slices.Sort(latencies)
	at := min(int(q*float64(len(latencies))), len(latencies)-1)
	return float64(latencies[at].Microseconds()) / 1000
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func total(counts map[string]int) int {
	sum := 0
	for n := range maps.Values(counts) {
		sum += n
	}
	return sum
}
