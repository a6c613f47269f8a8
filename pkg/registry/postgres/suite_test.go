package postgres_test

import (
	"context"
	"strings"
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
	turns := newTurns(t, pgx.QueryExecModeCacheStatement)
	registrytest.Run(t, once(turns.subject), registrytest.Options{ModelRuns: 5, Callers: 16})
}

// TestSuiteBehindAPooler plays it again in the two ways of sending statements that a
// pooler may ask for (G20).
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

// TestSuite_CatchesBrokenRegistries proves that the cases can fail on this registry too,
// each defect under the guarantee that it breaks (G04-G42).
func TestSuite_CatchesBrokenRegistries(t *testing.T) {
	turns := newTurns(t, pgx.QueryExecModeCacheStatement)
	var lent sync.Map
	registrytest.RunBroken(t, func(t *testing.T) registrytest.Subject {
		if d, again := lent.Load(t); again {
			d.(*database).clear(t)
			return d.(*database).subject(t)
		}
		t.Parallel()
		d := turns.lend(t)
		lent.Store(t, d)
		return d.subject(t)
	})
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

// turns lends databases to cases, one case at a time. A case finds its database as a clone
// of the template is, and gets it several times faster.
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

func (q *turns) subject(t *testing.T) registrytest.Subject { return q.lend(t).subject(t) }

func (q *turns) lend(t *testing.T) *database {
	q.mu.Lock()
	var d *database
	if n := len(q.free); n > 0 {
		d, q.free = q.free[n-1], q.free[:n-1]
	}
	q.mu.Unlock()
	if d == nil {
		d = q.open(q.parent, q.mode)
		d.keepSeed(t)
	}
	t.Cleanup(func() {
		d.clear(t)
		q.mu.Lock()
		q.free = append(q.free, d)
		q.mu.Unlock()
	})
	return d
}

// keepSeed remembers what an initialised registry holds, so that clear can restore it. In a
// database that was cleared it is remembered already.
func (d *database) keepSeed(t testing.TB) {
	d.exec(t, "CREATE TABLE IF NOT EXISTS public.seed AS SELECT * FROM aip.quota_effective")
}

// clear makes the database as it was when it was initialised, keys included: every table
// is emptied but those that tell what the schema and the deployment are. Rows are deleted
// rather than tables truncated, since that would have every session plan anew.
func (d *database) clear(t testing.TB) {
	t.Helper()
	if d.clearing == "" {
		rows, err := d.admin.Query(context.Background(), `SELECT format('DELETE FROM aip.%I;', tablename) FROM pg_tables
			WHERE schemaname = 'aip' AND tablename NOT IN ('schema_file', 'schema_privilege', 'deployment', 'catalog_revision', 'goose_db_version')`)
		if err != nil {
			t.Fatal(err)
		}
		deletes, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(deletes) < 20 {
			t.Fatalf("only %d tables are emptied (%v)", len(deletes), err)
		}
		d.clearing = "BEGIN; SET LOCAL session_replication_role = replica;" + strings.Join(deletes, " ") +
			"INSERT INTO aip.quota_effective SELECT * FROM public.seed; UPDATE aip.catalog_revision SET revision = 0; COMMIT"
	}
	d.exec(t, d.clearing)
}
