package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
)

// Check is one part that must be ready. Hosts are deliberately none of them.
type Check struct {
	Name string
	Run  func(ctx context.Context) error
}

// How long an answer of /ready is good for, and how long its checks may take.
const (
	readyFor     = time.Second
	readyTimeout = 2 * time.Second
)

// Readiness runs checks and remembers their answer for a second.
type Readiness struct {
	checks []Check
	now    func() time.Time

	mu   sync.Mutex
	last action.Readiness
}

// NewReadiness makes a readiness of these parts.
func NewReadiness(now func() time.Time, checks ...Check) *Readiness {
	return &Readiness{checks: checks, now: now}
}

// Now answers from memory, or runs every check.
func (r *Readiness) Now(ctx context.Context) action.Readiness {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if !r.last.CheckedAt.IsZero() && now.Sub(r.last.CheckedAt) < readyFor {
		return r.last
	}
	// The answer is for every caller of this second: one that hangs up spoils nothing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	out := action.Readiness{Ready: true, CheckedAt: now.UTC(), Parts: []action.ReadinessPart{}}
	for _, c := range r.checks {
		part := action.ReadinessPart{Name: c.Name, Ready: true}
		if err := c.Run(ctx); err != nil {
			part.Ready, part.Detail, out.Ready = false, action.ProblemOf(err).Message, false
		}
		out.Parts = append(out.Parts, part)
	}
	r.last = out
	return out
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	state := s.Ready.Now(r.Context())
	status := http.StatusOK
	if !state.Ready {
		status = http.StatusServiceUnavailable
	}
	_ = reply(w, status, state) // plain strings and times
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	_ = reply(w, http.StatusOK, map[string]string{"status": "ok"})
}
