package reverify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/admit"
	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/release"
	"github.com/aipfleet/aipfleet/cmd/aipctl/reverify"
	"github.com/aipfleet/aipfleet/cmd/aipctl/revocation"
	"github.com/aipfleet/aipfleet/cmd/aipctl/transition"
	"github.com/aipfleet/aipfleet/cmd/aipctl/trust"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/memory"
)

// bench is an operator around one memory registry, with a clock that they move.
type bench struct {
	t   *testing.T
	dir string
	reg *memory.Registry
	env map[string]string
	now time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), now: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)}
	key := []byte("0123456789abcdef0123456789abcdef")
	b.reg = memory.New(memory.Config{RingKey: key, CursorKey: key, Now: func() time.Time { return b.now }})
	b.env = map[string]string{"AIPCTL_CONFIG": b.path("config.yaml"), "USER": "test"}
	b.file("config.yaml", "current: test\ncontexts:\n  test: {}\n")
	for _, key := range []string{"release.key", "next.key", "security.key"} {
		b.ok("release", "keygen", b.path(key))
	}
	b.trust("release")
	b.admit("1.0.0", 1)
	b.later()
	b.admit("1.1.0", 2)
	b.later()
	return b
}

func (b *bench) later() { b.now = b.now.Add(time.Hour) }

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) file(name, text string) {
	b.t.Helper()
	must(b.t, os.MkdirAll(filepath.Dir(b.path(name)), 0o755))
	must(b.t, os.WriteFile(b.path(name), []byte(text), 0o644))
}

// trust puts a policy into force that takes releases of one key.
func (b *bench) trust(signer string) {
	b.t.Helper()
	policy := "format: aipfleet.trust/v1\nkeys:\n"
	for _, id := range []string{"release", "next", "security"} {
		pem, err := os.ReadFile(b.path(id + ".key.pub"))
		must(b.t, err)
		policy += "  - id: " + id + "\n    public_key: " + fmt.Sprintf("%q", pem) + "\n"
	}
	policy += "types: [{type: ctype_desk, owners: [desk-team], signers: [" + signer + "]}]\nslots:\n  signature: {signers: [" + signer + "]}\nrevocation: {signers: [security]}\n"
	b.file("policy.yaml", policy)
	b.ok("trust", "apply", b.path("policy.yaml"), "--reason", "test")
	b.later()
}

func (b *bench) admit(version string, sequence int) {
	b.t.Helper()
	name := "pkg-" + version
	b.file(name+"/release.yaml", "type: {id: ctype_desk, name: Desk}\nowner: desk-team\nversion: "+version+"\nversion_id: cver_desk_"+version+
		"\nrelease_sequence: "+fmt.Sprint(sequence)+"\naip_versions: [\"1.0\"]\nartifact: {path: artifact/desk}\n")
	b.file(name+"/artifact/desk", "desk "+version)
	b.file(name+"/manifest.json", `{"aip_version":"1.0","name":"desk","version":"`+version+`","capabilities":[{"id":"desk:open","name":"open","kind":"tool",
	 "input_schema":{"type":"object"},"contract":{"side_effects":"write","idempotency":"provider_key"}}],
	 "implementations":[{"capability_id":"desk:open","adapter":"mcp","tool":"open"}]}`)
	b.ok("release", "pack", b.path(name))
	b.ok("release", "sign", b.path(name), "--key", b.path("release.key"))
	b.ok("admit", "release", b.path(name), "--yes", "--promote")
}

// revoke signs and applies a list.
func (b *bench) revoke(number int, key, entries string) outcome {
	b.t.Helper()
	b.file("list.yaml", fmt.Sprintf("format: aipfleet.revocations/v1\nnumber: %d\nissued_at: %s\nentries: %s\n", number, b.now.Format(time.RFC3339), entries))
	b.ok("revocation", "sign", b.path("list.yaml"), "--key", b.path(key), "--out", b.path("list.sigstore.json"))
	return b.run("revocation", "apply", b.path("list.sigstore.json"), "--reason", "lost", "--yes")
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
	a := app.New(app.IO{In: strings.NewReader(""), Out: &out, Err: &errs, LookupEnv: lookup}, func() time.Time { return b.now }, open)
	trusted := trust.Command(a)
	trusted.AddCommand(reverify.Command(a))
	root := a.Root(release.Command(a), admit.Command(a), trusted, revocation.Command(a))
	root.AddCommand(transition.Commands(a)...)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	code := a.Run(ctx, root, args)
	return outcome{code, out.String(), errs.String()}
}

func (b *bench) ok(args ...string) outcome {
	b.t.Helper()
	return b.expect(0, "", args...)
}

// expect runs a command, and looks for a text in what it wrote.
func (b *bench) expect(code int, text string, args ...string) outcome {
	b.t.Helper()
	got := b.run(args...)
	if got.code != code || !strings.Contains(got.out+got.err, text) {
		b.t.Fatalf("aipctl %v: exit %d, want %d and %q\n%s%s", args, got.code, code, text, got.out, got.err)
	}
	return got
}

func (b *bench) status(id string) fleet.VersionStatus {
	page, err := b.reg.List(context.Background(), registry.Selection{Noun: registry.Versions, IDs: []string{id}})
	must(b.t, err)
	if len(page.Versions) != 1 {
		b.t.Fatalf("version %s: found %d", id, len(page.Versions))
	}
	return page.Versions[0].Status
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// results reads what -o json printed.
func results(t *testing.T, text string) []reverify.Result {
	t.Helper()
	var doc struct {
		Items []reverify.Result `json:"items"`
	}
	must(t, json.Unmarshal([]byte(text), &doc))
	return doc.Items
}

// TestReverify_G35_StoredDecisionsRepeatWhateverComesLater: what was decided at a time
// is decided the same, byte for byte, after later trust revisions and revocation lists.
func TestReverify_G35_StoredDecisionsRepeatWhateverComesLater(t *testing.T) {
	b := newBench(t)
	at := b.now.Format(time.RFC3339)
	repeats := b.ok("trust", "reverify", "--offline", "-o", "json").out
	then := b.ok("trust", "reverify", "--offline", "--at", at, "-o", "json").out
	b.later()
	b.trust("next")
	if got := b.revoke(1, "security.key", "[{kind: signer, value: release, reason: lost}]"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	b.later()
	if again := b.ok("trust", "reverify", "--offline", "-o", "json").out; again != repeats {
		t.Errorf("the stored decisions read differently later:\n%s\n%s", repeats, again)
	}
	if again := b.ok("trust", "reverify", "--offline", "--at", at, "-o", "json").out; again != then {
		t.Errorf("the same time gives another answer later:\n%s\n%s", then, again)
	}
	for _, r := range results(t, repeats) {
		if r.Outcome != "repeats" || r.Report.TrustRevision != 1 {
			t.Errorf("%+v", r)
		}
	}
	later := results(t, b.ok("trust", "reverify", "--offline", "--at", b.now.Format(time.RFC3339), "-o", "json").out)
	if len(later) != 2 || later[0].Outcome != "refused" || later[0].Report.TrustRevision != 2 || later[0].Report.Revocations != 1 {
		t.Errorf("at a later time: %+v", later)
	}
	early := results(t, b.ok("trust", "reverify", "--offline", "--at", "2026-06-01T13:30:00Z", "-o", "json").out)
	if len(early) != 1 {
		t.Errorf("decisions of the future are repeated: %+v", early)
	}
}

// TestReverify_G33_WhatWouldNotBeAdmittedTodayIsShownAndQuarantined shows both, and
// that a second run has nothing left to do.
func TestReverify_G33_WhatWouldNotBeAdmittedTodayIsShownAndQuarantined(t *testing.T) {
	b := newBench(t)
	b.ok("trust", "reverify")
	b.trust("next")
	got := b.expect(1, "evidence.signature.signer_not_allowed", "trust", "reverify", "-o", "json")
	for _, r := range results(t, got.out) {
		if r.Outcome != "refused" || r.Status != fleet.VersionActive || len(r.Findings) != 2 || r.Findings[0].Satisfy == "" {
			t.Errorf("%+v", r)
		}
	}
	b.expect(2, "--reason", "trust", "reverify", "--quarantine")
	b.expect(11, "--yes", "trust", "reverify", "--quarantine", "--reason", "key lost")
	b.ok("trust", "reverify", "--quarantine", "--reason", "key lost", "--yes")
	for _, id := range []string{"cver_desk_1.0.0", "cver_desk_1.1.0"} {
		if s := b.status(id); s != fleet.VersionQuarantined {
			t.Errorf("%s is %s", id, s)
		}
	}
	b.ok("trust", "reverify", "--quarantine", "--reason", "again", "--yes")
	b.expect(3, "reverify.version", "trust", "reverify", "cver_desk_9")
	b.expect(2, "use one of them", "trust", "reverify", "--offline", "--quarantine")
	b.expect(2, "--offline", "trust", "reverify", "--at", "2026-06-01T12:00:00Z")
}

// TestReverify_G35_ExportRepeatsWithoutARegistry: the exported directory is all that
// the decision needs, and a changed one does not pass for it.
func TestReverify_G35_ExportRepeatsWithoutARegistry(t *testing.T) {
	b := newBench(t)
	if got := b.revoke(4, "security.key", "[{kind: signer, value: next, reason: lost}]"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	b.admit("1.2.0", 3)
	out := b.path("export")
	b.expect(0, "trust reverify", "release", "export", "cver_desk_1.2.0", "--out", out)
	b.reg = nil
	b.expect(0, "repeats", "trust", "reverify", "--offline", "--from", out)
	decision, err := os.ReadFile(filepath.Join(out, "decision.json"))
	must(t, err)
	changed := strings.Replace(string(decision), `"evaluated_at": "2026-06-01T16`, `"evaluated_at": "2026-06-01T17`, 1)
	changed = strings.Replace(changed, `"signer": "release"`, `"signer": "security"`, 1)
	if changed == string(decision) {
		t.Fatalf("nothing to change in %s", decision)
	}
	must(t, os.WriteFile(filepath.Join(out, "decision.json"), []byte(changed), 0o600))
	b.expect(1, "reverify.differs", "trust", "reverify", "--offline", "--from", out)
}

// TestRevocation_G33_ListsAreJudgedByThePolicyInForce shows what is refused, and what
// an accepted list does.
func TestRevocation_G33_ListsAreJudgedByThePolicyInForce(t *testing.T) {
	b := newBench(t)
	b.expect(3, "revocation.none", "revocation", "show")
	if got := b.revoke(1, "release.key", "[]"); got.code != 1 || !strings.Contains(got.out, "revocation.signer_not_allowed") {
		t.Errorf("a list by who may not: %+v", got)
	}
	before, err := b.reg.Status(context.Background())
	must(t, err)
	if got := b.revoke(2, "security.key", "[{kind: version, value: cver_desk_1.0.0, reason: broken}]"); got.code != 0 || !strings.Contains(got.out, "version cver_desk_1.0.0") {
		t.Fatalf("%+v", got)
	}
	after, err := b.reg.Status(context.Background())
	must(t, err)
	if after.Revision != before.Revision+1 || b.status("cver_desk_1.0.0") != fleet.VersionRevoked || b.status("cver_desk_1.1.0") != fleet.VersionActive {
		t.Errorf("revision %d to %d, %s, %s", before.Revision, after.Revision, b.status("cver_desk_1.0.0"), b.status("cver_desk_1.1.0"))
	}
	b.expect(0, "nothing to change", "revocation", "apply", b.path("list.sigstore.json"), "--reason", "again", "--yes")
	if got := b.revoke(2, "security.key", "[]"); got.code != 1 || !strings.Contains(got.out, "revocation.rolled_back") || !strings.Contains(got.out, "revocation.entry_dropped") {
		t.Errorf("a list that goes back: %+v", got)
	}
	b.expect(0, "broken", "revocation", "show", "2")
	b.expect(3, "revocation.list", "revocation", "show", "7")
	b.expect(1, "release.version_revoked", "admit", "release", b.path("pkg-1.0.0"), "--yes")
	b.expect(2, "--reason", "revocation", "apply", b.path("list.sigstore.json"))
	b.expect(2, "revocation.malformed", "revocation", "sign", b.path("policy.yaml"), "--key", b.path("security.key"), "--out", b.path("x"))
}
