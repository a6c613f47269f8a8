package admission

import (
	"archive/tar"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// artifactFile is one file of the artifact as the package directory had it.
type artifactFile struct {
	name string // below the artifact's root; the base name for a single file
	path string // below the package
	size int64
	exec bool
}

// artifact is the bytes the host runs: one file, or the deterministic tar of a
// directory (files in bytewise order of their names, mode 0755 or 0644, no owner,
// no time; empty directories do not exist).
type artifact struct {
	spec   ArtifactSpec
	files  []artifactFile
	single bool
	digest fleet.Digest
	sha512 string // in hex
	size   int64  // of all files
}

// Extracted says where verified bytes were put.
type Extracted struct {
	Root        string // private directory
	Path        string // the file to run, below Root
	Interpreter string // a word; "" runs Path itself
}

// ExtractArtifact copies the artifact into dir, which must not exist or be empty,
// and proves that the bytes it wrote are those of want (G28). On a mismatch it
// removes what it wrote and refuses: Kind NotAdmitted, code artifact.digest. An image
// kept elsewhere has no bytes here: Kind Invalid, code artifact.elsewhere.
func (p *Package) ExtractArtifact(dir string, want fleet.Digest) (Extracted, error) {
	if err := p.Inside(); err != nil {
		return Extracted{}, err
	}
	if p.dir == "" {
		return Extracted{}, fleet.Errorf(fleet.NotFound, "artifact.absent", "the package was read without its artifact")
	}
	if err := emptyDir(dir); err != nil {
		return Extracted{}, err
	}
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return Extracted{}, fleet.Errorf(fleet.NotFound, "artifact.absent", "the package directory cannot be opened").Caused(err)
	}
	defer root.Close()
	got, _, err := p.artifact.copyTo(root, dir)
	if err == nil && got != want {
		err = fleet.Errorf(fleet.NotAdmitted, "artifact.digest", "the artifact is not the admitted one").
			Because("its digest is %s, admitted is %s", got, want).Advise("install the package that was admitted")
	}
	if err != nil {
		return Extracted{}, errors.Join(err, os.RemoveAll(dir))
	}
	return Extracted{Root: dir, Path: filepath.Join(dir, filepath.FromSlash(p.artifact.entry())), Interpreter: p.artifact.spec.Interpreter}, nil
}

// Inside refuses a release whose artifact is an image kept elsewhere, for those who
// can only do with bytes that are in the package: Kind Invalid, code artifact.elsewhere.
func (p *Package) Inside() error {
	if !p.release.Artifact.Elsewhere() {
		return nil
	}
	return fleet.Errorf(fleet.Invalid, "artifact.elsewhere", "the artifact is an OCI image that is not in the package").
		Because("it is admitted by its digest, %s, and only bytes that can be held against that are run", p.artifact.digest).
		Advise("release the program itself, with artifact.path, for hosts that run it")
}

// entry is the file to run, below the artifact's root.
func (a artifact) entry() string {
	if a.single {
		return a.files[0].name
	}
	return a.spec.Entrypoint
}

func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fleet.Errorf(fleet.Invalid, "artifact.directory", "the artifact directory cannot be made").Caused(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) > 0 {
		return fleet.Errorf(fleet.Conflict, "artifact.directory", "the artifact directory is not empty").Caused(err)
	}
	return nil
}

// copyTo streams every file through the digest, and into dir unless dir is "".
func (a artifact) copyTo(root *os.Root, dir string) (digest fleet.Digest, longer string, err error) {
	sum, sum512 := sha256.New(), sha512.New()
	both := io.MultiWriter(sum, sum512)
	if a.single {
		err = copyFile(root, a.files[0], both, dir, true)
	} else {
		err = a.copyFiles(root, both, dir)
	}
	if err != nil {
		return fleet.Digest{}, "", err
	}
	digest, err = hashDigest(sum)
	return digest, hex.EncodeToString(sum512.Sum(nil)), err
}

// copyFiles writes the deterministic tar of a directory artifact to sum.
func (a artifact) copyFiles(root *os.Root, sum io.Writer, dir string) error {
	archive := tar.NewWriter(sum)
	for _, f := range a.files {
		if err := archive.WriteHeader(tarHeader(f.name, f.size, f.exec)); err != nil {
			return fmt.Errorf("artifact file %s: %w", f.name, err)
		}
		if err := copyFile(root, f, archive, dir, f.exec || f.name == a.spec.Entrypoint); err != nil {
			return err
		}
	}
	return archive.Close()
}

func tarHeader(name string, size int64, exec bool) *tar.Header {
	mode := int64(0o644)
	if exec {
		mode = 0o755
	}
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: mode, Format: tar.FormatPAX}
}

func hashDigest(sum hash.Hash) (fleet.Digest, error) {
	return fleet.ParseDigest("sha256:" + hex.EncodeToString(sum.Sum(nil)))
}

func copyFile(root *os.Root, f artifactFile, sum io.Writer, dir string, exec bool) error {
	in, err := root.Open(f.path)
	if err != nil {
		return fmt.Errorf("artifact file %s: %w", f.name, err)
	}
	defer in.Close()
	out := io.Discard
	if dir != "" {
		file, err := createBelow(dir, f.name)
		if err != nil {
			return err
		}
		defer file.Close()
		out = file
	}
	n, err := io.Copy(io.MultiWriter(sum, out), io.LimitReader(in, f.size+1))
	if err != nil {
		return fmt.Errorf("artifact file %s: %w", f.name, err)
	}
	if n != f.size {
		return fleet.Errorf(fleet.NotAdmitted, "artifact.digest", "artifact file %s changed while it was read", fleet.Printable(f.name, 200))
	}
	return protect(out, exec)
}

func createBelow(dir, name string) (*os.File, error) {
	full := filepath.Join(dir, filepath.FromSlash(name))
	if parent := path.Dir(name); parent != "." {
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// protect makes a written file durable and read-only for its owner alone.
func protect(out io.Writer, exec bool) error {
	file, ok := out.(*os.File)
	if !ok {
		return nil
	}
	mode := os.FileMode(0o400)
	if exec {
		mode = 0o500
	}
	return errors.Join(file.Chmod(mode), file.Close())
}
