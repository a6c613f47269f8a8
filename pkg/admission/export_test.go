package admission

import "github.com/aipfleet/aipfleet/pkg/fleet"

// Without is a broken evaluator: it lacks the checks that give these codes.
func (v Evaluator) Without(codes ...string) Evaluator {
	v.without = lacking(codes)
	return v
}

// Without is a broken reader of packages.
func (l Limits) Without(codes ...string) Limits {
	l.without = lacking(codes)
	return l
}

func lacking(codes []string) map[string]bool {
	set := map[string]bool{}
	for _, c := range codes {
		set[c] = true
	}
	return set
}

// WithArtifact is the package as the registry would keep it, had its artifact these
// digests: an archive holds no more of the artifact than that.
func (p *Package) WithArtifact(sha256 fleet.Digest, sha512 string) (*Package, error) {
	changed := *p
	changed.artifact.digest, changed.artifact.sha512 = sha256, sha512
	return &changed, changed.seal()
}
