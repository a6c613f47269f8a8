package registry

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// MaxRevocations bounds the entries of one revocation list.
const MaxRevocations = 10_000

// RevocationKind says what an entry names.
type RevocationKind string

// What can be revoked.
const (
	RevokePackage  RevocationKind = "package"  // a package digest
	RevokeArtifact RevocationKind = "artifact" // an artifact digest
	RevokeManifest RevocationKind = "manifest" // a manifest digest
	RevokeEvidence RevocationKind = "evidence" // the digest of an evidence document
	RevokeVersion  RevocationKind = "version"  // a version id
	RevokeSigner   RevocationKind = "signer"   // the id of a key or identity of the trust policy
)

// RevocationEntry names one thing that is not trusted any more.
type RevocationEntry struct {
	Kind   RevocationKind `json:"kind"`
	Value  string         `json:"value"`
	Reason string         `json:"reason"`
}

// RevocationList is one signed, numbered list as the registry keeps it. Applying it
// revokes every version that it names, in the same transaction (G33).
type RevocationList struct {
	Number    uint64            `json:"number"` // higher than every earlier one
	Digest    fleet.Digest      `json:"digest"` // of Document
	Document  json.RawMessage   `json:"document"`
	Entries   []RevocationEntry `json:"entries"`
	IssuedAt  time.Time         `json:"issued_at"`
	Actor     string            `json:"actor"`
	Reason    string            `json:"reason"`
	AppliedAt time.Time         `json:"applied_at"` // set by the registry
}

// Wrong says what an entry lacks, or nil.
func (e RevocationEntry) Wrong() error {
	switch e.Kind {
	case RevokePackage, RevokeArtifact, RevokeManifest, RevokeEvidence:
		if _, err := fleet.ParseDigest(e.Value); err != nil {
			return err
		}
	case RevokeVersion:
		if _, err := fleet.ParseVersionID(e.Value); err != nil {
			return err
		}
	case RevokeSigner:
		if e.Value == "" || len(e.Value) > 128 {
			return fleet.Invalidf("revocation.signer", "a signer is named by its id, 1..128 bytes")
		}
	default:
		return fleet.Invalidf("revocation.kind", "%q is no kind of thing that can be revoked", fleet.Printable(string(e.Kind), 32))
	}
	if strings.TrimSpace(e.Reason) == "" || len(e.Reason) > 1024 {
		return fleet.Invalidf("revocation.reason", "an entry states its reason, 1..1024 bytes")
	}
	return nil
}

// Names reports whether the entry hits an admitted version.
func (e RevocationEntry) Names(v fleet.ConnectorVersion) bool {
	switch e.Kind {
	case RevokePackage:
		return v.Attestation.PackageDigest.String() == e.Value
	case RevokeArtifact:
		return v.ArtifactDigest.String() == e.Value
	case RevokeManifest:
		return v.ManifestDigest.String() == e.Value
	case RevokeVersion:
		return v.ID.String() == e.Value
	case RevokeEvidence:
		for _, d := range v.Attestation.Evidence {
			if d.String() == e.Value {
				return true
			}
		}
	case RevokeSigner:
		for _, s := range v.Attestation.Signers {
			if s == e.Value {
				return true
			}
		}
	}
	return false
}

// Names reports whether the list hits an admitted version, and for what reason.
func (l RevocationList) Names(v fleet.ConnectorVersion) (reason string, hit bool) {
	for _, e := range l.Entries {
		if e.Names(v) {
			return e.Reason, true
		}
	}
	return "", false
}
