package protocol

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// RouteCoordinates is security.route of every message to a host: which work, on
// which pinned target, under which decision, in which attempt. A host compares
// the pinned part with its own identity before anything else.
type RouteCoordinates struct {
	Action     fleet.ActionID     `json:"action_id"`
	Capability fleet.CapabilityID `json:"capability_id"`
	Tenant     fleet.TenantID     `json:"tenant_id"`

	Instance       fleet.InstanceID `json:"instance_id"`
	Replica        fleet.ReplicaID  `json:"replica_id"`
	Version        fleet.VersionID  `json:"version_id"`
	ManifestDigest fleet.Digest     `json:"manifest_digest"`
	ArtifactDigest fleet.Digest     `json:"artifact_digest"`

	CatalogRevision       uint64 `json:"catalog_revision"`
	BindingPolicyRevision uint64 `json:"binding_policy_revision"`
	CredentialRevisionRef string `json:"credential_revision_ref,omitempty"`
	QuotaPolicyRef        string `json:"quota_policy_ref,omitempty"`
	QuotaPolicyRevision   uint64 `json:"quota_policy_revision"`

	// The attempt. Cancel and status carry the newest one that is known, and
	// need none (G43).
	LeaseEpoch uint64      `json:"lease_epoch,omitempty"`
	Fence      fleet.Fence `json:"fence,omitzero"`
	Mode       Mode        `json:"mode,omitempty"` // the client's own
	Deadline   time.Time   `json:"deadline,omitzero"`

	// What is known about earlier attempts, oldest first, and the journal that
	// the host last registered (G25).
	EarlierVerdicts   []fleet.AttemptEnd `json:"earlier_verdicts,omitempty"`
	RegisteredJournal fleet.JournalID    `json:"registered_journal_id,omitzero"`

	// Decision is an operator's signed document that an earlier attempt did not
	// happen: a sealed message of purpose decision with a Decision body.
	Decision json.RawMessage `json:"decision,omitempty"`
	// Approval is the evidence that the action was approved.
	Approval json.RawMessage `json:"approval,omitempty"`
}

// CoordinatesOf takes the coordinates of a route and its current attempt.
func CoordinatesOf(a fleet.Assignment, mode Mode, deadline time.Time) RouteCoordinates {
	r := a.Route
	return RouteCoordinates{
		Action: r.Action, Capability: r.Capability, Tenant: r.Tenant,
		Instance: r.Instance, Replica: r.Replica, Version: r.Version,
		ManifestDigest: r.ManifestDigest, ArtifactDigest: r.ArtifactDigest,
		CatalogRevision: r.CatalogRevision, BindingPolicyRevision: r.BindingPolicyRevision,
		CredentialRevisionRef: r.CredentialRevisionRef,
		QuotaPolicyRef:        r.QuotaPolicyRef, QuotaPolicyRevision: r.QuotaPolicyRevision,
		LeaseEpoch: a.Attempt.LeaseEpoch, Fence: a.Attempt.Fence, Mode: mode, Deadline: deadline.UTC(),
		EarlierVerdicts: a.Earlier, RegisteredJournal: a.Attempt.Journal,
	}
}

const routeDoc = "route"

// ValidatePinned checks what every message to a host needs: work and target.
func (r RouteCoordinates) ValidatePinned() error {
	return first(
		refuse(r.Action.IsZero(), routeDoc, "action_id", missing),
		refuse(r.Capability.IsZero(), routeDoc, "capability_id", missing),
		refuse(r.Tenant.IsZero(), routeDoc, "tenant_id", missing),
		refuse(r.Instance.IsZero(), routeDoc, "instance_id", missing),
		refuse(r.Replica.IsZero(), routeDoc, "replica_id", missing),
		refuse(r.Version.IsZero(), routeDoc, "version_id", missing),
		refuse(r.ManifestDigest.IsZero(), routeDoc, "manifest_digest", missing),
		refuse(r.ArtifactDigest.IsZero(), routeDoc, "artifact_digest", missing),
		refuse(badText(r.CredentialRevisionRef, fleet.MaxCredentialRef), routeDoc, "credential_revision_ref", tooLong),
		refuse(badText(r.QuotaPolicyRef, 256), routeDoc, "quota_policy_ref", tooLong),
		refuse(r.Mode != "" && !r.Mode.Valid(), routeDoc, "mode", notListed),
		r.checkEarlier(),
	)
}

// Validate checks what a dispatch needs: ValidatePinned and the attempt.
func (r RouteCoordinates) Validate() error {
	return first(
		r.ValidatePinned(),
		refuse(r.LeaseEpoch == 0, routeDoc, "lease_epoch", "it is at least 1"),
		refuse(r.Fence.Number == 0, routeDoc, "fence.number", "it is at least 1"),
		refuse(!fenceToken(r.Fence.Token), routeDoc, "fence.token", "it is not 32 lower-case hex digits"),
		refuse(r.Deadline.IsZero(), routeDoc, "deadline", missing),
		refuse(!r.Mode.Valid(), routeDoc, "mode", notListed),
		refuse(r.RegisteredJournal.IsZero(), routeDoc, "registered_journal_id", missing),
	)
}

func fenceToken(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

// checkEarlier wants known verdicts on growing fences below the current one.
func (r RouteCoordinates) checkEarlier() error {
	last := uint64(0)
	for _, e := range r.EarlierVerdicts {
		switch e.Verdict {
		case fleet.VerdictNeverSent, fleet.VerdictNotStarted, fleet.VerdictUnknown, fleet.VerdictCompleted:
		default:
			return invalid(routeDoc, "earlier_verdicts.verdict", notListed)
		}
		if e.Fence <= last || r.Fence.Number != 0 && e.Fence >= r.Fence.Number {
			return invalid(routeDoc, "earlier_verdicts.fence", "fences do not grow up to the current one")
		}
		last = e.Fence
	}
	return nil
}

// Raw is the coordinates as the value of security.route.
func (r RouteCoordinates) Raw() (json.RawMessage, error) { return envelope.CanonicalOf(r) }

// ReadRoute reads security.route strictly: unknown members are refused, because
// a coordinate that a host does not compare must not pass. The caller validates
// it for its own kind of message.
func ReadRoute(raw json.RawMessage) (RouteCoordinates, error) {
	var r RouteCoordinates
	if len(raw) == 0 {
		return r, invalid(routeDoc, "security.route", missing)
	}
	err := envelope.DecodeClosed(raw, envelope.Limits{SafeIntegers: true}, &r)
	return r, err
}
