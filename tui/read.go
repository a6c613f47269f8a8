package tui

import (
	"context"
	"errors"
	"sync"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Begin opens the context of one read; the read calls done when it has ended.
type Begin func() (ctx context.Context, done func())

// Bounded gives every read the deadline timeout under ctx. wait ends what is still
// reading, refuses what comes later, and returns when no read is left: the registry
// may then be closed.
func Bounded(ctx context.Context, timeout time.Duration) (begin Begin, wait func()) {
	ctx, stop := context.WithCancel(ctx)
	var mu sync.Mutex
	var reads sync.WaitGroup
	closed := false
	begin = func() (context.Context, func()) {
		mu.Lock()
		defer mu.Unlock()
		if closed {
			return ctx, func() {}
		}
		reads.Add(1)
		bounded, cancel := context.WithTimeout(ctx, timeout)
		return bounded, func() { cancel(); reads.Done() }
	}
	wait = func() {
		mu.Lock()
		closed = true
		mu.Unlock()
		stop()
		reads.Wait()
	}
	return begin, wait
}

// want is what the shown screen needs of the registry beside the fleet's status.
type want struct {
	replicas *registry.Selection
	routes   *registry.Selection
	page     target
}

// listing is one reading of a table.
type listing[T any] struct {
	rows  []row[T]
	cut   bool // more exist
	whole bool // nothing was left to the registry to filter
}

// reading is the answer to a want, or the error that came instead.
type reading struct {
	want     want
	at       time.Time // of our clock, when it ended
	took     time.Duration
	status   registry.Status
	replicas *listing[registry.ReplicaRecord]
	routes   *listing[routeItem]
	facts    facts
	err      error
}

// read makes the command that reads what is wanted. It touches nothing of the model.
func (c Config) read(w want) tea.Cmd {
	return func() tea.Msg {
		ctx, done := c.Begin()
		defer done()
		began := c.Now()
		r := reading{want: w}
		r.err = c.fill(ctx, &r)
		r.at = c.Now()
		r.took = r.at.Sub(began)
		return r
	}
}

// fill reads in order and stops at the first error: half a reading is never shown.
func (c Config) fill(ctx context.Context, r *reading) (err error) {
	if err := ctx.Err(); err != nil {
		return late(err)
	}
	if r.status, err = c.Reader.Status(ctx); err != nil {
		return late(err)
	}
	if s := r.want.replicas; s != nil {
		page, cut, err := c.pages(ctx, *s)
		if err != nil {
			return late(err)
		}
		r.replicas = &listing[registry.ReplicaRecord]{rowsOf(replicaColumns(), replicaKey, page.Replicas), cut, bare(*s)}
	}
	if s := r.want.routes; s != nil {
		if r.routes, err = c.readRoutes(ctx, *s); err != nil {
			return late(err)
		}
	}
	if r.want.page.kind != noPage {
		if r.facts, err = c.readPage(ctx, r.want.page); err != nil {
			return late(err)
		}
	}
	return nil
}

func (c Config) readRoutes(ctx context.Context, s registry.Selection) (*listing[routeItem], error) {
	page, cut, err := c.pages(ctx, s)
	if err != nil {
		return nil, err
	}
	questions, err := c.Reader.List(ctx, registry.Selection{Noun: registry.Reconciliations, Limit: registry.MaxListItems})
	if err != nil {
		return nil, err
	}
	items := routeItems(page.Routes, questions.Reconciliations)
	return &listing[routeItem]{rowsOf(routeColumns(), routeKey, items), cut, bare(s)}, nil
}

// pages reads a selection by keyset, up to the cap.
func (c Config) pages(ctx context.Context, s registry.Selection) (all registry.Records, cut bool, err error) {
	for {
		read := len(all.Replicas) + len(all.Routes)
		s.Limit = min(c.MaxRows-read, registry.MaxListItems)
		page, err := c.Reader.List(ctx, s)
		if err != nil {
			return all, false, err
		}
		all.Revision = page.Revision
		all.Replicas = append(all.Replicas, page.Replicas...)
		all.Routes = append(all.Routes, page.Routes...)
		if page.Next == "" {
			return all, false, nil
		}
		if len(all.Replicas)+len(all.Routes) >= c.MaxRows {
			return all, true, nil
		}
		s.After = page.Next
	}
}

// bare reports whether a selection filters nothing.
func bare(s registry.Selection) bool {
	return s.Tenant.IsZero() && s.Instance.IsZero() && s.Version.IsZero() && s.Replica.IsZero() && s.State == "" && !s.Reserved
}

// late names a read that ran into its deadline.
func late(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fleet.Errorf(fleet.Unavailable, "dash.slow", "the registry did not answer in time").Caused(err)
	}
	return err
}
