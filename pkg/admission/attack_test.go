package admission_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

var evaluatedAt = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// bench is a genuine package with its keys: every attack starts from it.
type bench struct {
	t        *testing.T
	dir      string
	signers  map[string]sigstore.Signer
	public   map[string]string
	policy   map[string]any
	at       time.Time
	known    admission.Known
	limits   admission.Limits
	bundles  admission.Bundles
	artifact fleet.Digest
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, signers: map[string]sigstore.Signer{}, public: map[string]string{}, at: evaluatedAt, bundles: sigstore.Keyed{}}
	for id, algorithm := range map[string]string{"release": "ed25519", "build": "ecdsa-p256", "other": "ed25519", "stranger": "ed25519"} {
		pair, err := sigstore.GenerateKey(algorithm)
		must(t, err)
		b.signers[id], err = sigstore.NewSigner(pair.Private)
		must(t, err)
		b.public[id] = string(pair.Public)
	}
	b.policy = b.basePolicy()
	b.dir = writeFiles(t, baseFiles())
	b.artifact = fleet.DigestBytes([]byte(artifactBytes))
	b.signAll()
	return b
}

func (b *bench) basePolicy() map[string]any {
	key := func(id string) any {
		return map[string]any{"id": id, "public_key": b.public[id], "not_before": "2026-01-01T00:00:00Z", "not_after": "2027-01-01T00:00:00Z"}
	}
	return map[string]any{
		"format": admission.PolicyFormat,
		"keys":   []any{key("release"), key("build"), key("other")},
		"types":  []any{map[string]any{"type": "ctype_desk", "owners": []any{"desk-team"}, "signers": []any{"release", "build"}}},
		"slots": map[string]any{
			"signature": map[string]any{"signers": []any{"release"}},
			"provenance": map[string]any{
				"signers":  []any{"build"},
				"max_age":  "720h",
				"builders": []any{map[string]any{"signer": "build", "builder_id": "https://builds.example/desk"}},
				"sources":  []any{map[string]any{"repository": "https://git.example/desk", "ref": "refs/tags/v*"}},
			},
			"sbom": map[string]any{"signers": []any{"build"}, "licences": map[string]any{"deny": []any{"AGPL-3.0-only"}}},
		},
		"distinct_signers": []any{[]any{"signature", "provenance"}},
	}
}

func (b *bench) pkg() *admission.Package { return openPackage(b.t, b.dir) }

func (b *bench) signAll() {
	release, err := json.Marshal(b.pkg().ReleaseStatement(evaluatedAt.Add(-time.Hour)))
	must(b.t, err)
	b.write("signature", b.sign("release", b.statement(admission.PredicateRelease, string(release))))
	b.write("provenance", b.sign("build", b.statement(admission.PredicateProvenance, provenance)))
	b.write("sbom", b.sign("build", b.statement(admission.PredicateSPDX, b.sbom())))
}

const provenance = `{
  "buildDefinition": {"buildType": "https://builds.example/type", "externalParameters": {"source": {"repository": "https://git.example/desk", "ref": "refs/tags/v1.0.0"}},
    "resolvedDependencies": [{"uri": "git+https://git.example/desk@refs/tags/v1.0.0", "digest": {"gitCommit": "c0ffee"}}]},
  "runDetails": {"builder": {"id": "https://builds.example/desk"}, "metadata": {"finishedOn": "2026-05-31T12:00:00Z"}}
}`

func (b *bench) sbom() string {
	return `{"spdxVersion": "SPDX-2.3", "SPDXID": "SPDXRef-DOCUMENT", "creationInfo": {"created": "2026-05-31T12:00:00Z"},
	 "documentDescribes": ["SPDXRef-artifact"],
	 "packages": [
	  {"SPDXID": "SPDXRef-artifact", "name": "desk", "checksums": [{"algorithm": "SHA256", "checksumValue": "` + b.artifact.Hex() + `"}]},
	  {"SPDXID": "SPDXRef-lib", "name": "lib", "licenseConcluded": "MIT OR AGPL-3.0-only"}]}`
}

// statement is written by hand, so that attacks can bend it.
func (b *bench) statement(predicateType, predicate string) string {
	return `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"desk","digest":{"sha256":"` + b.artifact.Hex() +
		`"}}],"predicateType":"` + predicateType + `","predicate":` + predicate + `}`
}

func (b *bench) sign(key, statement string) string {
	bundle, err := b.signers[key].SignStatement([]byte(statement))
	must(b.t, err)
	return string(bundle)
}

func (b *bench) write(slot, bundle string) {
	full := filepath.Join(b.dir, "evidence", slot+".sigstore.json")
	must(b.t, os.MkdirAll(filepath.Dir(full), 0o755))
	must(b.t, os.WriteFile(full, []byte(bundle), 0o644))
}

func (b *bench) read(name string) string {
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	must(b.t, err)
	return string(data)
}

// replace changes a file; it fails when there is nothing to change.
func (b *bench) replace(name, from, to string) {
	data := b.read(name)
	changed := strings.Replace(data, from, to, 1)
	if changed == data {
		b.t.Fatalf("%s does not hold %q", name, from)
	}
	must(b.t, os.WriteFile(filepath.Join(b.dir, name), []byte(changed), 0o755))
}

// rule gives a member of a slot's rule to change.
func (b *bench) rule(slot string) map[string]any {
	return b.policy["slots"].(map[string]any)[slot].(map[string]any)
}

func (b *bench) parsePolicy() *admission.Policy {
	data, err := json.Marshal(b.policy)
	must(b.t, err)
	policy, err := admission.ParsePolicy(data)
	must(b.t, err)
	return policy
}

func (b *bench) evaluate() (admission.Verified, []admission.Finding) {
	p, found := admission.ReadPackage(b.dir, b.limits)
	if len(found) > 0 {
		return admission.Verified{}, found
	}
	return admission.Evaluator{Bundles: b.bundles}.Evaluate(admission.Request{
		Package: p, Policy: b.parsePolicy(), TrustRevision: 4, At: b.at, Known: b.known,
	})
}

// attack is one way to get a release admitted that must not be. A bend of the
// signed statement is signed with the genuine key again: the signature is never
// what stops it.
type attack struct {
	name string
	do   func(b *bench)
	want string // code of the finding that must be among them
}

func resigned(slot, key, from, to string) func(*bench) {
	return func(b *bench) {
		var statement string
		switch slot {
		case "signature":
			predicate, err := json.Marshal(b.pkg().ReleaseStatement(evaluatedAt.Add(-time.Hour)))
			must(b.t, err)
			statement = b.statement(admission.PredicateRelease, string(predicate))
		case "provenance":
			statement = b.statement(admission.PredicateProvenance, provenance)
		case "sbom":
			statement = b.statement(admission.PredicateSPDX, b.sbom())
		}
		changed := strings.Replace(statement, from, to, 1)
		if changed == statement {
			b.t.Fatalf("the statement does not hold %q", from)
		}
		b.write(slot, b.sign(key, changed))
	}
}

func attacks() []attack {
	hexOf := func(s string) string { return fleet.DigestBytes([]byte(s)).Hex() }
	genuine, foreign := hexOf(artifactBytes), hexOf("another artifact")
	subject := `[{"name":"desk","digest":{"sha256":"` + genuine + `"}}]`
	return []attack{
		{"artifact swapped after signing", func(b *bench) { b.replace("artifact/desk-mcp", "desk", "dusk") }, "evidence.signature.subject_mismatch"},
		{"manifest changed after signing", func(b *bench) { b.replace("manifest.json", `"write"`, `"read"`) }, "evidence.signature.manifest_mismatch"},
		{"release.yaml changed after signing", func(b *bench) { b.replace("release.yaml", "release_sequence: 3", "release_sequence: 9") }, "evidence.signature.release_disagrees"},
		{"attestation of another artifact", resigned("sbom", "build", genuine, foreign), "evidence.sbom.subject_mismatch"},
		{"attestation swapped between slots", func(b *bench) { b.write("sbom", b.read("evidence/provenance.sigstore.json")) }, "evidence.sbom.predicate_type"},
		{"two subjects", resigned("provenance", "build", subject, subject[:len(subject)-1]+`,{"name":"x","digest":{"sha256":"`+foreign+`"}}]`), "evidence.provenance.subject_count"},
		{"match only in subject 1", resigned("provenance", "build", subject, `[{"name":"x","digest":{"sha256":"`+foreign+`"}},`+subject[1:]), "evidence.provenance.subject_count"},
		{"no subject", resigned("provenance", "build", subject, `[]`), "evidence.provenance.subject_count"},
		{"statement type unknown", resigned("provenance", "build", "Statement/v1", "Statement/v7"), "evidence.provenance.statement_type"},
		{"statement type 0.1 without the policy's word", resigned("provenance", "build", "Statement/v1", "Statement/v0.1"), "evidence.provenance.statement_type"},
		{"predicate type missing", resigned("provenance", "build", `"predicateType":"https://slsa.dev/provenance/v1",`, ""), "evidence.provenance.predicate_type_missing"},
		{"predicate type of another slot", resigned("provenance", "build", "https://slsa.dev/provenance/v1", "https://spdx.dev/Document"), "evidence.provenance.predicate_type"},
		{"publish attestation offered as provenance", resigned("provenance", "build", "https://slsa.dev/provenance/v1", "https://github.com/npm/attestation/tree/main/specs/publish/v0.1"), "evidence.provenance.predicate_type"},
		{"predicate type with another case", resigned("provenance", "build", "slsa.dev/provenance/v1", "slsa.dev/Provenance/v1"), "evidence.provenance.predicate_type"},
		{"custom payload type", customPayloadType, "evidence.provenance.payload_type"},
		{"sha1 alone", resigned("provenance", "build", `"sha256":"`+genuine, `"sha1":"da39a3ee5e6b4b0d3255bfef95601890afd80709`), "evidence.provenance.subject_digest_missing"},
		{"sha256 beside a weaker digest", resigned("provenance", "build", `"digest":{`, `"digest":{"sha1":"da39a3ee5e6b4b0d3255bfef95601890afd80709",`), "evidence.provenance.subject_digest_weak"},
		{"digest in upper case", resigned("provenance", "build", genuine, strings.ToUpper(genuine)), "evidence.provenance.subject_mismatch"},
		{"duplicate key in the payload", resigned("provenance", "build", `{"_type"`, `{"subject":[],"_type"`), "evidence.provenance.statement_malformed"},
		{"duplicate key after unescaping", resigned("provenance", "build", `{"_type"`, `{"s\u0075bject":[],"_type"`), "evidence.provenance.statement_malformed"},
		{"case variant key in the payload", resigned("provenance", "build", `"subject"`, `"SUBJECT"`), "evidence.provenance.statement_malformed"},
		{"case variant key in the predicate", resigned("provenance", "build", `"builder":`, `"Builder":`), "evidence.provenance.predicate_malformed"},
		{"two values in the payload", func(b *bench) {
			b.write("provenance", b.sign("build", b.statement(admission.PredicateProvenance, provenance)+"{}"))
		}, "evidence.provenance.statement_malformed"},
		{"nesting without end", resigned("provenance", "build", `"metadata": {`, `"x": `+strings.Repeat("[", 40)+strings.Repeat("]", 40)+`, "metadata": {`), "evidence.provenance.statement_malformed"},
		{"missing slot", func(b *bench) { must(b.t, os.Remove(filepath.Join(b.dir, "evidence/sbom.sigstore.json"))) }, "evidence.sbom.missing"},
		{"extra slot", func(b *bench) { b.write("approval", b.read("evidence/sbom.sigstore.json")) }, "evidence.extra"},
		{"duplicate slot", func(b *bench) { b.write("sbom.2", b.read("evidence/sbom.sigstore.json")) }, "evidence.sbom.duplicate"},
		{"one key counted twice", func(b *bench) {
			b.rule("sbom")["signers"], b.rule("sbom")["count"] = []any{"build", "release"}, 2
			b.write("sbom.2", b.read("evidence/sbom.sigstore.json"))
		}, "evidence.sbom.signer_repeated"},
		{"one of two documents", func(b *bench) {
			b.rule("sbom")["signers"], b.rule("sbom")["count"] = []any{"build", "release"}, 2
		}, "evidence.sbom.count"},
		{"unknown signer", func(b *bench) {
			b.write("provenance", b.sign("stranger", b.statement(admission.PredicateProvenance, provenance)))
		}, "evidence.provenance.unknown_signer"},
		{"key trusted for slot A in slot B", func(b *bench) {
			b.write("provenance", b.sign("release", b.statement(admission.PredicateProvenance, provenance)))
		}, "evidence.provenance.signer_not_allowed"},
		{"test key signs provenance", func(b *bench) {
			b.rule("provenance")["signers"] = []any{"build", "other"}
			b.write("provenance", b.sign("other", b.statement(admission.PredicateProvenance, provenance)))
		}, "evidence.provenance.signer_not_for_type"},
		{"signer allowed, builder of another signer", func(b *bench) {
			b.rule("provenance")["signers"] = []any{"build", "release"}
			b.write("provenance", b.sign("release", b.statement(admission.PredicateProvenance, provenance)))
		}, "evidence.provenance.builder_not_allowed"},
		{"one key for slots that need two", func(b *bench) {
			b.rule("provenance")["signers"] = []any{"build", "release"}
			b.write("provenance", b.sign("release", b.statement(admission.PredicateProvenance, provenance)))
		}, "evidence.signers_not_distinct"},
		{"signer changed outside the signature", func(b *bench) {
			b.replace("evidence/signature.sigstore.json", b.signers["release"].Hint(), b.signers["build"].Hint())
		}, "evidence.signature.signature_invalid"},
		{"no key named", func(b *bench) {
			b.replace("evidence/signature.sigstore.json", b.signers["release"].Hint(), "")
		}, "evidence.signature.bundle_hint_missing"},
		{"expired key without a timestamp", func(b *bench) { b.at = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC) }, "evidence.signature.key_expired"},
		{"key not valid yet", func(b *bench) { b.at = time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC) }, "evidence.signature.key_not_yet_valid"},
		{"stale provenance", func(b *bench) { b.at = evaluatedAt.Add(31 * 24 * time.Hour) }, "evidence.provenance.too_old"},
		{"provenance from the future", func(b *bench) { b.at = evaluatedAt.Add(-60 * 24 * time.Hour) }, "evidence.provenance.from_the_future"},
		{"provenance without a time", resigned("provenance", "build", "finishedOn", "endedOn"), "evidence.provenance.age_unknown"},
		{"other builder", resigned("provenance", "build", "https://builds.example/desk", "https://builds.example/laptop"), "evidence.provenance.builder_not_allowed"},
		{"other repository", resigned("provenance", "build", `"repository": "https://git.example/desk"`, `"repository": "https://git.example/fork"`), "evidence.provenance.source_not_allowed"},
		{"other branch", resigned("provenance", "build", `"ref": "refs/tags/v1.0.0"`, `"ref": "refs/heads/main"`), "evidence.provenance.source_not_allowed"},
		{"resolved source is another than stated", resigned("provenance", "build", "desk@refs/tags/v1.0.0", "desk@refs/heads/evil"), "evidence.provenance.source_disagrees"},
		{"no source", resigned("provenance", "build", `"source":`, `"origin":`), "evidence.provenance.source_missing"},
		{"source in another case", resigned("provenance", "build", `"repository": "https://git.example/desk"`, `"repository": "https://git.example/desk", "Repository": "https://git.example/fork"`), "evidence.provenance.source_missing"},
		{"unknown external parameter", resigned("provenance", "build", `"externalParameters": {`, `"externalParameters": {"ldflags":"-X main.evil=1",`), "evidence.provenance.external_parameter_unknown"},
		{"bill of another artifact", resigned("sbom", "build", `"checksumValue": "`+genuine, `"checksumValue": "`+foreign), "evidence.sbom.artifact_not_named"},
		{"bill without components", resigned("sbom", "build", `,
	  {"SPDXID": "SPDXRef-lib", "name": "lib", "licenseConcluded": "MIT OR AGPL-3.0-only"}`, ""), "evidence.sbom.empty"},
		{"denied licence", resigned("sbom", "build", "MIT OR AGPL-3.0-only", "MIT AND AGPL-3.0-only"), "evidence.sbom.licence_not_allowed"},
		{"licence not stated", resigned("sbom", "build", "MIT OR AGPL-3.0-only", "NOASSERTION"), "evidence.sbom.licence_unknown"},
		{"old bill format", resigned("sbom", "build", "SPDX-2.3", "SPDX-2.2"), "evidence.sbom.format"},
		{"bare signature as provenance", func(b *bench) { b.write("provenance", b.message("build")) }, "evidence.provenance.not_a_statement"},
		{"bare signature binds no manifest", func(b *bench) {
			b.rule("signature")["signers"] = []any{"build"}
			b.write("signature", b.message("build"))
		}, "manifest.unbound"},
		{"bare signature of another artifact", func(b *bench) {
			b.rule("signature")["signers"] = []any{"build"}
			bundle, err := b.signers["build"].SignMessage(fleet.DigestBytes([]byte("another artifact")))
			must(b.t, err)
			b.write("signature", string(bundle))
		}, "evidence.signature.artifact_mismatch"},
		{"bundle with a log entry", func(b *bench) {
			b.replace("evidence/sbom.sigstore.json", `"verificationMaterial": {`, `"verificationMaterial": {"tlogEntries": [{"logIndex": "1"}],`)
		}, "evidence.sbom.bundle_log_not_evaluated"},
		{"bundle of an unknown version", func(b *bench) {
			b.replace("evidence/sbom.sigstore.json", "bundle.v0.3+json", "bundle.v9.9+json")
		}, "evidence.sbom.bundle_media_type"},
		{"bundle with a duplicate key", func(b *bench) {
			b.replace("evidence/sbom.sigstore.json", `"mediaType"`, `"mediaType": "x", "mediaType"`)
		}, "evidence.sbom.bundle_malformed"},
		{"bundle with two signatures", func(b *bench) {
			b.replace("evidence/sbom.sigstore.json", `"signatures": [`, `"signatures": [{"sig": "AAAA"},`)
		}, "evidence.sbom.bundle_signature_count"},
		{"huge bundle", func(b *bench) {
			b.write("sbom", b.read("evidence/sbom.sigstore.json")+strings.Repeat(" ", 3<<20))
		}, "evidence.sbom.bundle_too_large"},
		{"huge evidence", func(b *bench) { b.write("sbom", strings.Repeat(" ", 9<<20)) }, "package.too_large"},
		{"path leaves the package", func(b *bench) { b.replace("release.yaml", "artifact/desk-mcp", "artifact/../../etc/passwd") }, "release.malformed"},
		{"symlink as evidence", func(b *bench) {
			must(b.t, os.Remove(filepath.Join(b.dir, "evidence/sbom.sigstore.json")))
			must(b.t, os.Symlink("provenance.sigstore.json", filepath.Join(b.dir, "evidence/sbom.sigstore.json")))
		}, "package.link"},
		{"no rule for the connector type", func(b *bench) {
			b.policy["types"].([]any)[0].(map[string]any)["type"] = "ctype_invoice"
		}, "release.type_not_allowed"},
		{"other owner", func(b *bench) {
			b.policy["types"].([]any)[0].(map[string]any)["owners"] = []any{"someone-else"}
		}, "release.owner_not_allowed"},
		{"type belongs to somebody else", func(b *bench) {
			id, err := fleet.ParseTypeID("ctype_desk")
			must(b.t, err)
			b.known.Type = &fleet.ConnectorType{ID: id, Name: "desk", Owner: "invoice-team", Enabled: true}
		}, "release.type_mismatch"},
		{"older genuine release replayed", func(b *bench) { b.known.Versions = []fleet.ConnectorVersion{{Version: "1.1.0", ReleaseSequence: 4}} }, "release.sequence_replayed"},
		{"same sequence again", func(b *bench) { b.known.Versions = []fleet.ConnectorVersion{{Version: "1.1.0", ReleaseSequence: 3}} }, "release.sequence_replayed"},
		{"version text reused", func(b *bench) { b.known.Versions = []fleet.ConnectorVersion{{Version: "1.0.0", ReleaseSequence: 1}} }, "release.version_taken"},
		{"artifact reused under a new version", func(b *bench) {
			b.known.Versions = []fleet.ConnectorVersion{{Version: "0.9.0", ReleaseSequence: 1, ArtifactDigest: b.artifact}}
		}, "artifact.already_admitted"},
		{"remote reference in a schema", func(b *bench) {
			b.replace("manifest.json", `"input_schema": {"type": "object"}`, `"input_schema": {"$ref": "https://evil.example/schema.json"}`)
		}, "manifest.schema_remote_ref"},
		{"file reference in a schema", func(b *bench) {
			b.replace("manifest.json", `"input_schema": {"type": "object"}`, `"input_schema": {"$ref": "file:///etc/passwd"}`)
		}, "manifest.schema_remote_ref"},
		{"schema that does not compile", func(b *bench) {
			b.replace("manifest.json", `"input_schema": {"type": "object"}`, `"input_schema": {"type": "objekt"}`)
		}, "manifest.schema_invalid"},
		{"adapter that no host has", func(b *bench) { b.replace("manifest.json", `"adapter": "mcp"`, `"adapter": "shell"`) }, "manifest.adapter_unknown"},
		{"two capabilities of one tool name", func(b *bench) {
			data := strings.ReplaceAll(b.read("manifest.json"), "desk:read", "desk_open")
			must(b.t, os.WriteFile(filepath.Join(b.dir, "manifest.json"), []byte(data), 0o600))
		}, "manifest.tool_name_taken"},
		{"manifest of another version", func(b *bench) { b.replace("manifest.json", `"version": "1.0.0"`, `"version": "1.0.1"`) }, "manifest.version_mismatch"},
		{"deployment of another type", func(b *bench) {
			must(b.t, os.WriteFile(filepath.Join(b.dir, "deployment.yaml"), []byte("instances:\n  - {id: cinst_a, type_id: ctype_invoice, tenant_id: t}\n"), 0o600))
		}, "deployment.other_type"},
	}
}

// customPayloadType signs genuine bytes under a payload type of the attacker.
func customPayloadType(b *bench) {
	b.replace("evidence/provenance.sigstore.json", admission.PayloadInToto, "application/json")
	b.bundles = anySignature{sigstore.Keyed{}}
}

// anySignature is cryptography that takes every signature: what an attack meets
// when its own key is a trusted one.
type anySignature struct{ sigstore.Keyed }

func (anySignature) Verify(admission.Bundle, admission.Key) error { return nil }

func (b *bench) message(key string) string {
	bundle, err := b.signers[key].SignMessage(b.artifact)
	must(b.t, err)
	return string(bundle)
}

// TestAttack defends G33 and G34: each attack is refused, and for its own reason.
func TestAttack(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range attacks() {
		if seen[a.name] {
			t.Fatalf("two attacks are called %s", a.name)
		}
		seen[a.name] = true
		t.Run("G33_G34/"+a.name, func(t *testing.T) {
			b := newBench(t)
			a.do(b)
			verified, found := b.evaluate()
			if !slices.Contains(codes(found), a.want) {
				t.Fatalf("want %s, findings: %v", a.want, found)
			}
			if _, err := verified.ChangeSet("a", "r"); fleet.CodeOf(err) != "admission.not_verified" {
				t.Errorf("a refused package gave a change set: %v", err)
			}
			for _, f := range found {
				if f.Place == "" || f.What == "" || f.Satisfy == "" {
					t.Errorf("finding without place, what or satisfy: %+v", f)
				}
			}
		})
	}
}

// TestAttack_G33_GenuinePackagePasses keeps the table honest: without an attack
// there is no finding.
func TestAttack_G33_GenuinePackagePasses(t *testing.T) {
	b := newBench(t)
	verified, found := b.evaluate()
	if len(found) > 0 {
		t.Fatalf("the genuine package is refused: %v", found)
	}
	set, err := verified.ChangeSet("operator:test", "because")
	must(t, err)
	v := set.Versions[0]
	if v.ArtifactDigest != b.artifact || v.Status != fleet.VersionAdmitted || !v.Attestation.Qualified || v.Attestation.TrustRevision != 4 {
		t.Errorf("version %+v", v)
	}
	if v.Attestation.Signers["provenance"] != "build" || len(set.Admission.Evidence) != 3 || len(set.Admission.Package) == 0 {
		t.Errorf("attestation %+v, journal %+v", v.Attestation, set.Admission)
	}
}

// TestAttack_G33_WithoutTheCheckItIsAdmitted tests the table itself: attacks whose
// only defence is the signature get through when signatures are not checked.
func TestAttack_G33_WithoutTheCheckItIsAdmitted(t *testing.T) {
	b := newBench(t)
	b.replace("evidence/signature.sigstore.json", `"sig": "`, `"sig": "AAAA`)
	if _, found := b.evaluate(); !slices.Contains(codes(found), "evidence.signature.signature_invalid") {
		t.Fatalf("a broken signature gives %v", found)
	}
	b.bundles = anySignature{sigstore.Keyed{}}
	if _, found := b.evaluate(); len(found) > 0 {
		t.Errorf("only the signature was broken, and yet: %v", found)
	}
}
