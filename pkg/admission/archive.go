package admission

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

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
	SHA512 string       `json:"sha512,omitempty"` // of the artifact, in hex, for evidence that names it so
}

// index is the canonical listing of the package with the given files.
func (p *Package) index(files map[string][]byte) []byte {
	a := p.artifact
	list := packageIndex{
		Format:   indexFormat,
		Artifact: indexEntry{Path: p.release.Artifact.Name(), Size: a.size, Digest: a.digest, SHA512: a.sha512},
		Files:    []indexEntry{},
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data := files[name]
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

// ApprovalDigest is the digest that the package has without its approvals, which
// are part of the package and cannot name its final digest.
func (p *Package) ApprovalDigest() fleet.Digest {
	files := maps.Clone(p.files)
	maps.DeleteFunc(files, func(name string, _ []byte) bool {
		return strings.HasPrefix(name, EvidenceDir+"/") && slotOf(name) == SlotApproval
	})
	archive, err := p.pack(files)
	if err != nil { // the package itself was written, so a part of it can be
		return fleet.Digest{}
	}
	return fleet.DigestBytes(archive)
}

// seal writes the archive and takes its digest.
func (p *Package) seal() (err error) {
	p.archive, err = p.pack(p.files)
	p.digest = fleet.DigestBytes(p.archive)
	return err
}

// pack writes an archive of the given files.
func (p *Package) pack(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	write := func(name string, data []byte) error {
		if err := w.WriteHeader(tarHeader(name, int64(len(data)), false)); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	}
	if err := write(indexFile, p.index(files)); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := write(name, files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// ReadArchive reads what Archive wrote, and nothing that differs from it in a
// single byte. The artifact's digest is taken from the index, its bytes are
// absent; everything else is checked as in ReadPackage.
func ReadArchive(data []byte, limits Limits) (*Package, []Finding) {
	const satisfy = "export the package again from the registry"
	found := findings{without: limits.without}
	p := &Package{limits: limits.tightened(), files: map[string][]byte{}}
	index, err := p.untar(data)
	if err != nil {
		found.addError("package.archive", "archive", satisfy, err)
		return nil, found.list
	}
	p.parse(&found)
	if len(found.list) > 0 {
		return nil, found.list
	}
	p.artifact = artifact{spec: p.release.Artifact, digest: index.Artifact.Digest, sha512: index.Artifact.SHA512, size: index.Artifact.Size}
	if p.release.Artifact.Elsewhere() {
		p.artifact = imageKeptElsewhere(p.release.Artifact) // an index that says otherwise is not written so
	}
	if err := p.seal(); err != nil || !bytes.Equal(p.archive, data) {
		found.add("package.archive", indexFile, satisfy, "the archive is not written as the fleet writes it, or its index does not list its files")
		return nil, found.list
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
