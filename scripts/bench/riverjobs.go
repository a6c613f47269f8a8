package main

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/jackc/pgx/v5"
)

// riverJobs inserts jobs through River's client, which works them with a worker that
// does nothing, and counts each when River says that its completion is stored. One
// job is two operations, as a resolve and its settlement are. What differs: River
// fetches and completes in bulk and answers nobody, a resolve is answered after its
// commit; River decides nothing, a resolve chooses, limits and pins.
type riverJobs struct {
	pool        *pgxpool.Pool
	client      *river.Client[pgx.Tx]
	permits     chan struct{} // bounds the backlog
	done        atomic.Int64
	inserted    atomic.Int64
	unsubscribe func()
	drainedAll  chan struct{}
}

// riverBacklog is how many jobs wait for their completion at most.
const riverBacklog = 2000

type noop struct {
	Action string `json:"action"`
}

// Kind implements river.JobArgs.
func (noop) Kind() string { return "noop" }

type noopWorker struct {
	river.WorkerDefaults[noop]
}

// Work implements river.Worker.
func (noopWorker) Work(context.Context, *river.Job[noop]) error { return nil }

// seedRiver makes River's database in the same server.
func seedRiver(ctx context.Context, s *site) error {
	if err := s.server.cluster.CreateDatabase(ctx, s.name, ""); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, s.admin())
	if err != nil {
		return err
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quietLogger()})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func quietLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}

func openRiver(ctx context.Context, s *site) (driver, error) {
	pool, err := openPool(ctx, s.admin())
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, noopWorker{})
	d := &riverJobs{pool: pool, permits: make(chan struct{}, riverBacklog), drainedAll: make(chan struct{})}
	d.client, err = river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1000, FetchCooldown: river.FetchCooldownMin}},
		Workers: workers, Logger: quietLogger(),
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	events, unsubscribe := d.client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 10 * riverBacklog, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	d.unsubscribe = unsubscribe
	go func() { // ends when unsubscribe closes the channel; close waits for it
		defer close(d.drainedAll)
		for range events {
			d.done.Add(1)
			<-d.permits
		}
	}()
	if err := d.client.Start(context.WithoutCancel(ctx)); err != nil {
		d.unsubscribe()
		pool.Close()
		return nil, err
	}
	return d, nil
}

func (d *riverJobs) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_ = d.client.StopAndCancel(ctx) // the database is thrown away
	d.unsubscribe()
	<-d.drainedAll
	d.pool.Close()
}

func (d *riverJobs) unit(ctx context.Context, j job, t *tally) {
	select {
	case d.permits <- struct{}{}:
	case <-ctx.Done():
		return
	}
	began := time.Now()
	if _, err := d.client.Insert(ctx, noop{Action: j.tenant.String()}, nil); err != nil {
		<-d.permits
		t.failed("insert " + failureName(err))
		return
	}
	d.inserted.Add(1)
	t.done(opWrite, began)
}

func (d *riverJobs) completed() int64 { return d.done.Load() }

func (d *riverJobs) drained(ctx context.Context) bool {
	for len(d.permits) > 0 && ctx.Err() == nil {
		sleepUntil(ctx, time.Now().Add(5*time.Millisecond))
	}
	return len(d.permits) == 0
}
