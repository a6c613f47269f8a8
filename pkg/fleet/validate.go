package fleet

import (
	"encoding/json"
	"slices"
	"strings"
)

// Limits of text fields, in bytes.
const (
	maxNameBytes        = 256
	maxDescriptionBytes = 16 << 10
	maxEndpointBytes    = 2048
	maxQuotaRefBytes    = 128
	maxServing          = 64
	maxProfiles         = 64
)

// Bounds of a circuit's open time, in milliseconds.
const (
	MinOpenMillis = 100
	MaxOpenMillis = 3_600_000
)

func malformed(noun, id, format string, args ...any) *Error {
	e := Invalidf("record."+noun, "%s %s is not well formed", noun, printable(id, 128))
	return e.Because(format, args...)
}

// check is one rule of a record: whether it is broken, and what to say then.
type check struct {
	wrong bool
	why   string
}

// firstWrong refuses with the first rule that is broken.
func firstWrong(noun, id string, checks ...check) error {
	for _, c := range checks {
		if c.wrong {
			return malformed(noun, id, "%s", c.why)
		}
	}
	return nil
}

func badText(s string, limit int) bool { return checkNoControl(s, limit) != nil }

func badOptional(s string, limit int) bool { return s != "" && badText(s, limit) }

// Validate checks that the type is well formed.
func (t ConnectorType) Validate() error {
	return firstWrong("type", t.ID.String(),
		check{t.ID.IsZero(), "it has no id"},
		check{badText(t.Name, maxNameBytes), "name needs 1..256 bytes without control characters"},
		check{badText(t.Owner, maxNameBytes), "owner needs 1..256 bytes without control characters"},
	)
}

// Valid reports whether s is one of the five.
func (s VersionStatus) Valid() bool {
	switch s {
	case VersionAdmitted, VersionActive, VersionDeprecated, VersionQuarantined, VersionRevoked:
		return true
	}
	return false
}

// Validate checks that the version is well formed, its manifest included.
func (v ConnectorVersion) Validate() error {
	quarantined := v.Status == VersionQuarantined
	err := firstWrong("version", v.ID.String(),
		check{v.ID.IsZero(), "it has no id"},
		check{v.Type.IsZero(), "it has no type"},
		check{badText(v.Version, 128), "version text needs 1..128 bytes without control characters"},
		check{v.ReleaseSequence == 0, "release_sequence starts at 1"},
		check{!v.Status.Valid(), "status is not known"},
		check{quarantined != (v.StatusBefore != ""), "status_before goes with quarantined, and only with it"},
		check{quarantined && !v.StatusBefore.Routable(), "a quarantined version comes from active or deprecated"},
		check{v.ManifestDigest.IsZero(), "it has no manifest digest"},
		check{v.ArtifactDigest.IsZero(), "it has no artifact digest"},
		check{len(v.AIPVersions) == 0, "it supports no AIP version"},
		check{v.AdmittedAt.IsZero(), "it has no time of admission"},
	)
	if err != nil {
		return err
	}
	return v.Manifest.Validate()
}

// Validate checks the manifest against the limits of one release.
func (m Manifest) Validate() error {
	err := firstWrong("manifest", m.Name,
		check{m.AIPVersion != "1.0", `aip_version must be "1.0"`},
		check{badText(m.Name, maxNameBytes), "name needs 1..256 bytes without control characters"},
		check{len(m.Capabilities) == 0, "it offers no capability"},
		check{len(m.Capabilities) > MaxCapabilities, "it offers more than 512 capabilities"},
	)
	if err != nil {
		return err
	}
	seen, total := map[CapabilityID]bool{}, 0
	for _, c := range m.Capabilities {
		if err := c.Validate(); err != nil {
			return err
		}
		if seen[c.ID] {
			return malformed("manifest", m.Name, "capability %s is defined twice", c.ID)
		}
		seen[c.ID] = true
		total += c.size()
	}
	if total > MaxManifestBytes {
		return malformed("manifest", m.Name, "its definitions have %d bytes, more than %d", total, MaxManifestBytes)
	}
	return m.validateClaims(seen)
}

func (m Manifest) validateClaims(defined map[CapabilityID]bool) error {
	claimed := map[CapabilityID]bool{}
	for _, i := range m.Implementations {
		err := firstWrong("implementation", i.Capability.String(),
			check{!defined[i.Capability], "the manifest does not define the capability"},
			check{claimed[i.Capability], "it is claimed twice"},
			check{badText(i.Adapter, 64), "adapter needs 1..64 bytes"},
			check{badText(i.Tool, maxNameBytes), "tool needs 1..256 bytes"},
			check{badOptional(i.ReconcileTool, maxNameBytes), "reconcile_tool has at most 256 bytes"},
			check{len(i.Profiles) > maxProfiles, "it names more than 64 profiles"},
			check{slices.ContainsFunc(i.Profiles, func(p string) bool { return badText(p, 128) }), "a profile needs 1..128 bytes"},
		)
		if err != nil {
			return err
		}
		claimed[i.Capability] = true
	}
	return nil
}

func (d CapabilityDefinition) size() int {
	raw, err := json.Marshal(d)
	if err != nil {
		return MaxDefinitionBytes + 1
	}
	return len(raw)
}

// Validate checks one definition and its size.
func (d CapabilityDefinition) Validate() error {
	return firstWrong("capability", d.ID.String(),
		check{d.ID.IsZero(), "it has no id"},
		check{badText(d.Name, maxNameBytes), "name needs 1..256 bytes without control characters"},
		check{badText(d.Kind, 64), "kind needs 1..64 bytes"},
		check{len(d.Description) > maxDescriptionBytes, "description has more than 16 KiB"},
		check{!isSchema(d.InputSchema), "input_schema is not a JSON object or boolean"},
		check{len(d.OutputSchema) > 0 && !isSchema(d.OutputSchema), "output_schema is not a JSON object or boolean"},
		check{!d.Contract.SideEffects.valid(), "contract.side_effects is not known"},
		check{!d.Contract.Idempotency.valid(), "contract.idempotency is not known"},
		check{d.size() > MaxDefinitionBytes, "it has more than 256 KiB, or holds invalid JSON"},
	)
}

func (s SideEffects) valid() bool {
	return s == EffectNone || s == EffectRead || s == EffectWrite || s == EffectDestructive
}

func (i Idempotency) valid() bool {
	return i == IdempotencyNone || i == IdempotencyNatural || i == IdempotencyProviderKey
}

func isSchema(raw json.RawMessage) bool {
	if !json.Valid(raw) {
		return false
	}
	text := strings.TrimLeft(string(raw), " \t\r\n")
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "true") || strings.HasPrefix(text, "false")
}

// Validate checks that the instance is well formed.
func (i ConnectorInstance) Validate() error {
	listed := map[VersionID]bool{}
	for _, s := range i.Serving {
		if s.Version.IsZero() || listed[s.Version] {
			return malformed("instance", i.ID.String(), "a serving version is missing or listed twice")
		}
		listed[s.Version] = true
	}
	return firstWrong("instance", i.ID.String(),
		check{i.ID.IsZero(), "it has no id"},
		check{i.Type.IsZero(), "it has no type"},
		check{i.Tenant.IsZero(), "it has no tenant"},
		check{len(i.Serving) == 0, "it serves no version"},
		check{len(i.Serving) > maxServing, "it serves more than 64 versions"},
		check{i.ConfigRevision == 0, "config_revision starts at 1"},
		check{badOptional(i.SecretProviderRef, MaxSecretRefBytes), "secret_provider_ref has at most 2048 bytes without control characters"},
	)
}

// Validate checks that the binding is well formed.
func (b CapabilityBinding) Validate() error {
	return firstWrong("binding", b.Capability.String(),
		check{b.Tenant.IsZero(), "it has no tenant"},
		check{b.Capability.IsZero(), "it has no capability"},
		check{b.Instance.IsZero(), "it has no instance"},
		check{b.PolicyRevision == 0, "policy_revision starts at 1"},
		check{badOptional(b.CredentialRevisionRef, MaxCredentialRef), "credential_revision_ref has at most 256 bytes without control characters"},
		check{b.QuotaPolicyRef != "" && checkToken(b.QuotaPolicyRef, maxQuotaRefBytes) != nil, "quota_policy_ref has at most 128 of A-Z a-z 0-9 . _ -"},
	)
}

// Validate checks that the policy is well formed.
func (q QuotaPolicy) Validate() error {
	c := q.Circuit
	on := c.FailureThreshold > 0
	return firstWrong("quota", q.Ref,
		check{checkToken(q.Ref, maxQuotaRefBytes) != nil, "ref needs 1..128 of A-Z a-z 0-9 . _ -"},
		check{q.Revision == 0, "revision starts at 1"},
		check{on && (c.OpenMillis < MinOpenMillis || c.OpenMillis > MaxOpenMillis), "circuit.open_ms is outside 100..3600000"},
		check{on && c.HalfOpenProbes == 0, "circuit.half_open_probes starts at 1"},
	)
}

// Validate checks that the declared replica is well formed.
func (r Replica) Validate() error {
	if err := CheckEndpoint(r.Endpoint); err != nil {
		return malformed("replica", r.ID.String(), "endpoint: %s", err.Why)
	}
	return firstWrong("replica", r.ID.String(),
		check{r.ID.IsZero(), "it has no id"},
		check{r.Instance.IsZero(), "it has no instance"},
		check{r.Version.IsZero(), "it has no version"},
		check{badText(r.Peer.PrincipalID, maxNameBytes), "peer.principal_id needs 1..256 bytes"},
		check{badText(r.Peer.PrincipalKind, 64), "peer.principal_kind needs 1..64 bytes"},
		check{!strings.HasPrefix(r.Peer.DID, "did:key:z") || badText(r.Peer.DID, 256), "peer.did is not a did:key:z…"},
		check{badText(r.Peer.TrustDomain, maxNameBytes), "peer.trust_domain needs 1..256 bytes"},
		check{badText(r.Peer.TransportProfile, 64), "peer.transport_profile needs 1..64 bytes"},
		check{!r.Topology.valid(), "topology labels have 1..128 of A-Z a-z 0-9 . _ -"},
		check{r.Capacity == 0, "capacity starts at 1"},
	)
}

func (t Topology) valid() bool {
	for _, label := range []string{t.Region, t.Zone, t.CapacityClass} {
		if checkToken(label, MaxTopologyLabel) != nil {
			return false
		}
	}
	return true
}

// Validate checks the preference; empty labels are "any".
func (p TopologyPreference) Validate() error {
	for _, label := range []string{p.Region, p.Zone, p.CapacityClass} {
		if label != "" && checkToken(label, MaxTopologyLabel) != nil {
			return malformed("topology", label, "labels have 1..128 of A-Z a-z 0-9 . _ -")
		}
	}
	return nil
}
