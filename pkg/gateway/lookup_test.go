package gateway

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// gated is a catalog whose reads each wait to be let through, and tell the revision at
// which they began.
type gated struct {
	registry.Catalog // nothing else of it is asked
	let              chan struct{}
	revision, reads  atomic.Uint64
}

func (g *gated) Get(ctx context.Context, _ fleet.TenantID, _ fleet.CapabilityID) (registry.Listing, error) {
	at := g.revision.Load()
	g.reads.Add(1)
	<-g.let
	return registry.Listing{Revision: at}, ctx.Err()
}

// TestLookups_G14_AReadServesOnlyThoseWhoAskedBeforeItBegan: who asks after a
// publication sees it, however many share the read, and a client that hangs up takes
// nobody with it.
func TestLookups_G14_AReadServesOnlyThoseWhoAskedBeforeItBegan(t *testing.T) {
	tenant, err := fleet.ParseTenantID("acme")
	if err != nil {
		t.Fatal(err)
	}
	capability, err := fleet.ParseCapabilityID("desk:open")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		g := &gated{let: make(chan struct{})}
		l := newLookups(g)
		var served atomic.Int64
		ask := func(ctx context.Context, want uint64) {
			go func() {
				got, err := l.get(ctx, tenant, capability)
				if err != nil || got.Revision != want {
					t.Errorf("revision %d, %v, want %d", got.Revision, err, want)
				}
				served.Add(1)
			}()
		}
		g.revision.Store(1)
		ask(t.Context(), 1)
		synctest.Wait() // the first read has seen revision 1
		g.revision.Store(2)
		impatient, hangUp := context.WithCancel(t.Context())
		go func() { _, _ = l.get(impatient, tenant, capability) }() // it makes the next read
		synctest.Wait()
		for range 20 {
			ask(t.Context(), 2)
		}
		synctest.Wait()
		hangUp()
		g.let <- struct{}{}
		synctest.Wait()
		g.revision.Store(3)
		ask(t.Context(), 3)
		synctest.Wait()
		if n := g.reads.Load(); n != 2 {
			t.Errorf("%d reads are or were under way, want 2: one at a time", n)
		}
		g.let <- struct{}{}
		synctest.Wait()
		g.let <- struct{}{}
		synctest.Wait()
		if n, reads := served.Load(), g.reads.Load(); n != 22 || reads != 3 {
			t.Errorf("%d of 22 were served by %d reads, want 3", n, reads)
		}
		if len(l.next)+len(l.running) != 0 {
			t.Error("something is kept of what is over")
		}
	})
}
