package postgres_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// TestLoad_G04_G05_MixedLoadNeitherDeadlocksNorLeaks: 64 callers resolve and settle on
// one tenant, so that every action meets the same counters, beside maintenance. No
// deadlock may happen, nobody may be refused while there is room, and nothing may stay
// counted. Bounded by count, not by time.
func TestLoad_G04_G05_MixedLoadNeitherDeadlocksNorLeaks(t *testing.T) {
	for _, replicas := range []int{1, 4, 20, 100} {
		t.Run(fmt.Sprintf("%d replicas", replicas), func(t *testing.T) {
			const callers, rounds = 64, 12
			d := fresh(t, pgx.QueryExecModeCacheStatement)
			d.build(t, shape{tenants: 1, replicas: replicas, capacity: 64})
			errs := make(chan error, callers*rounds+rounds)
			var wait sync.WaitGroup
			for caller := range callers {
				wait.Go(func() {
					for round := range rounds {
						errs <- d.once(t, fmt.Sprintf("c%dr%d", caller, round), round)
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
			d.empty(t, callers*rounds)
		})
	}
}

// once resolves one action and settles it, each outcome in turn.
func (d *database) once(t *testing.T, action string, round int) error {
	a, err := d.data.Resolve(t.Context(), request(action, 0))
	if err != nil {
		return err
	}
	outcomes := []fleet.Outcome{fleet.OutcomeCompleted, fleet.OutcomeUnknown, fleet.OutcomeCancelled}
	_, err = d.data.Settle(t.Context(), a, fleet.Settlement{Outcome: outcomes[round%3]})
	return err
}

// empty checks that every action was routed and nothing is counted any more.
func (d *database) empty(t *testing.T, routes int) {
	t.Helper()
	s := d.audit(t)
	if len(s.Routes) != routes {
		t.Errorf("%d routes, want %d", len(s.Routes), routes)
	}
	for _, c := range s.Counters {
		t.Errorf("%s %s is left at %d", c.Kind, c.Key, c.Current)
	}
	for _, r := range s.Replicas {
		if r.Live.Active != 0 {
			t.Errorf("%s is left at %d", r.ID, r.Live.Active)
		}
	}
}

// TestPlans_G08_TheHotPathScansNothing: with statistics of a real size, no table of
// the hot path is read from end to end, and its updates stay HOT, call by call as well as
// in ticks.
func TestPlans_G08_TheHotPathScansNothing(t *testing.T) {
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	for _, table := range []string{"route", "attempt", "attempt_settlement", "reservation", "replica_live", "scope_counter"} {
		// A worker that analyses them on a busy machine holds a snapshot for long, and pages fill.
		d.exec(t, fmt.Sprintf("ALTER TABLE aip.%s SET (autovacuum_enabled = off)", table))
	}
	d.build(t, shape{tenants: 50, replicas: 3, capacity: 100})
	d.history(t, 5000)
	d.flights(t, 50)
	d.exec(t, "ANALYZE")
	const actions, tenants = 300, 50
	for name, play := range map[string]func(r *postgres.Registry){
		"one by one": func(r *postgres.Registry) {
			for n := range actions {
				d.through(t, r, fmt.Sprintf("n%d", n), n%tenants)
			}
		},
		"in ticks": func(r *postgres.Registry) {
			for n := 0; n < actions; n += 30 {
				var all sync.WaitGroup
				for i := range 30 {
					all.Go(func() { d.through(t, r, fmt.Sprintf("t%d", n+i), (n+i)%tenants) })
				}
				all.Wait()
			}
		},
	} {
		config := dataConfig(t, d)
		if name == "in ticks" {
			config.Coalesce = postgres.Coalesce{Direct: 0, Ticks: 2, Batch: 64}
		}
		r := d.open(t, config)
		before := d.scans(t)
		play(r)
		r.Close()
		d.grew(t, name, before, d.scans(t), actions)
	}
}

// through resolves and settles one action by a registry.
func (d *database) through(t *testing.T, r *postgres.Registry, action string, tenant int) {
	a, err := r.Resolve(t.Context(), request(action, tenant))
	if err == nil {
		_, err = r.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
	}
	if err != nil {
		t.Errorf("%s: %v", action, err)
	}
}

// grew compares the use of tables before and after some actions.
func (d *database) grew(t *testing.T, how string, before, after map[string]tableUse, actions int) {
	t.Helper()
	for _, table := range []string{"route", "attempt", "attempt_settlement", "reservation", "replica", "replica_live", "route_candidate", "scope_counter", "tombstone", "reconciliation"} {
		if n := after[table].sequential - before[table].sequential; n > 0 {
			t.Errorf("%s: %s was scanned from end to end %d times by %d actions", how, table, n, actions)
		}
	}
	for _, table := range []string{"replica_live", "scope_counter"} {
		updated, hot := after[table].updated-before[table].updated, after[table].hot-before[table].hot
		if updated < 10 || hot*100 < updated*99 {
			t.Errorf("%s: %d of %d updates of %s were HOT", how, hot, updated, table)
		}
		t.Logf("%s: %d of %d updates of %s were HOT", how, hot, updated, table)
	}
}

// history adds settled routes, as a fleet of some age has them.
func (d *database) history(t *testing.T, n int) {
	t.Helper()
	a := d.resolve(t, "history", 0)
	if _, err := d.data.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted}); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"route", "attempt", "attempt_settlement"} {
		d.exec(t, fmt.Sprintf(`INSERT INTO aip.%[1]s SELECT (json_populate_record(h, json_build_object('action_id', h.action_id || n))).*
			FROM aip.%[1]s h, generate_series(1, %[2]d) n WHERE h.action_id = 'act_history'`, table, n))
	}
}

type tableUse struct{ sequential, updated, hot int }

func (d *database) scans(t *testing.T) map[string]tableUse {
	t.Helper()
	d.exec(t, "SELECT pg_stat_force_next_flush()")
	d.data.Close() // a session reports what it did when it ends, at the latest
	d.data = d.open(t, dataConfig(t, d))
	d.read.Close()
	d.read = d.open(t, postgres.Config{ReadURL: url(t, d.name, "aip_readonly")})
	rows, err := d.admin.Query(t.Context(), "SELECT relname::text, seq_scan, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = 'aip'")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]tableUse{}
	var name string
	var use tableUse
	if _, err := pgx.ForEachRow(rows, []any{&name, &use.sequential, &use.updated, &use.hot}, func() error {
		all[name] = use
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSnapshot_G01_G38_IsNeverAPage: an audit that reads only the first bytes of the routes finds
// violations where there are none, and misses those behind them.
func TestSnapshot_G01_G38_IsNeverAPage(t *testing.T) {
	t.Parallel()
	const routes = 6000
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 1, replicas: 1, capacity: 4})
	d.history(t, routes)
	page, err := d.read.List(t.Context(), registry.Selection{Noun: registry.Routes, Limit: registry.MaxListItems})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(page.Routes)
	if err != nil {
		t.Fatal(err)
	}
	if size := len(raw) * routes / len(page.Routes); size < 5*registry.MaxListBytes/4 {
		t.Fatalf("the routes are only about %d bytes: a page would hold them", size)
	}
	if s := d.audit(t); len(s.Routes) != routes+1 {
		t.Errorf("%d of %d routes are in the snapshot", len(s.Routes), routes+1)
	}
}
