package fleet

import "time"

// Topology is where a replica stands.
type Topology struct {
	Region        string `json:"region"`         // default "global"
	Zone          string `json:"zone"`           // default "default"
	CapacityClass string `json:"capacity_class"` // default "standard"
}

// WithDefaults fills the empty labels.
func (t Topology) WithDefaults() Topology {
	def := func(v *string, d string) {
		if *v == "" {
			*v = d
		}
	}
	def(&t.Region, "global")
	def(&t.Zone, "default")
	def(&t.CapacityClass, "standard")
	return t
}

// TopologyPreference comes from the configuration of aipd, never from a client
// (G19). Class and forbidden cross-region filter; region and zone only rank.
type TopologyPreference struct {
	Region            string `json:"region,omitempty"`
	Zone              string `json:"zone,omitempty"`
	CapacityClass     string `json:"capacity_class,omitempty"` // "" accepts any
	ForbidCrossRegion bool   `json:"forbid_cross_region,omitempty"`
}

// Peer is the pinned signed identity of a host.
type Peer struct {
	PrincipalID      string `json:"principal_id"`
	PrincipalKind    string `json:"principal_kind"` // "service"
	DID              string `json:"did"`            // did:key:z…
	TrustDomain      string `json:"trust_domain"`
	TransportProfile string `json:"transport_profile"` // "aip-http/1"
}

// Replica is a declared, pre-provisioned process identity. Nothing of it changes
// but the capacity, by a new declaration and never below what is in flight.
type Replica struct {
	ID       ReplicaID  `json:"id"`
	Instance InstanceID `json:"instance_id"`
	Version  VersionID  `json:"version_id"`
	Endpoint string     `json:"endpoint"`
	Peer     Peer       `json:"peer"`
	Topology Topology   `json:"topology"`
	Capacity uint32     `json:"capacity"` // >= 1 concurrent actions
}

// ReplicaStatus is the lease state of a replica.
type ReplicaStatus string

// Lease states.
const (
	ReplicaReady    ReplicaStatus = "ready"
	ReplicaDraining ReplicaStatus = "draining"
	ReplicaOffline  ReplicaStatus = "offline"
	ReplicaRetired  ReplicaStatus = "retired" // by an operator, for ever
)

// OperatorIntent is what the operator wants of a replica; it acts on routing at
// once and reaches the host on its next beat.
type OperatorIntent string

// Operator intents.
const (
	IntentRun   OperatorIntent = "run"
	IntentDrain OperatorIntent = "drain"
)

// CircuitState is the state of a replica's breaker.
type CircuitState string

// Circuit states.
const (
	CircuitClosed   CircuitState = "closed"
	CircuitOpen     CircuitState = "open"
	CircuitHalfOpen CircuitState = "half_open"
)

// Circuit is the breaker of one replica.
type Circuit struct {
	State               CircuitState `json:"state"`
	ConsecutiveUnknowns uint32       `json:"consecutive_unknowns"`
	OpenUntil           time.Time    `json:"open_until,omitzero"`
	OpenedAt            time.Time    `json:"opened_at,omitzero"`
	Openings            uint32       `json:"openings"` // repeated ones double the open time, to 10 minutes
	ProbesOut           uint32       `json:"probes_out"`
}

// ReplicaLive is the state of a replica that changes while it lives; it is kept
// apart from the declared identity.
type ReplicaLive struct {
	ID             ReplicaID      `json:"id"`
	Status         ReplicaStatus  `json:"status"`
	Intent         OperatorIntent `json:"intent"`
	Healthy        bool           `json:"healthy"`
	NotReadyBeats  uint32         `json:"not_ready_beats"`
	LeaseEpoch     uint64         `json:"lease_epoch"`    // grows per registration
	LeaseSequence  uint64         `json:"lease_sequence"` // grows per beat
	LeaseExpiresAt time.Time      `json:"lease_expires_at,omitzero"`
	LastBeatAt     time.Time      `json:"last_beat_at,omitzero"`
	InFlight       uint32         `json:"in_flight"` // as the host last said
	Journal        JournalID      `json:"journal_id"`
	OfferedJournal JournalID      `json:"offered_journal_id,omitzero"` // another one that a host came with; it waits for an operator
	Active         uint32         `json:"active_assignments"`
	Circuit        Circuit        `json:"circuit"`
}
