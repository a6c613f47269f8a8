package sim

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aipfleet/aipfleet/pkg/dispatch"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fairness"
	"github.com/aipfleet/aipfleet/pkg/reconcile"
)

// gateway is one aipd: an engine and a reconciler, started again whenever they end.
type gateway struct {
	w      *world
	name   string
	engine atomic.Pointer[dispatch.Engine] // nil while it is down
	asked  []window                        // when it is asked to end: at the beginning of each
	steps  []window                        // when its clock is wrong
}

func newGateway(w *world, name string) *gateway {
	return &gateway{
		w: w, name: name,
		asked: w.windows(1, time.Second, 2*time.Second, "stop", name),
		steps: w.windows(1, 5*time.Second, 20*time.Second, "clock", name),
	}
}

// live runs one life after the other until the run is over.
func (g *gateway) live() {
	for n := 0; g.w.ctx.Err() == nil; n++ {
		g.once(fmt.Sprintf("%s.%d", g.name, n))
		if !sleep(g.w.ctx, g.w.between(500*time.Millisecond, 12*time.Second, "aipd down", g.name, n)) {
			return
		}
	}
}

// once is one life: until it is killed, asked to end, or the run is over.
func (g *gateway) once(name string) {
	l := newLife(name)
	ctx, end := context.WithCancel(g.w.ctx)
	defer end()
	d := doors{g.w, l}
	engine := dispatch.New(g.config(l, d))
	var parts sync.WaitGroup
	parts.Go(func() {
		if engine.Run(ctx) != nil {
			end() // it could not even begin
		}
	})
	g.reconcile(ctx, d, &parts)
	g.engine.Store(engine)
	g.untilEnd(ctx, l)
	g.engine.CompareAndSwap(engine, nil)
	end()
	parts.Wait()
}

func (g *gateway) untilEnd(ctx context.Context, l *life) {
	limit := time.NewTimer(2 * calmLimit)
	if left := g.untilAsked(); left > 0 {
		limit.Reset(left)
	}
	defer limit.Stop()
	select {
	case <-l.end:
	case <-ctx.Done():
	case <-limit.C:
		g.w.fault(aipdStop, l.name)
	}
}

// untilAsked is how long until this aipd is asked to end; 0 is never.
func (g *gateway) untilAsked() time.Duration {
	for _, w := range g.asked {
		if left := w.from - g.w.elapsed(); left > 0 {
			return left
		}
	}
	return 0
}

// clock is this aipd's own: it may be ten minutes wrong for a while.
func (g *gateway) clock() time.Time {
	now := time.Now()
	if !within(g.steps, g.w.elapsed()) || g.w.calm.Load() {
		return now
	}
	if g.w.chance(0.5, "clock way", g.name, 0) {
		return now.Add(10 * time.Minute)
	}
	return now.Add(-10 * time.Minute)
}

func (g *gateway) config(l *life, d doors) dispatch.Config {
	if within(g.steps, g.w.elapsed()+time.Second) {
		g.w.fault(aipdClock, l.name)
	}
	return dispatch.Config{
		Owner: l.name, Store: records{d}, Router: d, Uncertain: d, Records: d,
		Scheduler: fairness.New(fairness.Config{Bounds: fairness.Bounds{InFlight: 2 << g.w.pick(3, "in flight", "", 0), InFlightTenant: 8}, Now: time.Now}),
		Courier:   g.courier(d), Hold: ownerHold, Grace: 5 * time.Second, Patience: time.Second, Now: g.clock,
		Log: slog.New(slog.DiscardHandler),
	}
}

func (g *gateway) courier(d doors) *dispatch.Courier {
	return &dispatch.Courier{
		Sender: d, Signer: g.w.gateway, Principal: "gateway.sim", Now: g.clock, Pauses: dispatch.DefaultPauses(),
		LastSendUnsafe: g.w.options.Plant.LastSend,
	}
}

// reconcile runs the reconciler's passes, each in a rhythm of its own.
func (g *gateway) reconcile(ctx context.Context, d doors, parts *sync.WaitGroup) {
	r := reconcile.New(reconcile.Config{
		Uncertain: d, Routes: d, Records: d, Expirer: d, Actions: records{d}, Host: g.courier(d),
		Operators: envelope.KeySet{{DID: g.w.operator.DID()}}, Now: g.clock, Log: slog.New(slog.DiscardHandler),
		FirstPause: time.Second, LastPause: 8 * time.Second, Age: askAge,
	})
	for name, pass := range map[string]func(context.Context) (bool, error){"probe": r.Probe, "apply": r.Apply, "expire": r.Expire} {
		every := g.w.between(1500*time.Millisecond, 2500*time.Millisecond, "rhythm "+name, d.l.name, 0)
		parts.Go(func() {
			for sleep(ctx, every) {
				_, _ = pass(ctx) // it comes again
			}
		})
	}
}
