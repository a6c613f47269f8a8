package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

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
// for an order that the sequential model accepts (G01, G05, G06, G07).
func TestHistories(t *testing.T) {
	registrytest.RunHistories(t, func(t *testing.T) registrytest.Subject {
		d := fresh(t, pgx.QueryExecModeCacheStatement)
		s := d.subject(t)
		t.Cleanup(func() {
			if n := d.data.Retries(); n.Deadlocks != 0 {
				t.Errorf("retries %+v: there must be no deadlock", n)
			}
			d.audit(t)
		})
		return s
	})
}
