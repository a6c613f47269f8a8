package fairness_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fairness"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"pgregory.net/rapid"
)

func tenantID(t testing.TB, s string) fleet.TenantID {
	t.Helper()
	id, err := fleet.ParseTenantID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func capabilityID(t testing.TB, s string) fleet.CapabilityID {
	t.Helper()
	id, err := fleet.ParseCapabilityID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func enqueue(t testing.TB, s *fairness.Scheduler, r fairness.Request) *fairness.Ticket {
	t.Helper()
	ticket, err := s.Enqueue(r)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func wantOverload(t *testing.T, err error, scope string) {
	t.Helper()
	var e *fleet.Error
	if !errors.As(err, &e) || e.Kind != fleet.CapacityExceeded || e.Scope != scope || e.RetryAfter <= 0 {
		t.Fatalf("got %#v, want capacity_exceeded of %s with a retry time", err, scope)
	}
}

func TestEnqueue_G31_BoundsHold(t *testing.T) {
	a, b, c := tenantID(t, "a"), tenantID(t, "b"), capabilityID(t, "desk:open")
	bounds := fairness.Bounds{InFlight: 2, InFlightTenant: 2, Queued: 3, QueuedTenant: 2, QueuedBytes: 100, RequestBytes: 60}
	s := fairness.New(fairness.Config{Bounds: bounds, Now: time.Now})
	request := func(id fleet.TenantID, bytes int64) fairness.Request {
		return fairness.Request{Tenant: id, Capability: c, Bytes: bytes}
	}
	if _, err := s.Enqueue(request(a, 61)); !fleet.Is(err, fleet.Invalid) {
		t.Fatalf("a large request: %v", err)
	}
	for range 4 { // two run, two wait
		enqueue(t, s, request(a, 10))
	}
	_, err := s.Enqueue(request(a, 10))
	wantOverload(t, err, "tenant_queue")
	_, err = s.Enqueue(request(b, 60))
	if err != nil {
		t.Fatalf("another tenant is refused for the first one's backlog: %v", err)
	}
	_, err = s.Enqueue(request(b, 10))
	wantOverload(t, err, "queue")
	if load := s.Load(); load.InFlight != 2 || load.Queued != 3 || load.QueuedBytes != 80 {
		t.Fatalf("load %+v", load)
	}
}

func TestEnqueue_G31_QueuedBytesAreBounded(t *testing.T) {
	a, c := tenantID(t, "a"), capabilityID(t, "desk:open")
	s := fairness.New(fairness.Config{Bounds: fairness.Bounds{InFlight: 1, QueuedBytes: 100}, Now: time.Now})
	running := enqueue(t, s, fairness.Request{Tenant: a, Capability: c, Bytes: 90})
	enqueue(t, s, fairness.Request{Tenant: a, Capability: c, Bytes: 90})
	_, err := s.Enqueue(fairness.Request{Tenant: a, Capability: c, Bytes: 20})
	wantOverload(t, err, "queue_bytes")
	running.Release(0)
	enqueue(t, s, fairness.Request{Tenant: a, Capability: c, Bytes: 90})
}

func TestEnqueue_G31_OneTenantCannotHoldEveryPermit(t *testing.T) {
	a, b, c := tenantID(t, "a"), tenantID(t, "b"), capabilityID(t, "desk:open")
	s := fairness.New(fairness.Config{Bounds: fairness.Bounds{InFlight: 4, InFlightTenant: 2}, Now: time.Now})
	var of []*fairness.Ticket
	for range 4 {
		of = append(of, enqueue(t, s, fairness.Request{Tenant: a, Capability: c}))
	}
	if !of[1].Ready() || of[2].Ready() {
		t.Fatal("the tenant's own bound does not hold")
	}
	if !enqueue(t, s, fairness.Request{Tenant: b, Capability: c}).Ready() {
		t.Fatal("another tenant waits although there is room")
	}
	of[0].Release(time.Millisecond)
	if !of[2].Ready() || of[3].Ready() {
		t.Fatal("the released permit did not go to the next one")
	}
}

func TestWait_G31_AgeAndDeadlineExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, c := tenantID(t, "a"), capabilityID(t, "desk:open")
		s := fairness.New(fairness.Config{Bounds: fairness.Bounds{InFlight: 1}, Now: time.Now})
		enqueue(t, s, fairness.Request{Tenant: a, Capability: c})
		start := time.Now()
		old := enqueue(t, s, fairness.Request{Tenant: a, Capability: c})
		short := enqueue(t, s, fairness.Request{Tenant: a, Capability: c, Deadline: start.Add(5 * time.Second)})
		if err := short.Wait(t.Context()); fleet.CodeOf(err) != fairness.CodeExpired {
			t.Fatalf("deadline: %v", err)
		}
		if waited := time.Since(start); waited != 5*time.Second {
			t.Fatalf("it expired after %s", waited)
		}
		if err := old.Wait(t.Context()); fleet.CodeOf(err) != fairness.CodeAge || !fleet.Is(err, fleet.CapacityExceeded) {
			t.Fatalf("age: %v", err)
		}
		if waited := time.Since(start); waited != 30*time.Second {
			t.Fatalf("it expired after %s", waited)
		}
		if load := s.Load(); load.Queued != 0 || load.InFlight != 1 {
			t.Fatalf("expired tickets still count: %+v", load)
		}
	})
}

func TestCancel_G31_WakesAndFreesThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, c := tenantID(t, "a"), capabilityID(t, "desk:open")
		s := fairness.New(fairness.Config{Bounds: fairness.Bounds{InFlight: 1}, Now: time.Now})
		running := enqueue(t, s, fairness.Request{Tenant: a, Capability: c})
		waiting := enqueue(t, s, fairness.Request{Tenant: a, Capability: c})
		next := enqueue(t, s, fairness.Request{Tenant: a, Capability: c})
		done := make(chan error, 1)
		go func() { done <- waiting.Wait(context.Background()) }()
		synctest.Wait()
		if !waiting.Cancel() || running.Cancel() {
			t.Fatal("only a waiting ticket can be cancelled")
		}
		if err := <-done; fleet.CodeOf(err) != fairness.CodeGone {
			t.Fatalf("cancelled wait: %v", err)
		}
		running.Release(0)
		running.Release(0) // a second one changes nothing
		if err := next.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		last := enqueue(t, s, fairness.Request{Tenant: a, Capability: c})
		cancel()
		if err := last.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("a dropped caller: %v", err)
		}
		next.Release(0)
		if load := s.Load(); load != (fairness.Load{}) {
			t.Fatalf("something is left: %+v", load)
		}
	})
}

func TestEnqueue_G31_RetryAfterFollowsTheDrainRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, c := tenantID(t, "a"), capabilityID(t, "desk:open")
		s := fairness.New(fairness.Config{Bounds: fairness.Bounds{InFlight: 1, QueuedTenant: 4}, Now: time.Now})
		var waiting []*fairness.Ticket
		for range 5 {
			waiting = append(waiting, enqueue(t, s, fairness.Request{Tenant: a, Capability: c}))
		}
		for i := range 4 { // one grant a second
			time.Sleep(time.Second)
			waiting[i].Release(time.Second)
			waiting = append(waiting, enqueue(t, s, fairness.Request{Tenant: a, Capability: c}))
		}
		_, err := s.Enqueue(fairness.Request{Tenant: a, Capability: c})
		var e *fleet.Error
		if !errors.As(err, &e) || e.RetryAfter != 4*time.Second {
			t.Fatalf("got %v after %v, want 4 s for 4 grants at 1 a second", err, e.RetryAfter)
		}
	})
}

// TestGrant_G32_BackloggedTenantsGetTheirShare serves random tenants, weights and
// costs through one permit, and checks every tenant's share of the service at
// every moment while all of them are backlogged.
func TestGrant_G32_BackloggedTenantsGetTheirShare(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tenants := rapid.IntRange(2, 6).Draw(rt, "tenants")
		weights := map[fleet.TenantID]int{}
		costs := map[fleet.TenantID]time.Duration{}
		names := map[fleet.TenantID]fleet.CapabilityID{}
		var order []fleet.TenantID
		sum, largest := 0, time.Duration(0)
		for i := range tenants {
			id := tenantID(t, fmt.Sprint("tenant-", i))
			weights[id] = rapid.IntRange(1, 5).Draw(rt, "weight")
			costs[id] = time.Duration(rapid.IntRange(1, 400).Draw(rt, "cost")) * time.Millisecond
			names[id] = capabilityID(t, fmt.Sprint("cap-", i))
			sum += weights[id]
			largest = max(largest, costs[id])
			order = append(order, id)
		}
		s := fairness.New(fairness.Config{
			Bounds: fairness.Bounds{InFlight: 1, InitialEstimate: time.Millisecond},
			Weight: func(id fleet.TenantID) int { return weights[id] }, Now: time.Now,
		})
		for _, id := range order { // teach the costs
			ticket := enqueue(t, s, fairness.Request{Tenant: id, Capability: names[id]})
			ticket.Release(costs[id])
		}
		queue := map[*fairness.Ticket]fleet.TenantID{}
		push := func(id fleet.TenantID) {
			queue[enqueue(t, s, fairness.Request{Tenant: id, Capability: names[id]})] = id
		}
		hold := enqueue(t, s, fairness.Request{Tenant: tenantID(t, "zz"), Capability: names[order[0]]})
		for _, id := range order {
			for range 20 {
				push(id)
			}
		}
		hold.Release(0)
		served, total := map[fleet.TenantID]time.Duration{}, time.Duration(0)
		for range 400 {
			var running *fairness.Ticket
			for ticket := range queue {
				if ticket.Ready() {
					running = ticket
				}
			}
			id := queue[running]
			delete(queue, running)
			served[id] += costs[id]
			total += costs[id]
			push(id) // stays backlogged
			running.Release(costs[id])
			for _, each := range order {
				share := total * time.Duration(weights[each]) / time.Duration(sum)
				quantum := largest * time.Duration(weights[each])
				if lag := share - served[each]; lag > quantum+largest {
					rt.Fatalf("%s of weight %d has %s of its %s: more than a quantum of %s behind", each, weights[each], served[each], share, quantum)
				}
			}
		}
	})
}

func TestGrant_G32_SlowCallsCountForMore(t *testing.T) {
	slow, quick := tenantID(t, "slow"), tenantID(t, "quick")
	slowCap, quickCap := capabilityID(t, "slow"), capabilityID(t, "quick")
	s := fairness.New(fairness.Config{Bounds: fairness.Bounds{InFlight: 1}, Now: time.Now})
	enqueue(t, s, fairness.Request{Tenant: slow, Capability: slowCap}).Release(time.Second)
	enqueue(t, s, fairness.Request{Tenant: quick, Capability: quickCap}).Release(100 * time.Millisecond)
	hold := enqueue(t, s, fairness.Request{Tenant: tenantID(t, "zz"), Capability: quickCap})
	waiting := map[*fairness.Ticket]fleet.TenantID{}
	for range 100 {
		waiting[enqueue(t, s, fairness.Request{Tenant: slow, Capability: slowCap})] = slow
		waiting[enqueue(t, s, fairness.Request{Tenant: quick, Capability: quickCap})] = quick
	}
	hold.Release(0)
	granted := map[fleet.TenantID]int{}
	for range 88 {
		for ticket, id := range waiting {
			if ticket.Ready() {
				granted[id]++
				delete(waiting, ticket)
				ticket.Release(0)
				break
			}
		}
	}
	if granted[slow] != 8 || granted[quick] != 80 {
		t.Fatalf("granted %v, want ten quick ones for each slow one", granted)
	}
}
