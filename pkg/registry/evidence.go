package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// CheckTrust judges a new trust revision against the number of the newest one.
func CheckTrust(t TrustRevision, newest uint64) error {
	switch {
	case t.Number != newest+1:
		return fleet.Errorf(fleet.Conflict, "publish.trust_number", "trust revision %d does not follow %d", t.Number, newest)
	case len(t.Document) == 0 || fleet.DigestBytes(t.Document) != t.Digest:
		return fleet.Invalidf("publish.trust_digest", "the digest of trust revision %d is not that of its document", t.Number)
	}
	return Named(t.Actor, t.Reason)
}

// InForce is what an admission has to be evaluated under.
type InForce struct {
	Trust       uint64          // number of the newest trust revision; 0 for none
	Revocations *RevocationList // the newest; nil for none
}

// number is that of the newest revocation list.
func (f InForce) number() uint64 {
	if f.Revocations == nil {
		return 0
	}
	return f.Revocations.Number
}

// CheckRevocation judges a new revocation list against the newest one. The same list
// again changes nothing.
func CheckRevocation(l RevocationList, newest *RevocationList) (changed bool, err error) {
	switch {
	case newest != nil && l.Number == newest.Number && l.Digest == newest.Digest:
		return false, nil
	case l.Number == 0, newest != nil && l.Number <= newest.Number:
		return false, fleet.Errorf(fleet.Conflict, "publish.revocation_number", "revocation list %d does not follow the one in force", l.Number)
	case len(l.Document) == 0 || fleet.DigestBytes(l.Document) != l.Digest:
		return false, fleet.Invalidf("publish.revocation_digest", "the digest of revocation list %d is not that of its document", l.Number)
	case len(l.Entries) > MaxRevocations:
		return false, fleet.Invalidf("publish.revocation_size", "a revocation list has at most %d entries", MaxRevocations)
	}
	for _, e := range l.Entries {
		if err := e.Wrong(); err != nil {
			return false, err
		}
	}
	return true, Named(l.Actor, l.Reason)
}

// RevokedBy gives the versions that a list revokes and that are not revoked yet, as
// they are afterwards, with the reasons, by id.
func RevokedBy(l RevocationList, versions []fleet.ConnectorVersion) (moves []VersionMove) {
	for _, v := range versions {
		reason, hit := l.Names(v)
		if !hit || v.Status == fleet.VersionRevoked {
			continue
		}
		after := v
		after.Status, after.StatusBefore = fleet.VersionRevoked, ""
		moves = append(moves, VersionMove{Before: v, After: after, Reason: fmt.Sprintf("revocation list %d: %s", l.Number, reason)})
	}
	slices.SortFunc(moves, func(a, b VersionMove) int { return strings.Compare(a.After.ID.String(), b.After.ID.String()) })
	return moves
}

// VersionMove is a version before and after a move of its status.
type VersionMove struct {
	Before, After fleet.ConnectorVersion
	Reason        string
}

// CheckAdmission judges the admission that comes with new versions: exactly one
// version, named by the admission, evaluated under the newest trust revision and the
// newest revocation list, not revoked by it, and the package's digest recomputed
// (G33, G35). versions are those that are new.
func CheckAdmission(a *Admission, versions []fleet.ConnectorVersion, now InForce) error {
	if a == nil {
		if len(versions) > 0 {
			return fleet.Errorf(fleet.NotAdmitted, "publish.admission", "version %s comes without an admission", versions[0].ID)
		}
		return nil
	}
	switch {
	case a.Version.IsZero() || a.PackageDigest.IsZero():
		return fleet.Invalidf("publish.admission", "an admission names its version and its package")
	case len(versions) > 1, len(versions) == 1 && versions[0].ID != a.Version:
		return fleet.Errorf(fleet.NotAdmitted, "publish.admission", "an admission admits exactly the one version that it names")
	case a.Package != nil && fleet.DigestBytes(a.Package) != a.PackageDigest:
		return fleet.Invalidf("publish.package_digest", "the package is not the one of its digest")
	case len(versions) == 1 && (a.TrustRevision != now.Trust || versions[0].Attestation.TrustRevision != now.Trust):
		return fleet.Errorf(fleet.NotAdmitted, "publish.trust_revision", "the release was evaluated under trust revision %d, the newest is %d", a.TrustRevision, now.Trust).
			Advise("admit it again")
	case len(versions) == 1 && a.RevocationList != now.number():
		return fleet.Errorf(fleet.NotAdmitted, "publish.revocation_list", "the release was held against revocation list %d, the newest is %d", a.RevocationList, now.number()).
			Advise("admit it again")
	}
	if now.Revocations != nil && len(versions) == 1 {
		if reason, hit := now.Revocations.Names(versions[0]); hit {
			return fleet.Errorf(fleet.NotAdmitted, "publish.revoked", "revocation list %d names version %s", now.number(), versions[0].ID).Because("%s", reason)
		}
	}
	return Named(a.Actor, a.Reason)
}

// Named refuses a change without an actor and a reason.
func Named(actor, reason string) error {
	if strings.TrimSpace(actor) == "" || strings.TrimSpace(reason) == "" {
		return fleet.Invalidf("publish.reason", "a change names its actor and its reason")
	}
	return nil
}

// MoveChange is the difference that a status transition makes.
func MoveChange(old, moved fleet.ConnectorVersion) Change {
	quote := func(s fleet.VersionStatus) string { return `"` + string(s) + `"` }
	return Change{Noun: Versions, ID: moved.ID.String(), Op: "update", Fields: []FieldChange{
		{Path: "status", From: quote(old.Status), To: quote(moved.Status)},
	}}
}
