package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// TestPublish_G17_NothingCommitsUnderAnOlderRevision: as soon as Apply has returned,
// the routes decided under older revisions are counted. Whatever others are in the
// middle of, at the end there must be exactly as many.
func TestPublish_G17_NothingCommitsUnderAnOlderRevision(t *testing.T) {
	t.Parallel()
	const publications = 40
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 4, replicas: 4, capacity: 1000})
	var routed atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wait sync.WaitGroup
	for caller := range 16 {
		wait.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				a, err := d.data.Resolve(ctx, request(fmt.Sprintf("c%dn%d", caller, n), caller%4))
				if err == nil {
					routed.Add(1)
					_, _ = d.data.Settle(ctx, a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
				}
			}
		})
	}
	older := func(revision uint64) (n int64) {
		if err := d.admin.QueryRow(t.Context(), "SELECT count(*) FROM aip.route WHERE catalog_revision < $1", revision).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	counted, beside := map[uint64]int64{}, 0
	for n := range uint64(publications) {
		before := routed.Load()
		set := registry.ChangeSet{Actor: "test", Reason: "test", Bindings: []fleet.CapabilityBinding{binding(int(n%4), n+2, true)}}
		p, err := d.control.Apply(t.Context(), set, d.revision(t))
		if err != nil || !p.Changed {
			t.Fatalf("publication %d: %+v, %v", n, p, err)
		}
		counted[p.After] = older(p.After)
		if routed.Load() > before {
			beside++
		}
	}
	stop()
	wait.Wait()
	for revision, n := range counted {
		if late := older(revision) - n; late != 0 {
			t.Errorf("%d routes under older revisions committed after revision %d had been published", late, revision)
		}
	}
	t.Logf("%d routes beside %d publications", routed.Load(), publications)
	if beside < publications/4 {
		t.Errorf("only %d of %d publications had routing beside them: nothing was tested", beside, publications)
	}
	d.audit(t)
}
