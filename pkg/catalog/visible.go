package catalog

import (
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Chain is what leads from a tenant's binding to a version of an instance.
type Chain struct {
	Binding  fleet.CapabilityBinding
	Instance fleet.ConnectorInstance
	Type     fleet.ConnectorType
	Version  fleet.ConnectorVersion
}

// Valid reports whether the chain may carry new work: binding, instance and type
// enabled, one tenant, the version listed, routable, qualified and implementing the
// capability. Weights are not judged here.
func (c Chain) Valid() bool {
	return c.Binding.Enabled && c.Instance.Enabled && c.Type.Enabled &&
		c.Binding.Tenant == c.Instance.Tenant && c.Binding.Instance == c.Instance.ID &&
		c.Instance.Type == c.Type.ID && c.Version.Type == c.Type.ID &&
		Lists(c.Instance, c.Version.ID) && Offers(c.Version, c.Binding.Capability)
}

// Visible reports whether the chain shows its capability to the tenant: it is valid,
// of that tenant, the version takes new work, and supports the profile if one is asked.
func (c Chain) Visible(tenant fleet.TenantID, profile string) bool {
	return !tenant.IsZero() && c.Binding.Tenant == tenant && c.Valid() &&
		Weight(c.Instance, c.Version.ID) > 0 && Supports(c.Version, c.Binding.Capability, profile)
}

// Offers reports whether the version may serve the capability to new work.
func Offers(v fleet.ConnectorVersion, id fleet.CapabilityID) bool {
	return v.Status.Routable() && v.Attestation.Qualified && Implements(v, id)
}

// Implements reports whether the version defines the capability and claims how it serves it.
func Implements(v fleet.ConnectorVersion, id fleet.CapabilityID) bool {
	_, defined := v.Manifest.Capability(id)
	_, claimed := v.Manifest.Implementation(id)
	return defined && claimed
}

// Supports reports whether the version's claim for the capability names the profile;
// "" asks for none.
func Supports(v fleet.ConnectorVersion, id fleet.CapabilityID, profile string) bool {
	claim, ok := v.Manifest.Implementation(id)
	return ok && (profile == "" || slices.Contains(claim.Profiles, profile))
}

// Lists reports whether the instance serves the version.
func Lists(i fleet.ConnectorInstance, v fleet.VersionID) bool {
	return slices.ContainsFunc(i.Serving, func(s fleet.ServingVersion) bool { return s.Version == v })
}

// Weight is the weight of a version in an instance, 0 when it is not served.
func Weight(i fleet.ConnectorInstance, v fleet.VersionID) uint32 {
	for _, s := range i.Serving {
		if s.Version == v {
			return s.Weight
		}
	}
	return 0
}

// Prefer orders the versions that offer one capability; the first one's definition
// is shown. It is the oldest: a later one accepts every input that it accepts and
// gives no output that it does not give, so its contract holds whichever serves.
func Prefer(a, b fleet.ConnectorVersion) int {
	switch {
	case a.ReleaseSequence < b.ReleaseSequence:
		return -1
	case a.ReleaseSequence > b.ReleaseSequence:
		return 1
	}
	return strings.Compare(a.ID.String(), b.ID.String())
}

// Matches reports whether the search text is literally part of id, name or
// description, case folded. "" matches all.
func Matches(d fleet.CapabilityDefinition, search string) bool {
	if search == "" {
		return true
	}
	want := strings.ToLower(search)
	return strings.Contains(strings.ToLower(d.ID.String()), want) ||
		strings.Contains(strings.ToLower(d.Name), want) ||
		strings.Contains(strings.ToLower(d.Description), want)
}
