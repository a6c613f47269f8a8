package gateway

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/aipfleet/aipfleet/pkg/fairness"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Metrics are aipd's own. Their labels are closed sets: no tenant, no identity of
// anything, whatever the traffic (G18).
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	attempts *prometheus.HistogramVec
	resolved *prometheus.CounterVec
	archived prometheus.Counter
	told     *prometheus.CounterVec
	keySets  *prometheus.CounterVec
	now      func() time.Time
}

// NewMetrics makes the metrics; load reports the scheduler's.
func NewMetrics(now func() time.Time, load func() fairness.Load) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), now: now,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aipd_http_requests_total", Help: "HTTP requests by route and status.",
		}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "aipd_http_request_seconds", Help: "Duration of HTTP requests by route.", Buckets: prometheus.DefBuckets,
		}, []string{"route"}),
		attempts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "aipd_attempt_seconds", Help: "Duration of attempts by settlement outcome.", Buckets: prometheus.DefBuckets,
		}, []string{"outcome"}),
		resolved: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aipd_reconciled_total", Help: "Uncertain attempts decided, by resolution.",
		}, []string{"resolution"}),
		archived: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aipd_actions_archived_total", Help: "Ended actions whose input and result this process gave up after their retention.",
		}),
		told: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aipd_actions_settled_told_total", Help: "Tries to tell a host that an action is over and kept no more, by how they ended.",
		}, []string{"outcome"}),
		keySets: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aipd_jwks_reads_total", Help: "Readings of a changed JWKS file, by how they ended; after a failed one the last good keys stay.",
		}, []string{"outcome"}),
	}
	gauge := func(name, help string, value func(fairness.Load) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(load()) })
	}
	m.registry.MustRegister(m.requests, m.seconds, m.attempts, m.resolved, m.archived, m.told, m.keySets, collectors.NewGoCollector(),
		gauge("aipd_actions_in_flight", "Actions that hold a permit.", func(l fairness.Load) float64 { return float64(l.InFlight) }),
		gauge("aipd_actions_queued", "Actions that wait for a permit.", func(l fairness.Load) float64 { return float64(l.Queued) }),
		gauge("aipd_actions_queued_bytes", "Bytes of waiting inputs.", func(l fairness.Load) float64 { return float64(l.QueuedBytes) }),
	)
	return m
}

// PoolUse is how much of the connections to the database is used.
type PoolUse struct {
	InUse, Max int
	Waits      uint64 // how often one had to be waited for, since the start
}

// WatchPool shows the use of the connections to the database, for which every step of
// an action waits that is stored. It is called once, by a process that has a database.
func (m *Metrics) WatchPool(use func() PoolUse) {
	gauge := func(name, help string, value func(PoolUse) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(use()) })
	}
	m.registry.MustRegister(
		gauge("aipd_database_connections_in_use", "Connections to the database that are in use.", func(u PoolUse) float64 { return float64(u.InUse) }),
		gauge("aipd_database_connections_max", "Connections to the database that this process may have.", func(u PoolUse) float64 { return float64(u.Max) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "aipd_database_connection_waits_total", Help: "How often a connection to the database had to be waited for.",
		}, func() float64 { return float64(use().Waits) }),
	)
}

// Attempt counts one settled attempt.
func (m *Metrics) Attempt(outcome fleet.Outcome, took time.Duration) {
	m.attempts.WithLabelValues(string(outcome)).Observe(took.Seconds())
}

// Resolved counts one decided uncertain attempt.
func (m *Metrics) Resolved(resolution fleet.Resolution) {
	m.resolved.WithLabelValues(string(resolution)).Inc()
}

// KeySet counts one reading of a changed JWKS file.
func (m *Metrics) KeySet(err error) {
	outcome := "ok"
	if err != nil {
		outcome = "failed"
	}
	m.keySets.WithLabelValues(outcome).Inc()
}

// Retained counts what a retention pass did.
func (m *Metrics) Retained(archived, told, untold int) {
	m.archived.Add(float64(archived))
	m.told.WithLabelValues("heard").Add(float64(told))
	m.told.WithLabelValues("failed").Add(float64(untold))
}

func (m *Metrics) handler() http.HandlerFunc {
	h := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return h.ServeHTTP
}

// status remembers what was answered.
type status struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// observe counts requests under the route's pattern, never under its path.
func (m *Metrics) observe(pattern string, h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, out := m.now(), &status{ResponseWriter: w, code: http.StatusOK}
		h(out, r)
		m.requests.WithLabelValues(pattern, strconv.Itoa(out.code)).Inc()
		m.seconds.WithLabelValues(pattern).Observe(m.now().Sub(began).Seconds())
	})
}
