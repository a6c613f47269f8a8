package lease

import "github.com/aipfleet/aipfleet/pkg/fleet"

// coordinates compares what a host says of itself with what was published. An older
// configuration revision is accepted, since a rollout publishes before hosts
// restart; one that was never published is not.
func coordinates(d Declared, r Registration) *fleet.Error {
	id := d.Replica.ID
	switch {
	case r.Journal.IsZero():
		return fleet.Invalidf("lease.journal", "replica %s names no journal", id)
	case r.Capacity == 0:
		return fleet.Invalidf("lease.capacity", "replica %s says that it has no capacity", id)
	case r.Tenant != d.Tenant:
		return fleet.Errorf(fleet.Denied, "lease.tenant", "replica %s is not of the tenant that it names", id)
	case r.ManifestDigest != d.ManifestDigest:
		return fleet.Errorf(fleet.NotAdmitted, "lease.manifest", "replica %s runs another manifest than the admitted one", id)
	case r.ArtifactDigest != d.ArtifactDigest:
		return fleet.Errorf(fleet.NotAdmitted, "lease.artifact", "replica %s runs another artifact than the admitted one", id)
	case r.CapabilityCount != d.Capabilities:
		return fleet.Errorf(fleet.NotAdmitted, "lease.capabilities", "replica %s offers %d capabilities, admitted were %d", id, r.CapabilityCount, d.Capabilities)
	case r.SecretProviderRef != d.SecretProviderRef:
		return fleet.Errorf(fleet.Conflict, "lease.secret_ref", "replica %s names another secret provider reference than the published one", id)
	case r.ConfigRevision > d.ConfigRevision:
		return fleet.Errorf(fleet.Conflict, "lease.config_revision", "replica %s runs configuration revision %d, published is %d", id, r.ConfigRevision, d.ConfigRevision)
	}
	return nil
}
