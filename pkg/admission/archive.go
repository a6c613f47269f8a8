package admission

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// indexFile is the first entry of an archive.
const (
	indexFile   = "package.json"
	indexFormat = "aipfleet.package/v1"
)

// packageIndex lists a package; it stands for the artifact, whose bytes an archive
// does not hold.
type packageIndex struct {
	Format   string       `json:"format"`
	Artifact indexEntry   `json:"artifact"`
	Files    []indexEntry `json:"files"` // by path, bytewise
}

type indexEntry struct {
	Path   string       `json:"path"`
	Size   int64        `json:"size"`
	Digest fleet.Digest `json:"digest"`
}

// index is the canonical listing of the package.
func (p *Package) index() []byte {
	list := packageIndex{
		Format:   indexFormat,
		Artifact: indexEntry{Path: p.release.Artifact.Path, Size: p.artifact.size, Digest: p.artifact.digest},
		Files:    []indexEntry{},
	}
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		data := p.files[name]
		list.Files = append(list.Files, indexEntry{Path: name, Size: int64(len(data)), Digest: fleet.DigestBytes(data)})
	}
	canonical, err := envelope.CanonicalOf(list)
	if err != nil { // digests, numbers and checked paths always encode
		return nil
	}
	return canonical
}

// Archive is the package without the artifact's bytes, as a tar that is a
// function of the package's content alone: its index, then every other file by
// name. Its digest is the package's. The registry keeps it, so that the admission
// can be decided again (G35).
func (p *Package) Archive() []byte { return slices.Clone(p.archive) }

// seal writes the archive and takes its digest.
func (p *Package) seal() error {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	write := func(name string, data []byte) error {
		if err := w.WriteHeader(tarHeader(name, int64(len(data)), false)); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	}
	if err := write(indexFile, p.index()); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		if err := write(name, p.files[name]); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	p.archive = out.Bytes()
	p.digest = fleet.DigestBytes(p.archive)
	return nil
}

// ReadArchive reads what Archive wrote, and nothing that differs from it in a
// single byte. The artifact's digest is taken from the index, its bytes are
// absent; everything else is checked as in ReadPackage.
func ReadArchive(data []byte, limits Limits) (*Package, []Finding) {
	const satisfy = "export the package again from the registry"
	var found findings
	p := &Package{limits: limits.tightened(), files: map[string][]byte{}}
	index, err := p.untar(data)
	if err != nil {
		found.addError("package.archive", "archive", satisfy, err)
		return nil, found
	}
	p.parse(&found)
	if len(found) > 0 {
		return nil, found
	}
	p.artifact = artifact{spec: p.release.Artifact, digest: index.Artifact.Digest, size: index.Artifact.Size}
	if err := p.seal(); err != nil || !bytes.Equal(p.archive, data) {
		found.add("package.archive", indexFile, satisfy, "the archive is not written as the fleet writes it, or its index does not list its files")
		return nil, found
	}
	return p, nil
}

func (p *Package) untar(data []byte) (packageIndex, error) {
	var index packageIndex
	r := tar.NewReader(bytes.NewReader(data))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return index, nil
		}
		if err != nil {
			return index, err
		}
		if header.Typeflag != tar.TypeReg || p.files[header.Name] != nil {
			return index, errors.New("it holds a link, a special file or a name twice")
		}
		content, err := p.readEntry(r, header)
		if err != nil {
			return index, err
		}
		if header.Name != indexFile {
			p.files[header.Name] = content
			continue
		}
		if err := envelope.DecodeClosed(content, envelope.Limits{SafeIntegers: true}, &index); err != nil {
			return index, err
		}
	}
}

func (p *Package) readEntry(r io.Reader, header *tar.Header) ([]byte, error) {
	bound := documentBound(header.Name, p.limits)
	if header.Name == indexFile {
		bound = p.limits.ReleaseBytes
	}
	if header.Size > bound {
		return nil, errors.New("it holds a file that is too large or has no place in a package")
	}
	return io.ReadAll(io.LimitReader(r, bound+1))
}
