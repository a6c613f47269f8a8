// Package impact says what taking replicas out of service would do to tenants.
//
// It answers "is this the last one, and how much of a tenant's room goes away?",
// which decides the step of the confirmation ladder. It is pure: records in,
// judgement out. It never contacts a host and changes nothing.
package impact

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// LargeShare is the part of a tenant's ready capacity above which a change asks
// for a name and a reason.
const LargeShare = 0.20

// Fleet is the records a judgement needs.
type Fleet struct {
	Replicas []registry.ReplicaRecord
	Bindings []fleet.CapabilityBinding
}

// Impact is what the loss of some replicas or bindings would do.
type Impact struct {
	Replicas []fleet.ReplicaID          `json:"replicas"`       // serving now, and gone afterwards
	Share    map[fleet.TenantID]float64 `json:"capacity_share"` // of each tenant's ready capacity
	LastOf   []string                   `json:"last_of"`        // "tenant capability" left without any replica
	Active   uint32                     `json:"active"`         // assignments pinned to them
}

// Serving reports whether a replica takes new work as far as its record says.
func Serving(r registry.ReplicaRecord) bool {
	return r.Live.Status == fleet.ReplicaReady && r.Live.Intent != fleet.IntentDrain && r.Live.Healthy
}

// Of judges the loss of replicas and of bindings.
func Of(f Fleet, lostReplica func(registry.ReplicaRecord) bool, lostBinding func(fleet.CapabilityBinding) bool) Impact {
	impact := Impact{Share: map[fleet.TenantID]float64{}, Replicas: []fleet.ReplicaID{}, LastOf: []string{}}
	room := map[fleet.TenantID][2]uint64{} // all, lost
	left := map[fleet.InstanceID]bool{}    // instances that still serve afterwards
	had := map[fleet.InstanceID]bool{}
	for _, r := range f.Replicas {
		if lostReplica(r) {
			impact.Active += r.Live.Active
		}
		if !Serving(r) {
			continue
		}
		had[r.Instance] = true
		sums := room[r.Tenant]
		sums[0] += uint64(r.Capacity)
		if lostReplica(r) {
			sums[1] += uint64(r.Capacity)
			impact.Replicas = append(impact.Replicas, r.ID)
		} else {
			left[r.Instance] = true
		}
		room[r.Tenant] = sums
	}
	for tenant, sums := range room {
		if sums[1] > 0 {
			impact.Share[tenant] = float64(sums[1]) / float64(sums[0])
		}
	}
	impact.LastOf = lastOf(f.Bindings, had, left, lostBinding)
	return impact
}

func lastOf(bindings []fleet.CapabilityBinding, had, left map[fleet.InstanceID]bool, lost func(fleet.CapabilityBinding) bool) []string {
	before, after := map[string]bool{}, map[string]bool{}
	for _, b := range bindings {
		key := b.Tenant.String() + " " + b.Capability.String()
		if !b.Enabled || !had[b.Instance] {
			continue
		}
		before[key] = true
		if left[b.Instance] && !lost(b) {
			after[key] = true
		}
	}
	last := []string{}
	for key := range before {
		if !after[key] {
			last = append(last, key)
		}
	}
	slices.Sort(last)
	return last
}

// NoReplica and NoBinding lose nothing.
func NoReplica(registry.ReplicaRecord) bool { return false }

// NoBinding loses no binding.
func NoBinding(fleet.CapabilityBinding) bool { return false }

// Level is the step of the ladder that an impact asks for; base is the step that
// the change asks for by itself.
func (i Impact) Level(base app.Level) app.Level {
	if len(i.LastOf) > 0 {
		return app.ConfirmName
	}
	for _, share := range i.Share {
		if share > LargeShare {
			return app.ConfirmName
		}
	}
	return base
}

// Lines says the impact in sentences, for the question that is asked.
func (i Impact) Lines() []string {
	var lines []string
	tenants := make([]string, 0, len(i.Share))
	for tenant := range i.Share {
		tenants = append(tenants, tenant.String())
	}
	slices.Sort(tenants)
	for _, name := range tenants {
		for tenant, share := range i.Share {
			if tenant.String() == name {
				lines = append(lines, fmt.Sprintf("tenant %s loses %.0f%% of its ready capacity", name, share*100))
			}
		}
	}
	const shown = 10
	for n, key := range i.LastOf {
		if n == shown {
			lines = append(lines, fmt.Sprintf("and %d more are left without a replica", len(i.LastOf)-shown))
			break
		}
		tenant, capability, _ := strings.Cut(key, " ")
		lines = append(lines, fmt.Sprintf("tenant %s is left without a replica for %s", tenant, capability))
	}
	if i.Active > 0 {
		lines = append(lines, app.Plural(int(i.Active), "assignment")+" pinned there, and staying pinned")
	}
	return lines
}
