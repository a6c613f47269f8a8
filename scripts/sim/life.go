package sim

import (
	"context"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// life is one run of one process. After its end nothing that still runs of it can
// reach anything: every way out asks pass first.
type life struct {
	name string
	end  chan struct{} // closed when the process is dead

	mu     sync.Mutex
	once   sync.Once
	frozen time.Time      // nothing passes before
	counts map[string]int // of crossings, by name
}

func newLife(name string) *life {
	return &life{name: name, end: make(chan struct{}), counts: map[string]int{}}
}

func (l *life) kill() { l.once.Do(func() { close(l.end) }) }

func (l *life) dead() bool {
	select {
	case <-l.end:
		return true
	default:
		return false
	}
}

func (l *life) freeze(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := time.Now().Add(d); until.After(l.frozen) {
		l.frozen = until
	}
}

// next counts the crossings of a name.
func (l *life) next(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[name]++
	return l.counts[name]
}

func (l *life) thawAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frozen
}

// pass waits while the process is stopped, and fails once it is dead. What waited
// goes on one after the other, each after a moment of its own.
func (l *life) pass(moment time.Duration) error {
	for {
		if l.dead() {
			return errGone()
		}
		left := time.Until(l.thawAt())
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(left + moment)
		select {
		case <-timer.C:
		case <-l.end:
		}
		timer.Stop()
	}
}

func errGone() error {
	return fleet.Errorf(fleet.Unavailable, "sim.gone", "this process is dead")
}

// sleep waits; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
