package postgres_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/registrytest"
)

// TestModel_G04_RandomSequencesAgreeWithTheModel lets rapid draw sequences of calls
// and compares every answer with the sequential model (G04, G06, G07, G09, G12). The
// sequences take turns on one database, which is emptied in between.
func TestModel_G04_RandomSequencesAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	d.keepSeed(t)
	registrytest.CheckModel(t, func() registrytest.Subject {
		d.clear(t)
		return d.subject(t)
	}, 100)
}

// TestHistories records what concurrent clients are answered and has porcupine look
// for an order that the sequential model accepts (G01, G05, G06, G07). Every second call
// goes through the queue of a process that shares transactions, the others alone.
func TestHistories(t *testing.T) {
	registrytest.RunHistories(t, func(t *testing.T) registrytest.Subject {
		d := fresh(t, pgx.QueryExecModeCacheStatement)
		config := dataConfig(t, d)
		config.Coalesce = postgres.Coalesce{Direct: 0, Ticks: 2, Batch: 64}
		shared := d.open(t, config)
		s := d.subject(t)
		s.Router = &eitherWay{Router: d.data, shared: shared}
		t.Cleanup(func() {
			for _, r := range []*postgres.Registry{d.data, shared} {
				if n := r.Retries(); n.Deadlocks != 0 {
					t.Errorf("retries %+v: there must be no deadlock", n)
				}
			}
			n := shared.Shared()
			t.Logf("shared: %+v", n)
			if n.Calls == 0 || n.Ticks >= n.Calls+n.Alone {
				t.Errorf("%+v: hardly anything was shared", n)
			}
			d.audit(t)
		})
		return s
	})
}

// eitherWay sends calls through two processes in turn.
type eitherWay struct {
	registry.Router
	shared registry.Router
	turn   atomic.Int64
}

func (e *eitherWay) next() registry.Router {
	if e.turn.Add(1)%2 == 0 {
		return e.shared
	}
	return e.Router
}

func (e *eitherWay) Resolve(ctx context.Context, req registry.RouteRequest) (fleet.Assignment, error) {
	return e.next().Resolve(ctx, req)
}

func (e *eitherWay) Settle(ctx context.Context, a fleet.Assignment, s fleet.Settlement) (registry.Receipt, error) {
	return e.next().Settle(ctx, a, s)
}
