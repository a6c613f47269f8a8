package admission

import "github.com/aipfleet/aipfleet/pkg/fleet"

// Limits bounds what is read before anything is parsed. A zero field means the
// default; a caller can tighten a limit, never lift it above the default.
type Limits struct {
	PackageBytes  int64 // everything but the artifact
	ReleaseBytes  int64 // release.yaml
	DeployBytes   int64 // deployment.yaml
	EvidenceBytes int64 // one evidence file, payload included
	BundleBytes   int64 // one evidence file without its payload
	ArtifactBytes int64 // the artifact, all its files
	ArtifactFiles int   // files of a directory artifact
	EvidenceFiles int
	without       map[string]bool // checks that a broken reader lacks; only tests set it
}

// defaults are the bounds of every package.
func defaults() Limits {
	return Limits{
		PackageBytes:  64 << 20,
		ReleaseBytes:  64 << 10,
		DeployBytes:   48 << 20,
		EvidenceBytes: 8 << 20,
		BundleBytes:   2 << 20,
		ArtifactBytes: 1 << 30,
		ArtifactFiles: 100_000,
		EvidenceFiles: 64,
	}
}

// tightened fills the zero fields and caps the others.
func (l Limits) tightened() Limits {
	d := defaults()
	tighten(&d.PackageBytes, l.PackageBytes)
	tighten(&d.ReleaseBytes, l.ReleaseBytes)
	tighten(&d.DeployBytes, l.DeployBytes)
	tighten(&d.EvidenceBytes, l.EvidenceBytes)
	tighten(&d.BundleBytes, l.BundleBytes)
	tighten(&d.ArtifactBytes, l.ArtifactBytes)
	tighten(&d.ArtifactFiles, l.ArtifactFiles)
	tighten(&d.EvidenceFiles, l.EvidenceFiles)
	d.without = l.without
	return d
}

func tighten[T int | int64](limit *T, wanted T) {
	if wanted > 0 && wanted < *limit {
		*limit = wanted
	}
}

// Bounds on the relations that a package may bring along.
const (
	MaxInstances = 10_000
	MaxReplicas  = 50_000
	MaxBindings  = 100_000
)

// MaxLogEntries bounds the transparency log entries, and the timestamps, of one bundle.
const MaxLogEntries = 32

const (
	maxPathBytes = 512
	maxPathDepth = 32
)

// MaxFiles bounds the files of a package, the artifact's included.
const MaxFiles = 100_000

// Bound is the largest size of the file of a package with this name. It refuses a
// name that no package has: Kind NotAdmitted, codes package.path and
// package.unexpected_file.
func (l Limits) Bound(name string) (int64, error) {
	l = l.tightened()
	if err := pathProblem("", name); err != nil {
		return 0, fleet.Errorf(fleet.NotAdmitted, "package.path", "%q is not a name of a package", fleet.Printable(name, 100)).Caused(err)
	}
	if inArtifact(name) {
		return l.ArtifactBytes, nil
	}
	bound := documentBound(name, l)
	if bound < 0 {
		return 0, fleet.Errorf(fleet.NotAdmitted, "package.unexpected_file", "a package has no file %q", fleet.Printable(name, 100))
	}
	return bound, nil
}

// Largest is how many bytes a package may have altogether.
func (l Limits) Largest() int64 {
	l = l.tightened()
	return l.PackageBytes + l.ArtifactBytes
}
