package release_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/admission"
)

const image = "registry.example/desk@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// withManifest puts what was discovered into the source of the release.
func (d desk) withManifest(t *testing.T) string {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join(d.pkg, admission.ManifestFile))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(d.path("release"), admission.ManifestFile), manifest, 0o600))
	// The artifact is left to the flags.
	file := filepath.Join(d.path("release"), admission.ReleaseFile)
	text, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, []byte(strings.Replace(string(text), "artifact: {path: artifact/desk}\n", "", 1)), 0o600))
	return d.path("release")
}

// TestRelease_G33_AnImageKeptElsewhereIsReleasedByItsDigest packs, signs, attests,
// verifies and carries a release whose artifact is not in it.
func TestRelease_G33_AnImageKeptElsewhereIsReleasedByItsDigest(t *testing.T) {
	d := newDesk(t)
	source, hex := d.withManifest(t), image[strings.Index(image, ":")+1:]
	d.pkg = d.path("image")
	packed := item(t, ok(t, "release", "pack", source, "--image", image, "--out", d.pkg, "-o", "json").out)
	if packed["artifact_digest"] != "sha256:"+hex {
		t.Errorf("packed %v", packed)
	}
	bill := d.write(t, "bom.json", `{"bomFormat":"CycloneDX","specVersion":"1.6","metadata":{"timestamp":"2026-06-01T10:00:00Z","component":{"type":"container","name":"desk","version":"sha256:`+hex+`"}},"components":[{"type":"library","name":"lib"}]}`)
	ok(t, "release", "attest", d.pkg, "--slot", "sbom", "--key", d.path("build.key"), "--predicate", bill)
	ok(t, "release", "sign", d.pkg, "--key", d.path("release.key"))
	d.refusedWith(t, d.pkg, "artifact.unproven")
	ok(t, "release", "attest", d.pkg, "--slot", "provenance", "--key", d.path("build.key"),
		"--builder-id", "https://builds.example/desk", "--source-repository", "https://git.example/desk", "--source-ref", "refs/tags/v1.0.0")
	ok(t, "release", "verify", d.pkg, "--policy", d.policy)
	if shown := ok(t, "release", "inspect", d.pkg).out; !strings.Contains(shown, "registry.example/desk, an image kept elsewhere") {
		t.Errorf("inspect:\n%s", shown)
	}
	ok(t, "release", "push", d.pkg, "oci:"+d.path("layout")+":1")
	ok(t, "release", "verify", "oci:"+d.path("layout")+":1", "--policy", d.policy)
}

// TestRelease_G40_WhatAnImageKeptElsewhereCannotDo: nothing here has its bytes.
func TestRelease_G40_WhatAnImageKeptElsewhereCannotDo(t *testing.T) {
	d := newDesk(t)
	source := d.withManifest(t)
	for name, args := range map[string][]string{
		"a tag":    {"--image", "registry.example/desk:1"},
		"both":     {"--image", image, "--artifact", source},
		"discover": {"--image", image, "--discover"},
	} {
		if got := aipctl(t, append([]string{"release", "pack", source, "--out", d.path("refused")}, args...)...); got.code != 2 || !strings.Contains(got.err, "error[usage.flag]") {
			t.Errorf("%s: exit %d %s", name, got.code, got.err)
		}
	}
	ok(t, "release", "pack", source, "--image", image, "--out", d.path("image"))
	if got := aipctl(t, "release", "attest", d.path("image"), "--slot", "sbom", "--key", d.path("build.key")); got.code == 0 || !strings.Contains(got.err, "error[attest.sbom]") {
		t.Errorf("a bill out of nothing: exit %d %s", got.code, got.err)
	}
}
