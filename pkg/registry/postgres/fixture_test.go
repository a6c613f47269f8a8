package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func parsed[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func tenantID(n int) fleet.TenantID { return parsed(fleet.ParseTenantID(fmt.Sprintf("tenant-%d", n))) }

func capabilityID() fleet.CapabilityID { return parsed(fleet.ParseCapabilityID("desk:open")) }

func instanceID(n int) fleet.InstanceID {
	return parsed(fleet.ParseInstanceID(fmt.Sprintf("cinst_%d", n)))
}

func replicaID(instance, n int) fleet.ReplicaID {
	return parsed(fleet.ParseReplicaID(fmt.Sprintf("crepl_%d_%d", instance, n)))
}

func actionID(name string) fleet.ActionID { return parsed(fleet.ParseActionID("act_" + name)) }

func versionID() fleet.VersionID { return parsed(fleet.ParseVersionID("cver_desk")) }

func typeID() fleet.TypeID { return parsed(fleet.ParseTypeID("ctype_desk")) }

func digest(s string) fleet.Digest { return fleet.DigestBytes([]byte(s)) }

func deskVersion() fleet.ConnectorVersion {
	definition := fleet.CapabilityDefinition{
		ID: capabilityID(), Name: "Open", Kind: "tool", Risk: "low", InputSchema: json.RawMessage(`{"type":"object"}`),
		Contract: fleet.Contract{SideEffects: fleet.EffectWrite, Idempotency: fleet.IdempotencyProviderKey},
	}
	return fleet.ConnectorVersion{
		ID: versionID(), Type: typeID(), Version: "1.0.0", ReleaseSequence: 1, Status: fleet.VersionActive,
		Manifest: fleet.Manifest{
			AIPVersion: "1.0", Name: "desk", Version: "1.0.0", Capabilities: []fleet.CapabilityDefinition{definition},
			Implementations: []fleet.Implementation{{Capability: capabilityID(), Adapter: "mcp", Tool: "open", Profiles: []string{"aip.core.v1"}}},
		},
		ManifestDigest: digest("manifest"), ArtifactDigest: digest("artifact"), SchemaBundleDigest: digest("schemas"),
		AIPVersions: []string{"1.0"},
		Attestation: fleet.Attestation{
			PackageDigest: digest("package"), Evidence: map[string]fleet.Digest{"signature": digest("signature")},
			Signers: map[string]string{"signature": "key"}, TrustRevision: 1, Qualified: true,
		},
		AdmittedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

func (d *database) revision(t testing.TB) uint64 {
	t.Helper()
	s, err := d.read.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Revision
}

func (d *database) publish(t testing.TB, set registry.ChangeSet) {
	t.Helper()
	set.Actor, set.Reason = "test", "test"
	if _, err := d.control.Apply(t.Context(), set, d.revision(t)); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

// shape is how big a fleet is: each tenant has one instance and one binding.
type shape struct {
	tenants, replicas int // replicas of each instance
	capacity          uint32
	tune              func(*fleet.QuotaPolicy)
}

// build publishes a fleet and registers every replica.
func (d *database) build(t testing.TB, s shape) {
	t.Helper()
	v := deskVersion()
	trust := json.RawMessage(`{}`)
	d.publish(t, registry.ChangeSet{
		Types: []fleet.ConnectorType{{ID: typeID(), Name: "Desk", Owner: "test", Enabled: true}},
		Trust: &registry.TrustRevision{Number: 1, Digest: fleet.DigestBytes(trust), Document: trust, Actor: "test", Reason: "test"},
	})
	d.publish(t, registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}, Admission: &registry.Admission{
		PackageDigest: digest("package"), Version: v.ID, Findings: json.RawMessage(`[]`), Evidence: v.Attestation.Evidence,
		TrustRevision: 1, EvaluatorVersion: "test", EvaluatedAt: v.AdmittedAt, Actor: "test", Reason: "test",
	}})
	d.publish(t, s.changes())
	for n := range s.tenants {
		for m := range s.replicas {
			d.register(t, n, m)
		}
	}
}

func (s shape) changes() registry.ChangeSet {
	quota, _ := fleet.PresetQuota(fleet.QuotaFleet)
	quota.Ref, quota.Circuit = "test", fleet.CircuitPolicy{}
	if s.tune != nil {
		s.tune(&quota)
	}
	set := registry.ChangeSet{Quotas: []fleet.QuotaPolicy{quota}}
	for n := range s.tenants {
		set.Instances = append(set.Instances, fleet.ConnectorInstance{
			ID: instanceID(n), Type: typeID(), Tenant: tenantID(n), ConfigRevision: 1, Enabled: true,
			Serving: []fleet.ServingVersion{{Version: versionID(), Weight: 1}},
		})
		set.Bindings = append(set.Bindings, binding(n, 1, true))
		for m := range s.replicas {
			set.Replicas = append(set.Replicas, replica(n, m, s.capacity))
		}
	}
	return set
}

func binding(n int, revision uint64, enabled bool) fleet.CapabilityBinding {
	return fleet.CapabilityBinding{
		BindingKey: fleet.BindingKey{Tenant: tenantID(n), Capability: capabilityID(), Instance: instanceID(n)},
		Priority:   1, PolicyRevision: revision, CredentialRevisionRef: "cred-1", QuotaPolicyRef: "test", Enabled: enabled,
	}
}

func did(instance, n int) string { return fmt.Sprintf("did:key:z6Mk%dx%d", instance, n) }

func replica(instance, n int, capacity uint32) fleet.Replica {
	return fleet.Replica{
		ID: replicaID(instance, n), Instance: instanceID(instance), Version: versionID(), Endpoint: "https://host.example:7101",
		Peer: fleet.Peer{
			PrincipalID: "host", PrincipalKind: "service", DID: did(instance, n), TrustDomain: "example", TransportProfile: "aip-http/1",
		},
		Topology: fleet.Topology{Region: "north", Zone: fmt.Sprintf("z%d", n%3), CapacityClass: "standard"}, Capacity: capacity,
	}
}

func registration(instance, n int, claim string) registry.Registration {
	v := deskVersion()
	return registry.Registration{
		Claim: registry.RequestClaim{ID: claim, Digest: digest(claim)}, Replica: replicaID(instance, n), PeerDID: did(instance, n),
		ManifestDigest: v.ManifestDigest, ArtifactDigest: v.ArtifactDigest, Tenant: tenantID(instance), ConfigRevision: 1,
		CapabilityCount: 1, Capacity: 1, Journal: parsed(fleet.ParseJournalID(fmt.Sprintf("jrnl_%d_%d", instance, n))), TTL: registry.MaxLeaseTTL,
	}
}

func (d *database) register(t testing.TB, instance, n int) registry.Lease {
	t.Helper()
	l, err := d.lifecycle.Register(t.Context(), registration(instance, n, fmt.Sprintf("msg_%d_%d", instance, n)))
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	return l
}

func request(action string, tenant int) registry.RouteRequest {
	return registry.RouteRequest{Action: actionID(action), Capability: capabilityID(), Tenant: tenantID(tenant)}
}

func (d *database) resolve(t testing.TB, action string, tenant int) fleet.Assignment {
	t.Helper()
	a, err := d.data.Resolve(t.Context(), request(action, tenant))
	if err != nil {
		t.Fatalf("resolve: %v", err)
	}
	return a
}

// audit reports every broken invariant.
func (d *database) audit(t testing.TB) registry.Snapshot {
	t.Helper()
	s, err := d.read.Snapshot(context.Background()) // it may run as a test's cleanup
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range registry.Audit(s) {
		t.Errorf("audit: %s broken by %s: %s", v.Guarantee, v.Subject, v.What)
	}
	return s
}
