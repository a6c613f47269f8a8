package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// soakFor is how long each size is kept under load. Without it, a few rounds are played.
func soakFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("AIP_SOAK")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("AIP_SOAK is a duration, as in 30s, not %q", text)
	}
	return d
}

// TestSoak_G04_G05_EverythingAtOnce keeps 64 clients on 1, 4, 20 and 100 replicas:
// first attempts, retries, second settlements, late settlements, beside beats,
// registrations that supersede epochs, publications and maintenance. There must be no
// deadlock, nothing refused without reason and nothing left counted. Half the clients are
// of a process that shares transactions, as the daemon does. AIP_SOAK=30s (make soak) keeps
// each size up for that long.
func TestSoak_G04_G05_EverythingAtOnce(t *testing.T) {
	long := soakFor(t)
	for _, replicas := range []int{1, 4, 20, 100} {
		t.Run(fmt.Sprintf("%d replicas", replicas), func(t *testing.T) {
			d := fresh(t, pgx.QueryExecModeCacheStatement)
			d.build(t, shape{tenants: 2, replicas: replicas, capacity: 64})
			config := dataConfig(t, d)
			config.Coalesce = postgres.DefaultCoalesce()
			l := &soaking{database: d, shared: d.open(t, config), replicas: replicas, until: time.Now().Add(long), rounds: 5}
			if long > 0 {
				l.rounds = 1 << 30
			}
			l.run(t)
			l.finish(t)
		})
	}
}

type soaking struct {
	*database
	shared                       *postgres.Registry
	replicas, rounds             int
	until                        time.Time
	routed, again, refused, late atomic.Int64
	published, passes            atomic.Int64
}

// over tells a client that it has done enough.
func (l *soaking) over(round int) bool {
	return round >= l.rounds || l.rounds > 1<<20 && time.Now().After(l.until)
}

func (l *soaking) run(t *testing.T) {
	const callers = 64
	var clients, beside sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for _, work := range []func(context.Context, *testing.T){l.maintain, l.publishing, l.lifecycleBeats} {
		beside.Go(func() { work(ctx, t) })
	}
	for caller := range callers {
		clients.Go(func() {
			for round := 0; !l.over(round); round++ {
				if err := l.action(t, caller, round); err != nil {
					t.Errorf("%s: %v (%s)", fleet.KindOf(err), err, fleet.CodeOf(err))
					return
				}
			}
		})
	}
	clients.Wait()
	stop()
	beside.Wait()
}

// action resolves, settles, and often does both again.
func (l *soaking) action(t *testing.T, caller, round int) error {
	req := request(fmt.Sprintf("s%dr%d", caller, round), caller%2)
	via := []*postgres.Registry{l.data, l.shared}[caller/2%2]
	var old fleet.Assignment
	for try := range 1 + rand.IntN(3) {
		a, err := via.Resolve(t.Context(), req)
		if fleet.Is(err, fleet.ReplicaUnavailable) || fleet.Is(err, fleet.CapacityExceeded) || fleet.Is(err, fleet.Contended) {
			l.refused.Add(1)
			return nil
		}
		if err != nil {
			return err
		}
		l.routed.Add(1)
		if try > 0 {
			l.again.Add(1)
			if _, err := via.Settle(t.Context(), old, fleet.Settlement{Outcome: fleet.OutcomeCompleted}); fleet.Is(err, fleet.FenceLost) {
				l.late.Add(1)
			}
		}
		old = a
		outcome := []fleet.Outcome{fleet.OutcomeCancelled, fleet.OutcomeUnknown}[rand.IntN(2)]
		if _, err := via.Settle(t.Context(), a, fleet.Settlement{Outcome: outcome}); err != nil {
			return err
		}
	}
	return nil
}

func (l *soaking) maintain(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		if _, err := l.data.Expire(ctx, 100); err != nil && ctx.Err() == nil {
			t.Errorf("expire: %v", err)
		}
		l.passes.Add(1)
		rest(ctx, 20*time.Millisecond)
	}
}

func (l *soaking) publishing(ctx context.Context, t *testing.T) {
	for n := uint64(2); ctx.Err() == nil; n++ {
		set := registry.ChangeSet{Actor: "test", Reason: "test", Bindings: []fleet.CapabilityBinding{binding(0, n, true)}}
		status, err := l.read.Status(ctx)
		if err == nil {
			_, err = l.control.Apply(ctx, set, status.Revision)
		}
		if err != nil && ctx.Err() == nil {
			t.Errorf("publish: %v", err)
		}
		l.published.Add(1)
		rest(ctx, 50*time.Millisecond)
	}
}

// lifecycleBeats restarts one host after the other: what it held is stale at once.
func (l *soaking) lifecycleBeats(ctx context.Context, t *testing.T) {
	for n := 0; ctx.Err() == nil; n++ {
		m := n % l.replicas
		r := registration(0, m, fmt.Sprintf("msg_soak_%d", n))
		r.LastEpoch = uint64(1 + n/l.replicas)
		if _, err := l.lifecycle.Register(ctx, r); err != nil && ctx.Err() == nil {
			t.Errorf("register: %v", err)
		}
		rest(ctx, 50*time.Millisecond)
	}
}

func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (l *soaking) finish(t *testing.T) {
	t.Helper()
	t.Logf("%d reservations, %d of them retries, %d refusals, %d late settlements refused, %d publications, %d passes, retries %+v",
		l.routed.Load(), l.again.Load(), l.refused.Load(), l.late.Load(), l.published.Load(), l.passes.Load(), l.data.Retries())
	t.Logf("shared: %+v, retries %+v", l.shared.Shared(), l.shared.Retries())
	for _, r := range []*postgres.Registry{l.data, l.shared} {
		if n := r.Retries(); n.Deadlocks != 0 {
			t.Errorf("retries %+v: there must be no deadlock", n)
		}
	}
	if n := l.shared.Shared(); n.Calls == 0 {
		t.Errorf("%+v: nothing was shared", n)
	}
	if l.again.Load() == 0 || l.late.Load() == 0 || l.published.Load() == 0 {
		t.Error("the load met no retry, no late settlement or no publication: it tested nothing")
	}
	if _, err := l.data.Expire(t.Context(), 1<<20); err != nil {
		t.Fatal(err)
	}
	s := l.audit(t)
	for _, c := range s.Counters {
		if c.Current != 0 {
			t.Errorf("%s %s is left at %d", c.Kind, c.Key, c.Current)
		}
	}
	for _, r := range s.Replicas {
		if r.Live.Active != 0 {
			t.Errorf("%s is left at %d", r.ID, r.Live.Active)
		}
	}
}
