package sim

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func fixed(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func signerOf(seed byte) envelope.Signer {
	return envelope.NewSigner(ed25519.NewKeyFromSeed(fixed(seed)))
}

// must is for values that are written down here.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// place is one replica and where it is served.
type place struct {
	number   int
	tenant   fleet.TenantID
	instance fleet.InstanceID
	replica  fleet.ReplicaID
}

func (p place) endpoint() string        { return fmt.Sprintf("http://127.0.0.1:%d", 7101+p.number) }
func (p place) signer() envelope.Signer { return signerOf(byte(10 + p.number)) }

// places are two replicas of one account of acme, and one of globex.
func places() []place {
	make := func(number int, tenant, replica string) place {
		return place{
			number, must(fleet.ParseTenantID(tenant)), must(fleet.ParseInstanceID("cinst_" + tenant)),
			must(fleet.ParseReplicaID("crepl_" + replica)),
		}
	}
	return []place{make(0, "acme", "a1"), make(1, "acme", "a2"), make(2, "globex", "g1")}
}

// capacity is what a replica declares, and slots what its host takes: less, so that
// hosts refuse as well.
const (
	capacity = 6
	slots    = 4
)

// Capabilities: one that the provider recognises by its key, one that it does not.
const (
	plainCapability = "desk:plain"
	keyedCapability = "desk:keyed"
)

const manifestText = `{"aip_version":"1.0","name":"desk","version":"1.0.0","capabilities":[
 {"id":"desk:plain","name":"plain","kind":"tool","risk":"low","input_schema":{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]},"contract":{"side_effects":"write","idempotency":"none"}},
 {"id":"desk:keyed","name":"keyed","kind":"tool","risk":"low","input_schema":{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]},"contract":{"side_effects":"write","idempotency":"provider_key"}}],
 "implementations":[{"capability_id":"desk:plain","adapter":"mcp","tool":"plain"},{"capability_id":"desk:keyed","adapter":"mcp","tool":"keyed"}]}`

// release is the one release of the run.
type release struct {
	version  fleet.VersionID
	manifest fleet.Manifest
	digest   fleet.Digest
	artifact fleet.Digest
}

func theRelease() release {
	manifest, canonical, err := protocol.ReadManifest([]byte(manifestText))
	if err != nil {
		panic(err)
	}
	return release{must(fleet.ParseVersionID("cver_1")), manifest, fleet.DigestBytes(canonical), fleet.DigestBytes([]byte("artifact"))}
}

// publish makes the catalog in one step.
func (w *world) publish() {
	r, kind := theRelease(), must(fleet.ParseTypeID("ctype_desk"))
	trust, archive := json.RawMessage(`{"roots":["sim"]}`), []byte("package")
	evidence := map[string]fleet.Digest{"signature": fleet.DigestBytes([]byte("signature"))}
	set := registry.ChangeSet{
		Actor: "sim", Reason: "sim",
		Trust: &registry.TrustRevision{Number: 1, Digest: fleet.DigestBytes(trust), Document: trust, Actor: "sim", Reason: "sim"},
		Types: []fleet.ConnectorType{{ID: kind, Name: "Desk", Owner: "sim", Enabled: true}},
		Versions: []fleet.ConnectorVersion{{
			ID: r.version, Type: kind, Version: "1.0.0", ReleaseSequence: 1, Status: fleet.VersionActive, Manifest: r.manifest,
			ManifestDigest: r.digest, ArtifactDigest: r.artifact, SchemaBundleDigest: fleet.DigestBytes([]byte("schemas")),
			AIPVersions: []string{"1.0"}, AdmittedAt: w.began,
			Attestation: fleet.Attestation{
				PackageDigest: fleet.DigestBytes(archive), Evidence: evidence, Signers: map[string]string{"signature": "key-1"},
				TrustRevision: 1, Qualified: true,
			},
		}},
		Admission: &registry.Admission{
			PackageDigest: fleet.DigestBytes(archive), Package: archive, Version: r.version, Findings: json.RawMessage(`[]`),
			Evidence: evidence, TrustRevision: 1, EvaluatorVersion: "sim", EvaluatedAt: w.began, Actor: "sim", Reason: "sim",
		},
	}
	for _, p := range places() {
		p.declare(&set, r, kind)
	}
	if _, err := w.registry.Apply(w.ctx, set, 0); err != nil {
		panic(err)
	}
}

// declare adds a replica, and with the first of an account the account and its bindings.
func (p place) declare(set *registry.ChangeSet, r release, kind fleet.TypeID) {
	set.Replicas = append(set.Replicas, fleet.Replica{
		ID: p.replica, Instance: p.instance, Version: r.version, Endpoint: p.endpoint(), Capacity: capacity,
		Peer: fleet.Peer{
			PrincipalID: "host." + p.replica.String(), PrincipalKind: "service", DID: p.signer().DID().String(),
			TrustDomain: "sim", TransportProfile: "aip-http/1",
		},
		Topology: fleet.Topology{}.WithDefaults(),
	})
	for _, i := range set.Instances {
		if i.ID == p.instance {
			return
		}
	}
	set.Instances = append(set.Instances, fleet.ConnectorInstance{
		ID: p.instance, Type: kind, Tenant: p.tenant, Serving: []fleet.ServingVersion{{Version: r.version, Weight: 1}},
		ConfigRevision: 1, SecretProviderRef: "file:sim", Enabled: true,
	})
	for _, c := range r.manifest.Capabilities {
		set.Bindings = append(set.Bindings, fleet.CapabilityBinding{
			BindingKey: fleet.BindingKey{Tenant: p.tenant, Capability: c.ID, Instance: p.instance}, Priority: 1, PolicyRevision: 1, Enabled: true,
		})
	}
}
