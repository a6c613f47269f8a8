package main

import (
	"fmt"
	"iter"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

// leaseLife is longer than any run: measuring is not about expiry.
const leaseLife = 48 * time.Hour

// did is the pinned identity of a replica's host.
func did(replica string) string { return "did:key:z6Mk" + replica }

// tables lists what is copied, in the order of the references.
func (s *site) tables(key routing.Key, now time.Time) []table {
	return []table{
		{"connector_instance", []string{"id", "tenant_id", "type_id", "ring", "config_revision", "secret_provider_ref", "enabled"}, s.instanceRows(key)},
		{"instance_serving", []string{"instance_id", "tenant_id", "type_id", "version_id", "weight", "position"}, s.servingRows()},
		{"binding", []string{"tenant_id", "capability_id", "instance_id", "priority", "policy_revision", "credential_revision_ref", "quota_policy_ref", "enabled"}, s.bindingRows()},
		{"replica", []string{
			"id", "tenant_id", "type_id", "instance_id", "version_id", "endpoint", "peer_principal_id", "peer_principal_kind", "peer_did",
			"trust_domain", "transport_profile", "region", "zone", "capacity_class",
		}, s.replicaRows()},
		{"replica_live", []string{
			"replica_id", "instance_id", "version_id", "region", "zone", "capacity_class", "ring", "capacity",
			"status", "healthy", "lease_epoch", "lease_sequence", "lease_expires_at", "last_beat_at", "journal_id",
		}, s.liveRows(key, now)},
		{"scope_counter", []string{"kind", "key", "current"}, s.counterRows()},
	}
}

// eachInstance calls back for every instance until it returns false.
func (s *site) eachInstance(f func(g group, n, i int) bool) {
	for _, g := range s.shape.groups {
		for n := range g.tenants {
			for i := range g.instances {
				if !f(g, n, i) {
					return
				}
			}
		}
	}
}

func (s *site) eachReplica(f func(g group, n, i, r int) bool) {
	s.eachInstance(func(g group, n, i int) bool {
		for r := range g.replicas {
			if !f(g, n, i, r) {
				return false
			}
		}
		return true
	})
}

func (s *site) instanceRows(key routing.Key) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		s.eachInstance(func(g group, n, i int) bool {
			id := g.instance(n, i)
			return yield([]any{id, g.tenant(n), typeName, key.Instance(parsed(fleet.ParseInstanceID(id))), int64(1), "file:" + id, true})
		})
	}
}

func (s *site) servingRows() iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		s.eachInstance(func(g group, n, i int) bool {
			return yield([]any{g.instance(n, i), g.tenant(n), typeName, versionName, int64(100), int32(0)})
		})
	}
}

func (s *site) bindingRows() iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		s.eachInstance(func(g group, n, i int) bool {
			quota := ""
			if g.unlimited {
				quota = quotaName
			}
			for k := range g.capabilities {
				if !yield([]any{g.tenant(n), capability(k), g.instance(n, i), int64(10), int64(1), "credential-1", quota, true}) {
					return false
				}
			}
			return true
		})
	}
}

func (s *site) replicaRows() iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		s.eachReplica(func(g group, n, i, r int) bool {
			id := g.replica(n, i, r)
			return yield([]any{
				id, g.tenant(n), typeName, g.instance(n, i), versionName, fmt.Sprintf("https://%s.fleet.example:7101", id),
				"host-" + id, "service", did(id), "fleet.example", "aip-http/1", region, zone, class,
			})
		})
	}
}

func (s *site) liveRows(key routing.Key, now time.Time) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		s.eachReplica(func(g group, n, i, r int) bool {
			id := g.replica(n, i, r)
			return yield([]any{
				id, g.instance(n, i), versionName, region, zone, class, key.Replica(parsed(fleet.ParseReplicaID(id))), int64(g.capacity),
				"ready", true, int64(1), int64(1), now.Add(leaseLife), now, "jrnl_" + id,
			})
		})
	}
}

// counterRows makes the counters that a running fleet has: one for every scope that
// was ever taken. Keys are written as package settlement writes them.
func (s *site) counterRows() iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		tenants := map[string]bool{}
		s.eachInstance(func(g group, n, i int) bool {
			tenant, instance := g.tenant(n), g.instance(n, i)
			if !tenants[tenant] {
				tenants[tenant] = true
				if !yield([]any{string(fleet.ScopeTenant), tenant, int64(0)}) {
					return false
				}
			}
			if g.unlimited {
				return true
			}
			if !yield([]any{string(fleet.ScopeInstance), instance, int64(0)}) {
				return false
			}
			for k := range g.capabilities {
				if !yield([]any{string(fleet.ScopeBinding), tenant + "|" + capability(k) + "|" + instance, int64(0)}) {
					return false
				}
			}
			return true
		})
	}
}
