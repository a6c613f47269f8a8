package registrytest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// parsed is for the suite's own identities, which are right by inspection.
func parsed[T any](v T, err error) T {
	if err != nil {
		panic("registrytest: " + err.Error())
	}
	return v
}

func acme() fleet.TenantID   { return parsed(fleet.ParseTenantID("acme")) }
func globex() fleet.TenantID { return parsed(fleet.ParseTenantID("globex")) }

func open() fleet.CapabilityID { return parsed(fleet.ParseCapabilityID("desk:open")) }
func read() fleet.CapabilityID { return parsed(fleet.ParseCapabilityID("desk:read")) }

func deskTypeID() fleet.TypeID { return parsed(fleet.ParseTypeID("ctype_desk")) }

func versionID(n int) fleet.VersionID {
	return parsed(fleet.ParseVersionID(fmt.Sprintf("cver_desk%d", n)))
}

func instanceID(tenant fleet.TenantID) fleet.InstanceID {
	return parsed(fleet.ParseInstanceID("cinst_" + tenant.String()))
}

func replicaID(tenant fleet.TenantID, zone string) fleet.ReplicaID {
	return parsed(fleet.ParseReplicaID("crepl_" + tenant.String() + "_" + zone))
}

func actionID(name string) fleet.ActionID { return parsed(fleet.ParseActionID("act_" + name)) }

func journalID(r fleet.ReplicaID) fleet.JournalID {
	return parsed(fleet.ParseJournalID("jrnl_" + r.String()))
}

func digest(text string) fleet.Digest { return fleet.DigestBytes([]byte(text)) }

func limit(n uint32) *uint32 { return &n }

func trustOne() *registry.TrustRevision {
	doc := json.RawMessage(`{"roots":["suite"]}`)
	return &registry.TrustRevision{Number: 1, Digest: fleet.DigestBytes(doc), Document: doc, Actor: "suite", Reason: "test"}
}

func deskType() fleet.ConnectorType {
	return fleet.ConnectorType{ID: deskTypeID(), Name: "Ticket desk", Owner: "suite", Enabled: true}
}

func definition(id fleet.CapabilityID, effects fleet.SideEffects) fleet.CapabilityDefinition {
	return fleet.CapabilityDefinition{
		ID: id, Name: "Name of " + id.String(), Kind: "tool", Description: "What " + id.String() + " does",
		Risk:         "low",
		InputSchema:  json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}`),
		OutputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`),
		Contract:     fleet.Contract{SideEffects: effects, Idempotency: fleet.IdempotencyProviderKey},
	}
}

// manifestOf offers the definitions through an adapter's tools of the same names.
func manifestOf(version string, definitions ...fleet.CapabilityDefinition) fleet.Manifest {
	m := fleet.Manifest{AIPVersion: "1.0", Name: "desk", Version: version, Capabilities: definitions}
	for _, d := range definitions {
		m.Implementations = append(m.Implementations, fleet.Implementation{
			Capability: d.ID, Adapter: "mcp", Tool: d.ID.String(), Profiles: []string{"aip.core.v1"},
		})
	}
	return m
}

// deskVersion is release n of the desk: active, and qualified under trust revision 1.
func deskVersion(n int) fleet.ConnectorVersion {
	text := fmt.Sprintf("1.%d.0", n)
	return fleet.ConnectorVersion{
		ID: versionID(n), Type: deskTypeID(), Version: text, ReleaseSequence: uint64(n), Status: fleet.VersionActive,
		Manifest:       manifestOf(text, definition(open(), fleet.EffectWrite), definition(read(), fleet.EffectRead)),
		ManifestDigest: digest("manifest " + text), ArtifactDigest: digest("artifact " + text),
		SchemaBundleDigest: digest("schemas " + text), AIPVersions: []string{"1.0"},
		Attestation: fleet.Attestation{
			PackageDigest: digest("package " + text), Evidence: map[string]fleet.Digest{"signature": digest("signature " + text)},
			Signers: map[string]string{"signature": "key-1"}, TrustRevision: 1, Qualified: true,
		},
		AdmittedAt: Epoch(),
	}
}

func admissionOf(v fleet.ConnectorVersion) *registry.Admission {
	archive := []byte("package " + v.Version)
	return &registry.Admission{
		PackageDigest: fleet.DigestBytes(archive), Package: archive, Version: v.ID, Findings: json.RawMessage(`[]`),
		Evidence: v.Attestation.Evidence, TrustRevision: v.Attestation.TrustRevision, EvaluatorVersion: "suite",
		EvaluatedAt: Epoch(), Actor: "suite", Reason: "test",
	}
}

// deskInstance is the tenant's account; it serves release 1.
func deskInstance(tenant fleet.TenantID) fleet.ConnectorInstance {
	return fleet.ConnectorInstance{
		ID: instanceID(tenant), Type: deskTypeID(), Tenant: tenant, ConfigRevision: 1, Enabled: true,
		Serving: []fleet.ServingVersion{{Version: versionID(1), Weight: 100}}, SecretProviderRef: "file:" + tenant.String(),
	}
}

// deskReplica runs release 1 in the named zone, with room for 4.
func deskReplica(tenant fleet.TenantID, zone string) fleet.Replica {
	id := replicaID(tenant, zone)
	return fleet.Replica{
		ID: id, Instance: instanceID(tenant), Version: versionID(1), Endpoint: "https://" + zone + "." + tenant.String() + ".example:7101",
		Peer: fleet.Peer{
			PrincipalID: "host-" + id.String(), PrincipalKind: "service", DID: didOf(id),
			TrustDomain: "example", TransportProfile: "aip-http/1",
		},
		Topology: fleet.Topology{Region: "north", Zone: zone, CapacityClass: "standard"}, Capacity: 4,
	}
}

func didOf(id fleet.ReplicaID) string { return "did:key:z6Mk" + id.String() }

func deskBinding(tenant fleet.TenantID, capability fleet.CapabilityID) fleet.CapabilityBinding {
	return fleet.CapabilityBinding{
		BindingKey: fleet.BindingKey{Tenant: tenant, Capability: capability, Instance: instanceID(tenant)},
		Priority:   10, PolicyRevision: 1, CredentialRevisionRef: "cred-1", Enabled: true,
	}
}

// quota is the preset fleet under another name, for cases that tighten one limit.
func quota(ref string, tighten func(*fleet.QuotaPolicy)) fleet.QuotaPolicy {
	q, _ := fleet.PresetQuota(fleet.QuotaFleet)
	q.Ref = ref
	tighten(&q)
	return q
}

// Leases: short words for the host's side.

const leaseTTL = 30 * time.Second

func (w *World) claim() registry.RequestClaim {
	w.claims++
	id := fmt.Sprintf("msg_suite%d", w.claims)
	return registry.RequestClaim{ID: id, Digest: digest(id)}
}

// registration is what the host of a declared replica says of itself.
func (w *World) registration(id fleet.ReplicaID) registry.Registration {
	w.Helper()
	r := w.replica(id)
	version := w.version(r.Version)
	instance := w.instance(r.Instance)
	return registry.Registration{
		Claim: w.claim(), Replica: id, PeerDID: r.Peer.DID, ManifestDigest: version.ManifestDigest,
		ArtifactDigest: version.ArtifactDigest, Tenant: instance.Tenant, ConfigRevision: instance.ConfigRevision,
		SecretProviderRef: instance.SecretProviderRef, CapabilityCount: len(version.Manifest.Capabilities),
		Capacity: r.Capacity, Journal: journalID(id), LastEpoch: w.leases[id].Epoch, TTL: leaseTTL,
	}
}

func (w *World) version(id fleet.VersionID) fleet.ConnectorVersion {
	w.Helper()
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Versions, IDs: []string{id.String()}})
	w.must(err, "list versions")
	if len(rec.Versions) != 1 {
		w.Fatalf("version %s is listed %d times", id, len(rec.Versions))
	}
	return rec.Versions[0]
}

func (w *World) instance(id fleet.InstanceID) fleet.ConnectorInstance {
	w.Helper()
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Instances, IDs: []string{id.String()}})
	w.must(err, "list instances")
	if len(rec.Instances) != 1 {
		w.Fatalf("instance %s is listed %d times", id, len(rec.Instances))
	}
	return rec.Instances[0]
}

func (w *World) register(id fleet.ReplicaID) registry.Lease {
	w.Helper()
	l, err := w.Fleet.Register(w.ctx(), w.registration(id))
	w.must(err, "register "+id.String())
	w.leases[id] = l
	return l
}

// nextBeat is the next ready beat of a replica's present lease.
func (w *World) nextBeat(id fleet.ReplicaID) registry.Beat {
	l := w.leases[id]
	return registry.Beat{Replica: id, PeerDID: didOf(id), Epoch: l.Epoch, Sequence: l.Sequence + 1, Ready: true, TTL: leaseTTL}
}

func (w *World) beat(id fleet.ReplicaID) registry.Lease {
	w.Helper()
	return w.beatAs(w.nextBeat(id))
}

func (w *World) beatAs(b registry.Beat) registry.Lease {
	w.Helper()
	l, err := w.Fleet.Renew(w.ctx(), b)
	w.must(err, "beat")
	w.leases[b.Replica] = l
	return l
}

func (w *World) depart(id fleet.ReplicaID, offline bool) registry.Lease {
	w.Helper()
	l, err := w.Fleet.Leave(w.ctx(), registry.Departure{
		Claim: w.claim(), Replica: id, PeerDID: didOf(id), Epoch: w.leases[id].Epoch, Offline: offline,
	})
	w.must(err, "leave")
	return l
}

func (w *World) intend(id fleet.ReplicaID, want fleet.OperatorIntent) {
	w.Helper()
	_, err := w.Fleet.Intend(w.ctx(), registry.Intent{Replica: id, Want: want, Actor: "suite", Reason: "test"})
	w.must(err, "intend")
}
