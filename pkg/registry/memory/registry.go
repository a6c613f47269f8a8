// Package memory is the registry of one process: every contract of package registry
// behind one mutex, lost at exit.
//
// It answers "what does the registry promise, in the fewest words?": it calls the
// rules of routing, settlement, lease and catalog directly, and is the reading that
// the PostgreSQL registry is held against. It is also the registry of
// `aipd serve --registry memory`.
//
// It guarantees all that the contract does, but for durability (G39). Values are
// copied on their way in and out, so that no caller holds a piece of the state. Given
// the same calls and the same clock it answers the same, fence tokens aside.
package memory

import (
	"context"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/catalog"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
	"github.com/aipfleet/aipfleet/pkg/settlement"
)

// Config is what a memory registry needs.
type Config struct {
	RingKey   []byte           // keys the tie-break ring (G10)
	CursorKey []byte           // authenticates catalog cursors (G14)
	Now       func() time.Time // the clock; required
}

// Registry implements the seven contracts. Make one with New.
type Registry struct {
	ring   routing.Key
	cursor catalog.CursorKey
	clock  func() time.Time

	mu sync.Mutex
	state
}

type state struct {
	revision   uint64
	types      map[fleet.TypeID]fleet.ConnectorType
	versions   map[fleet.VersionID]fleet.ConnectorVersion
	instances  map[fleet.InstanceID]fleet.ConnectorInstance
	replicas   map[fleet.ReplicaID]fleet.Replica
	live       map[fleet.ReplicaID]fleet.ReplicaLive
	bindings   map[fleet.BindingKey]fleet.CapabilityBinding
	quotas     map[string]fleet.QuotaPolicy
	offered    map[fleet.TenantID]map[fleet.CapabilityID][]fleet.InstanceID // sorted
	members    map[fleet.InstanceID][]fleet.ReplicaID                       // sorted
	places     map[fleet.ReplicaID]int64                                    // on the ring
	routes     map[fleet.ActionID]*registry.RouteRecord
	reserved   map[fleet.ActionID]bool // routes whose newest attempt is unsettled
	archived   map[fleet.ActionID]tombstone
	counters   map[scopeKey]uint32
	uncertain  map[registry.ReconciliationKey]*fleet.Reconciliation
	claims     map[claimKey]claim
	admissions []registry.Admission
	packages   map[fleet.Digest][]byte
	trust      []registry.TrustRevision
	revoked    []registry.RevocationList
	events     []registry.Event
	lastEvent  uint64
}

type scopeKey struct {
	kind fleet.ScopeKind
	key  string
}

// tombstone is what stays of an archived action, for ever (G01).
type tombstone struct {
	at     time.Time
	record registry.RouteRecord
}

type claimKey struct {
	replica fleet.ReplicaID
	id      string
}

type claim struct {
	digest fleet.Digest
	answer registry.Lease
	at     time.Time
}

// Contracts, checked by the compiler.
var (
	_ registry.Catalog   = (*Registry)(nil)
	_ registry.Router    = (*Registry)(nil)
	_ registry.Reader    = (*Registry)(nil)
	_ registry.Publisher = (*Registry)(nil)
	_ registry.Fleet     = (*Registry)(nil)
	_ registry.Uncertain = (*Registry)(nil)
	_ registry.Custody   = (*Registry)(nil)
)

// New makes an empty registry at revision 0.
func New(c Config) *Registry {
	return &Registry{ring: c.RingKey, cursor: c.CursorKey, clock: c.Now, state: state{
		types:     map[fleet.TypeID]fleet.ConnectorType{},
		versions:  map[fleet.VersionID]fleet.ConnectorVersion{},
		instances: map[fleet.InstanceID]fleet.ConnectorInstance{},
		replicas:  map[fleet.ReplicaID]fleet.Replica{},
		live:      map[fleet.ReplicaID]fleet.ReplicaLive{},
		bindings:  map[fleet.BindingKey]fleet.CapabilityBinding{},
		quotas:    map[string]fleet.QuotaPolicy{},
		offered:   map[fleet.TenantID]map[fleet.CapabilityID][]fleet.InstanceID{},
		members:   map[fleet.InstanceID][]fleet.ReplicaID{},
		places:    map[fleet.ReplicaID]int64{},
		routes:    map[fleet.ActionID]*registry.RouteRecord{},
		reserved:  map[fleet.ActionID]bool{},
		archived:  map[fleet.ActionID]tombstone{},
		counters:  map[scopeKey]uint32{},
		uncertain: map[registry.ReconciliationKey]*fleet.Reconciliation{},
		claims:    map[claimKey]claim{},
		packages:  map[fleet.Digest][]byte{},
	}}
}

// now reads the clock as the registry stores time: UTC, whole microseconds.
func (r *Registry) now() time.Time { return r.clock().UTC().Truncate(time.Microsecond) }

// begin takes the one lock, unless the caller has gone already: then nothing happened.
func (r *Registry) begin(ctx context.Context) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, fleet.Errorf(fleet.Unavailable, "registry.cancelled", "the request was given up before it began").Caused(err)
	}
	r.mu.Lock()
	return r.mu.Unlock, nil
}

// policies are the quota policies that bound work under a binding now.
func (r *Registry) policies(ref string) settlement.Policies {
	published := func(ref string) (fleet.QuotaPolicy, bool) { q, ok := r.quotas[ref]; return q, ok }
	binding, _ := settlement.Policy(ref, published)
	return settlement.Policies{Deployment: settlement.Deployment(published), Binding: binding}
}

// eventsKept bounds the journal of this registry, which has no disk to put it on.
const eventsKept = 10_000

func (r *Registry) record(e registry.Event) {
	r.lastEvent++
	e.Sequence, e.Revision = r.lastEvent, r.revision
	if len(r.events) >= eventsKept {
		r.events = append(r.events[:0:0], r.events[len(r.events)-eventsKept/2:]...)
	}
	r.events = append(r.events, e)
}
