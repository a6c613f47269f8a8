package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// publisher is an open control registry with the revision that it knows.
type publisher struct {
	registry *postgres.Registry
	revision uint64
	policy   uint64 // grows with every change of a binding
}

func openPublisher(ctx context.Context, s *site) (*publisher, error) {
	r, err := postgres.Open(ctx, postgres.Config{ControlURL: s.control(), Application: "bench"})
	if err != nil {
		return nil, err
	}
	status, err := r.Status(ctx)
	if err != nil {
		r.Close()
		return nil, err
	}
	return &publisher{registry: r, revision: status.Revision, policy: uint64(time.Now().UnixMilli())}, nil
}

func (p *publisher) apply(ctx context.Context, set registry.ChangeSet) error {
	set.Actor, set.Reason = "bench", "bench"
	done, err := p.registry.Apply(ctx, set, p.revision)
	if err == nil {
		p.revision = done.After
	}
	return err
}

// touch changes one binding of the group.
func (p *publisher) touch(ctx context.Context, g group, n int) error {
	p.policy++
	return p.apply(ctx, registry.ChangeSet{Bindings: []fleet.CapabilityBinding{
		bindingOf(g, n%g.tenants, 0, n%g.capabilities, p.policy),
	}})
}

func bindingOf(g group, n, i, k int, policy uint64) fleet.CapabilityBinding {
	return fleet.CapabilityBinding{
		BindingKey: fleet.BindingKey{
			Tenant: parsed(fleet.ParseTenantID(g.tenant(n))), Capability: parsed(fleet.ParseCapabilityID(capability(k))),
			Instance: parsed(fleet.ParseInstanceID(g.instance(n, i))),
		},
		Priority: 10, PolicyRevision: policy, CredentialRevisionRef: "credential-1", Enabled: true,
	}
}

// publishEvery is the publisher's pace in the case publish_under_load.
const publishEvery = 100 * time.Millisecond

// publishing changes one binding every publishEvery while others work.
func publishing(ctx context.Context, s *site) (func() map[string]float64, error) {
	p, err := openPublisher(ctx, s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	var published, failed int
	var took []time.Duration
	began := time.Now()
	running.Go(func() {
		ticker := time.NewTicker(publishEvery)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			start := time.Now()
			if err := p.touch(ctx, s.shape.groups[0], n); err == nil {
				published++
				took = append(took, time.Since(start))
			} else if ctx.Err() == nil {
				failed++
			}
		}
	})
	return func() map[string]float64 {
		rate := time.Since(began)
		cancel()
		running.Wait()
		p.registry.Close()
		return map[string]float64{
			"publications_per_s": rounded(float64(published) / rate.Seconds()), "publications_failed": float64(failed),
			"apply_p50_ms": quantile(took, 0.5), "apply_max_ms": quantile(took, 1),
		}
	}, nil
}

// publication publishes many new bindings at once while clients route, and reports
// how long the publication lock was held and what the longest resolve took.
func (b *bench) publication(ctx context.Context, s *site, bindings, clients int) ([]row, error) {
	p, err := openPublisher(ctx, s)
	if err != nil {
		return nil, err
	}
	defer p.registry.Close()
	set, err := newBindings(s.shape.groups[0], bindings)
	if err != nil {
		return nil, err
	}
	d, err := routerWith(postgres.Config{})(ctx, s)
	if err != nil {
		return nil, err
	}
	defer d.close()
	const lead = 500 * time.Millisecond
	loading, stop := context.WithCancel(ctx)
	defer stop()
	watch, err := watchLock(loading, s)
	if err != nil {
		return nil, err
	}
	pick := s.shape.groups[0].uniform()
	runSlice(ctx, d, pick, clients, window{0, b.plan.warmUp}, b.cpu)
	var quiet, busy *tally
	quiet = runSlice(ctx, d, pick, clients, window{0, lead}, b.cpu).tally
	var running sync.WaitGroup
	running.Go(func() { busy = routeUntilStopped(loading, d, pick, clients) })
	began := time.Now()
	err = p.apply(ctx, set)
	took := time.Since(began)
	stop()
	running.Wait()
	hold := watch()
	if err != nil {
		return nil, fmt.Errorf("publish %d bindings: %w", bindings, err)
	}
	resolves := busy.latencies[opResolve]
	return []row{{
		Case: "publication", Point: fmt.Sprintf("bindings=%d", bindings), Variant: "apply", Clients: clients, Rounds: 1,
		OpsPerSecond: rounded(float64(bindings) / took.Seconds()), P50: quantile(resolves, 0.5), P99: quantile(resolves, 0.99),
		SettleP99: quantile(busy.latencies[opSettle], 0.99), Errors: total(busy.errors), ErrorsBy: busy.errors,
		More: map[string]float64{
			"publication_s": rounded(took.Seconds()), "lock_held_max_ms": hold.held, "lock_awaited_max_ms": hold.awaited,
			"resolve_max_ms": quantile(resolves, 1), "quiet_resolve_p99_ms": quantile(quiet.latencies[opResolve], 0.99),
			"routed_per_s": rounded(float64(len(resolves)) / took.Seconds()),
		},
	}}, nil
}

// newBindings binds capabilities that the group does not use yet.
func newBindings(g group, count int) (registry.ChangeSet, error) {
	var set registry.ChangeSet
	for k := g.capabilities; k < manifestCapabilities; k++ {
		for n := range g.tenants {
			for i := range g.instances {
				if len(set.Bindings) == count {
					return set, nil
				}
				set.Bindings = append(set.Bindings, bindingOf(g, n, i, k, 1))
			}
		}
	}
	return set, fmt.Errorf("the seeded fleet has room for %d new bindings, not for %d", len(set.Bindings), count)
}

func routeUntilStopped(ctx context.Context, d driver, pick picker, clients int) *tally {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Minute)
	defer cancel()
	return loop(limit, ctx.Done(), d, pick, clients)
}

// lockSample is how often the publication lock is looked at.
const lockSample = 500 * time.Microsecond

// lockHold is how long the publication lock kept routing out.
type lockHold struct {
	held, awaited float64 // longest, in milliseconds
}

// watchLock samples the exclusive publication lock as fast as the server answers:
// how long it was granted, and for how long somebody waited for it.
func watchLock(ctx context.Context, s *site) (func() lockHold, error) {
	conn, err := pgx.Connect(ctx, s.admin())
	if err != nil {
		return nil, err
	}
	var hold lockHold
	var watching sync.WaitGroup
	watching.Go(func() {
		defer conn.Close(context.WithoutCancel(ctx))
		var granted, awaited time.Time
		for ctx.Err() == nil {
			sleepUntil(ctx, time.Now().Add(lockSample))
			asked := time.Now()
			var isGranted, isAwaited bool
			err := conn.QueryRow(ctx, `SELECT COALESCE(bool_or(granted), false), COALESCE(bool_or(NOT granted), false) FROM pg_locks
				WHERE locktype = 'advisory' AND classid = 4871 AND objid = 1 AND objsubid = 2 AND mode = 'ExclusiveLock'`).Scan(&isGranted, &isAwaited)
			if err != nil {
				return
			}
			hold.held = max(hold.held, follow(&granted, isGranted, asked))
			hold.awaited = max(hold.awaited, follow(&awaited, isAwaited, asked))
		}
	})
	return func() lockHold { watching.Wait(); return hold }, nil
}

// follow extends or ends one observed interval and returns its length up to now, at
// most one sample too long.
func follow(since *time.Time, on bool, asked time.Time) float64 {
	switch {
	case !on && since.IsZero():
		return 0
	case since.IsZero():
		*since = asked
	}
	length := float64(time.Since(*since).Microseconds()) / 1000
	if !on {
		*since = time.Time{}
	}
	return length
}
