package admission_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// newImageBench is a genuine package whose artifact is an image kept elsewhere.
func newImageBench(t testing.TB) *bench {
	b := newBench(t)
	b.artifact = fleet.DigestBytes([]byte("the manifest of an image"))
	b.replace("release.yaml", "path: artifact/desk-mcp", "digest: "+b.artifact.String()+"\n  image: registry.example/desk@"+b.artifact.String())
	must(t, os.RemoveAll(filepath.Join(b.dir, "artifact")))
	b.signAll()
	return b
}

// imageAttacks offer an image that nothing speaks for.
func imageAttacks() []attack {
	return []attack{
		{name: "image without provenance", make: newImageBench, do: func(b *bench) {
			delete(b.policy["slots"].(object), "provenance")
			b.policy["distinct_signers"] = []any{}
			b.remove("provenance")
		}, want: "artifact.unproven"},
		{name: "image with the provenance of another", make: newImageBench, do: func(b *bench) {
			b.write("provenance", b.sign("build", strings.Replace(b.genuine("provenance"), b.artifact.Hex(), foreignHex(), 1)))
		}, want: "evidence.provenance.subject_mismatch"},
		{name: "image swapped after signing", make: newImageBench, do: func(b *bench) {
			b.replace("release.yaml", "digest: "+b.artifact.String(), "digest: sha256:"+foreignHex())
			b.replace("release.yaml", "@"+b.artifact.String(), "")
		}, want: "evidence.provenance.subject_mismatch", also: []string{
			"evidence.approval.subject_mismatch", "evidence.conformance.subject_mismatch", "evidence.sbom.subject_mismatch",
			"evidence.signature.subject_mismatch", "evidence.vulnerability.subject_mismatch", "manifest.unbound", "release.unbound",
		}},
		{name: "bytes beside an image", make: newImageBench, do: func(b *bench) {
			must(b.t, os.MkdirAll(filepath.Join(b.dir, "artifact"), 0o755))
			must(b.t, os.WriteFile(filepath.Join(b.dir, "artifact/desk-mcp"), []byte(artifactBytes), 0o755))
		}, want: "package.unexpected_file"},
	}
}

// TestImage_G33_AnImageIsAdmittedByItsDigest: every slot is about the image, and the
// version that is admitted names it.
func TestImage_G33_AnImageIsAdmittedByItsDigest(t *testing.T) {
	b := newImageBench(t)
	verified, found := b.evaluate()
	if len(found) > 0 {
		t.Fatalf("refused: %v", found)
	}
	if v := verified.Version(); v.ArtifactDigest != b.artifact || !v.Attestation.Qualified {
		t.Errorf("version %+v", v)
	}
	set, err := verified.ChangeSet("a", "r")
	must(t, err)
	stored, found := admission.ReadArchive(set.Admission.Package, admission.Limits{})
	if len(found) > 0 || stored.ArtifactDigest() != b.artifact {
		t.Fatalf("the stored package: %v", found)
	}
	_, again := b.evaluator.Judge(b.request(stored))
	if !bytes.Equal(again.JSON(), set.Admission.Findings) {
		t.Errorf("two reports of one decision:\n%s\n%s", set.Admission.Findings, again.JSON())
	}
}

// TestImage_G35_AnArchiveCannotNameAnotherImageThanItsRelease: the index of an archive
// is not where the digest of an image comes from.
func TestImage_G35_AnArchiveCannotNameAnotherImageThanItsRelease(t *testing.T) {
	p := newImageBench(t).pkg()
	other, err := p.WithArtifact(fleet.DigestBytes([]byte("another image")), "")
	must(t, err)
	if _, found := admission.ReadArchive(other.Archive(), admission.Limits{}); !slices.Contains(codes(found), "package.archive") {
		t.Errorf("findings %v", found)
	}
}

// TestImage_G28_NothingRunsAnImageThatIsNotHere: there are no bytes to hold against
// the digest, so nothing is extracted.
func TestImage_G28_NothingRunsAnImageThatIsNotHere(t *testing.T) {
	p := newImageBench(t).pkg()
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := p.ExtractArtifact(dir, p.ArtifactDigest()); fleet.CodeOf(err) != "artifact.elsewhere" {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("something was written: %v", err)
	}
	if err := newBench(t).pkg().Inside(); err != nil {
		t.Errorf("a package with its artifact: %v", err)
	}
}

// TestImage_G33_BillsNameImagesAsTheirToolsDo: CycloneDX tools write the digest of an
// image into its version; of a file they do not, and there it says nothing.
func TestImage_G33_BillsNameImagesAsTheirToolsDo(t *testing.T) {
	for kind, want := range map[string]bool{"container": true, "library": false} {
		b := newImageBench(t)
		bill, err := json.Marshal(object{
			"bomFormat": "CycloneDX", "specVersion": "1.6",
			"metadata":   object{"timestamp": b.stamp(-24), "component": object{"type": kind, "name": "desk", "version": b.artifact.String()}},
			"components": []any{object{"type": "library", "name": "lib", "licenses": []any{object{"license": object{"id": "MIT"}}}}},
		})
		must(t, err)
		b.write("sbom", b.sign("build", b.statement(admission.PredicateCycloneDX, string(bill))))
		_, found := b.evaluate()
		if named := !slices.Contains(codes(found), "evidence.sbom.artifact_not_named"); named != want || want && len(found) > 0 {
			t.Errorf("%s: %v", kind, found)
		}
	}
}
