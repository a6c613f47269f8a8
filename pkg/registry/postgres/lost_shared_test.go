package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// A tick answers for many. Each case loses its answer at one point and then asks every
// caller of it for the truth.

// sharing is a fleet whose calls all go through the queue, one tick at a time, over a
// connection that can be cut. database.data goes straight to the server.
type sharing struct {
	*database
	proxy  *pgclustertest.Proxy
	shared *postgres.Registry
}

func newSharing(t *testing.T) *sharing {
	t.Helper()
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 1, replicas: 4, capacity: 64})
	s := &sharing{database: d, proxy: pgclustertest.NewProxy(t, url(t, d.name, "aip_data"))}
	s.shared = d.open(t, postgres.Config{
		DataURL: s.proxy.DSN(), Connections: 16, Coalesce: postgres.Coalesce{Direct: 0, Ticks: 1, Batch: 64},
	})
	for _, r := range []*postgres.Registry{d.data, s.shared} { // counters exist, connections are warm
		a, err := r.Resolve(t.Context(), request(fmt.Sprintf("warm%p", r), 0))
		if err == nil {
			_, err = r.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// lock holds an action as a transaction would that is in the middle of it.
func (s *sharing) lock(t *testing.T, action string) session {
	t.Helper()
	held := s.begin(t, "aip_data")
	if _, err := held.tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", actionID(action).String()); err != nil {
		t.Fatal(err)
	}
	return held
}

func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !reached(); pauseFor(t, time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it does not happen", what)
		}
	}
}

// inOneTick starts calls so that one tick carries all of them; wait returns when they have
// ended. Before that tick is sent it runs prepare: all that is sent later is of it, or
// comes after it.
func (s *sharing) inOneTick(t *testing.T, calls []func(), prepare func()) (wait func()) {
	t.Helper()
	plug := s.lock(t, "plug")
	var all sync.WaitGroup
	var plugged error
	all.Go(func() {
		a, err := s.shared.Resolve(t.Context(), request("plug", 0))
		if err == nil {
			_, err = s.data.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
		}
		plugged = err
	})
	s.waits(t, plug, nil)
	for _, call := range calls {
		all.Go(call)
	}
	until(t, "all are queued", func() bool { return s.shared.Queued() == len(calls) })
	prepare()
	plug.end(t, false)
	return func() {
		t.Helper()
		all.Wait()
		if plugged != nil {
			t.Fatal(plugged)
		}
	}
}

// TestLostShared_G39_AnswerToATick: a tick of 20 resolves and 10 settlements loses the
// answer to its commit, or its commit. Every caller hears what is stored; nothing is
// reserved twice or left reserved.
func TestLostShared_G39_AnswerToATick(t *testing.T) {
	for _, cut := range cuts {
		t.Run(cut.name, func(t *testing.T) {
			t.Parallel()
			s := newSharing(t)
			committed := cut.at == pgclustertest.AfterCommit
			const resolves, settles = 20, 10
			var told [resolves]fleet.Assignment
			var receipts [settles]registry.Receipt
			var errs [resolves + settles]error
			var calls []func()
			for n := range resolves {
				calls = append(calls, func() { told[n], errs[n] = s.shared.Resolve(t.Context(), request(fmt.Sprintf("n%d", n), 0)) })
			}
			for n := range settles {
				a, err := s.shared.Resolve(t.Context(), request(fmt.Sprintf("held%d", n), 0))
				if err != nil {
					t.Fatal(err)
				}
				calls = append(calls, func() {
					receipts[n], errs[resolves+n] = s.shared.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted, Code: "x"})
				})
			}
			s.inOneTick(t, calls, func() { s.proxy.Arm(cut.at, nil) })()
			if s.proxy.Cuts() != 1 {
				t.Fatalf("%d commits were cut: nothing was tested", s.proxy.Cuts())
			}
			for n := range resolves {
				stored, missing := s.data.Lookup(t.Context(), tenantID(0), actionID(fmt.Sprintf("n%d", n)))
				if (missing == nil) != committed {
					t.Errorf("n%d is stored: %v (%v)", n, missing == nil, missing)
				}
				truthful(t, errs[n], committed, errs[n] == nil && len(stored.Attempts) == 1 && stored.Current().Fence == told[n].Attempt.Fence)
				if errs[n] == nil {
					s.settle(t, told[n])
				}
			}
			for n, receipt := range receipts {
				if err := errs[resolves+n]; err != nil || receipt.Settlement.Code != "x" || receipt.First == committed {
					t.Errorf("held%d: receipt %+v, %v", n, receipt, err)
				}
			}
			if n := s.shared.Retries(); n.Unknown == 0 {
				t.Errorf("%+v: no commit was in doubt", n)
			}
			s.quiet(t)
		})
	}
}

// quiet checks that nothing is counted any more.
func (d *database) quiet(t *testing.T) {
	t.Helper()
	s := d.audit(t)
	for _, r := range s.Replicas {
		if r.Live.Active != 0 {
			t.Errorf("%s is left at %d", r.ID, r.Live.Active)
		}
	}
	for _, k := range s.Counters {
		if k.Current != 0 {
			t.Errorf("%s %s is left at %d", k.Kind, k.Key, k.Current)
		}
	}
}
