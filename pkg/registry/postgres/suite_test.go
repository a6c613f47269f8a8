package postgres_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/registrytest"
)

type (
	intentOf = registry.Intent
	expiryOf = registry.Expiry
)

// TestSuite plays the whole conformance suite, each case named after the guarantee
// that it defends, in a database of its own and under the restricted roles (G20).
func TestSuite(t *testing.T) {
	registrytest.Run(t, once(func(t *testing.T) registrytest.Subject {
		return fresh(t, pgx.QueryExecModeCacheStatement).subject(t)
	}), registrytest.Options{ModelRuns: 5, Callers: 16})
}

// TestSuiteBehindAPooler plays it again in the two ways of sending statements that a
// pooler may ask for (G20). Cases take turns on a few databases that are emptied in
// between, which is several times faster than a clone for each.
func TestSuiteBehindAPooler(t *testing.T) {
	for _, mode := range []struct {
		name string
		mode pgx.QueryExecMode
	}{{"exec", pgx.QueryExecModeExec}, {"simple", pgx.QueryExecModeSimpleProtocol}} {
		t.Run(mode.name, func(t *testing.T) {
			turns := newTurns(t, mode.mode)
			registrytest.Run(t, once(turns.subject), registrytest.Options{ModelRuns: 1, Callers: 8})
		})
	}
}

// once lets cases run beside each other; one of them may ask for several subjects.
func once(subject func(t *testing.T) registrytest.Subject) func(t *testing.T) registrytest.Subject {
	var begun sync.Map
	return func(t *testing.T) registrytest.Subject {
		if _, again := begun.LoadOrStore(t, true); !again {
			t.Parallel()
		}
		return subject(t)
	}
}

// turns lends databases to cases, one case at a time.
type turns struct {
	parent *testing.T
	mode   pgx.QueryExecMode
	open   func(t testing.TB, mode pgx.QueryExecMode) *database
	mu     sync.Mutex
	free   []*database
}

func newTurns(t *testing.T, mode pgx.QueryExecMode) *turns {
	return &turns{parent: t, mode: mode, open: fresh}
}

func (q *turns) subject(t *testing.T) registrytest.Subject {
	q.mu.Lock()
	var d *database
	if n := len(q.free); n > 0 {
		d, q.free = q.free[n-1], q.free[:n-1]
	}
	q.mu.Unlock()
	if d == nil {
		d = q.open(q.parent, q.mode)
		d.exec(t, "CREATE TABLE public.seed AS SELECT * FROM aip.quota_effective")
	}
	t.Cleanup(func() {
		d.clear(t)
		q.mu.Lock()
		q.free = append(q.free, d)
		q.mu.Unlock()
	})
	return d.subject(t)
}

// clear makes the database as it was when it was initialised, keys included.
func (d *database) clear(t *testing.T) {
	t.Helper()
	for _, table := range []string{
		"event", "admission", "package_blob", "trust_revision", "revocation_list", "lifecycle_replay", "reconciliation_probe", "reconciliation",
		"archive", "tombstone", "scope_counter", "reservation", "attempt_settlement", "attempt", "route", "route_candidate",
		"replica_live", "replica_group", "replica", "binding", "instance_serving", "connector_instance", "quota_effective", "quota_policy",
		"capability", "version_status", "connector_version", "manifest", "connector_type",
	} {
		d.exec(t, "DELETE FROM aip."+table)
	}
	d.exec(t, "INSERT INTO aip.quota_effective SELECT * FROM public.seed")
	d.exec(t, "UPDATE aip.catalog_revision SET revision = 0")
}
