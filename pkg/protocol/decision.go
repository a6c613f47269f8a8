package protocol

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// TypeDecision is the type of the message that carries an operator's decision.
const TypeDecision = "aipfleet.reconcile.v1.decision"

// Decision is what an operator decided about an uncertain attempt, on evidence.
// It travels as a sealed message of purpose decision whose audience is the
// pinned host, signed with an operator's key that no daemon holds (G38).
type Decision struct {
	ActionID       fleet.ActionID   `json:"action_id"`
	Fence          uint64           `json:"fence"` // the newest attempt the decision covers
	Replica        fleet.ReplicaID  `json:"replica_id"`
	Outcome        fleet.Resolution `json:"outcome"` // happened or did_not_happen
	EvidenceDigest fleet.Digest     `json:"evidence_digest"`
	Reason         string           `json:"reason"` // 1..2048 bytes
	DecidedBy      string           `json:"decided_by"`
	DecidedAt      time.Time        `json:"decided_at"`
}

// BodyKey implements Document.
func (Decision) BodyKey() string { return "decision" }

// MessageType implements Document.
func (Decision) MessageType() string { return TypeDecision }

// Validate implements Document.
func (d Decision) Validate() error {
	const doc = "decision"
	decided := d.Outcome == fleet.ResolvedHappened || d.Outcome == fleet.ResolvedDidNotHappen
	return first(
		refuse(d.ActionID.IsZero(), doc, "action_id", missing),
		refuse(d.Fence == 0, doc, "fence", "it is at least 1"),
		refuse(d.Replica.IsZero(), doc, "replica_id", missing),
		refuse(!decided, doc, "outcome", notListed),
		refuse(d.EvidenceDigest.IsZero(), doc, "evidence_digest", missing),
		refuse(d.Reason == "" || badText(d.Reason, maxReason), doc, "reason", "it needs 1..2048 bytes"),
		refuse(d.DecidedBy == "" || badText(d.DecidedBy, 256), doc, "decided_by", "it needs 1..256 bytes"),
		refuse(d.DecidedAt.IsZero(), doc, "decided_at", missing),
	)
}
