package admission_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// cosignBench is the package of testdata/cosign, all of whose bundles the real cosign
// made with two keys (make.sh says how), under a policy for those keys.
func cosignBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.dir = t.TempDir()
	must(t, os.CopyFS(b.dir, os.DirFS("testdata/cosign/desk")))
	var keys []any
	for _, id := range []string{"publisher", "builder"} {
		public, err := os.ReadFile("testdata/cosign/" + id + ".pub")
		must(t, err)
		keys = append(keys, object{"id": id, "public_key": string(public)})
	}
	b.policy["keys"], b.policy["statement_types"] = keys, []any{admission.StatementV1, admission.StatementV01}
	b.policy["types"].([]any)[0].(object)["signers"] = []any{"publisher", "builder"}
	slots := b.policy["slots"].(object)
	delete(slots, "approval")
	delete(b.policy, "revocation")
	for slot := range slots {
		b.rule(slot)["signers"] = []any{"builder"}
	}
	b.rule("signature")["signers"] = []any{"publisher"}
	b.rule("provenance")["builders"] = []any{object{"signer": "builder", "builder_id": "https://builds.example/desk"}}
	b.rule("vulnerability")["vex_signers"] = []any{"publisher"}
	b.rule("conformance")["required"] = []any{"starts"}
	b.policy["distinct_signers"] = []any{[]any{"signature", "provenance"}}
	b.artifact = b.pkg().ArtifactDigest()
	return b
}

func (b *bench) judged() []admission.Finding {
	_, found := b.evaluator.Evaluate(b.request(b.pkg()))
	return found
}

// signedAnew replaces a text in a bundle's payload, and leaves its signature.
func (b *bench) signedAnew(file, from, to string) {
	b.t.Helper()
	var doc object
	must(b.t, json.Unmarshal([]byte(b.read(file)), &doc))
	envelope := doc["dsseEnvelope"].(object)
	payload, err := base64.StdEncoding.DecodeString(envelope["payload"].(string))
	must(b.t, err)
	changed := bytes.Replace(payload, []byte(from), []byte(to), 1)
	if bytes.Equal(changed, payload) {
		b.t.Fatalf("the payload does not hold %q", from)
	}
	envelope["payload"] = base64.StdEncoding.EncodeToString(changed)
	raw, err := json.Marshal(doc)
	must(b.t, err)
	must(b.t, os.WriteFile(filepath.Join(b.dir, file), raw, 0o600))
}

// TestCosign_G33_BundlesOfCosignVerifyOffline: a bare signature of the artifact, and
// attestations of types that cosign knows and does not know.
func TestCosign_G33_BundlesOfCosignVerifyOffline(t *testing.T) {
	b := cosignBench(t)
	verified, found := b.evaluator.Evaluate(b.request(b.pkg()))
	if len(found) > 0 {
		t.Fatalf("refused: %v", found)
	}
	var got []string
	for _, d := range verified.Report().Documents {
		got = append(got, d.Slot+" by "+d.Signer)
	}
	want := []string{
		"signature by publisher", "provenance by builder", "sbom by builder", "vulnerability by builder", "vulnerability by publisher", "conformance by builder",
	}
	if !slices.Equal(got, want) {
		t.Errorf("documents %q, want %q", got, want)
	}
}

// TestCosign_G33_NamesItsKeysAsThePolicyDoes: the hint is the base64 of the SHA-256 of
// the key's DER form.
func TestCosign_G33_NamesItsKeysAsThePolicyDoes(t *testing.T) {
	b := cosignBench(t)
	for file, id := range map[string]string{"signature": "publisher", "provenance": "builder"} {
		bundle, err := sigstore.Verifier{}.Parse([]byte(b.read("evidence/" + file + ".sigstore.json")))
		must(t, err)
		public, err := os.ReadFile("testdata/cosign/" + id + ".pub")
		must(t, err)
		key, err := admission.NewKey(id, string(public))
		must(t, err)
		if bundle.Hint != key.Hint() {
			t.Errorf("%s: hint %s, the key of %s is %s", file, bundle.Hint, id, key.Hint())
		}
	}
}

// TestCosign_G33_AndAreRefusedOtherwise: under other keys, or with one part changed.
func TestCosign_G33_AndAreRefusedOtherwise(t *testing.T) {
	all := []string{"signature", "provenance", "sbom", "vulnerability", "conformance"}
	each := func(code string) (codes []string) {
		for _, slot := range all {
			codes = append(codes, "evidence."+slot+"."+code)
		}
		return codes
	}
	const bundle = "evidence/provenance.sigstore.json"
	cases := map[string]struct {
		change func(b *bench)
		want   []string
	}{
		"other keys": {func(b *bench) {
			for i, id := range []string{"release", "build"} {
				b.policy["keys"].([]any)[i].(object)["public_key"] = b.public[id]
			}
		}, each("unknown_signer")},
		"each other's keys": {func(b *bench) {
			keys := b.policy["keys"].([]any)
			keys[0].(object)["id"], keys[1].(object)["id"] = "builder", "publisher"
		}, each("signer_not_allowed")},
		"another artifact": {func(b *bench) { b.replace("artifact/desk", "echo", "cat") },
			[]string{"evidence.signature.artifact_mismatch", "evidence.provenance.subject_mismatch", "evidence.sbom.subject_mismatch"}},
		"altered payload":  {func(b *bench) { b.signedAnew(bundle, "v1.0.0", "v1.0.1") }, []string{"evidence.provenance.signature_invalid"}},
		"altered subject":  {func(b *bench) { b.signedAnew(bundle, b.artifact.Hex(), foreignHex()) }, []string{"evidence.provenance.signature_invalid"}},
		"altered answer":   {func(b *bench) { b.signedAnew("evidence/vulnerability.2.sigstore.json", "CVE-2026-1", "CVE-2026-2") }, []string{"evidence.vulnerability.signature_invalid", "evidence.vulnerability.severity"}},
		"altered envelope": {func(b *bench) { b.replace(bundle, admission.PayloadInToto, "application/json") }, []string{"evidence.provenance.signature_invalid"}},
		"altered message": {func(b *bench) {
			b.replace("evidence/signature.sigstore.json", digest64(b, b.artifact), digest64(b, fleet.DigestBytes([]byte("another artifact"))))
		}, []string{"evidence.signature.signature_invalid"}},
		"statements 0.1 without the policy's word": {func(b *bench) { delete(b.policy, "statement_types") },
			[]string{"evidence.provenance.statement_type", "evidence.sbom.statement_type", "evidence.vulnerability.statement_type"}},
		"nobody may answer findings": {func(b *bench) { delete(b.rule("vulnerability"), "vex_signers") },
			[]string{"evidence.vulnerability.signer_not_allowed"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := cosignBench(t)
			c.change(b)
			got := codes(b.judged())
			for _, want := range c.want {
				if !slices.Contains(got, want) {
					t.Errorf("findings %s, want %s", strings.Join(got, " "), want)
				}
			}
		})
	}
}

// digest64 is a digest as bundles write it.
func digest64(b *bench, d fleet.Digest) string {
	raw, err := hex.DecodeString(d.Hex())
	must(b.t, err)
	return base64.StdEncoding.EncodeToString(raw)
}
