package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func ok[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func aType() ConnectorType {
	return ConnectorType{ID: ok(ParseTypeID("ctype_a")), Name: "A", Owner: "ann", Enabled: true}
}

func aDefinition() CapabilityDefinition {
	return CapabilityDefinition{
		ID: ok(ParseCapabilityID("a:do")), Name: "Do", Kind: "tool", InputSchema: json.RawMessage(`{"type":"object"}`),
		Contract: Contract{SideEffects: EffectWrite, Idempotency: IdempotencyNone},
	}
}

func aVersion() ConnectorVersion {
	d := aDefinition()
	return ConnectorVersion{
		ID: ok(ParseVersionID("cver_a")), Type: aType().ID, Version: "1.0.0", ReleaseSequence: 1, Status: VersionAdmitted,
		Manifest: Manifest{AIPVersion: "1.0", Name: "a", Version: "1.0.0", Capabilities: []CapabilityDefinition{d},
			Implementations: []Implementation{{Capability: d.ID, Adapter: "mcp", Tool: "do", Profiles: []string{"aip.core.v1"}}}},
		ManifestDigest: DigestBytes([]byte("m")), ArtifactDigest: DigestBytes([]byte("a")), AIPVersions: []string{"1.0"},
		AdmittedAt: time.Unix(1, 0),
	}
}

func anInstance() ConnectorInstance {
	return ConnectorInstance{
		ID: ok(ParseInstanceID("cinst_a")), Type: aType().ID, Tenant: ok(ParseTenantID("acme")), ConfigRevision: 1,
		Serving: []ServingVersion{{Version: aVersion().ID, Weight: 1}}, Enabled: true,
	}
}

func aBinding() CapabilityBinding {
	return CapabilityBinding{
		BindingKey:     BindingKey{Tenant: anInstance().Tenant, Capability: aDefinition().ID, Instance: anInstance().ID},
		PolicyRevision: 1, Enabled: true,
	}
}

func aReplica() Replica {
	return Replica{
		ID: ok(ParseReplicaID("crepl_a")), Instance: anInstance().ID, Version: aVersion().ID, Endpoint: "https://a.example:7101",
		Peer:     Peer{PrincipalID: "host-a", PrincipalKind: "service", DID: "did:key:z6MkA", TrustDomain: "example", TransportProfile: "aip-http/1"},
		Topology: Topology{}.WithDefaults(), Capacity: 1,
	}
}

func aQuota() QuotaPolicy { return ok2(PresetQuota(QuotaFleet)) }

func ok2[T any](v T, found bool) T {
	if !found {
		panic("not found")
	}
	return v
}

// refusals edits a valid record in one way at a time; each must be refused.
func refusals[T interface{ Validate() error }](t *testing.T, name string, valid func() T, edits map[string]func(*T)) {
	t.Helper()
	if err := valid().Validate(); err != nil {
		t.Fatalf("the valid %s is refused: %v", name, err)
	}
	for what, edit := range edits {
		v := valid()
		edit(&v)
		if err := v.Validate(); !Is(err, Invalid) || !strings.HasPrefix(CodeOf(err), "record.") {
			t.Errorf("%s, %s: %v", name, what, err)
		}
	}
}

func TestValidate_G40_Types(t *testing.T) {
	refusals(t, "type", aType, map[string]func(*ConnectorType){
		"no id":         func(v *ConnectorType) { v.ID = TypeID{} },
		"no name":       func(v *ConnectorType) { v.Name = "" },
		"long name":     func(v *ConnectorType) { v.Name = strings.Repeat("x", 257) },
		"control name":  func(v *ConnectorType) { v.Name = "a\x1b[0m" },
		"no owner":      func(v *ConnectorType) { v.Owner = "" },
		"invalid owner": func(v *ConnectorType) { v.Owner = "\xff" },
	})
}

func TestValidate_G34_Versions(t *testing.T) {
	refusals(t, "version", aVersion, map[string]func(*ConnectorVersion){
		"no id":                func(v *ConnectorVersion) { v.ID = VersionID{} },
		"no type":              func(v *ConnectorVersion) { v.Type = TypeID{} },
		"no text":              func(v *ConnectorVersion) { v.Version = "" },
		"sequence 0":           func(v *ConnectorVersion) { v.ReleaseSequence = 0 },
		"unknown status":       func(v *ConnectorVersion) { v.Status = "fine" },
		"status before alone":  func(v *ConnectorVersion) { v.StatusBefore = VersionActive },
		"quarantined from nil": func(v *ConnectorVersion) { v.Status = VersionQuarantined },
		"quarantined from admitted": func(v *ConnectorVersion) {
			v.Status, v.StatusBefore = VersionQuarantined, VersionAdmitted
		},
		"no manifest digest": func(v *ConnectorVersion) { v.ManifestDigest = Digest{} },
		"no artifact digest": func(v *ConnectorVersion) { v.ArtifactDigest = Digest{} },
		"no AIP version":     func(v *ConnectorVersion) { v.AIPVersions = nil },
		"no admission time":  func(v *ConnectorVersion) { v.AdmittedAt = time.Time{} },
		"another AIP":        func(v *ConnectorVersion) { v.Manifest.AIPVersion = "2.0" },
		"no capability":      func(v *ConnectorVersion) { v.Manifest.Capabilities = nil },
		"same capability twice": func(v *ConnectorVersion) {
			v.Manifest.Capabilities = append(v.Manifest.Capabilities, aDefinition())
		},
		"claim of nothing": func(v *ConnectorVersion) { v.Manifest.Implementations[0].Capability = ok(ParseCapabilityID("b:do")) },
		"claim twice": func(v *ConnectorVersion) {
			v.Manifest.Implementations = append(v.Manifest.Implementations, v.Manifest.Implementations[0])
		},
		"claim without tool": func(v *ConnectorVersion) { v.Manifest.Implementations[0].Tool = "" },
		"empty profile":      func(v *ConnectorVersion) { v.Manifest.Implementations[0].Profiles = []string{""} },
	})
	quarantined := aVersion()
	quarantined.Status, quarantined.StatusBefore = VersionQuarantined, VersionDeprecated
	if err := quarantined.Validate(); err != nil {
		t.Errorf("a quarantined version: %v", err)
	}
}

func TestValidate_G16_ManifestLimits(t *testing.T) {
	m := aVersion().Manifest
	m.Capabilities, m.Implementations = nil, nil
	for i := range MaxCapabilities {
		d := aDefinition()
		d.ID = ok(ParseCapabilityID(fmt.Sprintf("a:do%d", i)))
		m.Capabilities = append(m.Capabilities, d)
	}
	if err := m.Validate(); err != nil {
		t.Fatalf("%d capabilities: %v", MaxCapabilities, err)
	}
	more := m
	more.Capabilities = append(more.Capabilities[:MaxCapabilities:MaxCapabilities], aDefinition())
	if err := more.Validate(); !Is(err, Invalid) {
		t.Errorf("%d capabilities: %v", len(more.Capabilities), err)
	}
	for i := range 20 {
		m.Capabilities[i].InputSchema = json.RawMessage(`{"description":"` + strings.Repeat("x", 250<<10) + `"}`)
	}
	if err := m.Validate(); !Is(err, Invalid) {
		t.Errorf("a manifest of 5 MiB: %v", err)
	}
}

func TestValidate_G16_Definitions(t *testing.T) {
	refusals(t, "definition", aDefinition, map[string]func(*CapabilityDefinition){
		"no id":            func(v *CapabilityDefinition) { v.ID = CapabilityID{} },
		"no name":          func(v *CapabilityDefinition) { v.Name = "" },
		"no kind":          func(v *CapabilityDefinition) { v.Kind = "" },
		"long description": func(v *CapabilityDefinition) { v.Description = strings.Repeat("x", 17<<10) },
		"no input":         func(v *CapabilityDefinition) { v.InputSchema = nil },
		"input not JSON":   func(v *CapabilityDefinition) { v.InputSchema = json.RawMessage(`{"a":`) },
		"input a list":     func(v *CapabilityDefinition) { v.InputSchema = json.RawMessage(`[]`) },
		"output a string":  func(v *CapabilityDefinition) { v.OutputSchema = json.RawMessage(`"x"`) },
		"unknown effects":  func(v *CapabilityDefinition) { v.Contract.SideEffects = "some" },
		"no idempotency":   func(v *CapabilityDefinition) { v.Contract.Idempotency = "" },
		"broken contract":  func(v *CapabilityDefinition) { v.Contract.SLA = json.RawMessage(`{`) },
		"too large": func(v *CapabilityDefinition) {
			v.InputSchema = json.RawMessage(`{"description":"` + strings.Repeat("x", MaxDefinitionBytes) + `"}`)
		},
	})
}

func TestValidate_G18_Instances(t *testing.T) {
	refusals(t, "instance", anInstance, map[string]func(*ConnectorInstance){
		"no id":        func(v *ConnectorInstance) { v.ID = InstanceID{} },
		"no type":      func(v *ConnectorInstance) { v.Type = TypeID{} },
		"no tenant":    func(v *ConnectorInstance) { v.Tenant = TenantID{} },
		"no version":   func(v *ConnectorInstance) { v.Serving = nil },
		"zero version": func(v *ConnectorInstance) { v.Serving[0].Version = VersionID{} },
		"twice":        func(v *ConnectorInstance) { v.Serving = append(v.Serving, v.Serving[0]) },
		"too many": func(v *ConnectorInstance) {
			for i := range 65 {
				v.Serving = append(v.Serving, ServingVersion{Version: ok(ParseVersionID(fmt.Sprintf("cver_%d", i)))})
			}
		},
		"revision 0":  func(v *ConnectorInstance) { v.ConfigRevision = 0 },
		"long secret": func(v *ConnectorInstance) { v.SecretProviderRef = strings.Repeat("x", MaxSecretRefBytes+1) },
		"odd secret":  func(v *ConnectorInstance) { v.SecretProviderRef = "a\x00b" },
	})
}

func TestValidate_G18_Bindings(t *testing.T) {
	refusals(t, "binding", aBinding, map[string]func(*CapabilityBinding){
		"no tenant":       func(v *CapabilityBinding) { v.Tenant = TenantID{} },
		"no capability":   func(v *CapabilityBinding) { v.Capability = CapabilityID{} },
		"no instance":     func(v *CapabilityBinding) { v.Instance = InstanceID{} },
		"revision 0":      func(v *CapabilityBinding) { v.PolicyRevision = 0 },
		"long credential": func(v *CapabilityBinding) { v.CredentialRevisionRef = strings.Repeat("x", MaxCredentialRef+1) },
		"odd quota":       func(v *CapabilityBinding) { v.QuotaPolicyRef = "a b" },
	})
}

func TestValidate_G05_Quotas(t *testing.T) {
	refusals(t, "quota", aQuota, map[string]func(*QuotaPolicy){
		"no ref":         func(v *QuotaPolicy) { v.Ref = "" },
		"revision 0":     func(v *QuotaPolicy) { v.Revision = 0 },
		"open too short": func(v *QuotaPolicy) { v.Circuit.OpenMillis = MinOpenMillis - 1 },
		"open too long":  func(v *QuotaPolicy) { v.Circuit.OpenMillis = MaxOpenMillis + 1 },
		"no probe":       func(v *QuotaPolicy) { v.Circuit.HalfOpenProbes = 0 },
	})
	off := aQuota()
	off.Circuit = CircuitPolicy{}
	if err := off.Validate(); err != nil {
		t.Errorf("a circuit that is off: %v", err)
	}
	for _, ref := range []string{QuotaFleet, "conservative"} {
		if err := ok2(PresetQuota(ref)).Validate(); err != nil {
			t.Errorf("preset %s: %v", ref, err)
		}
	}
	if _, found := PresetQuota("deployment"); found {
		t.Error("deployment is no preset")
	}
	a, b := aQuota(), aQuota()
	if *a.Tenant = 1; *b.Tenant == 1 {
		t.Error("presets share their limits")
	}
}

func TestValidate_G02_Replicas(t *testing.T) {
	refusals(t, "replica", aReplica, map[string]func(*Replica){
		"no id":        func(v *Replica) { v.ID = ReplicaID{} },
		"no instance":  func(v *Replica) { v.Instance = InstanceID{} },
		"no version":   func(v *Replica) { v.Version = VersionID{} },
		"no capacity":  func(v *Replica) { v.Capacity = 0 },
		"no principal": func(v *Replica) { v.Peer.PrincipalID = "" },
		"no kind":      func(v *Replica) { v.Peer.PrincipalKind = "" },
		"other DID":    func(v *Replica) { v.Peer.DID = "did:web:example" },
		"no domain":    func(v *Replica) { v.Peer.TrustDomain = "" },
		"no profile":   func(v *Replica) { v.Peer.TransportProfile = "" },
		"no region":    func(v *Replica) { v.Topology.Region = "" },
		"odd zone":     func(v *Replica) { v.Topology.Zone = "a/b" },
		"long class":   func(v *Replica) { v.Topology.CapacityClass = strings.Repeat("x", 129) },
		"no endpoint":  func(v *Replica) { v.Endpoint = "" },
	})
}

func TestCheckEndpoint_G19_OnlyPlainAddresses(t *testing.T) {
	for _, good := range []string{
		"https://a.example", "https://a.example:7101/base", "http://127.0.0.1:7101", "http://[::1]:7101", "http://localhost:7101", "https://[2001:db8::1]",
	} {
		if err := CheckEndpoint(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "a.example", "ftp://a.example", "http://a.example", "http://10.0.0.1", "http://127.0.0.1.example", "https://user@a.example",
		"https://user:pw@a.example", "https://a.example?x=1", "https://a.example/#f", "https://a.example?", "https://", "https:///path", "https:a.example",
		"https://a.example:0", "https://a.example:65536", "https://a.example:", "https://a b.example", "https://a.example/\x00", "https://ä.example",
		"https://" + strings.Repeat("a", 2048) + ".example", "javascript:alert(1)", "//a.example",
	} {
		if err := CheckEndpoint(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestTopology_G08_PreferenceAndDefaults(t *testing.T) {
	if got := (Topology{Zone: "a"}).WithDefaults(); got != (Topology{Region: "global", Zone: "a", CapacityClass: "standard"}) {
		t.Errorf("defaults give %+v", got)
	}
	if err := (TopologyPreference{}).Validate(); err != nil {
		t.Errorf("no preference: %v", err)
	}
	if err := (TopologyPreference{Zone: "a b"}).Validate(); !Is(err, Invalid) {
		t.Errorf("an odd zone: %v", err)
	}
}

func TestStatus_G08_WhatEachVersionStatusAllows(t *testing.T) {
	for s, want := range map[VersionStatus][2]bool{
		VersionAdmitted: {false, false}, VersionActive: {true, true}, VersionDeprecated: {true, true},
		VersionQuarantined: {false, true}, VersionRevoked: {false, false}, "": {false, false},
	} {
		if s.Routable() != want[0] || s.Reservable() != want[1] {
			t.Errorf("%q is routable %v, reservable %v", s, s.Routable(), s.Reservable())
		}
	}
}

func TestOutcome_G42_DefiniteLeavesNoQuestion(t *testing.T) {
	for o, want := range map[Outcome][2]bool{
		OutcomeCompleted: {true, true}, OutcomeCancelled: {true, true}, OutcomeUnknown: {true, false}, OutcomeLeaseExpired: {true, false}, "fine": {false, false},
	} {
		if o.Valid() != want[0] || o.Definite() != want[1] {
			t.Errorf("%q is valid %v, definite %v", o, o.Valid(), o.Definite())
		}
	}
}
