package fairness_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fairness"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// The load of these proofs: eight slots that any tenant may fill. The victim asks for
// one call every 40 ms on average, each of 20 to 60 ms: an eighth of the slots. The
// adversary asks a hundred times as often, for calls as its profile says.
const (
	slots       = 8
	victimCalls = 3000
	every       = 40 * time.Millisecond
	shortest    = 20 * time.Millisecond
	longest     = 60 * time.Millisecond
)

// profile is how an adversary behaves.
type profile struct {
	name   string
	takes  func(n int, r *rand.Rand) time.Duration // of its n-th call
	cancel bool                                    // takes most of its requests back at once
	burst  int                                     // sends so many at a time; 0 is one by one
}

func profiles() []profile {
	slow := func(_ int, r *rand.Rand) time.Duration {
		return 300*time.Millisecond + time.Duration(r.IntN(100))*time.Millisecond
	}
	return []profile{
		{name: "slow calls", takes: slow},
		{name: "quick calls", takes: func(int, *rand.Rand) time.Duration { return 10 * time.Millisecond }},
		{name: "looks quick, then is slow", takes: func(n int, r *rand.Rand) time.Duration {
			if n%200 < 150 {
				return time.Millisecond
			}
			return slow(n, r)
		}},
		{name: "bursts", takes: slow, burst: 400},
		{name: "takes requests back", takes: slow, cancel: true},
	}
}

// most is the longest call that a profile makes.
const most = 400 * time.Millisecond

// crowd runs tenants through one scheduler and remembers what it saw.
type crowd struct {
	t         *testing.T
	scheduler *fairness.Scheduler
	all       sync.WaitGroup

	mu      sync.Mutex
	waits   []time.Duration // of the victim
	refused int             // of the adversary
	peak    fairness.Load
}

// call is one request from its submission to its end.
func (c *crowd) call(id fleet.TenantID, capability fleet.CapabilityID, takes time.Duration, victim bool, cancel bool) {
	asked := time.Now()
	ticket, err := c.scheduler.Enqueue(fairness.Request{Tenant: id, Capability: capability, Bytes: 1000})
	c.see()
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if victim {
			c.t.Errorf("the victim is refused: %v", err)
		}
		c.refused++
		return
	}
	if cancel && ticket.Cancel() {
		return
	}
	c.all.Go(func() {
		if ticket.Wait(context.Background()) != nil {
			return
		}
		if victim {
			c.mu.Lock()
			c.waits = append(c.waits, time.Since(asked))
			c.mu.Unlock()
		}
		time.Sleep(takes)
		ticket.Release(takes)
	})
}

// see keeps the largest of everything that is bounded.
func (c *crowd) see() {
	l := c.scheduler.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peak = fairness.Load{
		InFlight: max(c.peak.InFlight, l.InFlight), Queued: max(c.peak.Queued, l.Queued),
		QueuedBytes: max(c.peak.QueuedBytes, l.QueuedBytes), Tenants: max(c.peak.Tenants, l.Tenants),
	}
}

func (c *crowd) p99() time.Duration {
	slices.Sort(c.waits)
	return c.waits[len(c.waits)*99/100]
}

// victim asks at its own pace until it has made its calls; over is closed then.
func (c *crowd) victim(over chan<- struct{}) {
	defer close(over)
	r := rand.New(rand.NewPCG(1, 2))
	id, capability := tenantID(c.t, "victim"), capabilityID(c.t, "desk:ordinary")
	for range victimCalls {
		time.Sleep(time.Duration(r.ExpFloat64() * float64(every)))
		c.call(id, capability, shortest+time.Duration(r.Int64N(int64(longest-shortest))), true, false)
	}
}

func (c *crowd) adversary(p profile, over <-chan struct{}) {
	r := rand.New(rand.NewPCG(3, 4))
	id, capability := tenantID(c.t, "adversary"), capabilityID(c.t, "desk:hostile")
	size := max(p.burst, 1)
	for n := 0; ; n++ {
		select {
		case <-over:
			return
		case <-time.After(every / 100 * time.Duration(size)):
		}
		for range size {
			c.call(id, capability, p.takes(n, r), false, p.cancel && n%10 != 0)
		}
	}
}

// play runs the victim, alone or beside an adversary.
func play(t *testing.T, p *profile) *crowd {
	var c *crowd
	synctest.Test(t, func(t *testing.T) {
		c = &crowd{t: t, scheduler: fairness.New(fairness.Config{
			Bounds: fairness.Bounds{InFlight: slots, InFlightTenant: slots}, Now: time.Now,
		})}
		over := make(chan struct{})
		c.all.Go(func() { c.victim(over) })
		if p != nil {
			c.all.Go(func() { c.adversary(*p, over) })
		}
		c.all.Wait()
	})
	return c
}

// TestScheduler_G31_G32_AnAdversaryAtAHundredTimesTheLoad: whatever it does, another
// tenant's p99 wait stays within twice its solo figure, plus the longest call divided
// by the slots, plus one quantum; and everything that is bounded stays within bounds.
func TestScheduler_G31_G32_AnAdversaryAtAHundredTimesTheLoad(t *testing.T) {
	solo := play(t, nil)
	if len(solo.waits) != victimCalls {
		t.Fatalf("alone it made %d calls", len(solo.waits))
	}
	for _, p := range profiles() {
		t.Run(p.name, func(t *testing.T) {
			c := play(t, &p)
			quantum := most // the largest average cost is at most the longest call
			bound := 2*solo.p99() + most/slots + quantum
			t.Logf("p99 wait: alone %s, beside the adversary %s, bound %s; the adversary was refused %d times", solo.p99(), c.p99(), bound, c.refused)
			if len(c.waits) != victimCalls || c.p99() > bound {
				t.Errorf("%d calls, p99 wait %s, bound %s", len(c.waits), c.p99(), bound)
			}
			if c.peak.InFlight > slots || c.peak.Queued > 4096 || c.peak.QueuedBytes > 64<<20 || c.peak.Tenants > 2 {
				t.Errorf("bounds are broken: %+v", c.peak)
			}
			if c.refused == 0 {
				t.Error("the adversary was never refused: it is not one")
			}
		})
	}
}

// TestScheduler_G32_AWeightIsAShareUnderPressure: two tenants that ask for more than
// there is get what their weights say, within a quantum, whatever their calls cost.
func TestScheduler_G32_AWeightIsAShareUnderPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heavy, light := tenantID(t, "heavy"), tenantID(t, "light")
		takes := map[fleet.TenantID]time.Duration{heavy: 10 * time.Millisecond, light: 200 * time.Millisecond}
		s := fairness.New(fairness.Config{
			Bounds: fairness.Bounds{InFlight: slots, InFlightTenant: slots}, Now: time.Now,
			Weight: func(id fleet.TenantID) int { return map[fleet.TenantID]int{heavy: 3, light: 1}[id] },
		})
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		var mu sync.Mutex
		served := map[fleet.TenantID]time.Duration{}
		var workers sync.WaitGroup
		for _, id := range []fleet.TenantID{heavy, light} {
			for range 100 { // always more waiting than there are slots
				workers.Go(func() {
					for ctx.Err() == nil {
						ticket, err := s.Enqueue(fairness.Request{Tenant: id, Capability: capabilityID(t, "of:"+id.String())})
						if err != nil || ticket.Wait(ctx) != nil {
							return
						}
						time.Sleep(takes[id])
						ticket.Release(takes[id])
						mu.Lock()
						served[id] += takes[id]
						mu.Unlock()
					}
				})
			}
		}
		workers.Wait()
		share := float64(served[heavy]) / float64(served[heavy]+served[light])
		t.Logf("served %v: the heavy one got %.3f of it", served, share)
		if share < 0.73 || share > 0.77 {
			t.Errorf("weight 3 of 4 got %.3f of the service", share)
		}
	})
}

// BenchmarkScheduler shows that a request costs the same however many wait, and however
// many tenants there are.
func BenchmarkScheduler(b *testing.B) {
	for _, size := range []struct{ tenants, queued int }{{1, 1_000}, {1, 1_000_000}, {1_000, 1_000_000}, {100_000, 1_000_000}} {
		b.Run(fmt.Sprintf("tenants=%d/queued=%d", size.tenants, size.queued), func(b *testing.B) {
			s := fairness.New(fairness.Config{Now: time.Now, Bounds: fairness.Bounds{
				InFlight: 1, InFlightTenant: 1, Queued: 2 * size.queued, QueuedTenant: 2 * size.queued, QueuedBytes: 1 << 40,
			}})
			capability := capabilityID(b, "desk:open")
			ids := make([]fleet.TenantID, size.tenants)
			for i := range ids {
				ids[i] = tenantID(b, fmt.Sprint("tenant-", i))
			}
			running := enqueue(b, s, fairness.Request{Tenant: ids[0], Capability: capability})
			waiting := make([]*fairness.Ticket, size.queued)
			for i := range waiting {
				waiting[i] = enqueue(b, s, fairness.Request{Tenant: ids[i%len(ids)], Capability: capability})
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N { // one request comes, one is taken back
				at := i % len(waiting)
				waiting[at].Cancel()
				waiting[at] = enqueue(b, s, fairness.Request{Tenant: ids[at%len(ids)], Capability: capability})
			}
			running.Release(0)
		})
	}
}
