package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// lookupPatience bounds one read of the catalog that several requests wait for.
const lookupPatience = 10 * time.Second

// lookups lets requests for the same capability of the same tenant share a read of the
// catalog: one is under way at a time, and what comes meanwhile waits for the next one.
// A read serves only those who asked before it began, so each sees the catalog as it
// was when it asked or later, as with a read of its own (G14).
type lookups struct {
	catalog registry.Catalog

	mu      sync.Mutex
	next    map[lookupKey]*lookup       // that did not begin yet
	running map[lookupKey]chan struct{} // closed when the read under way ends
}

type lookupKey struct {
	tenant     fleet.TenantID
	capability fleet.CapabilityID
}

// lookup is one read, and what it came to once done is closed.
type lookup struct {
	done    chan struct{}
	listing registry.Listing
	err     error
}

func newLookups(catalog registry.Catalog) *lookups {
	return &lookups{catalog: catalog, next: map[lookupKey]*lookup{}, running: map[lookupKey]chan struct{}{}}
}

// get is catalog.Get. The first who asks for a read makes it; it does so also when its
// own client hangs up, since others wait for it.
func (l *lookups) get(ctx context.Context, tenant fleet.TenantID, capability fleet.CapabilityID) (registry.Listing, error) {
	key := lookupKey{tenant, capability}
	l.mu.Lock()
	one, asked := l.next[key]
	if !asked {
		one = &lookup{done: make(chan struct{})}
		l.next[key] = one
	}
	before := l.running[key]
	l.mu.Unlock()
	if !asked {
		if before != nil {
			<-before
		}
		l.read(ctx, key, one)
	}
	select {
	case <-one.done:
		return one.listing, one.err
	case <-ctx.Done():
		return registry.Listing{}, fleet.Errorf(fleet.Unavailable, "catalog.unavailable", "the catalog could not be read").Caused(ctx.Err())
	}
}

// read makes the read. From here on others ask for the one after it.
func (l *lookups) read(ctx context.Context, key lookupKey, one *lookup) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupPatience)
	defer cancel()
	ended := make(chan struct{})
	l.mu.Lock()
	delete(l.next, key)
	l.running[key] = ended
	l.mu.Unlock()
	one.err = fleet.Errorf(fleet.Internal, "catalog.unavailable", "the catalog could not be read") // unless it returns
	defer func() {
		l.mu.Lock()
		delete(l.running, key)
		l.mu.Unlock()
		close(ended)
		close(one.done)
	}()
	one.listing, one.err = l.catalog.Get(ctx, key.tenant, key.capability)
}
