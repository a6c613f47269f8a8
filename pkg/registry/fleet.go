package registry

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Fleet keeps the leases of replicas (G15, G22, G23, G42).
type Fleet interface {
	// Register starts a new lease epoch for a declared replica. A live lease is
	// superseded only when journal and last epoch match; otherwise Conflict, code
	// lease.held. The claim of the request and its effect are one transaction: the
	// same request again gets the same answer.
	Register(ctx context.Context, registration Registration) (Lease, error)
	// Renew is one beat. Epoch and sequence are its replay guard: an older sequence,
	// a superseded or expired or offline epoch is LeaseLost.
	Renew(ctx context.Context, beat Beat) (Lease, error)
	// Leave is the host's own drain or offline.
	Leave(ctx context.Context, departure Departure) (Lease, error)
	// Intend sets the operator's intent. Draining is sticky: no beat undoes it.
	Intend(ctx context.Context, intent Intent) (fleet.ReplicaLive, error)
	// Expire marks replicas whose lease ended offline, settles attempts of offline
	// or superseded epochs as lease_expired and overdue ones as outcome_unknown, at
	// most limit of each, and opens a reconciliation record for every one (G12, G42).
	// It never contacts an endpoint. Several callers at once are safe.
	Expire(ctx context.Context, limit int) (Expiry, error)
}

// RequestClaim identifies a signed request, so that an exact repeat gets the same answer.
type RequestClaim struct {
	ID     string       // the signed message id
	Digest fleet.Digest // of the signed bytes; another digest under the same id is Conflict, code lease.replay
}

// Registration asks for a lease.
type Registration struct {
	Claim             RequestClaim
	Replica           fleet.ReplicaID
	PeerDID           string // verified signer; must be the declared one (Denied, lease.peer)
	ManifestDigest    fleet.Digest
	ArtifactDigest    fleet.Digest
	Tenant            fleet.TenantID
	ConfigRevision    uint64
	SecretProviderRef string
	CapabilityCount   int
	Capacity          uint32
	Journal           fleet.JournalID
	LastEpoch         uint64 // 0 when the host knows none
	Starting          bool   // not healthy before a beat that is ready
	TTL               time.Duration
}

// Lease is the answer to a lifecycle request.
type Lease struct {
	Replica   fleet.ReplicaID      `json:"replica_id"`
	Epoch     uint64               `json:"epoch"`
	Sequence  uint64               `json:"sequence"`
	ExpiresAt time.Time            `json:"expires_at"`
	TTL       time.Duration        `json:"ttl"`
	Intent    fleet.OperatorIntent `json:"operator_intent"`
	Status    fleet.ReplicaStatus  `json:"status"`
}

// Bounds of a lease's time to live.
const (
	MinLeaseTTL     = time.Second
	DefaultLeaseTTL = 30 * time.Second
	MaxLeaseTTL     = 300 * time.Second
)

// UnhealthyAfter is how many beats without readiness make a replica unhealthy.
const UnhealthyAfter = 3

// Beat renews a lease.
type Beat struct {
	Replica  fleet.ReplicaID
	PeerDID  string
	Epoch    uint64
	Sequence uint64 // strictly greater than the last
	InFlight uint32
	Ready    bool
	Draining bool
	TTL      time.Duration
}

// Departure is a host's drain or offline.
type Departure struct {
	Claim   RequestClaim
	Replica fleet.ReplicaID
	PeerDID string
	Epoch   uint64
	Offline bool // false: drain
}

// Intent is an operator's wish for one replica.
type Intent struct {
	Replica fleet.ReplicaID
	Want    fleet.OperatorIntent
	Actor   string
	Reason  string
}

// Expiry counts what one maintenance pass did.
type Expiry struct {
	Offline int  `json:"offline"` // replicas
	Expired int  `json:"expired"` // attempts settled lease_expired
	Overdue int  `json:"overdue"` // attempts settled outcome_unknown
	More    bool `json:"more"`    // the limit was reached
}
