package catalog

import "github.com/aipfleet/aipfleet/pkg/fleet"

// Move returns the version with its status moved: admitted, active, deprecated in
// that order; active and deprecated to quarantined and back to where it came from;
// anything to revoked, which is final. The same status again changes nothing.
// Becoming active needs a qualified attestation (G33).
func Move(v fleet.ConnectorVersion, to fleet.VersionStatus) (after fleet.ConnectorVersion, changed bool, err error) {
	if v.Status == to {
		return v, false, nil
	}
	if !allowed(v, to) {
		return v, false, fleet.Errorf(fleet.Conflict, "publish.transition", "version %s is %s and cannot become %s", v.ID, v.Status, fleet.Printable(string(to), 32))
	}
	if to == fleet.VersionActive && !v.Attestation.Qualified {
		return v, false, fleet.Errorf(fleet.NotAdmitted, "publish.not_qualified", "version %s is not qualified", v.ID)
	}
	v.StatusBefore = ""
	if to == fleet.VersionQuarantined {
		v.StatusBefore = v.Status
	}
	v.Status = to
	return v, true, nil
}

func allowed(v fleet.ConnectorVersion, to fleet.VersionStatus) bool {
	switch v.Status {
	case fleet.VersionRevoked:
		return false
	case fleet.VersionQuarantined:
		return to == v.StatusBefore || to == fleet.VersionRevoked
	case fleet.VersionAdmitted:
		return to == fleet.VersionActive || to == fleet.VersionRevoked
	case fleet.VersionActive:
		return to == fleet.VersionDeprecated || to == fleet.VersionQuarantined || to == fleet.VersionRevoked
	case fleet.VersionDeprecated:
		return to == fleet.VersionQuarantined || to == fleet.VersionRevoked
	}
	return false
}
