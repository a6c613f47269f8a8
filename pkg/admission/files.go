package admission

import (
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// listed is one regular file of the package directory.
type listed struct {
	path string
	size int64
	exec bool
}

var evidenceName = regexp.MustCompile(`^evidence/([a-z][a-z0-9_]{0,31})(?:\.([2-9]|[1-9][0-9]))?\.sigstore\.json$`)

// listPackage walks the directory without following anything and checks names,
// kinds and sizes before a byte is read.
func listPackage(root *os.Root, limits Limits, found *findings) []listed {
	var files []listed
	walk := func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			found.addError("package.unreadable", name, "make the package readable", err)
			return nil
		case name == ".":
			return nil
		}
		if problem := pathProblem("", name); problem != nil {
			found.addError("package.path", name, "use short relative names of ordinary characters", problem)
			return nil
		}
		if entry.IsDir() {
			return nil
		}
		if !entry.Type().IsRegular() {
			found.add("package.link", name, "put a regular file there", "it is a link or a special file")
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			found.addError("package.unreadable", name, "make the package readable", err)
			return nil
		}
		files = append(files, listed{path: name, size: info.Size(), exec: info.Mode()&0o100 != 0})
		if len(files) > limits.ArtifactFiles+limits.EvidenceFiles {
			found.add("package.too_large", ".", "pack fewer files", "there are more than %d files", limits.ArtifactFiles)
			return fs.SkipAll
		}
		return nil
	}
	if err := fs.WalkDir(root.FS(), ".", walk); err != nil {
		found.addError("package.unreadable", ".", "make the package readable", err)
	}
	slices.SortFunc(files, func(a, b listed) int { return strings.Compare(a.path, b.path) })
	checkNames(files, limits, found)
	return files
}

// checkNames knows every name that a package may hold, with its bound.
func checkNames(files []listed, limits Limits, found *findings) {
	var documents, artifact int64
	var evidence int
	have := map[string]bool{}
	for _, f := range files {
		have[f.path] = true
		if inArtifact(f.path) {
			artifact += f.size
			continue
		}
		documents += f.size
		if strings.HasPrefix(f.path, EvidenceDir+"/") {
			evidence++
		}
		checkSize(f, documentBound(f.path, limits), found)
	}
	for _, name := range []string{ReleaseFile, ManifestFile} {
		if !have[name] {
			found.add("package.incomplete", name, "add the file; release pack makes it", "the file is missing")
		}
	}
	tooLarge := "keep within the bounds of a package"
	if documents > limits.PackageBytes {
		found.add("package.too_large", ".", tooLarge, "documents take %d bytes, allowed are %d", documents, limits.PackageBytes)
	}
	if artifact > limits.ArtifactBytes {
		found.add("package.too_large", ArtifactDir, tooLarge, "the artifact takes %d bytes, allowed are %d", artifact, limits.ArtifactBytes)
	}
	if evidence > limits.EvidenceFiles {
		found.add("package.too_large", EvidenceDir, tooLarge, "there are %d evidence files, allowed are %d", evidence, limits.EvidenceFiles)
	}
}

func inArtifact(name string) bool { return strings.HasPrefix(name, ArtifactDir+"/") }

// documentBound is the largest size of a document; negative when a package may
// not hold such a name.
func documentBound(name string, limits Limits) int64 {
	switch {
	case name == ReleaseFile:
		return limits.ReleaseBytes
	case name == ManifestFile:
		return limits.EvidenceBytes
	case name == DeploymentFile:
		return limits.DeployBytes
	case evidenceName.MatchString(name):
		return limits.EvidenceBytes
	}
	return -1
}

func checkSize(f listed, bound int64, found *findings) {
	switch {
	case bound < 0:
		found.add("package.unexpected_file", f.path, "remove it; a package holds release.yaml, manifest.json, artifact/, evidence/<slot>.sigstore.json and deployment.yaml", "a package has no such file")
	case f.size > bound:
		found.add("package.too_large", f.path, "keep within the bounds of a package", "it has %d bytes, allowed are %d", f.size, bound)
	}
}

// readDocuments reads everything but the artifact.
func readDocuments(root *os.Root, files []listed, limits Limits, found *findings) map[string][]byte {
	documents := map[string][]byte{}
	for _, f := range files {
		if inArtifact(f.path) {
			continue
		}
		data, err := readBounded(root, f.path, documentBound(f.path, limits))
		if err != nil {
			found.addError("package.unreadable", f.path, "make the package readable and leave it alone while it is read", err)
			continue
		}
		documents[f.path] = data
	}
	return documents
}

func readBounded(root *os.Root, name string, bound int64) ([]byte, error) {
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, bound+1))
	if err == nil && int64(len(data)) > bound {
		err = &fs.PathError{Op: "read", Path: name, Err: io.ErrShortBuffer}
	}
	return data, err
}

// readArtifact collects the artifact's files and recomputes its digest.
func (p *Package) readArtifact(root *os.Root, files []listed, found *findings) {
	spec := p.release.Artifact
	if spec.Elsewhere() {
		p.readElsewhere(files, found)
		return
	}
	a := artifact{spec: spec}
	for _, f := range files {
		if !inArtifact(f.path) {
			continue
		}
		name, inside := strings.CutPrefix(f.path, spec.Path+"/")
		if f.path == spec.Path {
			a.single, name, inside = true, path.Base(f.path), true
		}
		if !inside {
			found.add("package.unexpected_file", f.path, "remove it, or point artifact.path at the directory", "it is not part of the artifact")
			continue
		}
		a.files = append(a.files, artifactFile{name: name, path: f.path, size: f.size, exec: f.exec})
		a.size += f.size
	}
	a.checkShape(found)
	if len(found.list) > 0 {
		return
	}
	digest, longer, err := a.copyTo(root, "")
	if err != nil {
		found.addError("artifact.unreadable", spec.Path, "make the artifact readable and leave it alone while it is read", err)
		return
	}
	a.digest, a.sha512 = digest, longer
	p.artifact = a
}

// readElsewhere takes the image's digest as stated: nothing here can recompute it, so
// evidence has to be about it (checkBinding).
func (p *Package) readElsewhere(files []listed, found *findings) {
	for _, f := range files {
		if inArtifact(f.path) {
			found.add("package.unexpected_file", f.path, "remove it, or name it in artifact.path and leave artifact.digest out", "the artifact is an image kept elsewhere")
		}
	}
	p.artifact = imageKeptElsewhere(p.release.Artifact)
}

func imageKeptElsewhere(spec ArtifactSpec) artifact { return artifact{spec: spec, digest: spec.Digest} }

func (a artifact) checkShape(found *findings) {
	if len(a.files) == 0 {
		found.add("artifact.missing", a.spec.Path, "put the artifact there", "there is no such file or directory with files")
		return
	}
	isEntry := func(f artifactFile) bool { return f.name == a.spec.Entrypoint }
	switch {
	case a.single && a.spec.Entrypoint != "" && !isEntry(a.files[0]):
		found.add("artifact.entrypoint", ReleaseFile, "leave artifact.entrypoint out for a single file", "entrypoint %q is not the artifact", a.spec.Entrypoint)
	case !a.single && !slices.ContainsFunc(a.files, isEntry):
		found.add("artifact.entrypoint", ReleaseFile, "name a file of the directory in artifact.entrypoint", "entrypoint %q is not a file of the artifact", a.spec.Entrypoint)
	}
}
