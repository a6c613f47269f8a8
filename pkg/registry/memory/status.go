package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/aipfleet/aipfleet/pkg/catalog"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// leaseEnding is when a lease counts as about to end.
const leaseEnding = 10 * time.Second

// Status implements registry.Reader.
func (r *Registry) Status(ctx context.Context) (registry.Status, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return registry.Status{}, err
	}
	defer end()
	s := registry.Status{
		At: r.now(), Revision: r.revision, Routes: uint64(len(r.routes)),
		Instances: len(r.instances), Bindings: len(r.bindings), ReplicasDeclared: len(r.replicas),
		Replicas:  map[fleet.ReplicaStatus]int{fleet.ReplicaReady: 0, fleet.ReplicaDraining: 0, fleet.ReplicaOffline: 0, fleet.ReplicaRetired: 0},
		Versions:  map[fleet.VersionStatus]int{},
		Uncertain: map[fleet.ReconciliationState]int{fleet.ReconcileOpen: 0, fleet.ReconcileOperator: 0, fleet.ReconcileResolved: 0},
	}
	for id, live := range r.live {
		countReplica(&s, live, r.replicas[id].Capacity)
	}
	for _, v := range r.versions {
		s.Versions[v.Status]++
	}
	for _, u := range r.uncertain {
		s.Uncertain[u.State]++
		if u.State != fleet.ReconcileResolved {
			s.OldestUncertain = max(s.OldestUncertain, s.At.Sub(u.OpenedAt))
		}
	}
	return s, nil
}

func countReplica(s *registry.Status, live fleet.ReplicaLive, capacity uint32) {
	s.Replicas[live.Status]++
	s.Active += uint64(live.Active)
	if live.Intent == fleet.IntentDrain {
		s.DrainIntent++
	}
	if live.Circuit.State != fleet.CircuitClosed {
		s.CircuitsOpen++
	}
	if live.Status == fleet.ReplicaOffline {
		return
	}
	if !live.Healthy {
		s.Unhealthy++
	}
	if left := live.LeaseExpiresAt.Sub(s.At); left <= leaseEnding {
		s.LeasesEnding++
	}
	if live.Status == fleet.ReplicaReady {
		s.Capacity += uint64(capacity)
	}
}

// Package implements registry.Reader.
func (r *Registry) Package(ctx context.Context, digest fleet.Digest) ([]byte, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	data, ok := r.packages[digest]
	if !ok {
		return nil, fleet.Errorf(fleet.NotFound, "package.digest", "no package with digest %s is stored", digest)
	}
	return bytes.Clone(data), nil
}

// Snapshot implements registry.Reader.
func (r *Registry) Snapshot(ctx context.Context) (registry.Snapshot, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return registry.Snapshot{}, err
	}
	defer end()
	s := registry.Snapshot{
		At: r.now(), Revision: r.revision,
		Types: all(r.typeRows()), Versions: all(r.versionRows()), Instances: all(r.instanceRows()),
		Replicas: all(r.replicaRows()), Bindings: all(r.bindingRows()), Quotas: all(r.quotaRows()),
		Routes: all(r.routeRows()), Reconciliations: all(r.uncertainRows()), Candidates: r.chains(),
	}
	for k, n := range r.counters {
		s.Counters = append(s.Counters, registry.Counter{Kind: k.kind, Key: k.key, Current: n})
	}
	slices.SortFunc(s.Counters, func(a, b registry.Counter) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key))
	})
	return s, nil
}

func all[T any](rows []row[T]) []T {
	slices.SortFunc(rows, func(a, b row[T]) int { return cmp.Compare(a.key, b.key) })
	items := make([]T, 0, len(rows))
	for _, w := range rows {
		items = append(items, deepCopy(w.read()))
	}
	return items
}

// chains lists the chains that may carry new work, as a store that keeps them would.
func (r *Registry) chains() []registry.CandidateChain {
	var out []registry.CandidateChain
	for k, b := range r.bindings {
		i := r.instances[k.Instance]
		for _, s := range i.Serving {
			c := catalog.Chain{Binding: b, Instance: i, Type: r.types[i.Type], Version: r.versions[s.Version]}
			if c.Valid() {
				out = append(out, registry.CandidateChain{Tenant: k.Tenant, Capability: k.Capability, Instance: k.Instance, Version: s.Version})
			}
		}
	}
	return out
}
