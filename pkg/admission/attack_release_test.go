package admission_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	layout "oras.land/oras-go/v2/content/oci"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/oci"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/memory"
)

func releaseAttacks() []attack {
	known := func(v fleet.ConnectorVersion) func(*bench) {
		return func(b *bench) {
			if v.ArtifactDigest.IsZero() && v.ReleaseSequence == 99 {
				v.ArtifactDigest, v.ReleaseSequence = b.artifact, 1
			}
			b.known.Versions = []fleet.ConnectorVersion{v}
		}
	}
	return []attack{
		{name: "no rule for the connector type", do: func(b *bench) {
			b.policy["types"].([]any)[0].(object)["type"] = "ctype_invoice"
		}, want: "release.type_not_allowed"},
		{name: "other owner", do: func(b *bench) {
			b.policy["types"].([]any)[0].(object)["owners"] = []any{"someone-else"}
		}, want: "release.owner_not_allowed"},
		{name: "type belongs to somebody else", do: func(b *bench) {
			b.known.Type = &fleet.ConnectorType{ID: b.pkg().Release().Type.ID, Name: "desk", Owner: "invoice-team", Enabled: true}
		}, want: "release.type_mismatch"},
		{name: "disabled type", do: func(b *bench) {
			b.known.Type = &fleet.ConnectorType{ID: b.pkg().Release().Type.ID, Name: "desk", Owner: "desk-team"}
		}, want: "release.type_disabled"},
		{name: "older genuine release replayed", do: known(fleet.ConnectorVersion{Version: "1.1.0", ReleaseSequence: 4}), want: "release.sequence_replayed"},
		{name: "same sequence again", do: known(fleet.ConnectorVersion{Version: "1.1.0", ReleaseSequence: 3}), want: "release.sequence_replayed"},
		{name: "version text reused", do: known(fleet.ConnectorVersion{Version: "1.0.0", ReleaseSequence: 1}), want: "release.version_taken"},
		{name: "version id reused", do: func(b *bench) {
			known(fleet.ConnectorVersion{ID: b.pkg().Release().VersionID, Version: "0.9.0", ReleaseSequence: 1})(b)
		}, want: "release.version_id_taken"},
		{name: "artifact reused under a new version", do: known(fleet.ConnectorVersion{Version: "0.9.0", ReleaseSequence: 99}), want: "artifact.already_admitted"},
		{name: "package valid but version revoked", do: func(b *bench) {
			b.settle()
			known(fleet.ConnectorVersion{
				Version: "1.0.0", ReleaseSequence: 3, Status: fleet.VersionRevoked, Attestation: fleet.Attestation{PackageDigest: b.pkg().Digest()},
			})(b)
		}, want: "release.version_revoked"},
	}
}

func manifestAttacks() []attack {
	schema := func(name, to, code string) attack {
		return attack{name: name, do: func(b *bench) {
			b.replace("manifest.json", `"input_schema": {"type": "object"}`, `"input_schema": `+to)
			b.signAll()
		}, want: code}
	}
	return []attack{
		schema("remote reference in a schema", `{"$ref": "https://evil.example/schema.json"}`, "manifest.schema_remote_ref"),
		schema("file reference in a schema", `{"$ref": "file:///etc/passwd"}`, "manifest.schema_remote_ref"),
		schema("schema that does not compile", `{"type": "objekt"}`, "manifest.schema_invalid"),
		{name: "adapter that no host has", do: func(b *bench) {
			b.replace("manifest.json", `"adapter": "mcp"`, `"adapter": "shell"`)
			b.signAll()
		}, want: "manifest.adapter_unknown"},
		{name: "two capabilities of one tool name", do: func(b *bench) {
			data := strings.ReplaceAll(b.read("manifest.json"), "desk:read", "desk_open")
			must(b.t, os.WriteFile(filepath.Join(b.dir, "manifest.json"), []byte(data), 0o600))
			b.signAll()
		}, want: "manifest.tool_name_taken"},
		{name: "manifest of another version", do: func(b *bench) {
			b.replace("manifest.json", `"version": "1.0.0"`, `"version": "1.0.1"`)
			b.signAll()
		}, want: "manifest.version_mismatch"},
		{name: "deployment of another type", do: func(b *bench) {
			must(b.t, os.WriteFile(filepath.Join(b.dir, "deployment.yaml"), []byte("instances:\n  - {id: cinst_a, type_id: ctype_invoice, tenant_id: t}\n"), 0o600))
		}, want: "deployment.other_type"},
		{name: "deployment with a member of unknown meaning", do: func(b *bench) {
			must(b.t, os.WriteFile(filepath.Join(b.dir, "deployment.yaml"), []byte("grants: [everything]\n"), 0o600))
		}, want: "deployment.malformed"},
	}
}

// list is a revocation list that names the given things.
func (b *bench) list(number uint64, entries ...registry.RevocationEntry) *admission.RevocationList {
	return &admission.RevocationList{Format: admission.RevocationsFormat, Number: number, IssuedAt: b.at.Add(-time.Hour).Truncate(time.Second), Entries: entries}
}

func (b *bench) revoke(kind registry.RevocationKind, value string) {
	b.revocations = b.list(2, registry.RevocationEntry{Kind: kind, Value: value, Reason: "lost"})
}

// signedList signs a list as somebody.
func (b *bench) signedList(key string, l *admission.RevocationList) []byte {
	payload, err := l.Payload()
	must(b.t, err)
	raw, err := b.signers[key].SignPayload(admission.PayloadRevocations, payload)
	must(b.t, err)
	return raw
}

func revocationAttacks() []attack {
	open := func(name, want string, do func(b *bench) (document []byte, earlier *admission.RevocationList)) attack {
		return attack{name: name, want: want, instead: func(b *bench) []string {
			document, earlier := do(b)
			_, found := b.evaluator.OpenRevocations(document, b.parsePolicy(), earlier, b.at)
			broken, still := b.evaluator.Without(want).OpenRevocations(document, b.parsePolicy(), earlier, b.at)
			if len(still) == 0 && broken == nil && len(found) == 0 {
				b.t.Errorf("the list was neither taken nor refused")
			}
			return codes(found)
		}}
	}
	return []attack{
		{name: "revoked package", do: func(b *bench) {
			b.settle()
			b.revoke(registry.RevokePackage, b.pkg().Digest().String())
			b.touched["approval"] = true
		}, want: "revocation.package_revoked"},
		{name: "revoked artifact", do: func(b *bench) { b.revoke(registry.RevokeArtifact, b.artifact.String()) }, want: "revocation.artifact_revoked"},
		{name: "revoked manifest", do: func(b *bench) { b.revoke(registry.RevokeManifest, b.pkg().ManifestDigest().String()) }, want: "revocation.manifest_revoked"},
		{name: "revoked version", do: func(b *bench) { b.revoke(registry.RevokeVersion, "cver_desk1") }, want: "revocation.version_revoked"},
		{name: "revoked evidence", do: func(b *bench) {
			b.revoke(registry.RevokeEvidence, fleet.DigestBytes([]byte(b.read("evidence/sbom.sigstore.json"))).String())
		}, want: "revocation.evidence_revoked"},
		{name: "revoked signer", do: func(b *bench) { b.revoke(registry.RevokeSigner, "build") }, want: "revocation.signer_revoked"},
		{name: "no revocation list where one is required", do: func(b *bench) { b.policy["revocation"].(object)["required"] = true }, want: "revocation.missing"},
		{name: "stale revocation list", do: func(b *bench) {
			b.revocations = b.list(1)
			b.revocations.IssuedAt = b.at.Add(-1000 * time.Hour)
		}, want: "revocation.stale"},
		open("revocation list by a stranger", "revocation.unknown_signer", func(b *bench) ([]byte, *admission.RevocationList) { return b.signedList("stranger", b.list(1)), nil }),
		open("revocation list by who may not", "revocation.signer_not_allowed", func(b *bench) ([]byte, *admission.RevocationList) { return b.signedList("bob", b.list(1)), nil }),
		open("revocation list rolled back", "revocation.rolled_back", func(b *bench) ([]byte, *admission.RevocationList) {
			return b.signedList("alice", b.list(1)), b.list(2)
		}),
		open("revocation list that forgets", "revocation.entry_dropped", func(b *bench) ([]byte, *admission.RevocationList) {
			return b.signedList("alice", b.list(2)), b.list(1, registry.RevocationEntry{Kind: registry.RevokeSigner, Value: "build", Reason: "r"})
		}),
		open("statement offered as a revocation list", "revocation.payload_type", func(b *bench) ([]byte, *admission.RevocationList) {
			return []byte(b.sign("alice", `{"format":"aipfleet.revocations/v1","number":1}`)), nil
		}),
		open("revocation list changed after signing", "revocation.signature_invalid", func(b *bench) ([]byte, *admission.RevocationList) {
			return []byte(strings.Replace(string(b.signedList("alice", b.list(1))), `"payload": "eyJ`, `"payload": "eyK`, 1)), nil
		}),
		open("revocation list with an entry of unknown kind", "revocation.malformed", func(b *bench) ([]byte, *admission.RevocationList) {
			return b.signedList("alice", b.list(1, registry.RevocationEntry{Kind: "colour", Value: "red", Reason: "r"})), nil
		}),
	}
}

// registryAttacks are on the way from a verified package into the registry.
func registryAttacks() []attack {
	return []attack{
		{name: "trust root rolled back", want: "trust.rolled_back", instead: func(b *bench) []string {
			b.policy["serial"] = 7
			inForce := b.parsePolicy()
			b.policy["serial"] = 6
			return []string{fleet.CodeOf(b.parsePolicy().Follows(inForce))}
		}},
		{name: "trust revision that repeats an old number", want: "publish.trust_number", instead: func(b *bench) []string {
			r := b.registry()
			b.applyTrust(r, 1)
			_, err := r.Apply(context.Background(), b.trustSet(1), 1)
			return []string{fleet.CodeOf(err)}
		}},
		{name: "release evaluated under an older trust revision", want: "publish.trust_revision", instead: func(b *bench) []string {
			r := b.registry()
			b.applyTrust(r, 1)
			b.applyTrust(r, 2)
			b.trust = 1
			verified, found := b.evaluate()
			if len(found) > 0 {
				b.t.Fatal(found)
			}
			set, err := verified.ChangeSet("a", "r")
			must(b.t, err)
			_, err = r.Apply(context.Background(), set, 2)
			return []string{fleet.CodeOf(err)}
		}},
		{name: "referrer present but forged", want: "evidence.sbom.unknown_signer", instead: func(b *bench) []string {
			_, found := b.throughRegistry("sbom", b.sign("stranger", b.genuine("sbom")))
			return codes(found)
		}},
		{name: "genuine referrer of another release", want: "evidence.sbom.duplicate", instead: func(b *bench) []string {
			other := strings.ReplaceAll(b.genuine("sbom"), genuineHex(), foreignHex())
			_, found := b.throughRegistry("sbom", b.sign("build", other))
			return codes(found)
		}},
		{name: "package changed between plan and apply", want: "admit.package_changed", instead: func(b *bench) []string {
			b.settle()
			planned := b.pkg().Digest()
			b.replace("evidence/sbom.sigstore.json", "\n", "\n\n")
			return []string{fleet.CodeOf(b.pkg().Planned(planned))}
		}},
		{name: "registry moved between plan and apply", want: "publish.revision_moved", instead: func(b *bench) []string {
			r := b.registry()
			b.applyTrust(r, 1)
			b.trust = 1
			verified, found := b.evaluate()
			if len(found) > 0 {
				b.t.Fatal(found)
			}
			set, err := verified.ChangeSet("a", "r")
			must(b.t, err)
			plan, err := r.Preview(context.Background(), set)
			must(b.t, err)
			b.applyTrust(r, 2)
			_, err = r.Apply(context.Background(), set, plan.Before)
			return []string{fleet.CodeOf(err)}
		}},
	}
}

func (b *bench) registry() *memory.Registry {
	return memory.New(memory.Config{RingKey: make([]byte, 32), CursorKey: make([]byte, 32), Now: func() time.Time { return b.at }})
}

func (b *bench) trustSet(number uint64) registry.ChangeSet {
	b.policy["serial"] = number
	p := b.parsePolicy()
	return registry.ChangeSet{Actor: "a", Reason: "r", Trust: &registry.TrustRevision{
		Number: number, Digest: p.Digest(), Document: p.Document(), Actor: "a", Reason: "r",
	}}
}

func (b *bench) applyTrust(r *memory.Registry, number uint64) {
	_, err := r.Apply(context.Background(), b.trustSet(number), number-1)
	must(b.t, err)
}

// throughRegistry pushes the package, attaches one referrer more to it, and evaluates
// what comes back.
func (b *bench) throughRegistry(slot, bundle string) (admission.Verified, []admission.Finding) {
	ctx := context.Background()
	b.settle()
	store, err := layout.New(b.t.TempDir())
	must(b.t, err)
	pushed, err := oci.Push(ctx, b.dir, store, "v1")
	must(b.t, err)
	about, err := store.Resolve(ctx, pushed.Digest)
	must(b.t, err)
	layer, err := oras.PushBytes(ctx, store, oci.BundleType, []byte(bundle))
	must(b.t, err)
	_, err = oras.PackManifest(ctx, store, oras.PackManifestVersion1_1, oci.BundleType, oras.PackManifestOptions{
		Subject: &about, Layers: []ocispec.Descriptor{layer}, ManifestAnnotations: map[string]string{"com.github.aipfleet.evidence": slot},
	})
	must(b.t, err)
	b.dir = filepath.Join(b.t.TempDir(), "pulled")
	_, err = oci.Pull(ctx, store, "v1", b.dir, admission.Limits{})
	must(b.t, err)
	return b.evaluator.Evaluate(b.request(b.pkg()))
}
