package serve

import (
	"slices"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/client"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// TestServe_G39_KilledInTheMiddleASuccessorFinishes kills aipd while actions run: what
// it acknowledged ends, runs once, and leaves nothing reserved.
func TestServe_G39_KilledInTheMiddleASuccessorFinishes(t *testing.T) {
	s := newSmall(t)
	s.migrated()
	s.product.slow = 30 * time.Millisecond
	first, kill := s.spawn("gateway-1")
	s.host(s.lifecycleService())
	var all []action.Request
	c := first.client(t, "token-acme")
	for range 40 {
		request := openTicket()
		if _, err := c.Submit(t.Context(), request, 0); err != nil {
			t.Fatal(err)
		}
		all = append(all, request)
	}
	kill()
	second := s.start("gateway-2").client(t, "token-acme")
	for _, request := range all {
		finish(t, second, request)
		if n := s.product.called(request.ID); n != 1 {
			t.Errorf("%s was called %d times", request.ID, n)
		}
	}
	s.wantNothingReserved()
}

// finish waits for an acknowledged action; one that is known not to have started is
// submitted again, as a client would.
func finish(t *testing.T, c *client.Client, request action.Request) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		got, err := c.Get(t.Context(), request.ID, time.Second)
		if err != nil {
			t.Fatalf("an acknowledged action is lost: %v", err)
		}
		switch {
		case got.State == action.Completed:
			return
		case time.Now().After(deadline):
			t.Fatalf("%s stays %s (%+v)", request.ID, got.State, got.Problem)
		case got.State == action.Retryable:
			submit(t, c, request)
		}
	}
}

func (s *small) wantNothingReserved() {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		snapshot, err := s.control.Snapshot(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		reserved := slices.ContainsFunc(snapshot.Counters, func(c registry.Counter) bool { return c.Current != 0 })
		if reserved && time.Now().Before(deadline) {
			continue
		}
		if reserved {
			s.t.Errorf("counters do not return to zero: %+v", snapshot.Counters)
		}
		for _, v := range registry.Audit(snapshot) {
			s.t.Errorf("audit: %s broken by %s: %s", v.Guarantee, v.Subject, v.What)
		}
		return
	}
}
