package registry

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Publisher changes the catalog, one revision per change set (G13, G17, G34).
type Publisher interface {
	// Apply validates and writes the whole change set, or nothing. expected is the
	// revision the caller's plan was made against; another one is Conflict, code
	// publish.revision_moved. A change set that changes nothing publishes nothing and
	// returns Changed false with the current revision.
	Apply(ctx context.Context, set ChangeSet, expected uint64) (Publication, error)
	// Preview is Apply without the commit: same validation, same differences.
	Preview(ctx context.Context, set ChangeSet) (Publication, error)
	// Transition moves a version's status; every move is journaled and is one revision.
	Transition(ctx context.Context, move VersionTransition) (Publication, error)
}

// ChangeSet is everything that one publication writes. Records that exist already
// are compared and updated where they may change; nothing is removed by absence.
type ChangeSet struct {
	Actor     string                    `json:"actor"`
	Reason    string                    `json:"reason"`
	Quotas    []fleet.QuotaPolicy       `json:"quotas,omitempty"`
	Types     []fleet.ConnectorType     `json:"types,omitempty"`
	Versions  []fleet.ConnectorVersion  `json:"versions,omitempty"` // only from admission
	Instances []fleet.ConnectorInstance `json:"instances,omitempty"`
	Replicas  []fleet.Replica           `json:"replicas,omitempty"`
	Bindings  []fleet.CapabilityBinding `json:"bindings,omitempty"`
	Admission *Admission                `json:"admission,omitempty"` // with Versions, exactly one
	Trust     *TrustRevision            `json:"trust,omitempty"`     // a new trust policy revision
	// Revocation is a new revocation list. Every version that it names is revoked in
	// the same revision. It comes without an admission.
	Revocation *RevocationList `json:"revocation,omitempty"`
}

// Admission is the journal entry of one admitted release (G33, G35).
type Admission struct {
	PackageDigest    fleet.Digest            `json:"package_digest"`
	Package          []byte                  `json:"-"` // deterministic archive, content-addressed
	Version          fleet.VersionID         `json:"version_id"`
	Findings         json.RawMessage         `json:"findings"`
	Evidence         map[string]fleet.Digest `json:"evidence"`
	TrustRevision    uint64                  `json:"trust_revision"`
	RevocationList   uint64                  `json:"revocation_list"` // the one it was held against; 0 for none
	EvaluatorVersion string                  `json:"evaluator_version"`
	EvaluatedAt      time.Time               `json:"evaluated_at"`
	Actor            string                  `json:"actor"`
	Reason           string                  `json:"reason"`
	State            string                  `json:"state"`            // applied, superseded, revoked
	CatalogRevision  uint64                  `json:"catalog_revision"` // set by the registry
	AppliedAt        time.Time               `json:"applied_at"`       // set by the registry
}

// TrustRevision is one immutable revision of the trust policy.
type TrustRevision struct {
	Number    uint64          `json:"number"` // grows by one
	Digest    fleet.Digest    `json:"digest"` // of Document
	Document  json.RawMessage `json:"document"`
	Actor     string          `json:"actor"`
	Reason    string          `json:"reason"`
	AppliedAt time.Time       `json:"applied_at"`
}

// Publication is what a change set did, or would do.
type Publication struct {
	Before  uint64   `json:"revision_before"`
	After   uint64   `json:"revision_after"`
	Changed bool     `json:"changed"`
	Changes []Change `json:"changes"`
}

// Change is one record's difference, field by field.
type Change struct {
	Noun   Noun          `json:"noun"`
	ID     string        `json:"id"`
	Op     string        `json:"op"` // create, update
	Fields []FieldChange `json:"fields,omitempty"`
}

// FieldChange is one field's difference, as it reads in JSON.
type FieldChange struct {
	Path string `json:"path"`
	From string `json:"from"`
	To   string `json:"to"`
}

// VersionTransition asks for one move of a version's status.
type VersionTransition struct {
	Version fleet.VersionID
	To      fleet.VersionStatus
	Actor   string
	Reason  string
}
