package admission_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

func TestPackage_G28_SingleFileDigestIsThatOfItsBytes(t *testing.T) {
	p := openPackage(t, writeFiles(t, baseFiles()))
	if want := fleet.DigestBytes([]byte(artifactBytes)); p.ArtifactDigest() != want {
		t.Errorf("artifact digest %s, want %s", p.ArtifactDigest(), want)
	}
	dir := filepath.Join(t.TempDir(), "run")
	got, err := p.ExtractArtifact(dir, p.ArtifactDigest())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(got.Path)
	if err != nil || string(data) != artifactBytes {
		t.Errorf("extracted %q, %v", data, err)
	}
	if info, err := os.Stat(got.Path); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("mode %v, %v: want 0500", info.Mode(), err)
	}
}

func TestPackage_G28_ExtractRefusesBytesThatAreNotTheAdmittedOnes(t *testing.T) {
	source := writeFiles(t, baseFiles())
	p := openPackage(t, source)
	admitted := p.ArtifactDigest()
	changed := strings.Replace(artifactBytes, "desk", "dusk", 1)
	if err := os.WriteFile(filepath.Join(source, "artifact/desk-mcp"), []byte(changed), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	_, err := p.ExtractArtifact(dir, admitted)
	if fleet.CodeOf(err) != "artifact.digest" {
		t.Fatalf("error %v, want artifact.digest", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("refused bytes were left behind: %v", err)
	}
}

func directoryFiles() map[string]string {
	files := baseFiles()
	delete(files, "artifact/desk-mcp")
	files["release.yaml"] = strings.Replace(releaseYAML, "path: artifact/desk-mcp", "path: artifact/app\n  entrypoint: bin/main.js\n  interpreter: node", 1)
	files["artifact/app/bin/main.js"] = "main"
	files["artifact/app/lib/a.js"] = "a"
	return files
}

func TestPackage_G28_DirectoryArtifactIsOneDeterministicDigest(t *testing.T) {
	first := openPackage(t, writeFiles(t, directoryFiles()))
	second := openPackage(t, writeFiles(t, directoryFiles()))
	if first.ArtifactDigest() != second.ArtifactDigest() || first.Digest() != second.Digest() {
		t.Error("the same content in two places has two digests")
	}
	moved := directoryFiles()
	moved["artifact/app/lib/b.js"], moved["artifact/app/lib/a.js"] = "a", ""
	if openPackage(t, writeFiles(t, moved)).ArtifactDigest() == first.ArtifactDigest() {
		t.Error("a renamed file has the same artifact digest")
	}
	got, err := first.ExtractArtifact(filepath.Join(t.TempDir(), "run"), first.ArtifactDigest())
	if err != nil {
		t.Fatal(err)
	}
	if got.Interpreter != "node" || !strings.HasSuffix(got.Path, "run/bin/main.js") {
		t.Errorf("extracted %+v", got)
	}
	if data, _ := os.ReadFile(filepath.Join(got.Root, "lib/a.js")); string(data) != "a" {
		t.Errorf("lib/a.js holds %q", data)
	}
}

func TestPackage_G35_ArchiveReadsBackAsTheSamePackage(t *testing.T) {
	p := openPackage(t, writeFiles(t, baseFiles()))
	archive := p.Archive()
	if fleet.DigestBytes(archive) != p.Digest() {
		t.Fatal("the package digest is not that of the archive")
	}
	back, found := admission.ReadArchive(archive, admission.Limits{})
	if len(found) > 0 {
		t.Fatalf("archive refused: %v", found)
	}
	if back.Digest() != p.Digest() || back.ArtifactDigest() != p.ArtifactDigest() || back.ManifestDigest() != p.ManifestDigest() {
		t.Error("the archive reads back as another package")
	}
	i := strings.Index(string(archive), "desk-team")
	archive[i] = 'D'
	if _, found := admission.ReadArchive(archive, admission.Limits{}); !slices.Contains(codes(found), "package.archive") {
		t.Errorf("changed archive: %v", found)
	}
}

func TestPackage_G33_RefusesBeforeParsing(t *testing.T) {
	cases := map[string]struct {
		change func(t *testing.T, dir string)
		limits admission.Limits
		want   string
	}{
		"symlink": {func(t *testing.T, dir string) {
			must(t, os.Symlink("/etc/hostname", filepath.Join(dir, "artifact/link")))
		}, admission.Limits{}, "package.link"},
		"symlinked directory": {func(t *testing.T, dir string) {
			must(t, os.Symlink("/etc", filepath.Join(dir, "evidence")))
		}, admission.Limits{}, "package.link"},
		"control character in a name": {func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "artifact/a\nb"), []byte("x"), 0o600))
		}, admission.Limits{}, "package.path"},
		"file of no slot": {func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("x"), 0o600))
		}, admission.Limits{}, "package.unexpected_file"},
		"file beside the artifact": {func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "artifact/other"), []byte("x"), 0o600))
		}, admission.Limits{}, "package.unexpected_file"},
		"artifact too large": {func(*testing.T, string) {}, admission.Limits{ArtifactBytes: 4}, "package.too_large"},
		"manifest missing": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "manifest.json")))
		}, admission.Limits{}, "package.incomplete"},
		"artifact missing": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "artifact/desk-mcp")))
		}, admission.Limits{}, "artifact.missing"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := writeFiles(t, baseFiles())
			c.change(t, dir)
			if _, found := admission.ReadPackage(dir, c.limits); !slices.Contains(codes(found), c.want) {
				t.Errorf("findings %v, want %s", found, c.want)
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRelease_G33_StrictDocument(t *testing.T) {
	if _, err := admission.ParseRelease([]byte(releaseYAML)); err != nil {
		t.Fatalf("the valid release is refused: %v", err)
	}
	cases := map[string][2]string{
		"unknown member":          {"owner: desk-team", "owner: desk-team\nowners: x"},
		"duplicate member":        {"owner: desk-team", "owner: desk-team\nowner: other"},
		"other case":              {"owner:", "Owner:"},
		"alias":                   {"owner: desk-team", "owner: &o desk-team"},
		"float version":           {`version: "1.0.0"`, "version: 1.5"},
		"sequence zero":           {"release_sequence: 3", "release_sequence: 0"},
		"sequence above 2^53":     {"release_sequence: 3", "release_sequence: 9007199254740993"},
		"other AIP version only":  {`["1.0"]`, `["2.0"]`},
		"path leaves":             {"artifact/desk-mcp", "artifact/../../desk-mcp"},
		"path absolute":           {"artifact/desk-mcp", "/bin/sh"},
		"path elsewhere":          {"artifact/desk-mcp", "evidence/desk-mcp"},
		"interpreter is a path":   {"path: artifact/desk-mcp", "path: artifact/desk-mcp\n  interpreter: /bin/sh"},
		"path and digest":         {"path: artifact/desk-mcp", "path: artifact/desk-mcp\n  digest: sha256:" + genuineHex()},
		"entrypoint of an image":  {"path: artifact/desk-mcp", "entrypoint: desk\n  digest: sha256:" + genuineHex()},
		"image without a digest":  {"path: artifact/desk-mcp", "path: artifact/desk-mcp\n  image: registry.example/desk"},
		"image of two digests":    {"path: artifact/desk-mcp", "image: desk@sha256:" + foreignHex() + "\n  digest: sha256:" + genuineHex()},
		"weak digest of an image": {"path: artifact/desk-mcp", "digest: sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709"},
		"second document":         {"owner: desk-team", "owner: desk-team\n---\nowner: x"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(releaseYAML, c[0], c[1], 1)
			if changed == releaseYAML {
				t.Fatal("the case changes nothing")
			}
			if r, err := admission.ParseRelease([]byte(changed)); err == nil {
				t.Errorf("accepted as %+v", r)
			}
		})
	}
}
