package admission

import (
	"encoding/json"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Statement writes an in-toto statement (v1), ready to be signed. It is about the
// package's artifact alone, but for a test result, which is about the manifest too.
func (p *Package) Statement(predicateType string, predicate json.RawMessage) ([]byte, error) {
	about := []subject{named256(p.release.Artifact.Name(), p.ArtifactDigest())}
	if predicateType == PredicateTestResult {
		about = append(about, named256(ManifestFile, p.ManifestDigest()))
	}
	return writeStatement(about, predicateType, predicate)
}

// StatementOnSBOM writes an in-toto statement about a bill of materials: what a scan
// in in-toto's own form is about.
func StatementOnSBOM(sbom fleet.Digest, predicateType string, predicate json.RawMessage) ([]byte, error) {
	return writeStatement([]subject{named256(EvidencePath(SlotSBOM), sbom)}, predicateType, predicate)
}

func named256(name string, digest fleet.Digest) subject {
	return subject{Name: name, Digest: map[string]string{digestSHA256: digest.Hex()}}
}

func writeStatement(about []subject, predicateType string, predicate json.RawMessage) ([]byte, error) {
	canonical, err := envelope.CanonicalOf(statement{Type: StatementV1, Subject: about, PredicateType: predicateType, Predicate: predicate})
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
