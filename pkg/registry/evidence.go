package registry

import (
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

// CheckAdmission judges the admission that comes with new versions: exactly one
// version, named by the admission, evaluated under the newest trust revision, and the
// package's digest recomputed (G33, G35). versions are those that are new.
func CheckAdmission(a *Admission, versions []fleet.ConnectorVersion, trust uint64) error {
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
	case len(versions) == 1 && (a.TrustRevision != trust || versions[0].Attestation.TrustRevision != trust):
		return fleet.Errorf(fleet.NotAdmitted, "publish.trust_revision", "the release was evaluated under trust revision %d, the newest is %d", a.TrustRevision, trust).
			Advise("admit it again")
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
