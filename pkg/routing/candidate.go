package routing

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Chain is what leads from a tenant's capability to a version of an instance.
type Chain struct {
	Binding     fleet.CapabilityBinding
	Tenant      fleet.TenantID // of the instance; must equal the binding's
	Enabled     bool           // the instance
	Type        fleet.TypeID
	TypeEnabled bool
	Version     fleet.VersionID
	Status      fleet.VersionStatus
	Qualified   bool
	Implements  bool   // the version offers the capability
	Weight      uint32 // of the version in the instance
	DrawRank    int    // place in DrawOrder of the action; the caller computes it
	Circuit     fleet.CircuitPolicy
	FullScope   string // "" or the binding, instance or type scope that looks full
}

// Candidate is one replica under one chain.
type Candidate struct {
	Chain   Chain
	Replica fleet.Replica
	Live    fleet.ReplicaLive
	Ring    int64 // Key.Replica
}

// Question is what is asked of a set of candidates.
type Question struct {
	Tenant   fleet.TenantID
	Topology fleet.TopologyPreference
	Ring     int64     // Key.Action
	Now      time.Time // read after the last lock
}

// Reason says why a candidate may not serve; "" means it may. Reasons are stable
// and documented; counts per reason are part of refusals (G40).
type Reason string

// Reasons, in the order in which they are judged.
const (
	Eligible         Reason = ""
	BindingDisabled  Reason = "binding_disabled"
	TenantMismatch   Reason = "tenant_mismatch"
	InstanceDisabled Reason = "instance_disabled"
	TypeDisabled     Reason = "type_disabled"
	VersionStatus    Reason = "version_not_routable"
	NotQualified     Reason = "version_not_qualified"
	NotImplemented   Reason = "capability_not_implemented"
	WeightZero       Reason = "version_weight_zero"
	NotServing       Reason = "version_not_serving"
	ClassMismatch    Reason = "capacity_class"
	CrossRegion      Reason = "cross_region_forbidden"
	Retired          Reason = "retired"
	Offline          Reason = "offline"
	DrainIntent      Reason = "drain_intent"
	Draining         Reason = "draining"
	Unhealthy        Reason = "unhealthy"
	LeaseExpired     Reason = "lease_expired"
	CircuitOpen      Reason = "circuit_open"
	AtCapacity       Reason = "at_capacity"
	ScopeFull        Reason = "scope_full"
	NotDrawn         Reason = "version_not_drawn" // another version of the instance takes the action
)

// Filter judges one candidate for a new route (G08).
func Filter(q Question, c Candidate) Reason {
	if r := filterChain(q, c); r != Eligible {
		return r
	}
	if r := filterTopology(q.Topology, c.Replica.Topology); r != Eligible {
		return r
	}
	return filterLive(q.Now, c)
}

func filterChain(q Question, c Candidate) Reason {
	switch k := c.Chain; {
	case !k.Binding.Enabled:
		return BindingDisabled
	case k.Tenant != q.Tenant || k.Binding.Tenant != q.Tenant:
		return TenantMismatch
	case !k.Enabled:
		return InstanceDisabled
	case !k.TypeEnabled:
		return TypeDisabled
	case !k.Status.Routable():
		return VersionStatus
	case !k.Qualified:
		return NotQualified
	case !k.Implements:
		return NotImplemented
	case k.Weight == 0:
		return WeightZero
	case c.Replica.Instance != k.Binding.Instance || c.Replica.Version != k.Version:
		return NotServing
	}
	return Eligible
}

func filterTopology(want fleet.TopologyPreference, have fleet.Topology) Reason {
	switch {
	case want.CapacityClass != "" && want.CapacityClass != have.CapacityClass:
		return ClassMismatch
	case want.ForbidCrossRegion && want.Region != "" && want.Region != have.Region:
		return CrossRegion
	}
	return Eligible
}

func filterLive(now time.Time, c Candidate) Reason {
	switch l := c.Live; {
	case l.Status == fleet.ReplicaRetired:
		return Retired
	case l.Status == fleet.ReplicaOffline:
		return Offline
	case l.Intent == fleet.IntentDrain:
		return DrainIntent
	case l.Status == fleet.ReplicaDraining:
		return Draining
	case !l.Healthy:
		return Unhealthy
	case !l.LeaseExpiresAt.After(now):
		return LeaseExpired
	case !CircuitAdmits(now, c.Chain.Circuit, l.Circuit):
		return CircuitOpen
	case l.Active >= c.Replica.Capacity:
		return AtCapacity
	case c.Chain.FullScope != "":
		return ScopeFull
	}
	return Eligible
}

// CircuitAdmits reports whether a reservation may be made: the circuit is closed,
// or its open time is over and a half-open probe is free.
func CircuitAdmits(now time.Time, policy fleet.CircuitPolicy, c fleet.Circuit) bool {
	switch c.State {
	case fleet.CircuitOpen:
		return !c.OpenUntil.After(now)
	case fleet.CircuitHalfOpen:
		return c.ProbesOut < max(policy.HalfOpenProbes, 1)
	}
	return true
}

// Repin judges whether the one replica of a route may be reserved again (G09): it
// may be draining, never replaced.
func Repin(now time.Time, c Candidate) Reason {
	switch k, l := c.Chain, c.Live; {
	case !k.Enabled:
		return InstanceDisabled
	case !k.TypeEnabled:
		return TypeDisabled
	case !k.Status.Reservable():
		return VersionStatus
	case l.Status == fleet.ReplicaRetired:
		return Retired
	case l.Status == fleet.ReplicaOffline:
		return Offline
	case !l.LeaseExpiresAt.After(now):
		return LeaseExpired
	case !CircuitAdmits(now, k.Circuit, l.Circuit):
		return CircuitOpen
	case l.Active >= c.Replica.Capacity:
		return AtCapacity
	}
	return Eligible
}
