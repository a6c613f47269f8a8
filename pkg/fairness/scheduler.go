package fairness

import (
	"container/list"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Request is one action that wants to run.
type Request struct {
	Tenant     fleet.TenantID
	Capability fleet.CapabilityID
	Bytes      int64     // what it holds while it waits
	Deadline   time.Time // its own; zero is none
}

// Config makes a Scheduler.
type Config struct {
	Bounds Bounds
	// Weight of a tenant; nil or less than 1 means 1.
	Weight func(fleet.TenantID) int
	Now    func() time.Time
}

// Scheduler is a bounded deficit round robin over tenants. Its methods may be used
// concurrently.
type Scheduler struct {
	bounds Bounds
	weight func(fleet.TenantID) int
	now    func() time.Time

	mu       sync.Mutex
	tenants  map[fleet.TenantID]*tenant
	ring     *list.List // of *tenant: backlogged, and below their own in-flight bound
	inFlight int
	queued   int
	bytes    int64
	costs    *estimates
	drain    drain
	closed   bool
}

// tenant exists while it has something queued or in flight.
type tenant struct {
	id       fleet.TenantID
	queue    *list.List    // of *Ticket
	place    *list.Element // in the ring; nil when it is not there
	weight   float64
	deficit  float64
	charged  bool // got its quantum for the present visit
	inFlight int
}

// New makes a scheduler.
func New(c Config) *Scheduler {
	b := c.Bounds.withDefaults()
	return &Scheduler{
		bounds: b, weight: c.Weight, now: c.Now,
		tenants: map[fleet.TenantID]*tenant{}, ring: list.New(), costs: newEstimates(b),
	}
}

// Bounds are those in force, with the defaults where none were given.
func (s *Scheduler) Bounds() Bounds { return s.bounds }

// Enqueue takes a place for the request, or refuses at once: CapacityExceeded with
// the full bound as scope, and retry_after from the present drain rate.
func (s *Scheduler) Enqueue(r Request) (*Ticket, error) {
	if r.Bytes > s.bounds.RequestBytes {
		return nil, fleet.Invalidf(CodeBytes, "the request is too large").
			Because("it has %d bytes and %d are allowed", r.Bytes, s.bounds.RequestBytes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fleet.Errorf(fleet.Unavailable, CodeClosed, "this aipd takes no new actions").
			Because("it is stopping").Advise("submit to another aipd")
	}
	t := s.tenant(r.Tenant)
	if err := s.room(t, r); err != nil {
		s.forget(t)
		return nil, err
	}
	ticket := &Ticket{scheduler: s, request: r, tenant: t, ready: make(chan struct{}), at: s.now()}
	ticket.place = t.queue.PushBack(ticket)
	s.queued++
	s.bytes += r.Bytes
	s.admit(t)
	s.grant()
	return ticket, nil
}

func (s *Scheduler) room(t *tenant, r Request) error {
	switch {
	case t.queue.Len() >= s.bounds.QueuedTenant:
		return overload("tenant_queue", s.drain.retryAfter(t.queue.Len()))
	case s.queued >= s.bounds.Queued:
		return overload("queue", s.drain.retryAfter(s.queued))
	case s.bytes+r.Bytes > s.bounds.QueuedBytes:
		return overload("queue_bytes", s.drain.retryAfter(s.queued))
	}
	return nil
}

func (s *Scheduler) tenant(id fleet.TenantID) *tenant {
	t, ok := s.tenants[id]
	if !ok {
		t = &tenant{id: id, queue: list.New(), weight: 1}
		if s.weight != nil {
			t.weight = float64(max(s.weight(id), 1))
		}
		s.tenants[id] = t
	}
	return t
}

func (s *Scheduler) forget(t *tenant) {
	if t.queue.Len() == 0 && t.inFlight == 0 {
		delete(s.tenants, t.id)
	}
}

// admit puts a backlogged tenant that may run into the ring.
func (s *Scheduler) admit(t *tenant) {
	if t.place == nil && t.queue.Len() > 0 && t.inFlight < s.bounds.InFlightTenant {
		t.place = s.ring.PushBack(t)
		t.charged = false
	}
}

// leave takes a tenant out of the ring. One without a backlog keeps no credit.
func (s *Scheduler) leave(t *tenant) {
	if t.place != nil {
		s.ring.Remove(t.place)
		t.place = nil
	}
	t.charged = false
	if t.queue.Len() == 0 {
		t.deficit = 0
	}
}

// grant gives permits while there is room. Every visit of a tenant gives it its
// quantum once; the quantum is at least the largest cost, so that each visit grants
// at least one request.
func (s *Scheduler) grant() {
	for s.inFlight < s.bounds.InFlight && s.ring.Len() > 0 {
		t := s.ring.Front().Value.(*tenant)
		if !t.charged {
			t.charged = true
			// What is left of a visit is less than one cost. It is more only when the
			// tenant's own in-flight bound ended the visit: that credit is not kept.
			t.deficit = min(t.deficit, s.costs.quantum) + s.costs.quantum*t.weight
		}
		ticket := t.queue.Front().Value.(*Ticket)
		cost := s.costs.cost(ticket.request.Capability.String())
		if cost > t.deficit {
			t.charged = false
			s.ring.MoveToBack(t.place)
			continue
		}
		t.deficit -= cost
		s.serve(t, ticket)
	}
}

func (s *Scheduler) serve(t *tenant, ticket *Ticket) {
	s.dequeue(ticket)
	ticket.granted = true
	s.inFlight++
	t.inFlight++
	s.drain.granted(s.now())
	close(ticket.ready)
	if t.queue.Len() == 0 || t.inFlight >= s.bounds.InFlightTenant {
		s.leave(t)
	}
}

func (s *Scheduler) dequeue(ticket *Ticket) {
	ticket.tenant.queue.Remove(ticket.place)
	ticket.place = nil
	s.queued--
	s.bytes -= ticket.request.Bytes
}

// Load is what a scheduler holds at one moment.
type Load struct {
	InFlight    int
	Queued      int
	QueuedBytes int64
	Tenants     int
}

// Load reports what the scheduler holds, without identities.
func (s *Scheduler) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{InFlight: s.inFlight, Queued: s.queued, QueuedBytes: s.bytes, Tenants: len(s.tenants)}
}

// Close refuses new requests from now on. What waits goes on.
func (s *Scheduler) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
