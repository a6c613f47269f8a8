package postgres_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/registrytest"

	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
)

// TestHistory_G39_FaultsLeaveItLinearizable records what 16 clients are answered while
// commits are cut off, backends are terminated and the whole server is killed and
// started again. Calls whose commit is unknown stay open-ended; there must still be an
// order that the sequential model accepts, and nothing may be left behind.
func TestHistory_G39_FaultsLeaveItLinearizable(t *testing.T) {
	t.Parallel()
	c := newCrashing(t)
	p := pgclustertest.NewProxy(t, c.dsn("aip_data"))
	straight := c.data
	c.data = c.open(t, postgres.Config{DataURL: p.DSN(), Connections: 16})
	var terminated, killed atomic.Int64
	plan := registrytest.Wide()
	plan.Operations, plan.Meanwhile = 200, func(ctx context.Context) {
		for n := 0; ctx.Err() == nil; n++ {
			switch n % 4 {
			case 0, 1:
				p.Arm([]pgclustertest.Cut{pgclustertest.BeforeCommit, pgclustertest.AfterCommit}[n%4], nil)
			case 2:
				var hit int64
				err := c.admin.QueryRow(ctx, `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM (
					SELECT pid FROM pg_stat_activity WHERE usename = 'aip_data' AND state = 'active' LIMIT 3) x`).Scan(&hit)
				if err == nil {
					terminated.Add(hit)
				}
			case 3:
				if killed.Load() == 0 && n > 8 {
					if err := c.cluster.Kill(); err != nil {
						t.Errorf("kill: %v", err)
						return
					}
					c.start()
					killed.Add(1)
				}
			}
			rest(ctx, 60*time.Millisecond)
		}
		p.Disarm()
	}
	shared := c.open(t, postgres.Config{DataURL: p.DSN(), Connections: 16, Coalesce: postgres.Coalesce{Direct: 0, Ticks: 2, Batch: 64}})
	subject := c.subject(t)
	subject.Router = &eitherWay{Router: c.data, shared: shared}
	h := registrytest.CheckHistory(t, subject, plan, false)
	retries := c.data.Retries()
	retries.Unknown += shared.Retries().Unknown
	retries.Deadlocks += shared.Retries().Deadlocks
	t.Logf("calls %v, %d open, %d beside another of the same action; %d commits cut, %d backends terminated, server killed %d times, fate read again %d times: %s",
		h.Calls, h.Open, h.Beside, p.Cuts(), terminated.Load(), killed.Load(), retries.Unknown, h.Result)
	if p.Cuts() == 0 || terminated.Load() == 0 || killed.Load() != 1 || retries.Unknown == 0 {
		t.Error("a kind of fault was not injected, or no commit was in doubt: it tested nothing")
	}
	if retries.Deadlocks != 0 {
		t.Errorf("retries %+v: there must be no deadlock", retries)
	}
	c.data = straight
	c.ready()
	c.setNow(t, registrytest.Epoch().Add(time.Hour)) // every lease and deadline is over
	c.quiet(t)
}
