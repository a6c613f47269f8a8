package fleet

import "time"

// ConnectorType is an adapter family and its owner. Only Enabled may change. A
// disabled type admits nothing, lists nothing, routes nothing and re-reserves nothing.
type ConnectorType struct {
	ID      TypeID `json:"id"`
	Name    string `json:"name"`
	Owner   string `json:"owner"`
	Enabled bool   `json:"enabled"`
}

// VersionStatus is where an admitted version stands in its life.
type VersionStatus string

// Version statuses. Admitted, active, deprecated in that order; quarantined
// returns to where it came from; revoked is final.
const (
	VersionAdmitted    VersionStatus = "admitted"
	VersionActive      VersionStatus = "active"
	VersionDeprecated  VersionStatus = "deprecated"
	VersionQuarantined VersionStatus = "quarantined"
	VersionRevoked     VersionStatus = "revoked"
)

// Routable reports whether instances that list the version may take new routes on
// it. A deprecated one serves the instances that list it already.
func (s VersionStatus) Routable() bool { return s == VersionActive || s == VersionDeprecated }

// Reservable reports whether pinned work may be reserved again.
func (s VersionStatus) Reservable() bool { return s.Routable() || s == VersionQuarantined }

// ConnectorVersion is one admitted artifact and manifest. Everything but the
// status is fixed at admission (G34).
type ConnectorVersion struct {
	ID                 VersionID     `json:"id"`
	Type               TypeID        `json:"type_id"`
	Version            string        `json:"version"`          // text, unique per type
	ReleaseSequence    uint64        `json:"release_sequence"` // grows per type
	Status             VersionStatus `json:"status"`
	StatusBefore       VersionStatus `json:"status_before,omitempty"` // where a quarantined version returns to
	Manifest           Manifest      `json:"manifest"`
	ManifestDigest     Digest        `json:"manifest_digest"` // over the canonical manifest
	ArtifactDigest     Digest        `json:"artifact_digest"` // unique
	SchemaBundleDigest Digest        `json:"schema_bundle_digest"`
	AIPVersions        []string      `json:"aip_versions"`
	Attestation        Attestation   `json:"attestation"`
	AdmittedAt         time.Time     `json:"admitted_at"`
}

// Attestation is the evidence under which a version was admitted (G33).
type Attestation struct {
	PackageDigest Digest            `json:"package_digest"`
	Evidence      map[string]Digest `json:"evidence"` // by slot
	Signers       map[string]string `json:"signers"`  // by slot: key id or identity
	TrustRevision uint64            `json:"trust_revision"`
	Qualified     bool              `json:"qualified"`
	// RollbackFrom is the release sequence that approvers let this older release
	// follow; 0 for a release that is newer than every admitted one.
	RollbackFrom uint64 `json:"rollback_from,omitempty"`
}

// ServingVersion is one version an instance serves, with the weight of new work it takes.
type ServingVersion struct {
	Version VersionID `json:"version_id"`
	Weight  uint32    `json:"weight"` // 0 takes no new action and keeps its pinned ones
}

// ConnectorInstance is one tenant-owned account or installation. Tenant and type
// never change; ConfigRevision strictly grows on any change.
type ConnectorInstance struct {
	ID                InstanceID       `json:"id"`
	Type              TypeID           `json:"type_id"`
	Tenant            TenantID         `json:"tenant_id"`
	Serving           []ServingVersion `json:"serving"` // 1..n
	ConfigRevision    uint64           `json:"config_revision"`
	SecretProviderRef string           `json:"secret_provider_ref,omitempty"` // opaque; never a value (G21)
	Enabled           bool             `json:"enabled"`
}

// BindingKey names a binding.
type BindingKey struct {
	Tenant     TenantID     `json:"tenant_id"`
	Capability CapabilityID `json:"capability_id"`
	Instance   InstanceID   `json:"instance_id"`
}

// CapabilityBinding makes one capability of a tenant eligible to use one of the
// tenant's instances.
type CapabilityBinding struct {
	BindingKey
	Priority              uint32 `json:"priority"` // lower wins
	PolicyRevision        uint64 `json:"policy_revision"`
	CredentialRevisionRef string `json:"credential_revision_ref,omitempty"` // 1..256 bytes
	QuotaPolicyRef        string `json:"quota_policy_ref,omitempty"`        // "" uses the preset fleet
	Enabled               bool   `json:"enabled"`
}

// QuotaPolicy sets the hard limits of concurrent reservations and the circuit. A
// nil limit is off.
type QuotaPolicy struct {
	Ref           string        `json:"ref"`
	Revision      uint64        `json:"revision"`
	Enabled       bool          `json:"enabled"`
	Global        *uint32       `json:"global,omitempty"`
	Tenant        *uint32       `json:"tenant,omitempty"`
	ConnectorType *uint32       `json:"connector_type,omitempty"`
	Instance      *uint32       `json:"instance,omitempty"`
	Binding       *uint32       `json:"binding,omitempty"`
	TenantRetry   *uint32       `json:"tenant_retry,omitempty"`
	Circuit       CircuitPolicy `json:"circuit"`
}

// CircuitPolicy sets when a replica's circuit opens. FailureThreshold 0 is off.
type CircuitPolicy struct {
	FailureThreshold uint32 `json:"failure_threshold"`
	OpenMillis       uint32 `json:"open_ms"` // 100..3 600 000
	HalfOpenProbes   uint32 `json:"half_open_probes"`
}

// QuotaFleet is the preset used by bindings without a policy of their own, and the
// deployment policy unless one named "deployment" is published.
const QuotaFleet = "fleet"

// QuotaDeployment names the policy from which tenant, type and global limits come.
const QuotaDeployment = "deployment"

// PresetQuota returns a built-in policy by name: "fleet" or "conservative".
func PresetQuota(ref string) (QuotaPolicy, bool) {
	limit := func(n uint32) *uint32 { return &n }
	p := QuotaPolicy{
		Ref: ref, Revision: 1, Enabled: true,
		Tenant: limit(1000), Instance: limit(500), Binding: limit(250), TenantRetry: limit(100),
		Circuit: CircuitPolicy{FailureThreshold: 5, OpenMillis: 30_000, HalfOpenProbes: 1},
	}
	switch ref {
	case QuotaFleet:
		return p, true
	case "conservative":
		p.Global, p.ConnectorType = limit(10_000), limit(2000)
		return p, true
	}
	return QuotaPolicy{}, false
}
