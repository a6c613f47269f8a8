package admission_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/admission"
)

// readSigstore reads a file that ships with sigstore-go.
func readSigstore(t *testing.T, name string) []byte {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/sigstore/sigstore-go").Output()
	must(t, err)
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), filepath.FromSlash(name)))
	must(t, err)
	return data
}

// realProvenance is a real build's provenance, with what its statement says.
type realProvenance struct {
	file, sha512                              string
	issuer, subject, builder, repository, ref string
	certificateLogs                           int
}

func realProvenances() map[string]realProvenance {
	const bundles = "pkg/testing/data/bundles/"
	return map[string]realProvenance{
		"SLSA v1 by a workflow": {
			file:   bundles + "sigstore.js@2.0.0-provenance.sigstore.json",
			sha512: "46d4e2f74c4877316640000a6fdf8a8b59f1e0847667973e9859f774dd31b8f1e0937813b777fb66a2ac67d50540fe34640966eee9fc2ccca387082b4c85cd3c",
			issuer: "https://token.actions.githubusercontent.com", subject: "https://github.com/sigstore/sigstore-js/.github/workflows/release.yml@refs/heads/*",
			builder: "https://github.com/actions/runner/github-hosted", repository: "https://github.com/sigstore/sigstore-js", ref: "refs/heads/main", certificateLogs: 1,
		},
		"SLSA v0.2 by a person": {
			file:   bundles + "dsse.sigstore.json",
			sha512: "bbfd372fc9beeb777fe35d05bb10c0c70a9733d366a75fed7dd18866c7391de3ee7e88ba74dd47abf3e15c845e547fcf0e5c3da80854c751554224d3a6d4e55f",
			issuer: "https://github.com/login/oauth", subject: "brian@dehamer.com",
			builder: "https://github.com/npm/slsa-provenance@0.0.1", repository: "https://github.com/github/slsa-provenance", ref: "refs/heads/demo", certificateLogs: 1,
		},
	}
}

// realBench is a package whose artifact is the one that the real provenance is
// about, under a policy for those who really made it.
func realBench(t *testing.T, r realProvenance) *bench {
	t.Helper()
	b := newBenchAt(t, time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC))
	for _, slot := range []string{"sbom", "vulnerability", "conformance", "approval"} {
		delete(b.policy["slots"].(object), slot)
	}
	b.policy["distinct_signers"] = []any{[]any{"signature", "provenance"}}
	var trusted any
	must(t, json.Unmarshal(readSigstore(t, "pkg/testing/data/trusted-roots/public-good.json"), &trusted))
	b.policy["roots"] = []any{object{"id": "public", "trusted_root": trusted, "log_entries": 1, "timestamps": 1, "certificate_logs": r.certificateLogs}}
	b.policy["identities"] = []any{object{"id": "real", "root": "public", "issuer": r.issuer, "subject": r.subject}}
	b.policy["statement_types"] = []any{admission.StatementV1, admission.StatementV01}
	b.policy["types"].([]any)[0].(object)["signers"] = []any{"release", "real"}
	b.policy["slots"].(object)["provenance"] = object{
		"signers": []any{"real"}, "subject_digests": []any{"sha512"}, "max_age": "87600h",
		"builders": []any{object{"signer": "real", "builder_id": r.builder}},
		"sources":  []any{object{"repository": r.repository, "ref": r.ref}},
	}
	for _, name := range []string{"sbom", "vulnerability", "conformance", "approval", "approval.2"} {
		b.remove(name)
	}
	b.write("provenance", string(readSigstore(t, r.file)))
	return b
}

// judge evaluates the package as the registry would keep it.
func (b *bench) judge(sha512 string) []admission.Finding {
	p, err := b.pkg().WithArtifact(b.artifact, sha512)
	must(b.t, err)
	stored, found := admission.ReadArchive(p.Archive(), admission.Limits{})
	if len(found) > 0 {
		return found
	}
	_, found = b.evaluator.Evaluate(b.request(stored))
	return found
}

// TestPublic_G33_ReleaseWithRealProvenanceIsVerifiedOffline: the real public bundles
// that ship with sigstore-go pass every check under a policy for those who made them.
func TestPublic_G33_ReleaseWithRealProvenanceIsVerifiedOffline(t *testing.T) {
	for name, r := range realProvenances() {
		t.Run(name, func(t *testing.T) {
			if found := realBench(t, r).judge(r.sha512); len(found) > 0 {
				t.Errorf("refused: %v", found)
			}
		})
	}
}

// TestPublic_G33_AndRefusedUnderAnotherPolicy: the same evidence is nothing under a
// policy that trusts others.
func TestPublic_G33_AndRefusedUnderAnotherPolicy(t *testing.T) {
	const prov = "evidence.provenance."
	r := realProvenances()["SLSA v1 by a workflow"]
	cases := map[string]struct {
		change func(b *bench)
		want   string
	}{
		"another workflow": {func(b *bench) {
			b.policy["identities"].([]any)[0].(object)["subject"] = "https://github.com/sigstore/other/*"
		}, prov + "unknown_identity"},
		"another issuer":     {func(b *bench) { b.policy["identities"].([]any)[0].(object)["issuer"] = "https://gitlab.com" }, prov + "unknown_identity"},
		"another builder":    {func(b *bench) { b.rule("provenance")["builders"].([]any)[0].(object)["builder_id"] = "https://mine" }, prov + "builder_not_allowed"},
		"another repository": {func(b *bench) { b.rule("provenance")["sources"].([]any)[0].(object)["repository"] = "https://mine" }, prov + "source_not_allowed"},
		"another root": {func(b *bench) {
			var trusted any
			must(t, json.Unmarshal(readSigstore(t, "pkg/testing/data/trusted-roots/scaffolding.json"), &trusted))
			b.root()["trusted_root"] = trusted
		}, prov + "log_unknown"},
		"two logs":          {func(b *bench) { b.root()["log_entries"] = 2 }, prov + "log_threshold"},
		"a timestamp":       {func(b *bench) { b.root()["signed_timestamps"] = 1 }, prov + "timestamp_threshold"},
		"only new evidence": {func(b *bench) { b.rule("provenance")["max_age"] = "720h" }, prov + "too_old"},
		"SHA-256 alone":     {func(b *bench) { delete(b.rule("provenance"), "subject_digests") }, prov + "subject_digest_missing"},
		"our own keys":      {func(b *bench) { b.rule("provenance")["signers"] = []any{"build"} }, prov + "signer_not_allowed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := realBench(t, r)
			c.change(b)
			if found := b.judge(r.sha512); !slices.Contains(codes(found), c.want) {
				t.Errorf("findings %v, want %s", found, c.want)
			}
		})
	}
	t.Run("another artifact", func(t *testing.T) {
		if found := realBench(t, r).judge(strings.Repeat("ab", 64)); !slices.Contains(codes(found), prov+"subject_mismatch") {
			t.Errorf("findings %v", found)
		}
	})
}
