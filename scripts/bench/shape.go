package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// group is a set of tenants that look alike. The counts are per tenant, per instance
// and per instance.
type group struct {
	name         string
	tenants      int
	instances    int // of a tenant
	replicas     int // of an instance
	capabilities int // bound to each instance
	capacity     int // of a replica
	unlimited    bool
}

// shape is what one database is seeded with.
type shape struct {
	groups  []group
	history int // old, settled routes
}

// job is one action to be routed.
type job struct {
	tenant     fleet.TenantID
	capability fleet.CapabilityID
	hot        bool // of the tenant that takes more than its share
}

// picker chooses the next job of a client.
type picker func(*rand.Rand) job

func (s shape) group(name string) group {
	for _, g := range s.groups {
		if g.name == name {
			return g
		}
	}
	panic("the plan names a group that is not seeded: " + name)
}

func (g group) tenant(n int) string { return fmt.Sprintf("tenant-%s-%05d", g.name, n) }

func (g group) instance(n, i int) string { return fmt.Sprintf("cinst_%s-%05d-%02d", g.name, n, i) }

func (g group) replica(n, i, r int) string {
	return fmt.Sprintf("crepl_%s-%05d-%02d-%05d", g.name, n, i, r)
}

func capability(k int) string { return fmt.Sprintf("bench:capability-%03d", k) }

// uniform picks among all tenants and capabilities of the group alike.
func (g group) uniform() picker {
	tenants := make([]fleet.TenantID, g.tenants)
	for n := range tenants {
		tenants[n] = parsed(fleet.ParseTenantID(g.tenant(n)))
	}
	capabilities := make([]fleet.CapabilityID, g.capabilities)
	for k := range capabilities {
		capabilities[k] = parsed(fleet.ParseCapabilityID(capability(k)))
	}
	return func(r *rand.Rand) job {
		return job{tenant: tenants[r.IntN(len(tenants))], capability: capabilities[r.IntN(len(capabilities))]}
	}
}

// skewed gives one share of the jobs to the tenant of hot.
func skewed(share float64, hot, rest group) picker {
	one, others := hot.uniform(), rest.uniform()
	return func(r *rand.Rand) job {
		if r.Float64() < share {
			j := one(r)
			j.hot = true
			return j
		}
		return others(r)
	}
}

// parsed is for names that this program makes itself.
func parsed[T any](v T, err error) T {
	if err != nil {
		panic("the harness made an invalid name: " + err.Error())
	}
	return v
}

func (s shape) replicas() int {
	total := 0
	for _, g := range s.groups {
		total += g.tenants * g.instances * g.replicas
	}
	return total
}

func (s shape) bindings() int {
	total := 0
	for _, g := range s.groups {
		total += g.tenants * g.instances * g.capabilities
	}
	return total
}
