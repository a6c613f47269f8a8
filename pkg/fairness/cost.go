package fairness

import "time"

// Bounds of an expected cost in milliseconds, so that one outlier neither makes a
// call free nor fills a round.
const (
	minCost = 1
	maxCost = 60_000
	// smoothing is the share of the newest duration in the moving average.
	smoothing = 0.2
	// refresh is how many observations pass before the quantum may shrink.
	refresh = 1024
)

// estimates keeps a moving average per capability, at most limit of them, and the
// largest average as the quantum of a round: every visit can then grant at least
// one request, which makes granting take constant time.
type estimates struct {
	initial float64
	limit   int
	average map[string]float64
	quantum float64
	seen    int
}

func newEstimates(b Bounds) *estimates {
	initial := clampCost(milliseconds(b.InitialEstimate))
	return &estimates{initial: initial, limit: b.TrackedNames, average: map[string]float64{}, quantum: initial}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func clampCost(ms float64) float64 { return min(max(ms, minCost), maxCost) }

func (e *estimates) cost(name string) float64 {
	if average, known := e.average[name]; known {
		return average
	}
	return e.initial
}

func (e *estimates) observe(name string, took time.Duration) {
	average, known := e.average[name]
	switch {
	case known:
		average += smoothing * (clampCost(milliseconds(took)) - average)
	case len(e.average) < e.limit:
		average = clampCost(milliseconds(took))
	default:
		return
	}
	e.average[name] = average
	e.quantum = max(e.quantum, average)
	if e.seen++; e.seen%refresh == 0 {
		e.shrink()
	}
}

// shrink takes the largest of all averages again; its cost is spread over refresh
// observations.
func (e *estimates) shrink() {
	e.quantum = e.initial
	for _, average := range e.average {
		e.quantum = max(e.quantum, average)
	}
}

// drain is a moving average of the time between grants.
type drain struct {
	last    time.Time
	between float64 // milliseconds
}

func (d *drain) granted(now time.Time) {
	if !d.last.IsZero() {
		gap := milliseconds(now.Sub(d.last))
		if d.between == 0 {
			d.between = gap
		}
		d.between += smoothing * (gap - d.between)
	}
	d.last = now
}

// Bounds of the hint given to a refused caller.
const (
	minRetryAfter = 100 * time.Millisecond
	maxRetryAfter = 30 * time.Second
)

// retryAfter is how long the given number of grants takes at the present rate.
func (d *drain) retryAfter(grants int) time.Duration {
	after := time.Duration(d.between * float64(grants) * float64(time.Millisecond))
	return min(max(after, minRetryAfter), maxRetryAfter)
}
