package registry

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Snapshot is everything Audit checks, read at one point in time.
type Snapshot struct {
	At              time.Time
	Revision        uint64
	Types           []fleet.ConnectorType
	Versions        []fleet.ConnectorVersion
	Instances       []fleet.ConnectorInstance
	Replicas        []ReplicaRecord
	Bindings        []fleet.CapabilityBinding
	Quotas          []fleet.QuotaPolicy
	Routes          []RouteRecord
	Reconciliations []fleet.Reconciliation
	Counters        []Counter
	Candidates      []CandidateChain // the denormalised chains, when the store keeps them
}

// Counter is one admission scope's counter.
type Counter struct {
	Kind    fleet.ScopeKind `json:"kind"`
	Key     string          `json:"key"`
	Current uint32          `json:"current"`
}

// CandidateChain is one denormalised valid chain, for comparison with the truth.
type CandidateChain struct {
	Tenant     fleet.TenantID
	Capability fleet.CapabilityID
	Instance   fleet.InstanceID
	Version    fleet.VersionID
	Ready      *ReadyChain // what the store wrote out of it, when it does
}

// ReadyChain is what a resolve over a chain writes down, worked out beforehand: by the
// publication that changed a binding or a quota.
type ReadyChain struct {
	Foremost      bool   // no weighted chain of its tenant and capability has a better priority
	QuotaRevision uint64 // of the binding's policy
	Circuit       fleet.CircuitPolicy
	Scopes        []fleet.Scope
}

// Violation is one broken invariant.
type Violation struct {
	Guarantee string `json:"guarantee"` // "G04"
	Subject   string `json:"subject"`
	What      string `json:"what"`
}
