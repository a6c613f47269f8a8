package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/action/actiontest"
	"github.com/aipfleet/aipfleet/pkg/action/postgres"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
)

// sharing is a store that makes every change in a shared transaction.
func sharing(t *testing.T, pool *pgxpool.Pool) *postgres.Store {
	t.Helper()
	s := postgres.NewSharing(pool, time.Now, postgres.Sharing{Workers: 2, Batch: 64})
	t.Cleanup(s.Close)
	return s
}

// TestStore_Shared: whoever shares transactions keeps every promise of a store.
func TestStore_Shared(t *testing.T) {
	actiontest.Run(t, func(t *testing.T) actiontest.Harness {
		pool, admin := open(t)
		elapse, routed := clockOf(admin)
		return actiontest.Harness{Store: sharing(t, pool), Elapse: elapse, Routed: routed}
	})
}

func some(n int, principal string) action.Submission {
	at := time.Now().Add(time.Duration(n) * time.Millisecond)
	return action.Submission{
		ID: fleet.NewActionID(at), Tenant: parsed(fleet.ParseTenantID("acme")), Capability: parsed(fleet.ParseCapabilityID("desk:open")),
		Principal: principal, Input: []byte(`{"n":1}`), Mode: "sync", Timeout: time.Minute, Owner: "one",
	}
}

func parsed[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestShare_G39_OneThatCannotBeStoredTakesNoneWithIt: a crowd submits, and moves what it
// submitted, in fewer transactions than there are changes; one submission that the
// database refuses is refused alone, and every other one is stored as it was answered.
func TestShare_G39_OneThatCannotBeStoredTakesNoneWithIt(t *testing.T) {
	pool, _ := open(t)
	store := sharing(t, pool)
	const crowd = 200
	var all sync.WaitGroup
	answers := make([]action.Record, crowd)
	for n := range crowd {
		all.Go(func() {
			if n == crowd/2 {
				if _, _, err := store.Submit(t.Context(), some(n, "no text of PostgreSQL: \x00")); err == nil {
					t.Error("a text with a zero byte was stored")
				}
				return
			}
			r, created, err := store.Submit(t.Context(), some(n, "alice"))
			if err != nil || !created {
				t.Errorf("submission %d: created %v, %v", n, created, err)
				return
			}
			next, err := r.Dispatch(1)
			if err == nil {
				answers[n], err = store.Advance(t.Context(), next)
			}
			if err != nil || answers[n].Revision != 2 {
				t.Errorf("change %d: revision %d, %v", n, answers[n].Revision, err)
			}
			if _, err := store.Advance(t.Context(), next); fleet.CodeOf(err) != action.CodeMoved {
				t.Errorf("a change of an older revision: %v", err)
			}
		})
	}
	all.Wait()
	for n, want := range answers {
		if n == crowd/2 {
			continue
		}
		got, err := store.Get(t.Context(), want.Tenant, want.ID)
		if err != nil || got.State != action.Dispatched || got.Revision != 2 || !got.UpdatedAt.Equal(want.UpdatedAt) {
			t.Fatalf("stored %+v, %v, answered %+v", got, err, want)
		}
	}
	var stored, transactions int
	if err := pool.QueryRow(t.Context(), "SELECT count(*), count(DISTINCT xmin::text) FROM aip.action").Scan(&stored, &transactions); err != nil {
		t.Fatal(err)
	}
	if stored != crowd-1 || transactions >= stored {
		t.Errorf("%d submissions were stored in %d transactions", stored, transactions)
	}
}

// TestShare_G39_ALostCommitIsUnknownToAllOfIt: a shared transaction whose commit was not
// answered is said to be unknown, whatever became of it, and asking again tells: it was
// kept whole or not at all.
func TestShare_G39_ALostCommitIsUnknownToAllOfIt(t *testing.T) {
	for _, c := range []struct {
		name string
		at   pgclustertest.Cut
		kept bool
	}{{"before", pgclustertest.BeforeCommit, false}, {"after", pgclustertest.AfterCommit, true}} {
		t.Run(c.name, func(t *testing.T) {
			pool, _ := open(t)
			proxy := pgclustertest.NewProxy(t, pool.Config().ConnString())
			cut, err := pgxpool.New(t.Context(), proxy.DSN())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cut.Close)
			store := sharing(t, cut)
			if _, _, err := store.Submit(t.Context(), some(0, "alice")); err != nil { // statements are prepared
				t.Fatal(err)
			}
			proxy.Arm(c.at, nil)
			s := some(1, "alice")
			_, _, err = store.Submit(t.Context(), s)
			proxy.Disarm()
			if !fleet.Is(err, fleet.Unknown) || proxy.Cuts() != 1 {
				t.Fatalf("got %v after %d cuts, want unknown after one", err, proxy.Cuts())
			}
			_, created, err := store.Submit(t.Context(), s)
			if err != nil || created == c.kept {
				t.Errorf("asked again: created %v, %v; kept before: %v", created, err, c.kept)
			}
		})
	}
}

// TestShare_G39_WhatWaitsAtTheEndGoesAlone: a store that is closed still answers.
func TestShare_G39_WhatWaitsAtTheEndGoesAlone(t *testing.T) {
	pool, _ := open(t)
	store := sharing(t, pool)
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			if _, created, err := store.Submit(t.Context(), some(n, fmt.Sprint("client ", n))); err != nil || !created {
				t.Errorf("created %v, %v", created, err)
			}
		})
	}
	store.Close()
	all.Wait()
}
