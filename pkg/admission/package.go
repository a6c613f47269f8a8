package admission

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// Package is a release package whose sizes, names and documents were checked. It
// says nothing about trust: that is Evaluate's.
type Package struct {
	dir            string // "" for a package read from its archive
	files          map[string][]byte
	release        Release
	manifest       fleet.Manifest
	manifestDigest fleet.Digest
	artifact       artifact
	archive        []byte
	digest         fleet.Digest
	limits         Limits
}

// OpenPackage reads the package in dir. It refuses with Kind NotAdmitted and the
// code of the first finding; ReadPackage gives all of them.
func OpenPackage(dir string, limits Limits) (*Package, error) {
	p, found := ReadPackage(dir, limits)
	if len(found) > 0 {
		return nil, Refusal(found)
	}
	return p, nil
}

// ReadPackage reads the package in dir: names, kinds and sizes first, then the
// documents, then the artifact's digest. Each of these steps reports all that is
// wrong with it, and later steps run only after clean earlier ones. The package
// is nil exactly when there are findings.
func ReadPackage(dir string, limits Limits) (*Package, []Finding) {
	found := findings{without: limits.without}
	limits = limits.tightened()
	root, err := os.OpenRoot(dir)
	if err != nil {
		found.addError("package.unreadable", dir, "give the directory that holds "+ReleaseFile, err)
		return nil, found.list
	}
	defer root.Close()
	names := listPackage(root, limits, &found)
	if len(found.list) > 0 {
		return nil, found.list
	}
	p := &Package{dir: dir, limits: limits, files: readDocuments(root, names, limits, &found)}
	if len(found.list) == 0 {
		p.parse(&found)
	}
	if len(found.list) == 0 {
		p.readArtifact(root, names, &found)
	}
	if len(found.list) > 0 {
		return nil, found.list
	}
	if err := p.seal(); err != nil {
		found.addError("package.unreadable", ".", "report this", err)
		return nil, found.list
	}
	return p, nil
}

// Release is release.yaml.
func (p *Package) Release() Release { return p.release }

// Manifest is manifest.json.
func (p *Package) Manifest() fleet.Manifest { return p.manifest }

// ManifestDigest is recomputed over the canonical form of manifest.json.
func (p *Package) ManifestDigest() fleet.Digest { return p.manifestDigest }

// ArtifactDigest is recomputed over the artifact's bytes: those of the one file,
// or of the deterministic tar of the directory. That of an image kept elsewhere is the
// one that release.yaml states.
func (p *Package) ArtifactDigest() fleet.Digest { return p.artifact.digest }

// ArtifactPath is where the artifact lies below the package; "" for an image kept
// elsewhere. Those bytes may change any time: run what ExtractArtifact wrote instead.
func (p *Package) ArtifactPath() string { return p.release.Artifact.Path }

// Digest names the whole package, evidence and deployment included: it is the
// SHA-256 of Archive, in which the artifact stands by its digest. Signatures are
// over the artifact and what is bound to it, never over this digest, because they
// are part of it.
func (p *Package) Digest() fleet.Digest { return p.digest }

// Planned refuses to go on with another package than the one that was looked at:
// Kind Conflict, code admit.package_changed. The zero digest stands for no plan.
func (p *Package) Planned(digest fleet.Digest) error {
	if digest.IsZero() || digest == p.digest {
		return nil
	}
	return fleet.Errorf(fleet.Conflict, "admit.package_changed", "the package is not the one that was planned").
		Because("its digest is %s", p.digest)
}

// File returns a document of the package by its name in it, or false.
func (p *Package) File(name string) ([]byte, bool) {
	data, ok := p.files[name]
	return data, ok
}

// Evidence returns the evidence files, by slot and then by number in it.
func (p *Package) Evidence() []string {
	var names []string
	for name := range p.files {
		if strings.HasPrefix(name, EvidenceDir+"/") {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(strings.Compare(slotOf(a), slotOf(b)), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return names
}

func (p *Package) parse(found *findings) {
	release, err := ParseRelease(p.files[ReleaseFile])
	if err != nil {
		found.addError("release.malformed", ReleaseFile, "correct the named members", err)
	}
	p.release = release
	manifest, canonical, err := protocol.ReadManifest(p.files[ManifestFile])
	if err != nil {
		found.addError("manifest.malformed", ManifestFile, "write an AIP 1.0 manifest; release pack --discover makes one", err)
	}
	p.manifest, p.manifestDigest = manifest, fleet.DigestBytes(canonical)
}
