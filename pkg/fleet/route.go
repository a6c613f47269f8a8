package fleet

import "time"

// RouteAssignment is the one durable execution target of an action. It is written
// once and never changes (G01, G02). Every field is compared when an attempt settles.
type RouteAssignment struct {
	// work
	Action     ActionID     `json:"action_id"`
	Capability CapabilityID `json:"capability_id"`
	Tenant     TenantID     `json:"tenant_id"`
	// target
	Instance InstanceID `json:"instance_id"`
	Replica  ReplicaID  `json:"replica_id"`
	Endpoint string     `json:"endpoint"`
	Topology Topology   `json:"topology"`
	// peer
	Peer Peer `json:"peer"`
	// artifact
	Version        VersionID `json:"version_id"`
	ManifestDigest Digest    `json:"manifest_digest"`
	ArtifactDigest Digest    `json:"artifact_digest"`
	// decision
	CatalogRevision       uint64       `json:"catalog_revision"`
	BindingPolicyRevision uint64       `json:"binding_policy_revision"`
	CredentialRevisionRef string       `json:"credential_revision_ref,omitempty"`
	QuotaPolicyRef        string       `json:"quota_policy_ref,omitempty"`
	QuotaPolicyRevision   uint64       `json:"quota_policy_revision"`
	OrderingKeys          OrderingKeys `json:"ordering_keys"`
	// time
	AssignedAt time.Time `json:"assigned_at"` // UTC, microseconds
}

// OrderingKeys are the winner's keys at the decision.
type OrderingKeys struct {
	Priority     uint32 `json:"priority"`
	RegionMatch  bool   `json:"region_match"`
	ZoneMatch    bool   `json:"zone_match"`
	ActiveBefore uint32 `json:"active_before"`
}

// Fence orders the attempts of one action. Number grows by one per reservation;
// Token is unguessable (G06).
type Fence struct {
	Number uint64 `json:"number"`
	Token  string `json:"token"` // 32 hex digits
}

// ScopeKind names what a hard limit counts over.
type ScopeKind string

// Scope kinds, in the order in which they are locked.
const (
	ScopeBinding       ScopeKind = "binding"
	ScopeConnectorType ScopeKind = "connector_type"
	ScopeGlobal        ScopeKind = "global"
	ScopeInstance      ScopeKind = "instance"
	ScopeTenant        ScopeKind = "tenant"
	ScopeTenantRetry   ScopeKind = "tenant_retry"
)

// Scope is one counter that an attempt holds, with the limit it was taken under.
type Scope struct {
	Kind  ScopeKind `json:"kind"`
	Key   string    `json:"key"`
	Limit uint32    `json:"limit"`
}

// Attempt is one reservation of a route. Attempts are appended; the settled part is written once.
type Attempt struct {
	Action      ActionID      `json:"action_id"`
	Fence       Fence         `json:"fence"`
	LeaseEpoch  uint64        `json:"lease_epoch"`
	Journal     JournalID     `json:"journal_id"` // the host's journal when reserved
	Scopes      []Scope       `json:"scopes"`
	CircuitUsed CircuitPolicy `json:"circuit"`
	Probe       bool          `json:"probe"` // holds a half-open probe slot
	ReservedAt  time.Time     `json:"reserved_at"`
	Deadline    time.Time     `json:"deadline"` // action deadline and grace (G12)
	Settlement  *Settlement   `json:"settlement,omitempty"`
}

// Settled reports whether the attempt's reservation was released.
func (a Attempt) Settled() bool { return a.Settlement != nil }

// Assignment is a route with its current attempt: what the dispatcher gets, what
// the wire carries, and what settlement compares.
type Assignment struct {
	Route   RouteAssignment `json:"route"`
	Attempt Attempt         `json:"attempt"`
	Earlier []AttemptEnd    `json:"earlier,omitempty"` // older attempts' verdicts, oldest first
}

// AttemptEnd is what is known about an older attempt, for the host to judge by (G25).
type AttemptEnd struct {
	Fence   uint64    `json:"fence"`
	Verdict Verdict   `json:"verdict"`
	Journal JournalID `json:"journal_id"`
}

// Verdict is what is known about one attempt's execution.
type Verdict string

// Verdicts.
const (
	VerdictNeverSent  Verdict = "never_sent"  // no byte of it ever left
	VerdictNotStarted Verdict = "not_started" // the host promised so, signed (G41)
	VerdictUnknown    Verdict = "unknown"     // it may have executed
	VerdictCompleted  Verdict = "completed"   // a definite result is known
)

// Outcome is the closed set of ways in which an attempt settles.
type Outcome string

// Settlement outcomes.
const (
	OutcomeCompleted    Outcome = "completed"       // definite: success or failure
	OutcomeUnknown      Outcome = "outcome_unknown" // it may have happened
	OutcomeCancelled    Outcome = "cancelled"       // no provider effect happened
	OutcomeLeaseExpired Outcome = "lease_expired"   // released by maintenance
)

// Definite reports whether the outcome leaves no question (otherwise G42 opens a record).
func (o Outcome) Definite() bool { return o == OutcomeCompleted || o == OutcomeCancelled }

// Valid reports whether o is one of the four.
func (o Outcome) Valid() bool {
	return o == OutcomeCompleted || o == OutcomeUnknown || o == OutcomeCancelled || o == OutcomeLeaseExpired
}

// Settlement is how an attempt ended.
type Settlement struct {
	Outcome        Outcome   `json:"outcome"`
	Code           string    `json:"code,omitempty"`       // e.g. "dispatch.refused"
	Verdict        Verdict   `json:"verdict,omitempty"`    // for cancelled: never_sent or not_started
	PeerFault      bool      `json:"peer_fault,omitempty"` // counts for the circuit under any outcome
	EvidenceDigest Digest    `json:"evidence_digest"`      // of the signed answer, when there is one
	SettledAt      time.Time `json:"settled_at"`
}
