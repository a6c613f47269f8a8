// Package retention answers: when is an action that is over given up, and who has to
// hear of it?
//
// It archives, in bounded batches, what ended longer ago than the configured time, and
// then tells the pinned host with a signed action_settled, again and again until it has
// heard, so that the host's journal may shrink too. It guarantees nothing by itself: the
// store archives only what is final, settled and not in question (G38, action.Archive),
// and an id or a key that was archived never runs again (G44). Any number of processes
// may run it on one store.
//
// It does not own routes, which aipctl registry archive moves away, nor what a host does
// with the word.
package retention

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Teller tells the pinned host of an action's end; *dispatch.Courier is one.
type Teller interface {
	Settled(ctx context.Context, record registry.RouteRecord) error
}

// Routes reads routes; registry.Router has it.
type Routes interface {
	Lookup(ctx context.Context, tenant fleet.TenantID, action fleet.ActionID) (registry.RouteRecord, error)
}

// Records reads records by id; registry.Reader has it.
type Records interface {
	List(ctx context.Context, selection registry.Selection) (registry.Records, error)
}

// Config makes a Keeper.
type Config struct {
	Actions action.Archive
	Routes  Routes
	Records Records
	Host    Teller
	Keep    time.Duration // how long an action is kept after its end; 0 is for ever
	Every   time.Duration // between passes, and the first pause before a host is told again; 0 means a minute
	Log     *slog.Logger
	// Observe is told of what each pass did; nil is nobody.
	Observe func(Pass)
}

// Pass is what one pass did.
type Pass struct {
	Archived int
	Told     int // hosts that heard of an action's end, or of which none is left
	Untold   int // tries that failed
}

// Bounds of one pass.
const (
	batch    = 500 // actions of one archiving transaction
	tellings = 64
	parallel = 8 // hosts told at once
)

// Keeper gives up what is over. Use New.
type Keeper struct{ Config }

// New makes a keeper.
func New(c Config) *Keeper {
	if c.Every <= 0 {
		c.Every = time.Minute
	}
	if c.Observe == nil {
		c.Observe = func(Pass) {}
	}
	return &Keeper{c}
}

// Run works until ctx ends. Without a time to keep for there is nothing to do.
func (k *Keeper) Run(ctx context.Context) {
	if k.Keep <= 0 {
		return
	}
	ticker := time.NewTicker(k.Every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if _, err := k.Pass(ctx); err != nil && ctx.Err() == nil {
			k.Log.WarnContext(ctx, "retention pass failed", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// Pass archives what is due and tells the hosts whose turn it is.
func (k *Keeper) Pass(ctx context.Context) (done Pass, err error) {
	defer func() { k.Observe(done) }()
	for {
		count, _, err := k.Actions.Archive(ctx, k.Keep, batch)
		if err != nil {
			return done, err
		}
		if done.Archived += count; count < batch {
			break
		}
	}
	if done.Archived > 0 {
		k.Log.InfoContext(ctx, "actions archived", "count", done.Archived, "kept_for", k.Keep.String())
	}
	for {
		claimed, err := k.Actions.Untold(ctx, tellings, k.Every)
		if err != nil {
			return done, err
		}
		told, err := k.tell(ctx, claimed)
		done.Told, done.Untold = done.Told+told, done.Untold+len(claimed)-told
		if err != nil || len(claimed) < tellings {
			return done, err
		}
	}
}

// tell asks the hosts of the actions to take note, a few at a time.
func (k *Keeper) tell(ctx context.Context, all []action.Ended) (int, error) {
	heard := make([]bool, len(all))
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	for i, e := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			heard[i] = k.tellOne(ctx, e)
		})
	}
	running.Wait()
	var ids []fleet.ActionID
	for i, e := range all {
		if heard[i] {
			ids = append(ids, e.ID)
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	return len(ids), k.Actions.Told(ctx, ids...)
}

// tellOne reports whether nobody is left to be told of the action's end.
func (k *Keeper) tellOne(ctx context.Context, e action.Ended) bool {
	route, err := k.Routes.Lookup(ctx, e.Tenant, e.ID)
	if fleet.Is(err, fleet.NotFound) { // it never had a route, or that was archived
		return true
	}
	if err == nil {
		if err = k.Host.Settled(ctx, route); err == nil {
			return true
		}
	}
	if ctx.Err() != nil || k.retired(ctx, route.Route.Replica) {
		return ctx.Err() == nil
	}
	k.Log.DebugContext(ctx, "a host was not told of an action's end", "action", e.ID.String(), "replica", route.Route.Replica.String(), "error", err)
	return false
}

// retired reports whether the host is gone for ever.
func (k *Keeper) retired(ctx context.Context, id fleet.ReplicaID) bool {
	if id.IsZero() {
		return false
	}
	is, err := registry.IsRetired(ctx, k.Records, id)
	return is && err == nil // not known is not retired: the host is told again
}
