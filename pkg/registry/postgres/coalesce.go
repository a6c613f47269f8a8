package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Coalesce says how the resolves and settlements of this process share transactions
// when many are under way. The zero value shares none: one call, one transaction.
//
// Up to Direct calls go to the database alone, which is the shortest way for few.
// Whatever comes beyond waits in a queue, without a connection and without a timer:
// Ticks workers each take all that waits, at most Batch calls, into one transaction
// (aip.tick) and answer them after its commit. The busier it gets, the more a commit
// carries.
//
// Inside a tick all resolves see the fleet of one moment, as concurrent calls would:
// they are ordered by it, each replica takes only what it has room for, and the
// surplus goes to the next tick. What is not plain (an existing route, a limit reached, a
// circuit that is not closed, an uncertain outcome, an assignment of another process) is
// left out of the tick and goes alone, so it is answered as if nothing were shared; a
// call that fails never takes others with it.
type Coalesce struct {
	Direct int // calls under way that go alone; 0 queues every call
	Ticks  int // transactions at a time; the processors of the database are a good number. 0 turns it off
	Batch  int // calls of one transaction, at most 128; 0 means 64
}

// DefaultCoalesce is what a routing daemon uses.
func DefaultCoalesce() Coalesce { return Coalesce{Direct: 2, Ticks: 2, Batch: 64} }

// maxBatch bounds what one transaction locks, and what its failure repeats.
const maxBatch = 128

// busyTries is how often a call is queued again because others held its candidates,
// before it goes alone.
const busyTries = 3

// Shared counts what was coalesced since the start.
type Shared struct {
	Ticks uint64 `json:"ticks"` // transactions
	Calls uint64 `json:"calls"` // answered by them
	Alone uint64 `json:"alone"` // taken by a tick and sent alone after all
	Busy  uint64 `json:"busy"`  // queued again
}

// Shared returns the counts since the start.
func (r *Registry) Shared() Shared {
	if r.shared == nil {
		return Shared{}
	}
	c := &r.shared.counts
	return Shared{Ticks: c.ticks.Load(), Calls: c.calls.Load(), Alone: c.alone.Load(), Busy: c.busy.Load()}
}

// coalescer is the queue and its workers.
type coalescer struct {
	limits Coalesce
	send   func(calls []*call) error // one tick; every call that it answers is told

	mu       sync.Mutex
	queue    []*call
	tenants  map[string]int // that running ticks work for, with their calls
	patient  bool           // a tick runs that waits for what its resolves were too early for
	underWay int            // calls of Resolve and Settle that have not returned
	workers  int            // that run now
	closed   bool           // nothing is taken any more
	running  sync.WaitGroup
	counts   struct{ ticks, calls, alone, busy atomic.Uint64 }
}

func newCoalescer(limits Coalesce, send func([]*call) error) *coalescer {
	limits.Batch = min(limits.Batch, maxBatch)
	if limits.Batch <= 0 {
		limits.Batch = 64
	}
	return &coalescer{limits: limits, send: send, tenants: map[string]int{}}
}

// call is one resolve or settlement that waits.
type call struct {
	action  string
	tenant  string
	resolve *resolveCall // or
	settle  *settleCall
	busy    int         // how often its candidates were all held by others
	answer  chan answer // has room for the one answer
}

// answer is what became of a call: by a tick, or alone with what went wrong.
type answer struct {
	done  bool
	cause error // of a tick that may or may not have committed, or that was never sent
	tick  tickRow
}

// enter counts a call and tells whether it may go alone. leave must follow.
func (c *coalescer) enter() (alone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay++
	return c.underWay <= c.limits.Direct
}

func (c *coalescer) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay--
}

// ask queues a call and waits for its answer. Only a call that still waits is given
// up when ctx ends: what a tick has taken is answered, so that no reservation is made
// that nobody hears of.
func (c *coalescer) ask(ctx context.Context, one *call) (answer, error) {
	if !c.add(one) {
		return answer{}, errAcquire
	}
	select {
	case a := <-one.answer:
		return a, nil
	case <-ctx.Done():
	}
	if c.withdraw(one) {
		return answer{}, ctx.Err()
	}
	return <-one.answer, nil
}

func (c *coalescer) add(one *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.queue = append(c.queue, one)
	c.employ()
	return true
}

// many is how many calls of tenants that a tick works for already are worth another tick.
const many = 16

// enough is how many calls have to wait for another tick to be worth its own commit: while
// one is under way, fewer gather for it.
const enough = 8

// employ starts a worker when there is work that one more could do. c.mu is held.
func (c *coalescer) employ() {
	if c.workers >= c.limits.Ticks || c.workers > 0 && len(c.queue) < enough {
		return
	}
	free := func(one *call) bool { return c.tenants[one.tenant] == 0 }
	if len(c.queue) >= many || slices.ContainsFunc(c.queue, free) {
		c.workers++
		c.running.Go(c.work)
	}
}

func (c *coalescer) withdraw(one *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.queue, one)
	if i < 0 {
		return false
	}
	c.queue = slices.Delete(c.queue, i, i+1)
	return true
}

// work ticks until nothing waits.
func (c *coalescer) work() {
	for {
		calls, patient := c.take()
		if len(calls) == 0 {
			return
		}
		c.tick(calls)
		c.release(calls, patient)
	}
}

// take gives the next tick's calls: no action twice, and none of a tenant that another
// tick of this process works for, since the two would wait for each other's rows; only
// when many of those wait and nothing else does, they go all the same. Without any the
// worker ends.
//
// Resolves that were busy go by themselves, in one tick at a time: it waits for the
// publication that they were too early for. It holds nothing meanwhile that another of
// their tenants needs, and so is not counted as working for them.
func (c *coalescer) take() (taken []*call, patient bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.patient {
		taken = c.pick((*call).early)
		patient = len(taken) > 0
	}
	if len(taken) == 0 {
		taken = c.pick(func(one *call) bool { return !one.early() && c.tenants[one.tenant] == 0 })
	}
	if len(taken) == 0 && len(c.queue) >= many {
		taken = c.pick(func(one *call) bool { return !one.early() })
	}
	if patient {
		c.patient = true
	} else {
		for _, one := range taken {
			c.tenants[one.tenant]++
		}
	}
	if len(taken) == 0 {
		c.workers--
		return nil, false
	}
	c.employ()
	return taken, patient
}

// early reports a resolve that found its replica taken, or a publication being made.
func (one *call) early() bool { return one.resolve != nil && one.busy > 0 }

// pick takes what is free from the queue, at most a batch. c.mu is held.
func (c *coalescer) pick(free func(*call) bool) []*call {
	taken, rest := make([]*call, 0, min(len(c.queue), c.limits.Batch)), c.queue[:0]
	actions := make(map[string]bool, c.limits.Batch)
	for _, one := range c.queue {
		if len(taken) < c.limits.Batch && !actions[one.action] && free(one) {
			actions[one.action] = true
			taken = append(taken, one)
		} else {
			rest = append(rest, one)
		}
	}
	clear(c.queue[len(rest):]) // what was taken is not kept alive
	c.queue = rest
	return taken
}

// release ends the hold on the tenants of a tick.
func (c *coalescer) release(calls []*call, patient bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if patient {
		c.patient = false
		return
	}
	for _, one := range calls {
		if c.tenants[one.tenant]--; c.tenants[one.tenant] == 0 {
			delete(c.tenants, one.tenant)
		}
	}
}

// tick sends calls as one transaction. One that was rolled back is tried in halves, so
// that a call that cannot be stored costs the others little.
func (c *coalescer) tick(calls []*call) {
	c.counts.ticks.Add(1)
	err := c.send(calls)
	switch {
	case err == nil:
	case fateUnknown(err), errors.Is(err, errAcquire): // nobody else would get a connection sooner
		tell(calls, answer{cause: err})
	case len(calls) == 1 || sqlState(err) == stateLockTimeout:
		c.counts.alone.Add(uint64(len(calls)))
		tell(calls, answer{})
	default:
		half := len(calls) / 2
		c.tick(calls[:half])
		c.tick(calls[half:])
	}
}

func tell(calls []*call, a answer) {
	for _, one := range calls {
		one.answer <- a
	}
}

// again queues calls whose candidates were all held, ahead of what came later.
func (c *coalescer) again(calls []*call) {
	c.counts.busy.Add(uint64(len(calls)))
	keep := calls[:0]
	for _, one := range calls {
		if one.busy++; one.busy >= busyTries {
			one.answer <- answer{}
		} else {
			keep = append(keep, one)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		tell(keep, answer{cause: errAcquire})
		return
	}
	c.queue = append(slices.Clone(keep), c.queue...)
}

// close answers what waits, and returns when every running tick has ended.
func (c *coalescer) close() {
	c.mu.Lock()
	c.closed = true
	tell(c.queue, answer{cause: errAcquire})
	c.queue = nil
	c.mu.Unlock()
	c.running.Wait()
}

// answeredAlone reports an answer that leaves the call to go alone.
func (a answer) answeredAlone() bool { return !a.done && a.cause == nil }

// plain reports whether a tick may settle this: nothing that moves a circuit or opens
// a reconciliation record.
func plain(a fleet.Assignment, s fleet.Settlement) bool {
	definite := s.Outcome == fleet.OutcomeCompleted || s.Outcome == fleet.OutcomeCancelled
	return definite && !s.PeerFault && !a.Attempt.Probe && a.Attempt.Settlement == nil
}
