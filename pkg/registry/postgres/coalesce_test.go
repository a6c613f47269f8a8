package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/registrytest"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

// queued is a database whose every resolve and settlement goes through the queue.
func queued(t testing.TB, mode pgx.QueryExecMode) *database {
	t.Helper()
	d := fresh(t, mode)
	config := dataConfig(t, d)
	config.ExecMode = mode
	config.Coalesce = postgres.Coalesce{Direct: 0, Ticks: 2, Batch: 64}
	d.data = d.open(t, config)
	return d
}

// TestSuiteCoalesced plays the whole suite with every call queued and ticked: what a
// tick answers and what it leaves to go alone must not differ in anything.
func TestSuiteCoalesced(t *testing.T) {
	turns := newTurns(t, pgx.QueryExecModeCacheStatement)
	turns.open = queued
	registrytest.Run(t, once(turns.subject), registrytest.Options{ModelRuns: 5, Callers: 16})
}

// TestCoalesce_G04_G05_SharedTransactionsNeitherDeadlockNorLeak: 64 callers of one
// tenant through the queue, beside maintenance and beside callers that go alone in
// another process. Nobody may be refused while there is room, nothing may stay
// counted, and most must really have been shared.
func TestCoalesce_G04_G05_SharedTransactionsNeitherDeadlockNorLeak(t *testing.T) {
	for _, replicas := range []int{1, 4, 20, 100} {
		t.Run(fmt.Sprintf("%d replicas", replicas), func(t *testing.T) {
			const callers, others, rounds = 64, 4, 12
			d := queued(t, pgx.QueryExecModeCacheStatement)
			d.build(t, shape{tenants: 1, replicas: replicas, capacity: 80})
			alone := *d
			alone.data = d.open(t, dataConfig(t, d))
			errs := make(chan error, (callers+others+1)*rounds)
			var wait sync.WaitGroup
			for caller := range callers + others {
				via := d
				if caller >= callers {
					via = &alone
				}
				wait.Go(func() {
					for round := range rounds {
						errs <- via.once(t, fmt.Sprintf("c%dr%d", caller, round), round)
					}
				})
			}
			wait.Go(func() {
				for range rounds {
					_, err := d.data.Expire(t.Context(), 100)
					errs <- err
				}
			})
			wait.Wait()
			close(errs)
			for err := range errs {
				if err != nil {
					t.Errorf("%s: %v (%s)", fleet.KindOf(err), err, fleet.CodeOf(err))
				}
			}
			if n := d.data.Retries(); n.Deadlocks != 0 || n.Unknown != 0 {
				t.Errorf("retries %+v: there must be no deadlock", n)
			}
			if n := d.data.Shared(); n.Calls < callers*rounds/4 || n.Ticks >= n.Calls {
				t.Errorf("%+v: hardly anything was shared", n)
			}
			d.empty(t, (callers+others)*rounds)
		})
	}
}

// TestCoalesce_G05_ATickFillsCapacityExactly: more calls than room in one batch are
// routed up to the last place, and only those beyond are refused.
func TestCoalesce_G05_ATickFillsCapacityExactly(t *testing.T) {
	d := queued(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 1, replicas: 3, capacity: 10})
	warm := d.resolve(t, "warm", 0) // its counters exist from now on
	requests := make([]registry.RouteRequest, 60)
	for n := range requests {
		requests[n] = request(fmt.Sprintf("n%d", n), 0)
	}
	routed := 0
	for _, result := range d.data.ResolveBatch(t.Context(), requests) {
		switch {
		case result.Err == nil:
			routed++
		case !fleet.Is(result.Err, fleet.ReplicaUnavailable):
			t.Errorf("refused with %v", result.Err)
		}
	}
	if routed != 29 {
		t.Errorf("%d of 60 were routed beside %s, there is room for 29", routed, warm.Route.Action)
	}
	d.audit(t)
}

// TestCoalesce_G04_ACallerThatGivesUpLeavesNoReservation: whoever gives up while
// queued reserved nothing, and whoever was already taken gets the answer.
func TestCoalesce_G04_ACallerThatGivesUpLeavesNoReservation(t *testing.T) {
	d := queued(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 1, replicas: 4, capacity: 80})
	var wait sync.WaitGroup
	for n := range 64 {
		ctx, cancel := context.WithCancel(t.Context())
		wait.Go(func() {
			a, err := d.data.Resolve(ctx, request(fmt.Sprintf("n%d", n), 0))
			if err != nil {
				return
			}
			if _, err := d.data.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeCancelled}); err != nil {
				t.Error(err)
			}
		})
		wait.Go(func() {
			time.Sleep(time.Duration(n%8) * time.Millisecond) // some before, some during, some after
			cancel()
		})
	}
	wait.Wait()
	s := d.audit(t)
	for _, r := range s.Replicas {
		if r.Live.Active != 0 {
			t.Errorf("%s is left at %d", r.ID, r.Live.Active)
		}
	}
}

// TestCoalesce_G10_CrowdedReplicasAreChosenInOrder: beyond 32 replicas the winner comes
// from an index; it must be the one of package routing, whatever the loads, and through
// the queue as well as alone.
func TestCoalesce_G10_CrowdedReplicasAreChosenInOrder(t *testing.T) {
	d := queued(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 1, replicas: 90, capacity: 80})
	alone := d.open(t, dataConfig(t, d))
	var key []byte
	if err := d.admin.QueryRow(t.Context(), "SELECT ring_key FROM aip.deployment").Scan(&key); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(10, 10))
	crowded := 0
	for n := range 60 {
		d.exec(t, fmt.Sprintf("UPDATE aip.replica_live SET active = 3 + (ring * %d) %% 3, healthy = (ring + %d) %% 5 <> 0", 1+rng.IntN(1000), n))
		req := request(fmt.Sprintf("n%d", n), 0)
		want := d.first(t, routing.Key(key).Action(req.Action))
		via := d.data
		if n%2 == 0 {
			via = alone
		}
		a, err := via.Resolve(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if a.Route.Replica.String() != want {
			t.Fatalf("%s was chosen, %s comes first", a.Route.Replica, want)
		}
		var far bool
		if err := d.admin.QueryRow(t.Context(), "SELECT crowded FROM aip.replica_live WHERE replica_id = $1", want).Scan(&far); err != nil {
			t.Fatal(err)
		}
		if far {
			crowded++
		}
	}
	if crowded == 0 {
		t.Error("no winner was a crowded one: nothing was compared")
	}
	var wrong int
	if err := d.admin.QueryRow(t.Context(), `SELECT count(*) FROM aip.replica_live l FULL JOIN aip.replica_load o USING (replica_id)
		WHERE COALESCE(l.crowded, true) AND (o.active, o.free) IS DISTINCT FROM
		(l.active, l.status = 'ready' AND l.intent = 'run' AND l.healthy AND l.active < l.capacity)`).Scan(&wrong); err != nil || wrong > 0 {
		t.Errorf("%d crowded replicas differ from their mirror (%v)", wrong, err)
	}
}

// first is the healthy replica that package routing puts first for an action.
func (d *database) first(t *testing.T, ring int64) string {
	t.Helper()
	rows, err := d.admin.Query(t.Context(), "SELECT replica_id, active, ring FROM aip.replica_live WHERE status = 'ready' AND healthy AND active < capacity")
	if err != nil {
		t.Fatal(err)
	}
	var id, best string
	var active, at, load, distance int64
	if _, err := pgx.ForEachRow(rows, []any{&id, &active, &at}, func() error {
		far := routing.Distance(ring, at)
		if best == "" || active < load || active == load && far < distance {
			best, load, distance = id, active, far
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return best
}

// TestCoalesce_G13_ResolvesWaitTogetherForAPublication: while a publication holds its lock, resolves
// wait for it in one tick and not each for itself with a connection; settlements of other tenants
// do not wait, and no call has to go alone for it.
func TestCoalesce_G13_ResolvesWaitTogetherForAPublication(t *testing.T) {
	t.Parallel()
	const actions = 24
	d := queued(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 4, replicas: 3, capacity: 80})
	held := make([]fleet.Assignment, actions)
	for n := range held {
		held[n] = d.resolve(t, fmt.Sprintf("held%d", n), 2+n%2)
	}
	for tenant := range 2 {
		d.resolve(t, fmt.Sprintf("first%d", tenant), tenant) // makes their counters
	}
	before := d.data.Shared()
	publication, err := d.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = publication.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := publication.Exec(t.Context(), "SELECT pg_advisory_xact_lock(4871, 1)"); err != nil {
		t.Fatal(err)
	}
	resolved, settled := make(chan error, 2*actions), make(chan error, actions)
	resolve := func(n, tenant int) {
		_, err := d.data.Resolve(t.Context(), request(fmt.Sprintf("early%d", n), tenant))
		resolved <- err
	}
	for n := range actions {
		go resolve(n, n%2)
		go resolve(actions+n, 2+n%2)
		go func() {
			_, err := d.data.Settle(t.Context(), held[n], fleet.Settlement{Outcome: fleet.OutcomeCompleted})
			settled <- err
		}()
	}
	for range held {
		if err := <-settled; err != nil {
			t.Error(err)
		}
	}
	if n := len(resolved); n != 0 {
		t.Errorf("%d resolves were answered while the publication was made", n)
	}
	if err := publication.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 * actions {
		if err := <-resolved; err != nil {
			t.Error(err)
		}
	}
	now := d.data.Shared()
	t.Logf("%d ticks, %d busy, %d alone", now.Ticks-before.Ticks, now.Busy-before.Busy, now.Alone-before.Alone)
	if now.Alone != before.Alone {
		t.Errorf("%d calls went alone because of the publication", now.Alone-before.Alone)
	}
	d.audit(t)
}
