package serve

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/client"
	"github.com/aipfleet/aipfleet/pkg/pgcluster"
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

// TestServe_G39_TheDatabaseServerIsKilledUnderLoad: what was acknowledged before the
// crash ends afterwards, once; aipd needs no restart.
func TestServe_G39_TheDatabaseServerIsKilledUnderLoad(t *testing.T) {
	dir, err := os.MkdirTemp("", "aipfleet-kill-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the server may run as another account
		t.Fatal(err)
	}
	config := pgcluster.Config{Dir: dir}
	cluster := must(pgcluster.Start(t.Context(), config))
	t.Cleanup(func() {
		if err := pgcluster.RemoveDir(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.CreateDatabase(t.Context(), "fleet", ""); err != nil {
		t.Fatal(err)
	}
	if err := initRegistry(t.Context(), cluster.AdminDSN("fleet")); err != nil {
		t.Fatal(err)
	}
	s := newSmall(t)
	s.open(cluster, "fleet")
	s.product.slow = 5 * time.Millisecond
	d := s.start("gateway-1")
	s.host(s.lifecycleService())
	c := d.client(t, "token-acme")

	acknowledged := s.load(c, func() {
		if err := cluster.Kill(); err != nil {
			t.Error(err)
		}
		config.Port = cluster.Port()
		must(pgcluster.Start(t.Context(), config))
	})
	if len(acknowledged) < 20 {
		t.Fatalf("only %d actions were acknowledged: nothing was tested", len(acknowledged))
	}
	for _, request := range acknowledged {
		finish(t, c, request)
		if n := s.product.called(request.ID); n != 1 {
			t.Errorf("%s was called %d times", request.ID, n)
		}
	}
	s.wantNothingReserved()
}

// load submits from several clients, lets disturb happen in the middle, goes on for a
// while, and returns what was acknowledged.
func (s *small) load(c *client.Client, disturb func()) []action.Request {
	s.t.Helper()
	var mu sync.Mutex
	var acknowledged []action.Request
	var clients sync.WaitGroup
	half := make(chan struct{}, 4)
	for range 4 {
		clients.Go(func() {
			for i := range 30 {
				if i == 10 {
					half <- struct{}{}
				}
				request := openTicket()
				if _, err := c.Submit(s.t.Context(), request, 0); err != nil {
					time.Sleep(50 * time.Millisecond)
					continue
				}
				mu.Lock()
				acknowledged = append(acknowledged, request)
				mu.Unlock()
			}
		})
	}
	<-half
	disturb()
	clients.Wait()
	return acknowledged
}
