package release_test

import (
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// full is a desk whose policy asks for every slot that needs no running connector.
func full(t *testing.T) desk {
	t.Helper()
	d := newDesk(t)
	d.evidence(t)
	var keys []any
	for _, id := range []string{"release", "build", "scan", "vex", "alice", "bob"} {
		file := filepath.Join(d.dir, id+".key")
		if _, err := os.Stat(file); err != nil {
			ok(t, "release", "keygen", file)
		}
		pem, err := os.ReadFile(file + ".pub")
		must(t, err)
		keys = append(keys, map[string]any{"id": id, "public_key": string(pem)})
	}
	doc, err := json.Marshal(map[string]any{
		"format": "aipfleet.trust/v1", "keys": keys,
		"types": []any{map[string]any{"type": "ctype_desk", "owners": []any{"desk-team"}, "signers": []any{"release", "build", "scan", "vex", "alice", "bob"}}},
		"slots": map[string]any{
			"signature": map[string]any{"signers": []any{"release"}},
			"provenance": map[string]any{
				"signers": []any{"build"}, "builders": []any{map[string]any{"signer": "build", "builder_id": "https://builds.example/desk"}},
				"sources": []any{map[string]any{"repository": "https://git.example/desk", "ref": "refs/tags/v*"}},
			},
			"sbom":          map[string]any{"signers": []any{"build"}, "licences": map[string]any{"unknown": "accept"}},
			"vulnerability": map[string]any{"signers": []any{"scan"}, "refuse": "high", "max_age": "24h", "vex_signers": []any{"vex"}},
			"approval":      map[string]any{"signers": []any{"alice", "bob"}, "count": 2},
		},
	})
	must(t, err)
	must(t, os.WriteFile(d.policy, doc, 0o600))
	return d
}

func (d desk) path(name string) string { return filepath.Join(d.dir, name) }

func (d desk) write(t *testing.T, name, text string) string {
	t.Helper()
	must(t, os.WriteFile(d.path(name), []byte(text), 0o600))
	return d.path(name)
}

// refusedWith verifies and expects a finding.
func (d desk) refusedWith(t *testing.T, what, code string) {
	t.Helper()
	if got := aipctl(t, "release", "verify", what, "--policy", d.policy); got.code != 1 || !strings.Contains(got.out, code) {
		t.Errorf("exit %d, want %s:\n%s%s", got.code, code, got.out, got.err)
	}
}

func (d desk) approve(t *testing.T) {
	t.Helper()
	must(t, os.RemoveAll(d.path("pkg/evidence/approval.sigstore.json")))
	must(t, os.RemoveAll(d.path("pkg/evidence/approval.2.sigstore.json")))
	for _, id := range []string{"alice", "bob"} {
		ok(t, "release", "approve", d.pkg, "--key", d.path(id+".key"), "--policy", d.policy, "--add")
	}
}

// TestRelease_G33_ScansAnswersAndApprovals fills the slots that people and scanners fill.
func TestRelease_G33_ScansAnswersAndApprovals(t *testing.T) {
	d := full(t)
	d.refusedWith(t, d.pkg, "evidence.vulnerability.missing")
	report := d.write(t, "grype.json", `{"descriptor": {"name": "grype"}, "matches": [{"vulnerability": {"id": "CVE-2026-7", "severity": "Critical"}, "artifact": {"name": "lib"}}]}`)
	ok(t, "release", "attest", d.pkg, "--slot", "vulnerability", "--key", d.path("scan.key"), "--predicate", report)
	d.approve(t)
	d.refusedWith(t, d.pkg, "evidence.vulnerability.severity")
	vex := d.write(t, "vex.json", `{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "x", "author": "a", "timestamp": "2026-06-01T10:00:00Z", "version": 1,
	 "statements": [{"vulnerability": {"name": "CVE-2026-7"}, "status": "not_affected", "justification": "vulnerable_code_not_present"}]}`)
	ok(t, "release", "attest", d.pkg, "--slot", "vulnerability", "--key", d.path("vex.key"), "--predicate", vex, "--add")
	d.refusedWith(t, d.pkg, "evidence.approval.package_mismatch") // what was approved had no answer in it
	d.approve(t)
	ok(t, "release", "verify", d.pkg, "--policy", d.policy)
	vulns := d.write(t, "vulns.json", `{"scanner": {"uri": "pkg:scanner", "result": []}, "metadata": {"scanFinishedOn": "2026-06-01T11:00:00Z"}}`)
	must(t, os.Remove(d.path("pkg/evidence/vulnerability.2.sigstore.json")))
	ok(t, "release", "attest", d.pkg, "--slot", "vulnerability", "--key", d.path("scan.key"), "--predicate", vulns, "--replace")
	d.approve(t)
	ok(t, "release", "verify", d.pkg, "--policy", d.policy)
	if got := aipctl(t, "release", "attest", d.pkg, "--slot", "vulnerability", "--key", d.path("scan.key"), "--predicate", d.policy, "--replace"); got.code != 2 || !strings.Contains(got.err, "attest.scan") {
		t.Errorf("a document of no scanner: exit %d %s", got.code, got.err)
	}
}

// TestRelease_G33_TravelsThroughLayoutsAndRegistries pushes a package with all its
// evidence, and verifies it by reference; a forged referrer is refused.
func TestRelease_G33_TravelsThroughLayoutsAndRegistries(t *testing.T) {
	d := full(t)
	report := d.write(t, "grype.json", `{"descriptor": {"name": "grype"}, "matches": []}`)
	ok(t, "release", "attest", d.pkg, "--slot", "vulnerability", "--key", d.path("scan.key"), "--predicate", report)
	d.approve(t)
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	remote := "registry://" + strings.TrimPrefix(server.URL, "http://") + "/connectors/desk"
	for _, to := range []string{"oci:" + d.path("layout"), remote} {
		pushed := item(t, ok(t, "release", "push", d.pkg, to+":1.0.0", "--plain-http", "-o", "json").out)
		ok(t, "release", "verify", to+":1.0.0", "--plain-http", "--policy", d.policy)
		ok(t, "release", "verify", to+"@"+pushed["digest"].(string), "--plain-http", "--policy", d.policy)
		pulled := filepath.Join(t.TempDir(), "pulled")
		ok(t, "release", "pull", to+":1.0.0", pulled, "--plain-http")
		ok(t, "release", "inspect", pulled)
		if got := aipctl(t, "release", "pull", to+":9", filepath.Join(t.TempDir(), "x"), "--plain-http"); got.code != 9 || !strings.Contains(got.err, "oci.transport") {
			t.Errorf("an unknown tag: exit %d %s", got.code, got.err)
		}
	}
	// Somebody who may push attaches a bill of their own to the same release.
	ok(t, "release", "keygen", d.path("stranger.key"))
	must(t, os.Rename(d.path("pkg/evidence"), d.path("kept")))
	ok(t, "release", "attest", d.pkg, "--slot", "sbom", "--key", d.path("stranger.key"))
	ok(t, "release", "push", d.pkg, remote+":1.0.0", "--plain-http")
	forged := aipctl(t, "release", "verify", remote+":1.0.0", "--plain-http", "--policy", d.policy)
	if forged.code != 1 || !strings.Contains(forged.out, "evidence.sbom.unknown_signer") || !strings.Contains(forged.out, "evidence.sbom.duplicate") {
		t.Errorf("a forged referrer: exit %d\n%s%s", forged.code, forged.out, forged.err)
	}
	if got := aipctl(t, "release", "push", d.pkg, "registry://registry.example/x:1", "--plain-http"); got.code != 2 {
		t.Errorf("plain HTTP to elsewhere: exit %d %s", got.code, got.err)
	}
	if got := aipctl(t, "release", "push", d.pkg, "elsewhere"); got.code != 2 || !strings.Contains(got.err, "release.reference") {
		t.Errorf("no reference: exit %d %s", got.code, got.err)
	}
}
