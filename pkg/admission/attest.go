package admission

import (
	"encoding/json"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Statement writes an in-toto statement (v1) about the package's artifact and
// nothing else, ready to be signed.
func (p *Package) Statement(predicateType string, predicate json.RawMessage) ([]byte, error) {
	s := statement{
		Type:          StatementV1,
		Subject:       []subject{{Name: p.release.Artifact.Path, Digest: map[string]string{"sha256": p.ArtifactDigest().Hex()}}},
		PredicateType: predicateType,
		Predicate:     predicate,
	}
	canonical, err := envelope.CanonicalOf(s)
	if err != nil {
		return nil, fleet.Invalidf("attest.predicate", "the predicate is not a strict JSON document").Caused(err)
	}
	return canonical, nil
}

// Byproducts lists the documents that provenance binds to the artifact.
func (p *Package) Byproducts() []ResourceDescriptor {
	descriptor := func(name string, d fleet.Digest) ResourceDescriptor {
		return ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": d.Hex()}}
	}
	return []ResourceDescriptor{
		descriptor(ManifestFile, p.ManifestDigest()),
		descriptor(ReleaseFile, fleet.DigestBytes(p.files[ReleaseFile])),
	}
}

// EvidencePath is where the only, or the n-th (from 2), document of a slot lies.
func EvidencePath(slot string) string { return EvidenceDir + "/" + slot + evidenceSuffix }
