package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

const (
	maxManifestBytes = 16 << 20
	maxReferrers     = 256 // looked at, of any kind
)

// Pulled says what was read.
type Pulled struct {
	Digest   string `json:"digest"` // of the OCI manifest
	Files    int    `json:"files"`
	Evidence int    `json:"evidence"`
}

// Pull reads a release by tag or digest into dir, which must not exist or be empty.
// It refuses what no package may hold before it is written: Kind NotAdmitted, with
// the finding's code.
func Pull(ctx context.Context, from oras.ReadOnlyGraphTarget, reference, dir string, limits admission.Limits) (Pulled, error) {
	about, err := from.Resolve(ctx, reference)
	if err != nil {
		return Pulled{}, failed("there is no such release", err)
	}
	m, err := readManifest(ctx, from, about)
	if err != nil {
		return Pulled{}, err
	}
	if kind := cmp.Or(m.ArtifactType, m.Config.MediaType); kind != ArtifactType {
		return Pulled{}, refused("oci.artifact_type", "artifact type %q is not a release", fleet.Printable(kind, 100))
	}
	layers, err := plan(m.Layers, limits)
	if err != nil {
		return Pulled{}, err
	}
	evidence, err := referrers(ctx, from, about, limits)
	if err != nil {
		return Pulled{}, err
	}
	root, err := emptyRoot(dir)
	if err != nil {
		return Pulled{}, err
	}
	defer func() { _ = root.Close() }()
	for _, f := range slices.Concat(layers, evidence) {
		if err := write(ctx, from, root, f); err != nil {
			return Pulled{}, err
		}
	}
	return Pulled{Digest: about.Digest.String(), Files: len(layers), Evidence: len(evidence)}, nil
}

func refused(code, format string, args ...any) *fleet.Error {
	return fleet.Errorf(fleet.NotAdmitted, code, format, args...)
}

// readManifest reads one manifest, held against its digest, strictly.
func readManifest(ctx context.Context, from content.Fetcher, d ocispec.Descriptor) (ocispec.Manifest, error) {
	var m ocispec.Manifest
	if d.Size > maxManifestBytes {
		return m, refused("package.too_large", "a manifest of %d bytes is too large", d.Size)
	}
	raw, err := content.FetchAll(ctx, from, d)
	if err != nil {
		return m, failed("a manifest cannot be read", err)
	}
	if _, err := envelope.ParseStrict(raw, envelope.Limits{MaxBytes: maxManifestBytes, MaxDepth: 32, SafeIntegers: true}); err != nil {
		return m, refused("oci.manifest", "a manifest is not one strict JSON document").Because("%v", err)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, refused("oci.manifest", "a manifest cannot be read").Caused(err)
	}
	return m, nil
}

// file is one file that will be written.
type file struct {
	name string
	exec bool
	blob ocispec.Descriptor
}

// plan checks every layer's name and size before anything is fetched.
func plan(layers []ocispec.Descriptor, limits admission.Limits) ([]file, error) {
	var files []file
	seen := map[string]bool{}
	var total int64
	for _, l := range layers {
		name := l.Annotations[ocispec.AnnotationTitle]
		if isEvidence(name) {
			return nil, refused("oci.evidence_layer", "evidence is attached as a referrer, not as a layer")
		}
		if err := check(name, l.Size, limits); err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, refused("package.path", "%s occurs twice", name)
		}
		seen[name] = true
		total += l.Size
		files = append(files, file{name: name, exec: l.Annotations[annotationExec] == "true", blob: l})
	}
	if most := limits.Largest(); total > most || len(files) > admission.MaxFiles {
		return nil, refused("package.too_large", "the release has %d files of %d bytes", len(files), total)
	}
	return files, nil
}

// check refuses a name that no package has, and a size beyond the name's bound.
func check(name string, size int64, limits admission.Limits) error {
	bound, err := limits.Bound(name)
	if err != nil {
		return err
	}
	if size < 0 || size > bound {
		return refused("package.too_large", "%s has %d bytes, allowed are %d", name, size, bound)
	}
	return nil
}

// referrers lists the evidence attached to the release, by slot. Two for one slot are
// both kept, under different names: which of them counts is not decided here.
func referrers(ctx context.Context, from oras.ReadOnlyGraphTarget, about ocispec.Descriptor, limits admission.Limits) ([]file, error) {
	found, err := from.Predecessors(ctx, about)
	if err != nil {
		return nil, failed("the evidence cannot be listed", err)
	}
	if len(found) > maxReferrers {
		return nil, refused("package.too_large", "%d manifests refer to the release", len(found))
	}
	slices.SortFunc(found, func(a, b ocispec.Descriptor) int { return strings.Compare(a.Digest.String(), b.Digest.String()) })
	var files []file
	taken := map[string]bool{}
	for _, d := range found {
		m, err := readManifest(ctx, from, d)
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(cmp.Or(m.ArtifactType, m.Config.MediaType), "application/vnd.dev.sigstore.bundle") {
			continue
		}
		f, err := evidence(m, about, taken, limits)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func evidence(m ocispec.Manifest, about ocispec.Descriptor, taken map[string]bool, limits admission.Limits) (file, error) {
	if m.Subject == nil || m.Subject.Digest != about.Digest || len(m.Layers) != 1 {
		return file{}, refused("oci.referrer", "a referrer is not one bundle about this release")
	}
	slot, _, _ := strings.Cut(m.Annotations[annotationSlot], ".")
	name := admission.EvidencePath(slot)
	for n := 2; taken[name]; n++ {
		name = admission.EvidencePath(fmt.Sprintf("%s.%d", slot, n))
	}
	taken[name] = true
	return file{name: name, blob: m.Layers[0]}, check(name, m.Layers[0].Size, limits)
}

func emptyRoot(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, failed("the directory cannot be made", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		return nil, fleet.Errorf(fleet.Conflict, "oci.directory", "%s is not an empty directory", dir).Caused(err)
	}
	root, err := os.OpenRoot(dir)
	return root, failed("the directory cannot be opened", err)
}

// write fetches one file and holds it against its digest and size.
func write(ctx context.Context, from content.Fetcher, root *os.Root, f file) (err error) {
	in, err := from.Fetch(ctx, f.blob)
	if err != nil {
		return failed("a file cannot be fetched", err)
	}
	defer func() { _ = in.Close() }()
	if err := makeParents(root, path.Dir(f.name)); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if f.exec {
		mode = 0o755
	}
	out, err := root.OpenFile(filepath.FromSlash(f.name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return failed("a file cannot be written", err)
	}
	verified := content.NewVerifyReader(in, f.blob)
	_, err = io.Copy(out, verified)
	err = errors.Join(err, out.Close())
	if err == nil {
		err = verified.Verify()
	}
	if err != nil {
		return refused("oci.digest", "%s is not what its digest says", f.name).Caused(err)
	}
	return nil
}

func makeParents(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if err := makeParents(root, path.Dir(dir)); err != nil {
		return err
	}
	if err := root.Mkdir(filepath.FromSlash(dir), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return failed("a directory cannot be made", err)
	}
	return nil
}
