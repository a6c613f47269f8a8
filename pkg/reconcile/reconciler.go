package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Asker puts a signed status query to the pinned host; *dispatch.Courier is one.
type Asker interface {
	Status(ctx context.Context, record registry.RouteRecord) (action.Finding, error)
}

// Routes reads routes; registry.Router has it.
type Routes interface {
	Lookup(ctx context.Context, tenant fleet.TenantID, action fleet.ActionID) (registry.RouteRecord, error)
}

// Records reads records by id; registry.Reader has it.
type Records interface {
	List(ctx context.Context, selection registry.Selection) (registry.Records, error)
}

// Expirer ends what dead hosts hold; registry.Fleet has it.
type Expirer interface {
	Expire(ctx context.Context, limit int) (registry.Expiry, error)
}

// Config makes a Reconciler. The durations may be zero for their defaults.
type Config struct {
	Uncertain registry.Uncertain
	Routes    Routes
	Records   Records
	Expirer   Expirer
	Actions   action.Store
	Host      Asker
	Operators envelope.KeySet // who may sign decisions; empty applies none
	Now       func() time.Time
	Log       *slog.Logger
	// Observe is told of every record that this process closed; nil is nobody.
	Observe func(fleet.Resolution)

	Every       time.Duration // between looks at what is due; 500 ms
	ExpireEvery time.Duration // between expiry passes; 2 s
	FirstPause  time.Duration // after a first fruitless probe; 1 s, doubling
	LastPause   time.Duration // at most; 30 s
	Age         time.Duration // when asking stops and an operator must decide; 1 h
}

// Bounds of one pass.
const (
	batch       = 32 // records or actions
	expireBatch = 500
	claimHold   = 20 * time.Second // longer than one question takes
	parallel    = 8                // hosts asked at once
)

// Reconciler works off uncertain attempts. Any number may run on one registry.
type Reconciler struct {
	Config
	warned warnings
}

// warnings keeps a failure that repeats from filling the log: each text is said once
// per action, until there are too many to remember.
type warnings struct {
	mu   sync.Mutex
	said map[fleet.ActionID]string
}

const maxWarnings = 1024

func (w *warnings) first(id fleet.ActionID, text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.said[id] == text {
		return false
	}
	if w.said == nil || len(w.said) >= maxWarnings {
		w.said = map[fleet.ActionID]string{}
	}
	w.said[id] = text
	return true
}

// New makes a reconciler.
func New(c Config) *Reconciler {
	def := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	def(&c.Every, 500*time.Millisecond)
	def(&c.ExpireEvery, 2*time.Second)
	def(&c.FirstPause, time.Second)
	def(&c.LastPause, 30*time.Second)
	def(&c.Age, time.Hour)
	if c.Observe == nil {
		c.Observe = func(fleet.Resolution) {}
	}
	return &Reconciler{Config: c}
}

// Run works until ctx ends, and returns when its goroutines have.
func (r *Reconciler) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { r.loop(ctx, r.Every, "probe", r.Probe) })
	loops.Go(func() { r.loop(ctx, r.Every, "apply", r.Apply) })
	loops.Go(func() { r.loop(ctx, r.ExpireEvery, "expire", r.Expire) })
	loops.Wait()
}

// loop repeats a pass; a pass that reports more is repeated at once.
func (r *Reconciler) loop(ctx context.Context, every time.Duration, name string, pass func(context.Context) (bool, error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		more, err := pass(ctx)
		if err != nil && ctx.Err() == nil {
			r.Log.WarnContext(ctx, "reconciliation pass failed", "pass", name, "error", err)
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// Expire runs one pass of the registry's expiry.
func (r *Reconciler) Expire(ctx context.Context) (more bool, err error) {
	done, err := r.Expirer.Expire(ctx, expireBatch)
	if done.Offline+done.Expired+done.Overdue > 0 {
		r.Log.InfoContext(ctx, "expired", "replicas_offline", done.Offline, "attempts_expired", done.Expired, "attempts_overdue", done.Overdue)
	}
	return done.More, err
}

// Probe asks about every record that is due, a batch at a time.
func (r *Reconciler) Probe(ctx context.Context) (more bool, err error) {
	due, err := r.Uncertain.Due(ctx, batch, claimHold)
	if err != nil {
		return false, err
	}
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	for _, rec := range due {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			if err := r.probe(ctx, rec); err != nil && ctx.Err() == nil {
				r.Log.WarnContext(ctx, "probe failed", "action", rec.Action.String(), "fence", rec.Fence, "error", err)
			}
		})
	}
	running.Wait()
	return len(due) == batch, nil
}
