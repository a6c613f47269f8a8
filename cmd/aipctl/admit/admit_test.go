package admit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/admit"
	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/release"
	"github.com/aipfleet/aipfleet/cmd/aipctl/trust"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/memory"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// bench is a publisher and an operator around one memory registry.
type bench struct {
	t   *testing.T
	dir string
	reg *memory.Registry
	env map[string]string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	clock := func() time.Time { return now }
	reg := memory.New(memory.Config{RingKey: []byte("0123456789abcdef0123456789abcdef"), CursorKey: []byte("0123456789abcdef0123456789abcdef"), Now: clock})
	b := &bench{t: t, dir: t.TempDir(), reg: reg}
	b.env = map[string]string{"AIPCTL_CONFIG": b.path("config.yaml"), "USER": "test"}
	b.file("config.yaml", "current: test\ncontexts:\n  test: {}\n")
	b.ok("release", "keygen", b.path("release.key"))
	b.ok("release", "keygen", b.path("other.key"))
	b.file("policy.yaml", b.policy("release.key.pub"))
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) file(name, text string) {
	b.t.Helper()
	must(b.t, os.MkdirAll(filepath.Dir(b.path(name)), 0o755))
	must(b.t, os.WriteFile(b.path(name), []byte(text), 0o644))
}

func (b *bench) policy(key string) string {
	pem, err := os.ReadFile(b.path(key))
	must(b.t, err)
	return "format: aipfleet.trust/v1\nkeys:\n  - id: release\n    public_key: |\n      " + strings.ReplaceAll(strings.TrimSpace(string(pem)), "\n", "\n      ") +
		"\ntypes: [{type: ctype_desk, owners: [desk-team], signers: [release]}]\nslots:\n  signature: {signers: [release]}\n"
}

// pack makes a signed package of a version; artifact and version id follow it.
func (b *bench) pack(version string, sequence int) string {
	name := "pkg-" + version
	b.file(name+"/release.yaml", "type: {id: ctype_desk, name: Desk}\nowner: desk-team\nversion: "+version+"\nversion_id: cver_desk_"+version+
		"\nrelease_sequence: "+string(rune('0'+sequence))+"\naip_versions: [\"1.0\"]\nartifact: {path: artifact/desk}\n")
	b.file(name+"/artifact/desk", "desk "+version)
	b.file(name+"/manifest.json", `{"aip_version":"1.0","name":"desk","version":"`+version+`","capabilities":[{"id":"desk:open","name":"open","kind":"tool",
	 "input_schema":{"type":"object"},"contract":{"side_effects":"write","idempotency":"provider_key"}}],
	 "implementations":[{"capability_id":"desk:open","adapter":"mcp","tool":"open"}]}`)
	b.ok("release", "pack", b.path(name))
	b.ok("release", "sign", b.path(name), "--key", b.path("release.key"))
	return b.path(name)
}

type outcome struct {
	code     int
	out, err string
}

func (b *bench) run(args ...string) outcome {
	b.t.Helper()
	var out, errs bytes.Buffer
	lookup := func(name string) (string, bool) { v, ok := b.env[name]; return v, ok }
	open := func(context.Context, app.Target, app.Access) (*app.Registry, error) {
		return &app.Registry{Catalog: b.reg, Router: b.reg, Reader: b.reg, Publisher: b.reg, Fleet: b.reg, Uncertain: b.reg, Custody: b.reg, Close: func() {}}, nil
	}
	a := app.New(app.IO{In: strings.NewReader(""), Out: &out, Err: &errs, LookupEnv: lookup}, func() time.Time { return now }, open)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	code := a.Run(ctx, a.Root(release.Command(a), admit.Command(a), trust.Command(a)), args)
	return outcome{code, out.String(), errs.String()}
}

func (b *bench) ok(args ...string) outcome {
	b.t.Helper()
	got := b.run(args...)
	if got.code != 0 {
		b.t.Fatalf("aipctl %v: exit %d\n%s%s", args, got.code, got.out, got.err)
	}
	return got
}

func (b *bench) revision() uint64 {
	status, err := b.reg.Status(context.Background())
	must(b.t, err)
	return status.Revision
}

func (b *bench) version(id string) fleet.ConnectorVersion {
	page, err := b.reg.List(context.Background(), registry.Selection{Noun: registry.Versions, IDs: []string{id}})
	must(b.t, err)
	if len(page.Versions) != 1 {
		b.t.Fatalf("version %s: found %d", id, len(page.Versions))
	}
	return page.Versions[0]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func item(t *testing.T, text string) map[string]any {
	t.Helper()
	var doc struct {
		Item map[string]any `json:"item"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	return doc.Item
}

func TestAdmit_G33_NothingIsAdmittedWithoutATrustRevision(t *testing.T) {
	b := newBench(t)
	got := b.run("admit", "release", b.pack("1.0.0", 1), "--yes")
	if got.code != 3 || !strings.Contains(got.err, "error[trust.none]") {
		t.Errorf("exit %d\n%s", got.code, got.err)
	}
}

func TestAdmit_G13_G33_OneRevisionWithJournalAndPromotion(t *testing.T) {
	b := newBench(t)
	b.ok("trust", "apply", b.path("policy.yaml"), "--reason", "first")
	pkg := b.pack("1.0.0", 1)
	planned := item(t, b.ok("admit", "release", pkg, "--plan", "-o", "json").out)
	if planned["outcome"] != "planned" || b.revision() != 1 {
		t.Fatalf("plan: %v at revision %d", planned["outcome"], b.revision())
	}
	unasked := b.run("admit", "release", pkg, "-o", "json")
	if unasked.code != 11 || !strings.Contains(unasked.err, "--yes") || b.revision() != 1 {
		t.Errorf("without --yes: exit %d at revision %d\n%s", unasked.code, b.revision(), unasked.err)
	}
	digest, _ := planned["package_digest"].(string)
	done := item(t, b.ok("admit", "release", pkg, "--yes", "--promote", "--revision", "1", "--digest", digest, "-o", "json").out)
	if done["outcome"] != "admitted" || done["status"] != "active" || b.revision() != 3 {
		t.Errorf("admitted: %v %v at revision %d", done["outcome"], done["status"], b.revision())
	}
	v := b.version("cver_desk_1.0.0")
	if v.Status != fleet.VersionActive || v.Attestation.TrustRevision != 1 || v.Attestation.Signers["signature"] != "release" {
		t.Errorf("version %+v", v.Attestation)
	}
	stored, err := b.reg.Package(context.Background(), v.Attestation.PackageDigest)
	if err != nil || len(stored) == 0 {
		t.Errorf("the package is not kept: %v", err)
	}
	again := item(t, b.ok("admit", "release", pkg, "--yes", "-o", "json").out)
	if again["outcome"] != "already_admitted" || b.revision() != 3 {
		t.Errorf("again: %v at revision %d", again["outcome"], b.revision())
	}
}

func TestAdmit_G33_G40_ARefusedPackageWritesNothing(t *testing.T) {
	b := newBench(t)
	b.ok("trust", "apply", b.path("policy.yaml"), "--reason", "first")
	b.ok("admit", "release", b.pack("1.1.0", 2), "--yes")
	cases := map[string]struct {
		change func(pkg string)
		want   string
	}{
		"tampered artifact": {func(pkg string) { must(t, os.WriteFile(pkg+"/artifact/desk", []byte("evil"), 0o600)) }, "evidence.signature.subject_mismatch"},
		"missing slot":      {func(pkg string) { must(t, os.RemoveAll(pkg+"/evidence")) }, "evidence.signature.missing"},
		"unknown signer": {func(pkg string) {
			b.ok("release", "sign", pkg, "--replace", "--key", b.path("other.key"))
		}, "evidence.signature.unknown_signer"},
		"older release": {func(string) {}, "release.sequence_replayed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pkg := b.pack("1.0."+string(rune('0'+len(name)%10)), 1)
			c.change(pkg)
			before := b.revision()
			got := b.run("admit", "release", pkg, "--yes", "-o", "json")
			if got.code != 1 || !strings.Contains(got.err, `"code":"`) || !strings.Contains(got.out, c.want) {
				t.Errorf("exit %d, want %s\n%s%s", got.code, c.want, got.out, got.err)
			}
			if b.revision() != before {
				t.Error("a refused package moved the revision")
			}
		})
	}
}

func TestAdmit_G33_ApplyRefusesWhatMovedSinceThePlan(t *testing.T) {
	b := newBench(t)
	b.ok("trust", "apply", b.path("policy.yaml"), "--reason", "first")
	pkg := b.pack("1.0.0", 1)
	digest, _ := item(t, b.ok("admit", "release", pkg, "--plan", "-o", "json").out)["package_digest"].(string)
	b.ok("release", "sign", pkg, "--replace", "--key", b.path("release.key"))
	b.file("pkg-1.0.0/deployment.yaml", "quotas: []\n")
	if got := b.run("admit", "release", pkg, "--yes", "--digest", digest); got.code != 5 || !strings.Contains(got.err, "error[admit.package_changed]") {
		t.Errorf("changed package: exit %d\n%s", got.code, got.err)
	}
	b.file("policy2.yaml", b.policy("release.key.pub")+"statement_types: [\"https://in-toto.io/Statement/v1\"]\n")
	b.ok("trust", "apply", b.path("policy2.yaml"), "--reason", "second")
	if got := b.run("admit", "release", pkg, "--yes", "--revision", "1"); got.code != 5 || !strings.Contains(got.err, "error[publish.revision_moved]") {
		t.Errorf("moved registry: exit %d\n%s", got.code, got.err)
	}
}

func TestTrust_G33_RevisionsGrowAndStay(t *testing.T) {
	b := newBench(t)
	if got := b.run("trust", "apply", b.path("policy.yaml")); got.code != 2 || !strings.Contains(got.err, "--reason") {
		t.Errorf("without a reason: exit %d\n%s", got.code, got.err)
	}
	b.ok("trust", "apply", b.path("policy.yaml"), "--reason", "first")
	same := item(t, b.ok("trust", "apply", b.path("policy.yaml"), "--reason", "again", "-o", "json").out)
	if same["changed"] != false || b.revision() != 1 {
		t.Errorf("the same policy again: %v at revision %d", same, b.revision())
	}
	b.file("policy2.yaml", b.policy("other.key.pub"))
	b.ok("trust", "apply", b.path("policy2.yaml"), "--reason", "rotate")
	first := item(t, b.ok("trust", "show", "1", "-o", "json").out)
	current := item(t, b.ok("trust", "show", "-o", "json").out)
	if first["digest"] == current["digest"] || current["number"] != float64(2) {
		t.Errorf("first %v, current %v", first["number"], current["number"])
	}
	if out := b.ok("trust", "history").out; !strings.Contains(out, "first") || !strings.Contains(out, "rotate") {
		t.Errorf("history:\n%s", out)
	}
	if got := b.run("trust", "show", "9"); got.code != 3 {
		t.Errorf("an unknown revision: exit %d\n%s", got.code, got.err)
	}
	if got := b.run("trust", "apply", b.path("release.key.pub"), "--reason", "x"); got.code != 2 || !strings.Contains(got.err, "error[trust.policy]") {
		t.Errorf("not a policy: exit %d\n%s", got.code, got.err)
	}
}
