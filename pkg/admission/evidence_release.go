package admission

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// PredicateRelease is the predicate of a signature that binds a whole release, not
// the artifact alone.
const PredicateRelease = "https://github.com/aipfleet/aipfleet/attestation/release/v1"

// ReleasePredicate says what the signer releases. Every member must agree with
// the package.
type ReleasePredicate struct {
	Type           fleet.TypeID `json:"type_id"`
	Owner          string       `json:"owner"`
	Version        string       `json:"version"`
	Sequence       uint64       `json:"release_sequence"`
	ManifestDigest fleet.Digest `json:"manifest_digest"`
	ReleaseDigest  fleet.Digest `json:"release_digest"` // of the bytes of release.yaml
	SignedAt       time.Time    `json:"signed_at"`
}

// ReleaseStatement is what a signer of the package says at a time.
func (p *Package) ReleaseStatement(at time.Time) ReleasePredicate {
	return ReleasePredicate{
		Type: p.release.Type.ID, Owner: p.release.Owner, Version: p.release.Version, Sequence: p.release.Sequence,
		ManifestDigest: p.ManifestDigest(), ReleaseDigest: fleet.DigestBytes(p.files[ReleaseFile]), SignedAt: at.UTC().Truncate(time.Second),
	}
}

// evaluateRelease compares a release statement with the package, member by member.
func (e *evaluation) evaluateRelease(d document) {
	var got ReleasePredicate
	if !e.decodePredicate(d, &got) {
		return
	}
	want := e.pkg.ReleaseStatement(got.SignedAt)
	if got.Type != want.Type || got.Owner != want.Owner || got.Version != want.Version || got.Sequence != want.Sequence {
		e.at(&d, "release_disagrees", "predicate", "sign again after packing", "the signed statement is about %s %s sequence %d of %q", got.Type, got.Version, got.Sequence, got.Owner)
	}
	e.stated(d, "predicate.manifest_digest", ManifestFile, got.ManifestDigest)
	e.stated(d, "predicate.release_digest", ReleaseFile, got.ReleaseDigest)
	e.checkAge(d, "predicate.signed_at", got.SignedAt)
}
