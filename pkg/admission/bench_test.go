package admission_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

var evaluatedAt = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// bench is a genuine package, all six slots filled, with its keys: every attack
// starts from it. What one document says of another is kept in step, so that an
// attack meets the check it is about and not a neighbour, unless it touches both.
type bench struct {
	t           testing.TB
	dir         string
	signers     map[string]sigstore.Signer
	public      map[string]string
	policy      map[string]any
	at          time.Time
	trust       uint64
	known       admission.Known
	limits      admission.Limits
	evaluator   admission.Evaluator
	revocations *admission.RevocationList
	artifact    fleet.Digest
	touched     map[string]bool
	cloud       *cloud
}

func newBench(t testing.TB) *bench { return newBenchAt(t, evaluatedAt) }

func newBenchAt(t testing.TB, at time.Time) *bench {
	t.Helper()
	b := &bench{
		t: t, at: at, trust: 4, evaluator: admission.Evaluator{Bundles: sigstore.Verifier{}}, touched: map[string]bool{},
	}
	pairs, err := keys()
	must(t, err)
	b.signers, b.public = pairs.signers, pairs.public
	b.policy = b.basePolicy()
	b.dir = writeFiles(t, baseFiles())
	b.artifact = fleet.DigestBytes([]byte(artifactBytes))
	b.signAll()
	return b
}

// keyring is every key of the fixtures; keys are made once for all tests.
type keyring struct {
	signers map[string]sigstore.Signer
	public  map[string]string
}

var keys = sync.OnceValues(func() (keyring, error) {
	ring := keyring{signers: map[string]sigstore.Signer{}, public: map[string]string{}}
	for id, algorithm := range map[string]string{
		"release": "ed25519", "build": "ecdsa-p256", "other": "ed25519", "stranger": "ed25519", "scan": "ed25519",
		"runner": "ed25519", "alice": "ed25519", "bob": "ed25519", "carol": "ed25519", "vex": "ed25519",
	} {
		pair, err := sigstore.GenerateKey(algorithm)
		if err != nil {
			return ring, err
		}
		if ring.signers[id], err = sigstore.NewSigner(pair.Private); err != nil {
			return ring, err
		}
		ring.public[id] = string(pair.Public)
	}
	return ring, nil
})

type object = map[string]any

func (b *bench) basePolicy() object {
	var keys []any
	for _, id := range []string{"release", "build", "other", "scan", "runner", "alice", "bob", "carol", "vex"} {
		keys = append(keys, object{"id": id, "public_key": b.public[id], "not_before": b.stamp(-3600), "not_after": b.stamp(3600)})
	}
	return object{
		"format": admission.PolicyFormat,
		"keys":   keys,
		"types": []any{object{"type": "ctype_desk", "owners": []any{"desk-team"}, "signers": []any{
			"release", "build", "scan", "runner", "alice", "bob", "carol", "vex",
		}}},
		"slots": object{
			"signature": object{"signers": []any{"release"}},
			"provenance": object{
				"signers":  []any{"build"},
				"max_age":  "720h",
				"builders": []any{object{"signer": "build", "builder_id": "https://builds.example/desk"}},
				"sources":  []any{object{"repository": "https://git.example/desk", "ref": "refs/tags/v*"}},
			},
			"sbom":          object{"signers": []any{"build"}, "licences": object{"deny": []any{"AGPL-3.0-only"}}},
			"vulnerability": object{"signers": []any{"scan"}, "refuse": "high", "max_age": "168h", "vex_signers": []any{"vex"}},
			"conformance":   object{"signers": []any{"runner"}, "required": []any{"starts", "repeats"}, "max_age": "720h"},
			"approval":      object{"signers": []any{"alice", "bob", "carol"}, "count": 2, "max_age": "720h"},
		},
		"distinct_signers": []any{[]any{"signature", "provenance"}, []any{"approval", "signature"}},
		"revocation":       object{"signers": []any{"alice"}, "max_age": "720h"},
	}
}

// stamp is a time some hours from the evaluation.
func (b *bench) stamp(hours int) string {
	return b.at.Add(time.Duration(hours) * time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339)
}

func (b *bench) pkg() *admission.Package {
	b.t.Helper()
	p, found := admission.ReadPackage(b.dir, b.limits)
	if len(found) > 0 {
		b.t.Fatalf("package refused: %v", found)
	}
	return p
}

func (b *bench) signAll() {
	for _, slot := range []string{"signature", "provenance", "sbom", "vulnerability", "conformance", "approval"} {
		b.fill(slot)
	}
	clear(b.touched)
}

// fill writes a slot's genuine evidence.
func (b *bench) fill(slot string) {
	if slot == "approval" {
		b.write("approval", b.sign("alice", b.genuine("approval")))
		b.write("approval.2", b.sign("bob", b.genuine("approval")))
		return
	}
	signer := map[string]string{"signature": "release", "provenance": "build", "sbom": "build", "vulnerability": "scan", "conformance": "runner"}
	b.write(slot, b.sign(signer[slot], b.genuine(slot)))
}

// genuine is the statement of a slot, written by hand so that attacks can bend it.
func (b *bench) genuine(slot string) string {
	switch slot {
	case "signature":
		predicate, err := json.Marshal(b.pkg().ReleaseStatement(b.at.Add(-time.Hour)))
		must(b.t, err)
		return b.statement(admission.PredicateRelease, string(predicate))
	case "provenance":
		return b.statement(admission.PredicateProvenance, b.provenance())
	case "sbom":
		return b.statement(admission.PredicateSPDX, b.sbom())
	case "vulnerability":
		return b.statement(admission.PredicateScan, b.scan(grypeReport))
	case "conformance":
		manifest := `,{"name":"manifest.json","digest":{"sha256":"` + b.pkg().ManifestDigest().Hex() + `"}}],"predicateType"`
		return strings.Replace(b.statement(admission.PredicateTestResult, b.tests()), `],"predicateType"`, manifest, 1)
	case "approval":
		return b.statement(admission.PredicateApproval, b.approval())
	}
	b.t.Fatalf("slot %s", slot)
	return ""
}

func (b *bench) provenance() string {
	return `{
  "buildDefinition": {"buildType": "https://builds.example/type", "externalParameters": {"source": {"repository": "https://git.example/desk", "ref": "refs/tags/v1.0.0"}},
    "resolvedDependencies": [{"uri": "git+https://git.example/desk@refs/tags/v1.0.0", "digest": {"gitCommit": "c0ffee"}}]},
  "runDetails": {"builder": {"id": "https://builds.example/desk"}, "metadata": {"finishedOn": "` + b.stamp(-24) + `"}}
}`
}

func (b *bench) sbom() string {
	return `{"spdxVersion": "SPDX-2.3", "SPDXID": "SPDXRef-DOCUMENT", "creationInfo": {"created": "` + b.stamp(-24) + `"},
	 "documentDescribes": ["SPDXRef-artifact"],
	 "packages": [
	  {"SPDXID": "SPDXRef-artifact", "name": "desk", "checksums": [{"algorithm": "SHA256", "checksumValue": "` + b.artifact.Hex() + `"}]},
	  {"SPDXID": "SPDXRef-lib", "name": "lib", "licenseConcluded": "MIT OR AGPL-3.0-only"}]}`
}

const grypeReport = `{"descriptor": {"name": "grype"}, "matches": [{"vulnerability": {"id": "GHSA-1", "severity": "Low"},
 "relatedVulnerabilities": [{"id": "CVE-2026-1"}], "artifact": {"name": "lib", "version": "1.0", "purl": "pkg:golang/lib@1.0"}}]}`

// scan wraps a scanner's report, bound to the bill that is in the package now.
func (b *bench) scan(report string) string {
	format := admission.ScanFormat(json.RawMessage(report))
	return `{"format": "` + format + `", "sbom_digest": "` + b.sbomDigest().String() + `", "scanned_at": "` + b.stamp(-2) + `", "report": ` + report + `}`
}

func (b *bench) sbomDigest() fleet.Digest {
	bundle, err := sigstore.Verifier{}.Parse([]byte(b.read("evidence/sbom.sigstore.json")))
	if err != nil || bundle.Statement == nil {
		return b.artifact // an attack spoiled it
	}
	digest, err := admission.PredicateDigest(bundle.Statement.Payload)
	if err != nil {
		return b.artifact
	}
	return digest
}

func (b *bench) tests() string {
	return `{"result": "PASSED", "configuration": [{"name": "` + admission.ConformanceRunner + `", "annotations": {"finishedOn": "` + b.stamp(-3) + `"}}], "passedTests": ["starts", "repeats", "drains"]}`
}

func (b *bench) approval() string {
	data, err := json.Marshal(admission.Approval{
		PackageDigest: b.pkg().ApprovalDigest(), PolicyDigest: b.parsePolicy().Digest(), TrustRevision: b.trust, ApprovedAt: b.at.Add(-time.Hour).Truncate(time.Second),
	})
	must(b.t, err)
	return string(data)
}

func (b *bench) statement(predicateType, predicate string) string {
	return `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"desk","digest":{"sha256":"` + b.artifact.Hex() +
		`"}}],"predicateType":"` + predicateType + `","predicate":` + predicate + `}`
}

func (b *bench) sign(key, statement string) string {
	bundle, err := b.signers[key].SignStatement([]byte(statement))
	must(b.t, err)
	return string(bundle)
}

func (b *bench) message(key string, digest fleet.Digest) string {
	bundle, err := b.signers[key].SignMessage(digest)
	must(b.t, err)
	return string(bundle)
}

func (b *bench) write(slot, bundle string) {
	full := filepath.Join(b.dir, "evidence", slot+".sigstore.json")
	must(b.t, os.MkdirAll(filepath.Dir(full), 0o755))
	must(b.t, os.WriteFile(full, []byte(bundle), 0o644))
	name, _, _ := strings.Cut(slot, ".")
	b.touched[name] = true
}

func (b *bench) remove(slot string) {
	must(b.t, os.Remove(filepath.Join(b.dir, "evidence", slot+".sigstore.json")))
	name, _, _ := strings.Cut(slot, ".")
	b.touched[name] = true
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
	if slot, ok := strings.CutPrefix(name, "evidence/"); ok {
		slot, _, _ = strings.Cut(slot, ".")
		b.touched[slot] = true
	}
}

// rule gives a slot's rule to change.
func (b *bench) rule(slot string) object { return b.policy["slots"].(object)[slot].(object) }

func (b *bench) parsePolicy() *admission.Policy {
	data, err := json.Marshal(b.policy)
	must(b.t, err)
	policy, err := admission.ParsePolicy(data)
	must(b.t, err)
	return policy
}

// settle renews what an attack left alone but for what it is bound to.
func (b *bench) settle() {
	if _, found := admission.ReadPackage(b.dir, b.limits); len(found) > 0 {
		return
	}
	if b.touched["sbom"] && !b.touched["vulnerability"] {
		b.fill("vulnerability")
	}
	if !b.touched["approval"] {
		b.fill("approval")
	}
}

func (b *bench) request(p *admission.Package) admission.Request {
	return admission.Request{Package: p, Policy: b.parsePolicy(), TrustRevision: b.trust, Revocations: b.revocations, At: b.at, Known: b.known}
}

func (b *bench) evaluate() (admission.Verified, []admission.Finding) {
	b.settle()
	p, found := admission.ReadPackage(b.dir, b.limits)
	if len(found) > 0 {
		return admission.Verified{}, found
	}
	return b.evaluator.Evaluate(b.request(p))
}

// bent signs a bent copy of a slot's genuine statement with the genuine key: the
// signature is never what stops it.
func bent(slot, key, from, to string) func(*bench) {
	return func(b *bench) {
		statement := b.genuine(slot)
		changed := strings.Replace(statement, from, to, 1)
		if changed == statement {
			b.t.Fatalf("the statement does not hold %q:\n%s", from, statement)
		}
		b.write(slot, b.sign(key, changed))
	}
}
