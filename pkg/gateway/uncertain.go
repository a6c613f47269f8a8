package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Status reads the aggregate state of the fleet; registry.Reader has it.
type Status func(ctx context.Context) (registry.Status, error)

// How long one reading is good for, and how long it may take.
const (
	uncertainFor     = 5 * time.Second
	uncertainTimeout = 2 * time.Second
)

// uncertain shows how many attempts wait for a definite answer, and how long the oldest
// one has waited (G38). While the registry is away it shows nothing, rather than
// something old.
type uncertain struct {
	status Status
	now    func() time.Time
	count  *prometheus.Desc
	oldest *prometheus.Desc

	mu   sync.Mutex
	last registry.Status
	at   time.Time // when it was read; zero when that failed
}

// WatchUncertain adds the age and number of uncertain attempts to the metrics.
func (m *Metrics) WatchUncertain(status Status) {
	m.registry.MustRegister(&uncertain{
		status: status, now: m.now,
		count:  prometheus.NewDesc("aipd_uncertain_attempts", "Attempts without a definite answer, by who is to decide them.", []string{"state"}, nil),
		oldest: prometheus.NewDesc("aipd_uncertain_oldest_seconds", "Age of the oldest attempt without a definite answer; 0 when there is none.", nil, nil),
	})
}

// Describe implements prometheus.Collector.
func (u *uncertain) Describe(out chan<- *prometheus.Desc) {
	out <- u.count
	out <- u.oldest
}

// Collect implements prometheus.Collector.
func (u *uncertain) Collect(out chan<- prometheus.Metric) {
	s, ok := u.read()
	if !ok {
		return
	}
	for _, state := range []fleet.ReconciliationState{fleet.ReconcileOpen, fleet.ReconcileOperator} {
		out <- prometheus.MustNewConstMetric(u.count, prometheus.GaugeValue, float64(s.Uncertain[state]), string(state))
	}
	out <- prometheus.MustNewConstMetric(u.oldest, prometheus.GaugeValue, s.OldestUncertain.Seconds())
}

// read asks the registry, at most once in a while however often it is scraped.
func (u *uncertain) read() (registry.Status, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	if !u.at.IsZero() && now.Sub(u.at) < uncertainFor {
		return u.last, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), uncertainTimeout)
	defer cancel()
	s, err := u.status(ctx)
	if err != nil {
		u.at = time.Time{}
		return s, false
	}
	u.last, u.at = s, now
	return s, true
}
