package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// packOptions is one packing.
type packOptions struct {
	app        *app.App
	source     string // directory with release.yaml, and maybe manifest.json, artifact/, deployment.yaml
	out        string // the package; default: in place
	artifact   string // file or directory to put at artifact.path
	image      string // NAME@sha256:…, in place of an artifact
	deployment string
	stated     stated
	discover   discovery
}

// stated is what flags say in place of, or over, release.yaml.
type stated struct {
	typeID, typeName, owner, version string
	sequence                         uint64
	entrypoint, interpreter          string
}

func packCommand(a *app.App) *cobra.Command {
	o := &packOptions{app: a}
	cmd := &cobra.Command{
		Use: "pack DIR", Short: "Make a release package from release.yaml and an artifact",
		Long: "Makes a package: DIR/release.yaml (or the flags in its place), the artifact, and manifest.json.\n" +
			"With --discover the artifact, an MCP server, is started once and asked for its tools.",
		Example: "  aipctl release pack release/ --artifact bin/ticketdesk --out dist/ticketdesk --discover",
		Args:    app.ExactArgs(1, "a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.source = args[0]
			return o.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "package `directory` to make (default: DIR itself)")
	f.StringVar(&o.artifact, "artifact", "", "`file` or directory to copy in as the artifact")
	f.StringVar(&o.image, "image", "", "`NAME@sha256:…` of an OCI image kept elsewhere, in place of an artifact in the package")
	f.StringVar(&o.deployment, "deployment", "", "`file` to copy in as deployment.yaml")
	f.StringVar(&o.stated.typeID, "type-id", "", "connector type `id`, ctype_…")
	f.StringVar(&o.stated.typeName, "type-name", "", "connector type's `name`")
	f.StringVar(&o.stated.owner, "owner", "", "who releases it")
	f.StringVar(&o.stated.version, "version", "", "version `text`")
	f.Uint64Var(&o.stated.sequence, "sequence", 0, "release sequence, above every earlier one")
	f.StringVar(&o.stated.entrypoint, "entrypoint", "", "`file` to run inside a directory artifact")
	f.StringVar(&o.stated.interpreter, "interpreter", "", "`word` naming the interpreter, such as node")
	o.discover.bind(f)
	return cmd
}

func (o *packOptions) run(ctx context.Context) error {
	if o.out == "" {
		o.out = o.source
	}
	if err := o.prepare(); err != nil {
		return err
	}
	release, err := o.release()
	if err != nil {
		return err
	}
	if err := o.place(release); err != nil {
		return err
	}
	if o.discover.wanted {
		manifest, err := o.discover.run(ctx, o.app, o.out, release)
		if err != nil {
			return err
		}
		if err := writeJSON(filepath.Join(o.out, admission.ManifestFile), manifest); err != nil {
			return err
		}
	}
	return o.finish()
}

// prepare refuses to pack over evidence: it would vouch for other bytes.
func (o *packOptions) prepare() error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return app.Usagef("release.directory", "%s cannot be made", o.out).Caused(err)
	}
	if _, err := os.Lstat(filepath.Join(o.out, admission.EvidenceDir)); !errors.Is(err, fs.ErrNotExist) {
		return fleet.Errorf(fleet.Conflict, "release.signed", "%s holds evidence already", o.out).
			Because("packing again would leave evidence about other bytes").Advise("pack into a new directory, or remove %s", filepath.Join(o.out, admission.EvidenceDir))
	}
	return nil
}

// release reads release.yaml, lets flags complete it, and mints the version id.
func (o *packOptions) release() (admission.Release, error) {
	r := admission.Release{AIPVersions: []string{"1.0"}}
	data, err := os.ReadFile(filepath.Join(o.source, admission.ReleaseFile))
	switch {
	case err == nil:
		if r, err = admission.DraftRelease(data); err != nil {
			return r, app.Usagef("release.malformed", "%s is not valid", filepath.Join(o.source, admission.ReleaseFile)).Because("%s", lines(err))
		}
	case !errors.Is(err, fs.ErrNotExist):
		return r, app.Usagef("release.file", "release.yaml cannot be read").Caused(err)
	}
	if err := o.stated.over(&r, o.artifact); err != nil {
		return r, err
	}
	if o.image != "" {
		if r.Artifact, err = imageOf(o.image); err != nil {
			return r, err
		}
	}
	if r.Artifact.Elsewhere() && (o.artifact != "" || o.discover.wanted) {
		return r, app.Usagef("usage.flag", "an image kept elsewhere goes with neither --artifact nor --discover").
			Because("it is not in the package, and not started").Advise("write %s", filepath.Join(o.source, admission.ManifestFile))
	}
	if r.VersionID.IsZero() {
		r.VersionID = fleet.NewVersionID(o.app.Now())
	}
	text, err := r.YAML()
	if err != nil {
		return r, fleet.AsError(err, "release.encode")
	}
	if _, err := admission.ParseRelease(text); err != nil {
		return r, app.Usagef("release.incomplete", "the release is not complete").Because("%s", lines(err)).
			Advise("write %s, or state it with flags", filepath.Join(o.source, admission.ReleaseFile))
	}
	return r, writeFile(filepath.Join(o.out, admission.ReleaseFile), text)
}

// imageOf reads the reference of an image kept elsewhere. A tag names no bytes.
func imageOf(reference string) (admission.ArtifactSpec, error) {
	_, pinned, ok := strings.Cut(reference, "@")
	digest, err := fleet.ParseDigest(pinned)
	if !ok || err != nil {
		return admission.ArtifactSpec{}, app.Usagef("usage.flag", "--image takes NAME@sha256:…").
			Because("an image is released by the digest of its manifest or index")
	}
	return admission.ArtifactSpec{Digest: digest, Image: reference}, nil
}

// lines joins an error of several lines into one.
func lines(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func (s stated) over(r *admission.Release, artifact string) error {
	set := func(field *string, value string) {
		if value != "" {
			*field = value
		}
	}
	if s.typeID != "" {
		id, err := fleet.ParseTypeID(s.typeID)
		if err != nil {
			return err
		}
		r.Type.ID = id
	}
	set(&r.Type.Name, s.typeName)
	set(&r.Owner, s.owner)
	set(&r.Version, s.version)
	set(&r.Artifact.Entrypoint, s.entrypoint)
	set(&r.Artifact.Interpreter, s.interpreter)
	if s.sequence > 0 {
		r.Sequence = s.sequence
	}
	if r.Artifact.Path == "" && artifact != "" {
		r.Artifact.Path = admission.ArtifactDir + "/" + filepath.Base(artifact)
	}
	return nil
}

// place copies what is given from outside, and what the source has, into the package.
func (o *packOptions) place(r admission.Release) error {
	target := filepath.Join(o.out, filepath.FromSlash(r.Artifact.Path))
	if o.artifact != "" {
		if err := copyTree(o.artifact, target); err != nil {
			return err
		}
	}
	if o.deployment != "" {
		if err := copyTree(o.deployment, filepath.Join(o.out, admission.DeploymentFile)); err != nil {
			return err
		}
	}
	if o.out == o.source {
		return nil
	}
	for _, name := range []string{admission.ManifestFile, admission.DeploymentFile, admission.ArtifactDir} {
		from, to := filepath.Join(o.source, name), filepath.Join(o.out, name)
		if given(o, name) || !exists(from) {
			continue
		}
		if err := copyTree(from, to); err != nil {
			return err
		}
	}
	return nil
}

// given reports that a flag provides what the source would.
func given(o *packOptions, name string) bool {
	return name == admission.ArtifactDir && o.artifact != "" ||
		name == admission.DeploymentFile && o.deployment != "" ||
		name == admission.ManifestFile && o.discover.wanted
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// copyTree copies a regular file, or a directory of them; links are refused.
func copyTree(from, to string) error {
	walk := func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is a link or a special file", path)
		}
		return copyOne(path, target)
	}
	if err := filepath.WalkDir(from, walk); err != nil {
		return app.Usagef("release.file", "%s cannot be copied into the package", from).Caused(err)
	}
	return nil
}

func copyOne(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// finish reads the package as admission will and tells its digests.
func (o *packOptions) finish() error {
	p, found := admission.ReadPackage(o.out, admission.Limits{})
	if len(found) > 0 {
		return showRefused(o.app, refused{Package: o.out, Findings: found})
	}
	return showPackage(o.app, "Package", describe(o.out, p))
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fleet.AsError(err, "release.encode")
	}
	return writeFile(path, append(data, '\n'))
}

func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return app.Usagef("release.file", "%s cannot be written", path).Caused(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return app.Usagef("release.file", "%s cannot be written", path).Caused(err)
	}
	return nil
}
