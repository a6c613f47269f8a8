package fleet

import "time"

// ReconciliationState is where an uncertain attempt stands.
type ReconciliationState string

// Reconciliation states.
const (
	ReconcileOpen     ReconciliationState = "open"     // being asked for automatically
	ReconcileOperator ReconciliationState = "operator" // only a person can decide
	ReconcileResolved ReconciliationState = "resolved" // by evidence or decision
)

// Resolution is how an uncertain attempt was decided.
type Resolution string

// Resolutions.
const (
	ResolvedCompleted    Resolution = "completed"      // a signed definite result was found
	ResolvedNotStarted   Resolution = "not_started"    // the host promised it never ran
	ResolvedHappened     Resolution = "happened"       // an operator decided
	ResolvedDidNotHappen Resolution = "did_not_happen" // an operator decided
)

// Reconciliation is the record that an attempt without a definite answer opens, in
// the same transaction that releases it (G42). None is forgotten (G38).
type Reconciliation struct {
	Action      ActionID            `json:"action_id"`
	Fence       uint64              `json:"fence"`
	Tenant      TenantID            `json:"tenant_id"`
	Capability  CapabilityID        `json:"capability_id"`
	Instance    InstanceID          `json:"instance_id"`
	Replica     ReplicaID           `json:"replica_id"`
	State       ReconciliationState `json:"state"`
	Cause       string              `json:"cause"` // settlement code or outcome that opened it
	OpenedAt    time.Time           `json:"opened_at"`
	NextProbeAt time.Time           `json:"next_probe_at,omitzero"`
	Probes      []Probe             `json:"probes,omitempty"` // the last 20, oldest first
	ProbeCount  uint32              `json:"probe_count"`
	Resolution  Resolution          `json:"resolution,omitempty"`
	ResolvedAt  time.Time           `json:"resolved_at,omitzero"`
	ResolvedBy  string              `json:"resolved_by,omitempty"` // host DID, or operator
	Evidence    Digest              `json:"evidence_digest"`
	Decision    []byte              `json:"decision,omitempty"` // the operator's signed document
}

// Probe is one question put to the pinned host and what came back.
type Probe struct {
	At       time.Time `json:"at"`
	Answer   string    `json:"answer"` // not_started, running, completed, cancelled, unknown, unreachable, refused
	Detail   string    `json:"detail,omitempty"`
	Evidence Digest    `json:"evidence_digest"`
}
