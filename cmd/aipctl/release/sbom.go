package release

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// spdx is the part of SPDX 2.3 that is written here.
type spdx struct {
	Version           string         `json:"spdxVersion"`
	DataLicence       string         `json:"dataLicense"`
	ID                string         `json:"SPDXID"`
	Name              string         `json:"name"`
	Namespace         string         `json:"documentNamespace"`
	CreationInfo      spdxCreation   `json:"creationInfo"`
	DocumentDescribes []string       `json:"documentDescribes"`
	Packages          []spdxPackage  `json:"packages"`
	Relationships     []spdxRelation `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID               string         `json:"SPDXID"`
	Name             string         `json:"name"`
	Version          string         `json:"versionInfo,omitempty"`
	Download         string         `json:"downloadLocation"`
	FilesAnalyzed    bool           `json:"filesAnalyzed"`
	LicenceConcluded string         `json:"licenseConcluded"`
	LicenceDeclared  string         `json:"licenseDeclared"`
	Copyright        string         `json:"copyrightText"`
	Checksums        []spdxChecksum `json:"checksums,omitempty"`
	References       []spdxRef      `json:"externalRefs,omitempty"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelation struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const noAssertion = "NOASSERTION"

// entrypoint is the file to run, in the package directory.
func entrypoint(dir string, spec admission.ArtifactSpec) string {
	path := filepath.Join(dir, filepath.FromSlash(spec.Path))
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, filepath.FromSlash(spec.Entrypoint))
	}
	return path
}

// billOf lists the modules that the Go toolchain wrote into the artifact.
func billOf(dir string, p *admission.Package, now time.Time) (spdx, error) {
	if err := p.Inside(); err != nil {
		return spdx{}, fleet.Invalidf("attest.sbom", "the bill of materials of an image cannot be written from here").Caused(err).
			Advise("make one with your own tool and give it with --predicate FILE")
	}
	info, err := buildinfo.ReadFile(entrypoint(dir, p.Release().Artifact))
	if err != nil {
		return spdx{}, fleet.Invalidf("attest.sbom", "the artifact carries no Go build information").Caused(err).
			Advise("make a bill of materials with your own tool and give it with --predicate FILE")
	}
	const artifactID = "SPDXRef-artifact"
	release := p.Release()
	doc := spdx{
		Version: "SPDX-2.3", DataLicence: "CC0-1.0", ID: "SPDXRef-DOCUMENT",
		Name:              release.Type.Name + " " + release.Version,
		Namespace:         "urn:aipfleet:sbom:" + p.ArtifactDigest().Hex(),
		CreationInfo:      spdxCreation{Created: now.UTC().Format(time.RFC3339), Creators: []string{"Tool: aipctl"}},
		DocumentDescribes: []string{artifactID},
	}
	artifact := component(artifactID, release.Artifact.Name(), release.Version)
	artifact.Checksums = []spdxChecksum{{"SHA256", p.ArtifactDigest().Hex()}}
	doc.Packages = append(doc.Packages, artifact)
	doc.Relationships = append(doc.Relationships, spdxRelation{doc.ID, "DESCRIBES", artifactID})
	for i, part := range goParts(info) {
		part.ID = fmt.Sprintf("SPDXRef-go-%d", i)
		doc.Packages = append(doc.Packages, part)
		doc.Relationships = append(doc.Relationships, spdxRelation{artifactID, "CONTAINS", part.ID})
	}
	return doc, nil
}

func component(id, name, version string) spdxPackage {
	return spdxPackage{
		ID: id, Name: name, Version: version, Download: noAssertion,
		LicenceConcluded: noAssertion, LicenceDeclared: noAssertion, Copyright: noAssertion,
	}
}

// goParts are the standard library, the main module and what it depends on.
func goParts(info *buildinfo.BuildInfo) []spdxPackage {
	stdlib := component("", "stdlib", info.GoVersion)
	stdlib.LicenceConcluded = "BSD-3-Clause"
	stdlib.LicenceDeclared = "BSD-3-Clause"
	parts := []spdxPackage{stdlib}
	if info.Main.Path != "" {
		parts = append(parts, module(&info.Main))
	}
	for _, dep := range info.Deps {
		parts = append(parts, module(dep))
	}
	return parts
}

func module(m *debug.Module) spdxPackage {
	if m.Replace != nil {
		m = m.Replace
	}
	part := component("", m.Path, m.Version)
	locator := "pkg:golang/" + m.Path
	if m.Version != "" {
		locator += "@" + m.Version
	}
	part.References = []spdxRef{{"PACKAGE-MANAGER", "purl", locator}}
	return part
}
