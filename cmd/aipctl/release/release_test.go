package release_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/release"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// TestMain lets the test binary be the connector that is packed: what the tests
// discover is a real MCP server in a process of its own.
func TestMain(m *testing.M) {
	if _, serve := os.LookupEnv("RELEASE_TEST_SERVE"); serve {
		os.Exit(serveMCP())
	}
	os.Exit(m.Run())
}

func serveMCP() int {
	server := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
	no := false
	type input struct {
		Title string `json:"title"`
	}
	tool := func(name string, hints *mcp.ToolAnnotations, meta mcp.Meta) {
		mcp.AddTool(server, &mcp.Tool{Name: name, Annotations: hints, Meta: meta},
			func(context.Context, *mcp.CallToolRequest, input) (*mcp.CallToolResult, map[string]any, error) {
				return nil, map[string]any{}, nil
			})
	}
	tool("open", &mcp.ToolAnnotations{DestructiveHint: &no}, mcp.Meta{"aip/idempotency": "provider_key", "aip/reconcile_tool": "find"})
	tool("find", &mcp.ToolAnnotations{ReadOnlyHint: true}, nil)
	tool("purge", nil, nil)
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// outcome is what one command line did.
type outcome struct {
	code     int
	out, err string
}

func aipctl(t *testing.T, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	a := app.New(app.IO{In: strings.NewReader(""), Out: &out, Err: &errs, LookupEnv: os.LookupEnv}, func() time.Time { return now }, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	code := a.Run(ctx, a.Root(release.Command(a)), args)
	return outcome{code, out.String(), errs.String()}
}

func ok(t *testing.T, args ...string) outcome {
	t.Helper()
	got := aipctl(t, args...)
	if got.code != 0 {
		t.Fatalf("aipctl %v: exit %d\n%s%s", args, got.code, got.out, got.err)
	}
	return got
}

func item(t *testing.T, text string) map[string]any {
	t.Helper()
	var doc struct {
		APIVersion string         `json:"apiVersion"`
		Item       map[string]any `json:"item"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.APIVersion != app.APIVersion {
		t.Fatalf("not an item document: %v\n%s", err, text)
	}
	return doc.Item
}

// desk packs, signs and attests the test binary, and writes a policy for it.
type desk struct{ dir, pkg, policy string }

func newDesk(t *testing.T) desk {
	t.Helper()
	dir := t.TempDir()
	d := desk{dir: dir, pkg: filepath.Join(dir, "pkg"), policy: filepath.Join(dir, "policy.yaml")}
	self, err := os.Executable()
	must(t, err)
	source := filepath.Join(dir, "release")
	must(t, os.Mkdir(source, 0o755))
	must(t, os.WriteFile(filepath.Join(source, "release.yaml"), []byte("type: {id: ctype_desk, name: Desk}\nowner: desk-team\nversion: 1.0.0\nrelease_sequence: 1\naip_versions: [\"1.0\"]\nartifact: {path: artifact/desk}\n"), 0o600))
	release := item(t, ok(t, "release", "keygen", filepath.Join(dir, "release.key"), "-o", "json").out)
	build := item(t, ok(t, "release", "keygen", filepath.Join(dir, "build.key"), "--algorithm", "ecdsa-p256", "-o", "json").out)
	must(t, os.WriteFile(d.policy, []byte(policyFor(release["public_key"].(string), build["public_key"].(string))), 0o600))
	ok(t, "release", "pack", source, "--artifact", self, "--out", d.pkg, "--discover", "--env", "RELEASE_TEST_SERVE=1")
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func policyFor(release, build string) string {
	indent := func(pem string) string {
		return "      " + strings.ReplaceAll(strings.TrimSpace(pem), "\n", "\n      ")
	}
	return `format: aipfleet.trust/v1
keys:
  - id: release
    public_key: |
` + indent(release) + `
  - id: build
    public_key: |
` + indent(build) + `
types:
  - type: ctype_desk
    owners: [desk-team]
    signers: [release, build]
slots:
  signature: {signers: [release], max_age: 720h}
  provenance:
    signers: [build]
    builders: [{signer: build, builder_id: "https://builds.example/desk"}]
    sources: [{repository: "https://git.example/desk", ref: "refs/tags/v*"}]
  sbom:
    signers: [build]
    licences: {deny: [AGPL-3.0-only], unknown: accept}
distinct_signers: [[signature, provenance]]
`
}

func (d desk) evidence(t *testing.T) {
	t.Helper()
	ok(t, "release", "sign", d.pkg, "--key", filepath.Join(d.dir, "release.key"))
	ok(t, "release", "attest", d.pkg, "--slot", "sbom", "--key", filepath.Join(d.dir, "build.key"))
	ok(t, "release", "attest", d.pkg, "--slot", "provenance", "--key", filepath.Join(d.dir, "build.key"),
		"--builder-id", "https://builds.example/desk", "--source-repository", "https://git.example/desk", "--source-ref", "refs/tags/v1.0.0")
}

func TestRelease_G33_PackSignAttestVerifyOffline(t *testing.T) {
	d := newDesk(t)
	packed, err := admission.OpenPackage(d.pkg, admission.Limits{})
	must(t, err)
	checkDiscovered(t, packed.Manifest())
	if packed.Release().VersionID.IsZero() {
		t.Error("pack minted no version id")
	}
	before := aipctl(t, "release", "verify", d.pkg, "--policy", d.policy, "-o", "json")
	if before.code != 1 || !strings.Contains(before.out, "evidence.signature.missing") || !strings.Contains(before.err, `"code":"evidence.signature.missing"`) {
		t.Errorf("without evidence: exit %d\n%s%s", before.code, before.out, before.err)
	}
	d.evidence(t)
	after := item(t, ok(t, "release", "verify", d.pkg, "--policy", d.policy, "-o", "json").out)
	if after["verified"] != true {
		t.Errorf("verification: %v", after)
	}
	shown := item(t, ok(t, "release", "inspect", d.pkg, "-o", "json").out)
	if n := len(shown["evidence"].([]any)); n != 3 {
		t.Errorf("inspect shows %d evidence files", n)
	}
	late := aipctl(t, "release", "verify", d.pkg, "--policy", d.policy, "--at", "2026-08-01T00:00:00Z")
	if late.code != 1 || !strings.Contains(late.out, "evidence.signature.too_old") {
		t.Errorf("two months later: exit %d\n%s", late.code, late.out)
	}
}

func checkDiscovered(t *testing.T, m fleet.Manifest) {
	t.Helper()
	got := map[string][3]string{}
	for _, c := range m.Capabilities {
		impl, _ := m.Implementation(c.ID)
		got[c.ID.String()] = [3]string{string(c.Contract.SideEffects), string(c.Contract.Idempotency), impl.ReconcileTool}
	}
	want := map[string][3]string{
		"desk:open":  {"write", "provider_key", "find"},
		"desk:find":  {"read", "natural", ""},
		"desk:purge": {"destructive", "none", ""},
	}
	for id, w := range want {
		if got[id] != w {
			t.Errorf("%s was discovered as %v, want %v", id, got[id], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("discovered %v", got)
	}
}

func TestRelease_G33_TamperedArtifactIsRefusedWithItsCode(t *testing.T) {
	d := newDesk(t)
	d.evidence(t)
	artifact := filepath.Join(d.pkg, "artifact/desk")
	f, err := os.OpenFile(artifact, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString("x")
	must(t, err)
	must(t, f.Close())
	got := aipctl(t, "release", "verify", d.pkg, "--policy", d.policy)
	if got.code != 1 || !strings.Contains(got.err, "error[evidence.signature.subject_mismatch]") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	for _, code := range []string{"evidence.provenance.subject_mismatch", "evidence.sbom.subject_mismatch"} {
		if !strings.Contains(got.out, code) {
			t.Errorf("the output does not name %s:\n%s", code, got.out)
		}
	}
}

func TestRelease_G40_RefusalsNameTheRuleAndTheNextStep(t *testing.T) {
	d := newDesk(t)
	ok(t, "release", "sign", d.pkg, "--key", filepath.Join(d.dir, "release.key"))
	must(t, os.WriteFile(filepath.Join(d.dir, "open.key"), []byte("x"), 0o644))
	cases := []struct {
		args []string
		code int
		want string
	}{
		{[]string{"release", "sign", d.pkg}, 2, "error[usage.flag]"},
		{[]string{"release", "sign", d.pkg, "--key", filepath.Join(d.dir, "open.key")}, 2, "error[release.key]"},
		{[]string{"release", "sign", d.pkg, "--key", filepath.Join(d.dir, "release.key")}, 5, "error[release.evidence_exists]"},
		{[]string{"release", "sign", d.pkg, "--message", "--replace", "--key", filepath.Join(d.dir, "release.key")}, 2, "error[sign.key]"},
		{[]string{"release", "attest", d.pkg, "--slot", "sbomb", "--key", "x"}, 2, "did you mean sbom"},
		{[]string{"release", "attest", d.pkg, "--slot", "provenance", "--key", filepath.Join(d.dir, "build.key")}, 2, "--builder-id"},
		{[]string{"release", "pack", filepath.Join(d.dir, "release"), "--out", d.pkg}, 5, "error[release.signed]"},
		{[]string{"release", "keygen", filepath.Join(d.dir, "release.key")}, 5, "error[release.key_exists]"},
		{[]string{"release", "inspect", d.dir}, 1, "error[package."},
	}
	for _, c := range cases {
		got := aipctl(t, c.args...)
		if got.code != c.code || !strings.Contains(got.err, c.want) || !strings.Contains(got.err, "next: ") {
			t.Errorf("aipctl %v: exit %d, want %d and %q\n%s", c.args, got.code, c.code, c.want, got.err)
		}
	}
}

func TestRelease_G33_ForeignPredicateIsTakenAndJudged(t *testing.T) {
	d := newDesk(t)
	d.evidence(t)
	p, err := admission.OpenPackage(d.pkg, admission.Limits{})
	must(t, err)
	bom := filepath.Join(d.dir, "bom.json")
	must(t, os.WriteFile(bom, []byte(`{"bomFormat":"CycloneDX","specVersion":"1.5","metadata":{"component":{"name":"desk","hashes":[{"alg":"SHA-256","content":"`+
		p.ArtifactDigest().Hex()+`"}]}},"components":[{"name":"lib","licenses":[{"license":{"id":"AGPL-3.0-only"}}]}]}`), 0o600))
	ok(t, "release", "attest", d.pkg, "--slot", "sbom", "--predicate", bom, "--replace", "--key", filepath.Join(d.dir, "build.key"))
	got := aipctl(t, "release", "verify", d.pkg, "--policy", d.policy, "-o", "json")
	var codes []string
	for _, f := range item(t, got.out)["findings"].([]any) {
		codes = append(codes, f.(map[string]any)["code"].(string))
	}
	if want := []string{"evidence.sbom.licence_not_allowed"}; !slices.Equal(codes, want) {
		t.Errorf("findings %v, want %v", codes, want)
	}
}
