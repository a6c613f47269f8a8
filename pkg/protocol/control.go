package protocol

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Types of the control messages between a host and the lifecycle service.
const (
	TypeRegister  = "aipfleet.control.v1.register"
	TypeHeartbeat = "aipfleet.control.v1.heartbeat"
	TypeDrain     = "aipfleet.control.v1.drain"
	TypeOffline   = "aipfleet.control.v1.offline"
	TypeLease     = "aipfleet.control.v1.lease"
)

// Register asks for a lease under a new epoch. The identities are compared with
// what was admitted and declared; nothing of them is taken from the message.
type Register struct {
	Replica           fleet.ReplicaID `json:"replica_id"`
	ManifestDigest    fleet.Digest    `json:"manifest_digest"`
	ArtifactDigest    fleet.Digest    `json:"artifact_digest"` // recomputed from the bytes that will run (G28)
	Tenant            fleet.TenantID  `json:"tenant_id"`
	ConfigRevision    uint64          `json:"config_revision"`
	SecretProviderRef string          `json:"secret_provider_ref,omitempty"` // a reference, never a value (G21)
	CapabilityCount   uint32          `json:"capability_count"`
	Capacity          uint32          `json:"capacity"`
	Journal           fleet.JournalID `json:"journal_id"`
	LastEpoch         uint64          `json:"last_epoch"` // 0 when the journal holds none
	// Starting says that the host could not execute anything yet: no new route comes to
	// it before a beat that says that it is ready.
	Starting bool `json:"starting,omitempty"`
}

// BodyKey implements Document.
func (Register) BodyKey() string { return "register" }

// MessageType implements Document.
func (Register) MessageType() string { return TypeRegister }

// Validate implements Document.
func (r Register) Validate() error {
	const doc = "register"
	return first(
		refuse(r.Replica.IsZero(), doc, "replica_id", missing),
		refuse(r.ManifestDigest.IsZero(), doc, "manifest_digest", missing),
		refuse(r.ArtifactDigest.IsZero(), doc, "artifact_digest", missing),
		refuse(r.Tenant.IsZero(), doc, "tenant_id", missing),
		refuse(badText(r.SecretProviderRef, fleet.MaxSecretRefBytes), doc, "secret_provider_ref", tooLong),
		refuse(r.CapabilityCount == 0 || r.CapabilityCount > fleet.MaxCapabilities, doc, "capability_count", "it is not 1..512"),
		refuse(r.Capacity == 0, doc, "capacity", "it is at least 1"),
		refuse(r.Journal.IsZero(), doc, "journal_id", missing),
	)
}

// Heartbeat renews a lease. Epoch and sequence are its replay guard (G22).
type Heartbeat struct {
	Replica  fleet.ReplicaID `json:"replica_id"`
	Epoch    uint64          `json:"epoch"`
	Sequence uint64          `json:"sequence"`
	InFlight uint32          `json:"in_flight"`
	Ready    bool            `json:"ready"`
	Draining bool            `json:"draining"`
}

// BodyKey implements Document.
func (Heartbeat) BodyKey() string { return "heartbeat" }

// MessageType implements Document.
func (Heartbeat) MessageType() string { return TypeHeartbeat }

// Validate implements Document.
func (h Heartbeat) Validate() error { return checkBeat("heartbeat", h.Replica, h.Epoch, h.Sequence) }

func checkBeat(doc string, replica fleet.ReplicaID, epoch, sequence uint64) error {
	return first(
		refuse(replica.IsZero(), doc, "replica_id", missing),
		refuse(epoch == 0, doc, "epoch", "it is at least 1"),
		refuse(sequence == 0, doc, "sequence", "it is at least 1"),
	)
}

// Drain says that the host takes no new work.
type Drain struct {
	Replica  fleet.ReplicaID `json:"replica_id"`
	Epoch    uint64          `json:"epoch"`
	Sequence uint64          `json:"sequence"`
	Reason   string          `json:"reason,omitempty"`
}

// BodyKey implements Document.
func (Drain) BodyKey() string { return "drain" }

// MessageType implements Document.
func (Drain) MessageType() string { return TypeDrain }

// Validate implements Document.
func (d Drain) Validate() error {
	return first(
		checkBeat("drain", d.Replica, d.Epoch, d.Sequence),
		refuse(badText(d.Reason, maxReason), "drain", "reason", tooLong),
	)
}

// Offline ends the epoch at the host's own wish.
type Offline struct {
	Replica  fleet.ReplicaID `json:"replica_id"`
	Epoch    uint64          `json:"epoch"`
	Sequence uint64          `json:"sequence"`
	Reason   string          `json:"reason,omitempty"`
}

// BodyKey implements Document.
func (Offline) BodyKey() string { return "offline" }

// MessageType implements Document.
func (Offline) MessageType() string { return TypeOffline }

// Validate implements Document.
func (o Offline) Validate() error {
	return first(
		checkBeat("offline", o.Replica, o.Epoch, o.Sequence),
		refuse(badText(o.Reason, maxReason), "offline", "reason", tooLong),
	)
}

// Lease answers every control message: how long the host may be trusted.
type Lease struct {
	Replica   fleet.ReplicaID      `json:"replica_id"`
	Epoch     uint64               `json:"epoch"`
	Sequence  uint64               `json:"sequence"`
	ExpiresAt time.Time            `json:"expires_at,omitzero"` // the server's clock; hosts count TTLMS from before they asked (G24)
	TTLMS     uint64               `json:"ttl_ms"`              // 1 000..300 000; 0 when offline
	Intent    fleet.OperatorIntent `json:"operator_intent"`
	Status    fleet.ReplicaStatus  `json:"status"`
}

// BodyKey implements Document.
func (Lease) BodyKey() string { return "lease" }

// MessageType implements Document.
func (Lease) MessageType() string { return TypeLease }

// TTL is TTLMS as a duration.
func (l Lease) TTL() time.Duration { return time.Duration(l.TTLMS) * time.Millisecond }

const maxTTLMS = 300_000

// Validate implements Document.
func (l Lease) Validate() error {
	const doc = "lease"
	offline := l.Status == fleet.ReplicaOffline
	return first(
		checkBeat(doc, l.Replica, l.Epoch, l.Sequence),
		refuse(l.TTLMS > maxTTLMS || (l.TTLMS == 0) != offline, doc, "ttl_ms", "it is not 1..300 000, or 0 when offline"),
		refuse(l.ExpiresAt.IsZero() && !offline, doc, "expires_at", missing),
		refuse(l.Intent != fleet.IntentRun && l.Intent != fleet.IntentDrain, doc, "operator_intent", notListed),
		refuse(!offline && l.Status != fleet.ReplicaReady && l.Status != fleet.ReplicaDraining, doc, "status", notListed),
	)
}
