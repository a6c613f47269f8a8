package oci

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Media types of a release.
const (
	ArtifactType = "application/vnd.aipfleet.release.v1"
	DocumentType = "application/vnd.aipfleet.release.document.v1"
	FileType     = "application/vnd.aipfleet.release.file.v1"
	BundleType   = "application/vnd.dev.sigstore.bundle.v0.3+json"
)

// Annotations of layers and referrers.
const (
	annotationSlot = "com.github.aipfleet.evidence" // "sbom", "approval.2"
	annotationExec = "com.github.aipfleet.executable"
)

// fixedTime keeps manifests a function of their content.
const fixedTime = "1970-01-01T00:00:00Z"

// Pushed says where a release lies.
type Pushed struct {
	Digest   string   `json:"digest"` // of the OCI manifest, without its referrers
	Tag      string   `json:"tag"`
	Files    int      `json:"files"`
	Evidence []string `json:"evidence"` // digests of the referrers
}

// Push writes the package in dir to a layout or registry under a tag. The package is
// read and checked first.
func Push(ctx context.Context, dir string, to oras.Target, tag string) (Pushed, error) {
	if _, err := admission.OpenPackage(dir, admission.Limits{}); err != nil {
		return Pushed{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Pushed{}, failed("the package cannot be opened", err)
	}
	defer func() { _ = root.Close() }()
	names, err := list(root)
	if err != nil {
		return Pushed{}, err
	}
	p := pusher{root: root, to: to}
	out := Pushed{Tag: tag}
	var layers []ocispec.Descriptor
	for _, name := range names {
		if isEvidence(name) {
			continue
		}
		layer, err := p.file(ctx, name)
		if err != nil {
			return Pushed{}, err
		}
		layers = append(layers, layer)
	}
	manifest, err := p.manifest(ctx, ArtifactType, layers, nil, nil)
	if err != nil {
		return Pushed{}, err
	}
	out.Digest, out.Files = manifest.Digest.String(), len(layers)
	for _, name := range names {
		if !isEvidence(name) {
			continue
		}
		referrer, err := p.evidence(ctx, name, manifest)
		if err != nil {
			return Pushed{}, err
		}
		out.Evidence = append(out.Evidence, referrer.Digest.String())
	}
	if err := to.Tag(ctx, manifest, tag); err != nil {
		return Pushed{}, failed("the release cannot be tagged", err)
	}
	return out, nil
}

func isEvidence(name string) bool { return strings.HasPrefix(name, admission.EvidenceDir+"/") }

// list names every file of the package, in bytewise order.
func list(root *os.Root) ([]string, error) {
	var names []string
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, failed("the package cannot be read", err)
	}
	return names, nil
}

type pusher struct {
	root *os.Root
	to   oras.Target
}

// file pushes one file as a layer named by its path.
func (p pusher) file(ctx context.Context, name string) (ocispec.Descriptor, error) {
	d := ocispec.Descriptor{MediaType: DocumentType, Annotations: map[string]string{ocispec.AnnotationTitle: name}}
	if strings.HasPrefix(name, admission.ArtifactDir+"/") {
		d.MediaType = FileType
		info, err := p.root.Stat(filepath.FromSlash(name))
		if err != nil {
			return d, failed("the package cannot be read", err)
		}
		if info.Mode()&0o100 != 0 {
			d.Annotations[annotationExec] = "true"
		}
	}
	return d, p.blob(ctx, name, &d)
}

// blob pushes a file's bytes and completes its descriptor.
func (p pusher) blob(ctx context.Context, name string, d *ocispec.Descriptor) (err error) {
	f, err := p.root.Open(filepath.FromSlash(name))
	if err != nil {
		return failed("the package cannot be read", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := digest.SHA256.Digester()
	if d.Size, err = io.Copy(sum.Hash(), f); err != nil {
		return failed("the package cannot be read", err)
	}
	d.Digest = sum.Digest()
	if there, err := p.to.Exists(ctx, *d); err != nil || there {
		return failed("the registry cannot be asked", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return failed("the package cannot be read", err)
	}
	if err := p.to.Push(ctx, *d, io.NopCloser(f)); err != nil {
		return failed("a file cannot be pushed", err)
	}
	return nil
}

func (p pusher) manifest(ctx context.Context, artifactType string, layers []ocispec.Descriptor, subject *ocispec.Descriptor, more map[string]string) (ocispec.Descriptor, error) {
	annotations := map[string]string{ocispec.AnnotationCreated: fixedTime}
	for k, v := range more {
		annotations[k] = v
	}
	d, err := oras.PackManifest(ctx, p.to, oras.PackManifestVersion1_1, artifactType, oras.PackManifestOptions{
		Subject: subject, Layers: layers, ManifestAnnotations: annotations,
	})
	if err != nil {
		return d, failed("a manifest cannot be pushed", err)
	}
	return d, nil
}

// evidence pushes one bundle as a referrer of the release.
func (p pusher) evidence(ctx context.Context, name string, about ocispec.Descriptor) (ocispec.Descriptor, error) {
	layer := ocispec.Descriptor{MediaType: BundleType, Annotations: map[string]string{ocispec.AnnotationTitle: name}}
	if err := p.blob(ctx, name, &layer); err != nil {
		return layer, err
	}
	subject := content.NewDescriptorFromBytes(about.MediaType, nil)
	subject.Digest, subject.Size = about.Digest, about.Size
	slot := strings.TrimSuffix(strings.TrimPrefix(name, admission.EvidenceDir+"/"), ".sigstore.json")
	return p.manifest(ctx, BundleType, []ocispec.Descriptor{layer}, &subject, map[string]string{annotationSlot: slot})
}

// failed is nil for no error.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	var ours *fleet.Error
	if errors.As(err, &ours) {
		return err
	}
	return fleet.Errorf(fleet.Unavailable, "oci.transport", "%s", what).Caused(err).Advise("check the reference, the registry and your access to it")
}
