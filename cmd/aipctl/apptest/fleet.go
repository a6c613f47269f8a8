package apptest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Hostile is text that turns round and hides what follows it on a careless screen.
const Hostile = "desk \u202eevil\u2066\u200e"

func parsed[T any](v T, err error) T {
	if err != nil {
		panic("apptest: " + err.Error())
	}
	return v
}

// Tenant parses a tenant id that is right by inspection.
func Tenant(s string) fleet.TenantID { return parsed(fleet.ParseTenantID(s)) }

// Capability parses a capability id.
func Capability(s string) fleet.CapabilityID { return parsed(fleet.ParseCapabilityID(s)) }

// Action parses an action id.
func Action(s string) fleet.ActionID { return parsed(fleet.ParseActionID(s)) }

// Replica parses a replica id.
func Replica(s string) fleet.ReplicaID { return parsed(fleet.ParseReplicaID(s)) }

func instance(s string) fleet.InstanceID { return parsed(fleet.ParseInstanceID(s)) }
func version(s string) fleet.VersionID   { return parsed(fleet.ParseVersionID(s)) }
func typeID(s string) fleet.TypeID       { return parsed(fleet.ParseTypeID(s)) }

func seed(name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return sum[:]
}

func privateKey(seed []byte) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(seed) }

// Signer is the key of a named peer, the same in every run.
func Signer(name string) envelope.Signer { return envelope.NewSigner(privateKey(seed(name))) }

// Populate publishes a fleet of two tenants and three replicas, registers them, and
// leaves one action completed, one reserved and one uncertain.
func (h *Harness) Populate() {
	h.Helper()
	h.Publish(Set())
	for _, r := range Set().Replicas {
		h.Register(r)
	}
	h.Advance(2 * time.Second)
	for _, name := range []string{"act_done", "act_held", "act_lost"} {
		h.Resolve(name)
		h.Advance(time.Second)
	}
	h.Settle("act_done", fleet.Settlement{Outcome: fleet.OutcomeCompleted, Code: "dispatch.completed"})
	h.Settle("act_lost", fleet.Settlement{Outcome: fleet.OutcomeUnknown, Code: "dispatch.no_answer"})
	h.Advance(3 * time.Second)
}

// Publish applies a change set at the present revision.
func (h *Harness) Publish(set registry.ChangeSet) {
	h.Helper()
	status, err := h.Registry.Reader.Status(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	if set.Actor == "" {
		set.Actor, set.Reason = "apptest", "to have something to look at "+Hostile
	}
	if _, err := h.Registry.Apply(h.Context(), set, status.Revision); err != nil {
		h.Fatalf("publish: %v (%s)", err, fleet.CodeOf(err))
	}
}

// Register makes a replica ready.
func (h *Harness) Register(r fleet.Replica) {
	h.Helper()
	set := Set()
	v, owner := set.Versions[0], set.Instances[0]
	for _, i := range set.Instances {
		if i.ID == r.Instance {
			owner = i
		}
	}
	digest := fleet.DigestBytes([]byte("register " + r.ID.String()))
	lease, err := h.Registry.Fleet.Register(h.Context(), registry.Registration{
		Claim: registry.RequestClaim{ID: "msg_" + r.ID.String(), Digest: digest}, Replica: r.ID, PeerDID: r.Peer.DID,
		ManifestDigest: v.ManifestDigest, ArtifactDigest: v.ArtifactDigest, Tenant: owner.Tenant, ConfigRevision: owner.ConfigRevision,
		SecretProviderRef: owner.SecretProviderRef, CapabilityCount: len(v.Manifest.Capabilities), Capacity: r.Capacity,
		Journal: parsed(fleet.ParseJournalID("jrnl_" + r.ID.String())), TTL: registry.MaxLeaseTTL,
	})
	if err != nil {
		h.Fatalf("register %s: %v (%s)", r.ID, err, fleet.CodeOf(err))
	}
	_, err = h.Registry.Renew(h.Context(), registry.Beat{Replica: r.ID, PeerDID: r.Peer.DID, Epoch: lease.Epoch, Sequence: lease.Sequence + 1, Ready: true, TTL: registry.MaxLeaseTTL})
	if err != nil {
		h.Fatalf("beat of %s: %v (%s)", r.ID, err, fleet.CodeOf(err))
	}
}

// More publishes one more replica beside the first one and makes it ready.
func (h *Harness) More(id string) {
	h.Helper()
	r := Set().Replicas[0]
	r.ID, r.Peer.DID, r.Endpoint = Replica(id), Signer(id).DID().String(), "https://"+strings.ReplaceAll(id, "_", "-")+".example:7101"
	h.Publish(registry.ChangeSet{Replicas: []fleet.Replica{r}})
	h.Register(r)
}

// Resolve reserves acme's desk:open for an action.
func (h *Harness) Resolve(name string) {
	h.Helper()
	_, err := h.Registry.Resolve(h.Context(), registry.RouteRequest{
		Action: Action(name), Capability: Capability("desk:open"), Tenant: Tenant("acme"), TimeToLive: 10 * time.Minute,
	})
	if err != nil {
		h.Fatalf("resolve %s: %v (%s)", name, err, fleet.CodeOf(err))
	}
}

// Settle ends the newest attempt of an action.
func (h *Harness) Settle(name string, s fleet.Settlement) {
	h.Helper()
	route, err := h.Registry.Lookup(h.Context(), Tenant("acme"), Action(name))
	if err != nil {
		h.Fatal(err)
	}
	if _, err := h.Registry.Settle(h.Context(), route.Assignment(), s); err != nil {
		h.Fatalf("settle %s: %v (%s)", name, err, fleet.CodeOf(err))
	}
}

// Archive moves the route of a settled action to the archive of the memory registry.
func (h *Harness) Archive(name string) {
	h.Helper()
	if err := h.archive(h.Context(), Action(name)); err != nil {
		h.Fatalf("archive %s: %v (%s)", name, err, fleet.CodeOf(err))
	}
}

func definition(id string, effects fleet.SideEffects) fleet.CapabilityDefinition {
	return fleet.CapabilityDefinition{
		ID: Capability(id), Name: "Name of " + id, Kind: "tool", Description: "What " + id + " does", Risk: "low",
		InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: json.RawMessage(`{"type":"object"}`),
		Contract: fleet.Contract{SideEffects: effects, Idempotency: fleet.IdempotencyProviderKey},
	}
}

// Set is the published part of the fleet.
func Set() registry.ChangeSet {
	trust := json.RawMessage(`{"roots":["apptest"]}`)
	v := deskVersion()
	set := registry.ChangeSet{
		Actor: "apptest", Reason: "first fleet " + Hostile,
		Trust:     &registry.TrustRevision{Number: 1, Digest: fleet.DigestBytes(trust), Document: trust, Actor: "apptest", Reason: "test"},
		Types:     []fleet.ConnectorType{{ID: v.Type, Name: Hostile, Owner: "apptest", Enabled: true}},
		Versions:  []fleet.ConnectorVersion{v},
		Admission: admission(v),
		Instances: []fleet.ConnectorInstance{deskInstance("acme"), deskInstance("globex")},
		Replicas:  []fleet.Replica{deskReplica("acme", "a"), deskReplica("acme", "b"), deskReplica("globex", "a")},
	}
	for _, tenant := range []string{"acme", "globex"} {
		for _, capability := range []string{"desk:open", "desk:read"} {
			set.Bindings = append(set.Bindings, fleet.CapabilityBinding{
				BindingKey: fleet.BindingKey{Tenant: Tenant(tenant), Capability: Capability(capability), Instance: instance("cinst_" + tenant)},
				Priority:   10, PolicyRevision: 1, CredentialRevisionRef: "cred-1", Enabled: true,
			})
		}
	}
	return set
}

func deskVersion() fleet.ConnectorVersion {
	digest := func(s string) fleet.Digest { return fleet.DigestBytes([]byte(s)) }
	m := fleet.Manifest{AIPVersion: "1.0", Name: "desk", Version: "1.0.0", Capabilities: []fleet.CapabilityDefinition{
		definition("desk:open", fleet.EffectWrite), definition("desk:read", fleet.EffectRead)}}
	for _, c := range m.Capabilities {
		m.Implementations = append(m.Implementations, fleet.Implementation{Capability: c.ID, Adapter: "mcp", Tool: c.ID.String(), Profiles: []string{"aip.core.v1"}})
	}
	return fleet.ConnectorVersion{
		ID: version("cver_desk1"), Type: typeID("ctype_desk"), Version: "1.0.0", ReleaseSequence: 1, Status: fleet.VersionActive, Manifest: m,
		ManifestDigest: digest("manifest"), ArtifactDigest: digest("artifact"), SchemaBundleDigest: digest("schemas"), AIPVersions: []string{"1.0"},
		Attestation: fleet.Attestation{PackageDigest: digest("package"), Evidence: map[string]fleet.Digest{"signature": digest("signature")},
			Signers: map[string]string{"signature": "key-1"}, TrustRevision: 1, Qualified: true},
		AdmittedAt: Epoch(),
	}
}

func admission(v fleet.ConnectorVersion) *registry.Admission {
	return &registry.Admission{
		PackageDigest: v.Attestation.PackageDigest, Package: []byte("package"), Version: v.ID, Findings: json.RawMessage(`[]`),
		Evidence: v.Attestation.Evidence, TrustRevision: 1, EvaluatorVersion: "apptest", EvaluatedAt: Epoch(), Actor: "apptest", Reason: "test",
	}
}

func deskInstance(tenant string) fleet.ConnectorInstance {
	return fleet.ConnectorInstance{
		ID: instance("cinst_" + tenant), Type: typeID("ctype_desk"), Tenant: Tenant(tenant), ConfigRevision: 1, Enabled: true,
		Serving: []fleet.ServingVersion{{Version: version("cver_desk1"), Weight: 100}}, SecretProviderRef: "file:" + tenant,
	}
}

func deskReplica(tenant, zone string) fleet.Replica {
	id := "crepl_" + tenant + "_" + zone
	return fleet.Replica{
		ID: Replica(id), Instance: instance("cinst_" + tenant), Version: version("cver_desk1"), Endpoint: "https://" + zone + "." + tenant + ".example:7101",
		Peer:     fleet.Peer{PrincipalID: "host-" + id, PrincipalKind: "service", DID: Signer(id).DID().String(), TrustDomain: "example", TransportProfile: "aip-http/1"},
		Topology: fleet.Topology{Region: "north", Zone: zone, CapacityClass: "standard"}, Capacity: 4,
	}
}

var _ testing.TB = (*Harness)(nil)

// Offline has a replica's host leave.
func (h *Harness) Offline(id string) {
	h.Helper()
	page, err := h.Registry.List(h.Context(), registry.Selection{Noun: registry.Replicas, IDs: []string{id}})
	if err != nil || len(page.Replicas) != 1 {
		h.Fatalf("replica %s: %v", id, err)
	}
	r := page.Replicas[0]
	_, err = h.Registry.Leave(h.Context(), registry.Departure{
		Claim:   registry.RequestClaim{ID: "msg_leave_" + id, Digest: fleet.DigestBytes([]byte("leave " + id))},
		Replica: r.ID, PeerDID: r.Peer.DID, Epoch: r.Live.LeaseEpoch, Offline: true,
	})
	if err != nil {
		h.Fatalf("leave: %v (%s)", err, fleet.CodeOf(err))
	}
}
