package admission

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Names inside a package.
const (
	ReleaseFile    = "release.yaml"
	ManifestFile   = "manifest.json"
	DeploymentFile = "deployment.yaml"
	ArtifactDir    = "artifact"
	EvidenceDir    = "evidence"
	evidenceSuffix = ".sigstore.json"
)

// Release is release.yaml: what this release is and what it is a release of.
type Release struct {
	Type        ReleaseType     `json:"type" yaml:"type"`
	Owner       string          `json:"owner" yaml:"owner"`                              // 1..256 bytes
	Version     string          `json:"version" yaml:"version"`                          // 1..128 bytes, unique per type
	VersionID   fleet.VersionID `json:"version_id,omitzero" yaml:"version_id,omitempty"` // minted when packed
	Sequence    uint64          `json:"release_sequence" yaml:"release_sequence"`        // >= 1, grows per type
	AIPVersions []string        `json:"aip_versions" yaml:"aip_versions,flow"`           // 1..16, "1.0" among them
	Artifact    ArtifactSpec    `json:"artifact" yaml:"artifact"`
}

// ReleaseType names the connector type that the release belongs to.
type ReleaseType struct {
	ID   fleet.TypeID `json:"id" yaml:"id"`
	Name string       `json:"name" yaml:"name"` // 1..256 bytes
}

// ArtifactSpec says which bytes the host runs, and how: those at a path in the
// package, or an OCI image that is kept elsewhere.
type ArtifactSpec struct {
	// Path is one file, or a directory, in artifact/.
	Path string `json:"path,omitempty" yaml:"path,omitempty"`
	// Digest, in place of Path, is that of an OCI image's manifest or index. The package
	// then holds no artifact/, and verified provenance has to be about the image.
	Digest fleet.Digest `json:"digest,omitzero" yaml:"digest,omitempty"`
	// Image says where the image is kept, for people. The digest alone counts.
	Image string `json:"image,omitempty" yaml:"image,omitempty"`
	// Entrypoint is the file to run inside a directory artifact; empty for one file.
	Entrypoint string `json:"entrypoint,omitempty" yaml:"entrypoint,omitempty"`
	// Interpreter is a word such as "node"; where it is comes from the host's own
	// configuration, never from a package. Empty runs the file itself.
	Interpreter string `json:"interpreter,omitempty" yaml:"interpreter,omitempty"`
}

// ParseRelease reads release.yaml strictly and checks every member. The version
// id may be absent: pack mints it, and admission insists on it.
func ParseRelease(data []byte) (Release, error) {
	r, err := DraftRelease(data)
	if err != nil {
		return Release{}, err
	}
	return r, r.validate()
}

// DraftRelease reads a release.yaml that may yet lack members, as strictly.
func DraftRelease(data []byte) (Release, error) {
	var r Release
	_, err := decodeClosed(data, defaults().ReleaseBytes, &r)
	return r, err
}

// YAML writes the release as release.yaml.
func (r Release) YAML() ([]byte, error) { return yaml.Marshal(r) }

func (r Release) validate() error {
	return errors.Join(
		wrong(r.Type.ID.IsZero(), "type.id", "it is missing"),
		text("type.name", r.Type.Name, 256),
		text("owner", r.Owner, 256),
		text("version", r.Version, 128),
		wrong(r.Sequence == 0, "release_sequence", "it must be 1 or more"),
		r.validateAIPVersions(),
		r.Artifact.validate(),
	)
}

func (r Release) validateAIPVersions() error {
	known := false
	for i, v := range r.AIPVersions {
		if err := text(fmt.Sprintf("aip_versions[%d]", i), v, 16); err != nil {
			return err
		}
		known = known || v == "1.0"
	}
	return wrong(!known || len(r.AIPVersions) > 16, "aip_versions", `it needs 1..16 entries, "1.0" among them`)
}

// Elsewhere reports that the artifact is an image that is not inside the package.
func (a ArtifactSpec) Elsewhere() bool { return !a.Digest.IsZero() }

// Name is how statements call the artifact.
func (a ArtifactSpec) Name() string {
	switch {
	case !a.Elsewhere():
		return a.Path
	case a.Image == "":
		return "image"
	}
	name, _, _ := strings.Cut(a.Image, "@")
	return name
}

func (a ArtifactSpec) validate() error {
	if a.Elsewhere() {
		return a.validateImage()
	}
	return errors.Join(
		wrong(a.Image != "", "artifact.image", "it goes with artifact.digest alone"),
		pathProblem("artifact.path", a.Path),
		wrong(a.Path != ArtifactDir && !strings.HasPrefix(a.Path, ArtifactDir+"/"), "artifact.path", "it must be in artifact/"),
		wrong(a.Entrypoint != "" && pathProblem("", a.Entrypoint) != nil, "artifact.entrypoint", "it is not a clean relative path"),
		wrong(a.Interpreter != "" && !isWord(a.Interpreter), "artifact.interpreter", "it must be one lower-case word, not a path"),
	)
}

func (a ArtifactSpec) validateImage() error {
	_, pinned, isPinned := strings.Cut(a.Image, "@")
	return errors.Join(
		wrong(a.Path != "" || a.Entrypoint != "" || a.Interpreter != "", "artifact", "an image kept elsewhere has a digest, and no path, entrypoint or interpreter"),
		wrong(len(a.Image) > maxPathBytes || strings.ContainsFunc(a.Image, notInReference), "artifact.image", "it is not the name of an image"),
		wrong(isPinned && pinned != a.Digest.String(), "artifact.image", "it names another digest than artifact.digest"),
	)
}

func notInReference(r rune) bool { return r <= ' ' || r >= unicode.MaxASCII }

func wrong(bad bool, member, why string) error {
	if !bad {
		return nil
	}
	return fmt.Errorf("%s: %s", member, why)
}

func text(member, s string, limit int) error {
	bad := s == "" || len(s) > limit || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl)
	return wrong(bad, member, fmt.Sprintf("it needs 1..%d bytes without control characters", limit))
}

// pathProblem refuses every path that is not plainly below the package: absolute,
// "..", empty or dotted components, backslashes, control characters.
func pathProblem(member, p string) error {
	switch {
	case p == "" || len(p) > maxPathBytes || strings.Count(p, "/") >= maxPathDepth:
		return wrong(true, member, "the path is empty, too long or too deep")
	case !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl) || strings.ContainsAny(p, `\:`):
		return wrong(true, member, "the path has a character that is not accepted")
	case path.IsAbs(p) || path.Clean(p) != p || p == "." || p == ".." || strings.HasPrefix(p, "../"):
		return wrong(true, member, "the path leaves the package or is not in its shortest form")
	}
	return nil
}

func isWord(s string) bool {
	if s == "" || len(s) > 64 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}
