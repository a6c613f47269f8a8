package tui

import (
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// samplesKept bounds the history behind the sparklines.
const samplesKept = 240

// sample is what the sparklines keep of one reading.
type sample struct {
	at                                                   time.Time
	ready, ending, active, uncertain, circuits, toSettle float64
	routes                                               uint64
	rate                                                 float64 // routes per second since the sample before
}

// history is the samples of this session, oldest first.
type history []sample

// add appends a reading. Two readings of the same instant are one.
func (h history) add(s registry.Status, d drain) history {
	next := sample{
		at: s.At, ready: float64(s.Replicas[fleet.ReplicaReady]), ending: float64(s.LeasesEnding), active: float64(s.Active),
		uncertain: float64(unresolved(s)), circuits: float64(s.CircuitsOpen), toSettle: float64(d.Reservations), routes: s.Routes,
	}
	if len(h) > 0 {
		last := h[len(h)-1]
		past := next.at.Sub(last.at)
		if past <= 0 {
			return h
		}
		if next.routes > last.routes {
			next.rate = float64(next.routes-last.routes) / past.Seconds()
		}
	}
	if len(h) >= samplesKept {
		h = h[len(h)-samplesKept+1:]
	}
	return append(h[:len(h):len(h)], next)
}

// rate is the newest rate, and whether two readings were there to make one.
func (h history) rate() (float64, bool) {
	if len(h) < 2 {
		return 0, false
	}
	return h[len(h)-1].rate, true
}

// line draws the newest values of one series in at most w cells, from zero to its peak.
func (h history) line(w int, of func(sample) float64) string {
	if len(h) > w {
		h = h[len(h)-w:]
	}
	peak := 0.0
	for _, s := range h {
		peak = max(peak, of(s))
	}
	var b strings.Builder
	for _, s := range h {
		b.WriteRune(bar(of(s), peak))
	}
	return b.String()
}

func bar(v, peak float64) rune {
	levels := []rune("▁▂▃▄▅▆▇█")
	if peak <= 0 || v <= 0 {
		return levels[0]
	}
	return levels[min(int(v/peak*7+0.5), 7)]
}

// unresolved counts attempts whose outcome nobody knows yet (G38).
func unresolved(s registry.Status) int {
	return s.Uncertain[fleet.ReconcileOpen] + s.Uncertain[fleet.ReconcileOperator]
}
