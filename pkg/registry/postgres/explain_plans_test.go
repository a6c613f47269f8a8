package postgres_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// plan is one node of a plan as auto_explain writes it.
type plan struct {
	Kind      string `json:"Node Type"`
	Relation  string `json:"Relation Name"`
	Condition string `json:"Index Cond"`
	Filter    string `json:"Filter"`
	Plans     []plan `json:"Plans"`
}

type explained struct {
	Query string `json:"Query Text"`
	Plan  plan   `json:"Plan"`
}

// TestPlans_G08_EveryHotStatementGoesByKey runs the real functions with auto_explain on
// for nested statements, over statistics of a real size, and reads every plan out of the
// server's log: no sequential scan, and no index that is read from end to end, in any
// statement of resolve, retry, settle, beat or lookup, of a tick of many, and where an
// instance has more replicas than are read and sorted.
func TestPlans_G08_EveryHotStatementGoesByKey(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 100, replicas: 3, capacity: 100})
	d.crowd(t, 0, 3, 60)
	d.history(t, 5000)
	d.releases(t, 500)
	d.flights(t, 500)
	d.exec(t, "ANALYZE")
	for _, role := range []string{"aip_data", "aip_lifecycle"} {
		for _, setting := range []string{
			"session_preload_libraries = 'auto_explain'", "auto_explain.log_min_duration = 0", "auto_explain.log_nested_statements = on",
			"auto_explain.log_format = 'json'", "auto_explain.log_level = 'log'", "log_min_messages = 'log'",
		} {
			d.exec(t, fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET %s", role, d.name, setting))
		}
	}
	d.data.Close()
	d.data = d.open(t, dataConfig(t, d))
	d.lifecycle.Close()
	d.lifecycle = d.open(t, lifecycleConfig(t, d))
	offset := logSize(t)
	d.everyHotVerb(t)
	d.everyTick(t)
	d.data.Close()
	d.lifecycle.Close()
	plans := d.plansSince(t, offset)
	d.data, d.lifecycle = d.open(t, dataConfig(t, d)), d.open(t, lifecycleConfig(t, d))

	seen, scans, shared := map[string]bool{}, map[string]int{}, 0
	for _, e := range plans {
		if !strings.Contains(e.Query, "aip.") || strings.Contains(e.Query, "pg_catalog") || strings.Contains(e.Query, "schema_file") {
			continue // the checks at the opening of a pool
		}
		if strings.Contains(e.Query, "unnest(p_") { // only a tick is given arrays
			shared++
		}
		walk(e.Plan, func(p plan) {
			if p.Relation == "" {
				return
			}
			seen[p.Relation] = true
			if bad := endToEnd(p); bad != "" {
				scans[fmt.Sprintf("%s of %s in: %s", bad, p.Relation, strings.Join(strings.Fields(e.Query), " "))]++
			}
		})
	}
	for scan, times := range scans {
		t.Errorf("%d times %s", times, scan)
	}
	t.Logf("%d plans over %d tables, %d of statements of a tick", len(plans), len(seen), shared)
	if shared == 0 {
		t.Error("no statement of a tick was planned: it was not checked")
	}
	for _, table := range []string{"route", "attempt", "attempt_settlement", "reservation", "replica_live", "replica_load", "replica_group",
		"route_candidate", "capability", "scope_counter", "tombstone", "replica", "connector_instance", "quota_effective"} {
		if !seen[table] {
			t.Errorf("no plan reads %s: nothing was checked", table)
		}
	}
}

// crowd gives one instance more replicas than are read and sorted.
func (d *database) crowd(t *testing.T, instance, from, to int) {
	t.Helper()
	var set registry.ChangeSet
	for m := from; m < to; m++ {
		set.Replicas = append(set.Replicas, replica(instance, m, 100))
	}
	d.publish(t, set)
	for m := from; m < to; m++ {
		d.register(t, instance, m)
	}
}

// flights leaves actions reserved, as a fleet at work has them.
func (d *database) flights(t *testing.T, n int) {
	t.Helper()
	requests := make([]registry.RouteRequest, n)
	for i := range requests {
		requests[i] = request(fmt.Sprintf("flight%d", i), i%50)
	}
	for _, result := range d.data.ResolveBatch(t.Context(), requests) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
	}
}

// everyTick resolves and settles many actions through the queue, some of them twice, so
// that a tick has items of every kind.
func (d *database) everyTick(t *testing.T) {
	t.Helper()
	config := dataConfig(t, d)
	config.Coalesce = postgres.Coalesce{Direct: 0, Ticks: 2, Batch: 64}
	shared := d.open(t, config)
	for round := range 3 {
		var all sync.WaitGroup
		for n := range 48 {
			all.Go(func() {
				req := request(fmt.Sprintf("tick%dn%d", round, n), n%8)
				a, err := shared.Resolve(t.Context(), req)
				if err == nil {
					_, err = shared.Resolve(t.Context(), req)
				}
				if err == nil {
					_, err = shared.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	if n := shared.Shared(); n.Calls < 48 {
		t.Errorf("%+v: hardly anything was shared", n)
	}
	shared.Close() // its sessions have written their plans when they end
}

// releases adds types and versions, as a fleet of some size has them: of a table of one
// row there is no other way to read it than whole.
func (d *database) releases(t *testing.T, n int) {
	t.Helper()
	for _, statement := range []string{
		`INSERT INTO aip.connector_type SELECT 'ctype_more' || n, 'More', 'test', true FROM generate_series(1, %d) n`,
		`INSERT INTO aip.connector_version SELECT (json_populate_record(v, json_build_object('id', 'cver_more' || n, 'type_id', 'ctype_more' || n,
			'artifact_digest', 'more' || n))).* FROM aip.connector_version v, generate_series(1, %d) n WHERE v.id = 'cver_desk'`,
		`INSERT INTO aip.version_status SELECT 'cver_more' || n, 'active' FROM generate_series(1, %d) n`,
	} {
		d.exec(t, fmt.Sprintf(statement, n))
	}
}

// endToEnd names a node that reads a whole table. Of the one row of catalog_revision or
// deployment there is nothing else to read.
func endToEnd(p plan) string {
	switch {
	case p.Relation == "catalog_revision", p.Relation == "deployment":
	case strings.Contains(p.Kind, "Seq Scan"), strings.Contains(p.Kind, "Bitmap Heap Scan"):
		return p.Kind
	case strings.Contains(p.Kind, "Index") && p.Condition == "":
		return p.Kind + " without a condition"
	}
	return ""
}

func walk(p plan, visit func(plan)) {
	visit(p)
	for _, child := range p.Plans {
		walk(child, visit)
	}
}

// everyHotVerb makes each call of the hot path at least once.
func (d *database) everyHotVerb(t *testing.T) {
	t.Helper()
	for n := range 8 {
		a := d.resolve(t, fmt.Sprintf("hot%d", n), n)
		if _, err := d.data.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeCancelled}); err != nil {
			t.Fatal(err)
		}
		a = d.resolve(t, fmt.Sprintf("hot%d", n), n)
		again := d.resolve(t, fmt.Sprintf("hot%d", n), n)
		if again.Attempt.Fence != a.Attempt.Fence {
			t.Fatal("a reserved action got another reservation")
		}
		if _, err := d.data.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeUnknown}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.data.Lookup(t.Context(), tenantID(n), actionID(fmt.Sprintf("hot%d", n))); err != nil {
			t.Fatal(err)
		}
		if _, err := d.data.Get(t.Context(), tenantID(n), capabilityID()); err != nil {
			t.Fatal(err)
		}
		beat := registry.Beat{Replica: replicaID(n, 0), PeerDID: did(n, 0), Epoch: 1, Sequence: 2, Ready: true, TTL: registry.MaxLeaseTTL}
		if _, err := d.lifecycle.Renew(t.Context(), beat); err != nil {
			t.Fatal(err)
		}
	}
}

func logSize(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(pgclustertest.Shared(t).LogPath())
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// plansSince reads the plans of this test's database out of the server's log. An entry
// begins with the time, the process and user@database; its other lines are indented.
func (d *database) plansSince(t *testing.T, offset int64) (plans []explained) {
	t.Helper()
	raw, err := os.ReadFile(pgclustertest.Shared(t).LogPath())
	if err != nil {
		t.Fatal(err)
	}
	var entry strings.Builder
	mine := false
	flush := func() {
		at := strings.IndexByte(entry.String(), '{')
		var e explained
		if mine && at >= 0 && json.Unmarshal([]byte(entry.String()[at:]), &e) == nil {
			plans = append(plans, e)
		}
		entry.Reset()
	}
	for line := range strings.Lines(string(raw[min(offset, int64(len(raw))):])) {
		if !strings.HasPrefix(line, "\t") {
			flush()
			mine = strings.Contains(line, "@"+d.name+" ") && strings.Contains(line, "plan:")
		}
		entry.WriteString(line)
	}
	flush()
	return slices.Clip(plans)
}

// TestPublish_G08_ChainsAreFoundByKeyInAFleetThatWasEmptyWhenAnalyzed: the statistics of an
// empty table make a scan of all of it look free, and the first large publication would
// look through every chain for every chain.
func TestPublish_G08_ChainsAreFoundByKeyInAFleetThatWasEmptyWhenAnalyzed(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 300, replicas: 1, capacity: 4})
	for _, statement := range []string{
		"DELETE FROM aip.route_candidate", "VACUUM (ANALYZE) aip.route_candidate", "VACUUM (ANALYZE) aip.replica_group",
		"SELECT pg_stat_reset_single_table_counters('aip.route_candidate'::regclass)",
		"SELECT aip.rebuild_candidates(ARRAY(SELECT id FROM aip.connector_instance))", "SELECT pg_stat_force_next_flush()",
	} {
		d.exec(t, statement)
	}
	var chains, read int64
	err := d.admin.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM aip.route_candidate),
		(SELECT seq_tup_read FROM pg_stat_user_tables WHERE relid = 'aip.route_candidate'::regclass)`).Scan(&chains, &read)
	if err != nil {
		t.Fatal(err)
	}
	if chains < 300 {
		t.Fatalf("%d chains: nothing was tested", chains)
	}
	if read > 10*chains {
		t.Errorf("%d rows were read by scans for %d chains", read, chains)
	}
	d.audit(t)
}

// TestPlans_G08_ACrowdIsProbedWhateverItsStatisticsSay: of a crowd the first 32 are read, and of the
// others what the ordered index of its narrow mirror gives. Statistics of when the mirror was empty
// must not make a call, alone or shared, read every replica for it.
func TestPlans_G08_ACrowdIsProbedWhateverItsStatisticsSay(t *testing.T) {
	t.Parallel()
	const others, actions = 240, 24
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 1, replicas: 3, capacity: 100})
	d.exec(t, "ANALYZE aip.replica_load, aip.replica_group")
	d.crowd(t, 0, 3, others)
	d.exec(t, "ANALYZE aip.replica_live")
	d.exec(t, "SELECT pg_stat_reset_single_table_counters('aip.replica_live'::regclass)")

	config := dataConfig(t, d)
	config.Application = "crowd"
	alone := d.open(t, config)
	config.Coalesce = postgres.Coalesce{Direct: 0, Ticks: 1, Batch: 64}
	shared := d.open(t, config)
	chosen := map[fleet.ReplicaID]bool{}
	for n := range actions {
		a, err := alone.Resolve(t.Context(), request(fmt.Sprintf("alone%d", n), 0))
		if err != nil {
			t.Fatal(err)
		}
		chosen[a.Route.Replica] = true
	}
	var all sync.WaitGroup
	for n := range actions {
		all.Go(func() {
			if _, err := shared.Resolve(t.Context(), request(fmt.Sprintf("shared%d", n), 0)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := shared.Shared(); n.Calls < actions/2 {
		t.Errorf("%+v: hardly anything was shared", n)
	}
	alone.Close()
	shared.Close()
	if len(chosen) < actions/2 {
		t.Errorf("%d actions went to %d replicas of %d: the least loaded were not found", actions, len(chosen), others)
	}
	until(t, "the sessions have ended, and counted what they read", func() bool {
		var sessions int
		err := d.admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND application_name = 'crowd'", d.name).Scan(&sessions)
		if err != nil {
			t.Fatal(err)
		}
		return sessions == 0
	})
	var read int64
	err := d.admin.QueryRow(t.Context(), `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relid = 'aip.replica_live'::regclass`).Scan(&read)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d replicas read for %d actions", read, 2*actions)
	if read < 2*actions*32 || read > 2*actions*60 {
		t.Errorf("%d replicas were read for %d actions: nothing was counted, or the crowd was read", read, 2*actions)
	}
	d.audit(t)
}
