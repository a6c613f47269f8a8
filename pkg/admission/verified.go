package admission

import (
	"fmt"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Verified is a release whose every check passed. Only Evaluate makes a usable
// one, and nothing but a Verified becomes a connector version (G33).
type Verified struct {
	version fleet.ConnectorVersion
	kind    fleet.ConnectorType
	report  Report
	archive []byte
	related Deployment
	again   bool
}

// Version is the version as it will be admitted.
func (v Verified) Version() fleet.ConnectorVersion { return v.version }

// Report is what the decision was made from.
func (v Verified) Report() Report { return v.report }

// AlreadyAdmitted reports that this very package was admitted before: there is
// nothing to do.
func (v Verified) AlreadyAdmitted() bool { return v.again }

// ChangeSet is the publication that admits the release: type, version, whatever
// deployment.yaml brings along, and the journal entry.
func (v Verified) ChangeSet(actor, reason string) (registry.ChangeSet, error) {
	if v.version.ID.IsZero() {
		return registry.ChangeSet{}, fleet.Errorf(fleet.NotAdmitted, "admission.not_verified", "nothing was verified")
	}
	return registry.ChangeSet{
		Actor: actor, Reason: reason,
		Quotas:    v.related.Quotas,
		Types:     []fleet.ConnectorType{v.kind},
		Versions:  []fleet.ConnectorVersion{v.version},
		Instances: v.related.Instances,
		Replicas:  v.related.Replicas,
		Bindings:  v.related.Bindings,
		Admission: &registry.Admission{
			PackageDigest: v.report.PackageDigest, Package: v.archive, Version: v.version.ID,
			Findings: v.report.JSON(), Evidence: v.version.Attestation.Evidence,
			TrustRevision: v.report.TrustRevision, RevocationList: v.report.Revocations, EvaluatorVersion: v.report.Evaluator,
			EvaluatedAt: v.report.EvaluatedAt, Actor: actor, Reason: reason, State: "applied",
		},
	}, nil
}

// verified assembles what the checks proved.
func (e *evaluation) verified(r Request) Verified {
	release := e.pkg.release
	evidence, signers := map[string]fleet.Digest{}, map[string]string{}
	for _, d := range e.documents {
		slot := uniqueSlot(evidence, d.Slot)
		evidence[slot], signers[slot] = d.Digest, d.Signer
	}
	return Verified{
		version: fleet.ConnectorVersion{
			ID: release.VersionID, Type: release.Type.ID, Version: release.Version, ReleaseSequence: release.Sequence,
			Status: fleet.VersionAdmitted, Manifest: e.pkg.manifest, ManifestDigest: e.pkg.ManifestDigest(),
			ArtifactDigest: e.pkg.ArtifactDigest(), SchemaBundleDigest: schemaBundle(e.pkg.manifest),
			AIPVersions: release.AIPVersions, AdmittedAt: e.now.Truncate(time.Microsecond),
			Attestation: fleet.Attestation{
				PackageDigest: e.pkg.Digest(), Evidence: evidence, Signers: signers,
				TrustRevision: r.TrustRevision, Qualified: true, RollbackFrom: e.rollbackFrom(),
			},
		},
		kind: e.connectorType(), report: e.report(), archive: e.pkg.Archive(), related: e.relations, again: e.repeated,
	}
}

// uniqueSlot names the second document of a slot "slot.2", and so on.
func uniqueSlot(taken map[string]fleet.Digest, slot string) string {
	name := slot
	for n := 2; !taken[name].IsZero(); n++ {
		name = fmt.Sprintf("%s.%d", slot, n)
	}
	return name
}

// connectorType is the type as the registry has it, or as the release introduces it.
func (e *evaluation) connectorType() fleet.ConnectorType {
	if e.known.Type != nil {
		return *e.known.Type
	}
	r := e.pkg.release
	return fleet.ConnectorType{ID: r.Type.ID, Name: r.Type.Name, Owner: r.Owner, Enabled: true}
}
