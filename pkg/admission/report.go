package admission

import (
	"encoding/json"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// DocumentReport is what one evidence file gave.
type DocumentReport struct {
	Slot          string       `json:"slot"`
	File          string       `json:"file"`
	Digest        fleet.Digest `json:"digest"`
	Signer        string       `json:"signer"`             // id of the key or identity in the policy
	Identity      *Identity    `json:"identity,omitempty"` // as a certificate names it
	Observed      []Observed   `json:"observed,omitempty"` // when it was seen
	PredicateType string       `json:"predicate_type,omitempty"`
}

// Report is the journal's record of a decision: with the stored package, the
// named trust revision and the named revocation list it is enough to decide again (G35).
type Report struct {
	Evaluator      string           `json:"evaluator"`
	EvaluatedAt    time.Time        `json:"evaluated_at"`
	TrustRevision  uint64           `json:"trust_revision"`
	PolicyDigest   fleet.Digest     `json:"policy_digest"`
	Revocations    uint64           `json:"revocation_list"` // its number; 0 for none
	PackageDigest  fleet.Digest     `json:"package_digest"`
	ArtifactDigest fleet.Digest     `json:"artifact_digest"`
	ManifestDigest fleet.Digest     `json:"manifest_digest"`
	Documents      []DocumentReport `json:"documents"`
	KnownType      *KnownType       `json:"known_type,omitempty"`
	KnownVersions  []KnownVersion   `json:"known_versions"`
	Findings       []Finding        `json:"findings"`
}

// KnownType is the type as the decision found it in the registry.
type KnownType struct {
	Name    string `json:"name"`
	Owner   string `json:"owner"`
	Enabled bool   `json:"enabled"`
}

// KnownVersion is a version that the decision had to respect.
type KnownVersion struct {
	ID             fleet.VersionID `json:"id"`
	Version        string          `json:"version"`
	Sequence       uint64          `json:"release_sequence"`
	ArtifactDigest fleet.Digest    `json:"artifact_digest"`
	PackageDigest  fleet.Digest    `json:"package_digest"`
}

// Judge is Evaluate for those who want the report also of a refusal.
func (v Evaluator) Judge(r Request) (Verified, Report) {
	e := v.run(r)
	if e.policy == nil || e.pkg == nil {
		return Verified{}, Report{Evaluator: EvaluatorVersion, Findings: e.found.list}
	}
	if len(e.found.list) > 0 {
		return Verified{}, e.report()
	}
	return e.verified(r), e.report()
}

func (e *evaluation) report() Report {
	report := Report{
		Evaluator: EvaluatorVersion, EvaluatedAt: e.now, TrustRevision: e.trust, PolicyDigest: e.policy.Digest(),
		PackageDigest: e.pkg.Digest(), ArtifactDigest: e.pkg.ArtifactDigest(), ManifestDigest: e.pkg.ManifestDigest(),
		Documents: append([]DocumentReport{}, e.documents...), KnownVersions: []KnownVersion{}, Findings: append([]Finding{}, e.found.list...),
	}
	if e.revocations != nil {
		report.Revocations = e.revocations.Number
	}
	if t := e.known.Type; t != nil {
		report.KnownType = &KnownType{t.Name, t.Owner, t.Enabled}
	}
	for _, v := range e.known.Versions {
		report.KnownVersions = append(report.KnownVersions, KnownVersion{v.ID, v.Version, v.ReleaseSequence, v.ArtifactDigest, v.Attestation.PackageDigest})
	}
	return report
}

// Known is what the decision knew, as far as the rules look at it.
func (r Report) Known(t fleet.TypeID) Known {
	var known Known
	if k := r.KnownType; k != nil {
		known.Type = &fleet.ConnectorType{ID: t, Name: k.Name, Owner: k.Owner, Enabled: k.Enabled}
	}
	for _, v := range r.KnownVersions {
		known.Versions = append(known.Versions, fleet.ConnectorVersion{
			ID: v.ID, Type: t, Version: v.Version, ReleaseSequence: v.Sequence, ArtifactDigest: v.ArtifactDigest,
			Attestation: fleet.Attestation{PackageDigest: v.PackageDigest},
		})
	}
	return known
}

// JSON is the report as the journal keeps it.
func (r Report) JSON() json.RawMessage {
	data, err := json.Marshal(r)
	if err != nil { // digests, texts and times always encode
		return nil
	}
	return data
}
