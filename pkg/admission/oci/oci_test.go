package oci_test

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	layout "oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/oci"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

const releaseYAML = `type: {id: ctype_desk, name: desk}
owner: desk-team
version: "1.0.0"
version_id: cver_desk1
release_sequence: 3
aip_versions: ["1.0"]
artifact: {path: artifact/app, entrypoint: bin/run}
`

const manifestJSON = `{"aip_version": "1.0", "name": "desk", "version": "1.0.0",
 "capabilities": [{"id": "desk:open", "name": "open", "kind": "tool", "input_schema": {"type": "object"}, "contract": {"side_effects": "write", "idempotency": "natural"}}],
 "implementations": [{"capability_id": "desk:open", "adapter": "mcp", "tool": "open"}]}`

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// packageDir writes a package with a directory artifact and two evidence files.
func packageDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"release.yaml": releaseYAML, "manifest.json": manifestJSON, "artifact/app/bin/run": "#!/bin/sh\n", "artifact/app/data.txt": "data",
		"evidence/sbom.sigstore.json": `{"bundle": 1}`, "evidence/approval.sigstore.json": `{"bundle": 2}`, "evidence/approval.2.sigstore.json": `{"bundle": 3}`,
	} {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, "run") {
			mode = 0o755
		}
		if err := os.WriteFile(full, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// places are the two kinds of things that a release travels through.
func places(t *testing.T) map[string]func(t *testing.T) oras.GraphTarget {
	t.Helper()
	return map[string]func(t *testing.T) oras.GraphTarget{
		"layout": func(t *testing.T) oras.GraphTarget { return must(layout.New(t.TempDir())) },
		"registry": func(t *testing.T) oras.GraphTarget {
			server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
			t.Cleanup(server.Close)
			repo := must(remote.NewRepository(strings.TrimPrefix(server.URL, "http://") + "/releases/desk"))
			repo.PlainHTTP = true
			return repo
		},
		"registry without referrers": func(t *testing.T) oras.GraphTarget {
			server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
			t.Cleanup(server.Close)
			repo := must(remote.NewRepository(strings.TrimPrefix(server.URL, "http://") + "/releases/desk"))
			repo.PlainHTTP = true
			return repo
		},
	}
}

// TestOCI_G33_APackageComesBackByteForByte: what is pulled is the very package that was
// pushed, evidence and executable bits included.
func TestOCI_G33_APackageComesBackByteForByte(t *testing.T) {
	for name, make := range places(t) {
		t.Run(name, func(t *testing.T) {
			ctx, dir, target := t.Context(), packageDir(t), make(t)
			pushed := must(oci.Push(ctx, dir, target, "v1"))
			before := must(admission.OpenPackage(dir, admission.Limits{}))
			for _, reference := range []string{"v1", pushed.Digest} {
				out := filepath.Join(t.TempDir(), "pulled")
				pulled := must(oci.Pull(ctx, target, reference, out, admission.Limits{}))
				after := must(admission.OpenPackage(out, admission.Limits{}))
				if after.Digest() != before.Digest() || after.ArtifactDigest() != before.ArtifactDigest() || len(after.Evidence()) != 3 {
					t.Errorf("pulled %s, %v, pushed was %s", after.Digest(), after.Evidence(), before.Digest())
				}
				if pulled.Digest != pushed.Digest || pulled.Evidence != 3 || pulled.Files != 4 {
					t.Errorf("pulled %+v, pushed %+v", pulled, pushed)
				}
			}
			again := must(oci.Push(ctx, dir, target, "v2"))
			if again.Digest != pushed.Digest {
				t.Errorf("the same package has two digests: %s, %s", pushed.Digest, again.Digest)
			}
		})
	}
}

// forge writes an OCI artifact by hand.
type forge struct {
	t  *testing.T
	to oras.GraphTarget
}

func (f forge) blob(name string, data []byte, mediaType string) ocispec.Descriptor {
	f.t.Helper()
	d := content.NewDescriptorFromBytes(mediaType, data)
	if ok := must(f.to.Exists(f.t.Context(), d)); !ok {
		if err := f.to.Push(f.t.Context(), d, bytes.NewReader(data)); err != nil {
			f.t.Fatal(err)
		}
	}
	d.Annotations = map[string]string{ocispec.AnnotationTitle: name}
	return d
}

func (f forge) release(artifactType string, layers ...ocispec.Descriptor) ocispec.Descriptor {
	f.t.Helper()
	d := must(oras.PackManifest(f.t.Context(), f.to, oras.PackManifestVersion1_1, artifactType, oras.PackManifestOptions{Layers: layers}))
	if err := f.to.Tag(f.t.Context(), d, "v1"); err != nil {
		f.t.Fatal(err)
	}
	return d
}

func (f forge) referrer(about ocispec.Descriptor, slot, bundle string) {
	f.t.Helper()
	layer := f.blob("evidence/"+slot+".sigstore.json", []byte(bundle), oci.BundleType)
	must(oras.PackManifest(f.t.Context(), f.to, oras.PackManifestVersion1_1, oci.BundleType, oras.PackManifestOptions{
		Subject: &about, Layers: []ocispec.Descriptor{layer}, ManifestAnnotations: map[string]string{"com.github.aipfleet.evidence": slot},
	}))
}

func TestOCI_G33_HostileArtifacts(t *testing.T) {
	doc := func(f forge, name string) ocispec.Descriptor { return f.blob(name, []byte(name), oci.DocumentType) }
	cases := map[string]struct {
		make func(f forge)
		want string
	}{
		"path that leaves the package": {func(f forge) { f.release(oci.ArtifactType, doc(f, "artifact/../../etc/cron.d/evil")) }, "package.path"},
		"absolute path":                {func(f forge) { f.release(oci.ArtifactType, doc(f, "/etc/passwd")) }, "package.path"},
		"no name":                      {func(f forge) { f.release(oci.ArtifactType, doc(f, "")) }, "package.path"},
		"file that no package has":     {func(f forge) { f.release(oci.ArtifactType, doc(f, "run.sh")) }, "package.unexpected_file"},
		"one name twice":               {func(f forge) { f.release(oci.ArtifactType, doc(f, "release.yaml"), doc(f, "release.yaml")) }, "package.path"},
		"evidence as a layer":          {func(f forge) { f.release(oci.ArtifactType, doc(f, "evidence/sbom.sigstore.json")) }, "oci.evidence_layer"},
		"another kind of artifact":     {func(f forge) { f.release("application/vnd.example.wasm", doc(f, "release.yaml")) }, "oci.artifact_type"},
		"layer that says it is huge": {func(f forge) {
			d := doc(f, "release.yaml")
			d.Size = 1 << 40
			f.release(oci.ArtifactType, d)
		}, "package.too_large"},
		"layer that is not its digest": {func(f forge) {
			d := doc(f, "release.yaml")
			d.Size = 3
			f.release(oci.ArtifactType, d)
		}, "oci.digest"},
		"layer that is not there": {func(f forge) {
			f.release(oci.ArtifactType, ocispec.Descriptor{MediaType: oci.DocumentType, Digest: digest.FromString("gone"), Size: 4,
				Annotations: map[string]string{ocispec.AnnotationTitle: "release.yaml"}})
		}, "oci.transport"},
		"referrer of no slot": {func(f forge) { f.referrer(f.release(oci.ArtifactType, doc(f, "release.yaml")), "../../evil", "{}") }, "package.unexpected_file"},
		"huge evidence": {func(f forge) {
			f.referrer(f.release(oci.ArtifactType, doc(f, "release.yaml")), "sbom", strings.Repeat(" ", 9<<20))
		}, "package.too_large"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := forge{t, must(layout.New(t.TempDir()))}
			c.make(f)
			out := filepath.Join(t.TempDir(), "pulled")
			if _, err := oci.Pull(t.Context(), f.to, "v1", out, admission.Limits{}); fleet.CodeOf(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestOCI_G33_AddedReferrersAreKeptApart: whoever may push may add evidence; all of it
// comes back, and admission refuses what is one too many.
func TestOCI_G33_AddedReferrersAreKeptApart(t *testing.T) {
	target, dir := must(layout.New(t.TempDir())), packageDir(t)
	pushed := must(oci.Push(t.Context(), dir, target, "v1"))
	about := must(target.Resolve(t.Context(), pushed.Digest))
	forge{t, target}.referrer(about, "sbom", `{"bundle": "forged"}`)
	out := filepath.Join(t.TempDir(), "pulled")
	must(oci.Pull(t.Context(), target, "v1", out, admission.Limits{}))
	p := must(admission.OpenPackage(out, admission.Limits{}))
	if got := strings.Join(p.Evidence(), " "); !strings.Contains(got, "evidence/sbom.sigstore.json evidence/sbom.2.sigstore.json") {
		t.Errorf("evidence %s", got)
	}
	if _, err := oci.Pull(t.Context(), target, "v1", out, admission.Limits{}); fleet.CodeOf(err) != "oci.directory" {
		t.Errorf("a directory with files: %v", err)
	}
	if _, err := oci.Pull(t.Context(), target, "v9", filepath.Join(t.TempDir(), "x"), admission.Limits{}); fleet.CodeOf(err) != "oci.transport" {
		t.Errorf("an unknown tag: %v", err)
	}
}
