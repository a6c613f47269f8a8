package fairness

import (
	"container/list"
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Ticket is one request's place. Its holder calls Wait once, and then Release if
// that succeeded; Cancel may be called at any time, by anybody.
type Ticket struct {
	scheduler *Scheduler
	request   Request
	tenant    *tenant
	at        time.Time
	ready     chan struct{} // closed when granted or cancelled

	// guarded by scheduler.mu
	place    *list.Element // in the tenant's queue; nil when it is not waiting
	granted  bool
	released bool
}

// Ready reports whether the ticket does not wait any more.
func (t *Ticket) Ready() bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

// Wait blocks until the request may run. It fails, and gives the place back, when
// the queue age or the request's deadline passes, the ticket is cancelled, or ctx ends.
func (t *Ticket) Wait(ctx context.Context) error {
	limit, byDeadline := t.at.Add(t.scheduler.bounds.QueueAge), false
	if d := t.request.Deadline; !d.IsZero() && d.Before(limit) {
		limit, byDeadline = d, true
	}
	timer := time.NewTimer(max(limit.Sub(t.scheduler.now()), 0))
	defer timer.Stop()
	select {
	case <-t.ready:
	case <-timer.C:
		if t.withdraw() {
			return t.expired(byDeadline)
		}
	case <-ctx.Done():
		if t.withdraw() {
			return fleet.Errorf(fleet.Unavailable, CodeGone, "the action stopped waiting").Caused(ctx.Err())
		}
	}
	if !t.wasGranted() {
		return fleet.Errorf(fleet.Unavailable, CodeGone, "the action was cancelled while it waited")
	}
	return nil
}

func (t *Ticket) expired(byDeadline bool) error {
	if byDeadline {
		return fleet.Errorf(fleet.Unavailable, CodeExpired, "the action's deadline passed while it waited").
			Advise("submit the same action again, with more time")
	}
	s := t.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	e := fleet.Errorf(fleet.CapacityExceeded, CodeAge, "the action waited too long").
		Because("it waited %s", s.bounds.QueueAge).Advise("submit the same action again after the given time")
	e.Scope, e.RetryAfter = "queue_age", s.drain.retryAfter(s.queued)
	return e
}

func (t *Ticket) wasGranted() bool {
	t.scheduler.mu.Lock()
	defer t.scheduler.mu.Unlock()
	return t.granted
}

// withdraw leaves the queue; false when the ticket is not waiting any more.
func (t *Ticket) withdraw() bool {
	s := t.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.place == nil {
		return false
	}
	s.dequeue(t)
	if t.tenant.queue.Len() == 0 {
		s.leave(t.tenant)
	}
	s.forget(t.tenant)
	s.grant()
	return true
}

// Cancel takes a waiting request out of the queue and wakes its Wait. A granted
// one is not touched: false.
func (t *Ticket) Cancel() bool {
	if !t.withdraw() {
		return false
	}
	close(t.ready)
	return true
}

// Release gives a granted permit back and tells how long the work took, which is
// what the capability is expected to cost from now on. took of zero teaches
// nothing. Repeated calls do nothing.
func (t *Ticket) Release(took time.Duration) {
	s := t.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.granted || t.released {
		return
	}
	t.released = true
	s.inFlight--
	t.tenant.inFlight--
	if took > 0 {
		s.costs.observe(t.request.Capability.String(), took)
	}
	s.admit(t.tenant)
	s.forget(t.tenant)
	s.grant()
}
