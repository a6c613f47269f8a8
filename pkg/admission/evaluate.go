package admission

import (
	"slices"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// EvaluatorVersion names the rules of this package in the journal. It grows
// whenever the same input could give another answer.
const EvaluatorVersion = "3"

// Evaluator decides about packages. The zero value refuses everything, since it
// has no cryptography.
type Evaluator struct {
	Bundles Bundles
	// without names checks to leave out. Only tests can set it: a table of attacks
	// that does not notice a missing check proves nothing.
	without map[string]bool
}

// Request is everything that a decision depends on. The same request gets the
// same answer, at any time and on any machine (G35).
type Request struct {
	Package       *Package
	Policy        *Policy
	TrustRevision uint64          // number under which Policy is recorded; 0 for a trial
	Revocations   *RevocationList // in force; nil when there is none
	At            time.Time       // of the evaluation
	Known         Known
	Approved      *Approved // under which policy approvers approved; nil: under Policy
}

// Known is what the registry holds about the release's type.
type Known struct {
	Type     *fleet.ConnectorType     // nil when the type is new
	Versions []fleet.ConnectorVersion // every admitted version of the type
}

// evaluation is one decision in the making.
type evaluation struct {
	bundles     Bundles
	policy      *Policy
	pkg         *Package
	now         time.Time
	known       Known
	trust       uint64
	approved    *Approved
	revocations *RevocationList
	found       findings
	documents   []DocumentReport
	signers     map[string][]string // ids by slot
	bound       map[string]bool     // documents that verified evidence names
	sboms       []fleet.Digest      // of the verified bills of materials
	scans       scanned
	rollbacks   int // approvals that name this release as a rollback
	relations   Deployment
	repeated    bool // this very package is admitted already
}

// Evaluate runs every check, in a fixed order, and reports all findings. Verified
// is usable only without findings.
func (v Evaluator) Evaluate(r Request) (Verified, []Finding) {
	e := v.run(r)
	if len(e.found.list) > 0 {
		return Verified{}, e.found.list
	}
	return e.verified(r), nil
}

// run makes every check.
func (v Evaluator) run(r Request) *evaluation {
	e := v.begin(r)
	if e.bundles == nil || e.policy == nil || e.pkg == nil || e.now.IsZero() {
		e.found.add("evaluation.incomplete", ".", "give a package, a policy, a time and a cryptography", "the request is not complete")
		return e
	}
	evidence := e.aside(e.checkEvidence) // the sequence may depend on what approvals say
	e.checkRelease()
	e.found.list = append(e.found.list, evidence...)
	e.checkDistinct()
	e.checkRevocations()
	e.checkBinding()
	e.checkManifest()
	e.checkRelations()
	return e
}

func (v Evaluator) begin(r Request) *evaluation {
	return &evaluation{
		bundles: v.Bundles, policy: r.Policy, pkg: r.Package, now: r.At.UTC(), known: r.Known,
		trust: r.TrustRevision, approved: r.Approved, revocations: r.Revocations, found: findings{without: v.without},
		signers: map[string][]string{}, bound: map[string]bool{},
	}
}

// aside runs a check whose findings are reported later than it runs.
func (e *evaluation) aside(check func()) []Finding {
	before := e.found.list
	e.found.list = nil
	check()
	found := e.found.list
	e.found.list = before
	return found
}

// checkDistinct enforces the groups of slots that may not share a signer.
func (e *evaluation) checkDistinct() {
	for _, group := range e.policy.doc.DistinctSigners {
		used := map[string]string{}
		for _, name := range group {
			for _, id := range e.signers[name] {
				if other, taken := used[id]; taken && other != name {
					e.found.add("evidence.signers_not_distinct", EvidenceDir, "sign "+name+" and "+other+" with different keys", "%s signed both %s and %s", id, other, name)
				}
				used[id] = name
			}
		}
	}
}

// checkBinding insists that verified evidence names the manifest and release.yaml:
// the artifact's digest alone would let anybody change what it is said to do. Nobody
// here sees the bytes of an image kept elsewhere, so that its provenance has to be known.
func (e *evaluation) checkBinding() {
	if e.pkg.release.Artifact.Elsewhere() && !e.bound[ArtifactDir] {
		e.found.add("artifact.unproven", ReleaseFile+"#artifact.digest", "add provenance about the image, and a rule for it to the trust policy",
			"no verified provenance is about the image %s", e.pkg.ArtifactDigest())
	}
	for _, name := range []string{ManifestFile, ReleaseFile} {
		if !e.bound[name] {
			e.found.add(baseName(name)+".unbound", name, "sign with release sign, or let the provenance list "+name+" among its byproducts", "no verified evidence names this file's digest")
		}
	}
}

// checkEvidence walks the slots in their order.
func (e *evaluation) checkEvidence() {
	filed := map[string][]string{}
	for _, place := range e.pkg.Evidence() {
		name := slotOf(place)
		filed[name] = append(filed[name], place)
	}
	for _, s := range slotTable() {
		rule := s.rule(e.policy)
		if rule == nil {
			continue
		}
		e.checkSlot(s, *rule, filed[s.name])
		delete(filed, s.name)
	}
	for _, place := range e.pkg.Evidence() {
		if _, extra := filed[slotOf(place)]; extra {
			e.found.add("evidence.extra", place, "remove the file, or give the slot a rule in the trust policy", "no rule of the trust policy evaluates slot %s", slotOf(place))
		}
	}
}

// slotOf is the slot that an evidence file lies in.
func slotOf(place string) string { return evidenceName.FindStringSubmatch(place)[1] }

// admittedBefore reports that this very package was admitted before.
func (e *evaluation) admittedBefore() bool {
	return slices.ContainsFunc(e.known.Versions, func(v fleet.ConnectorVersion) bool {
		return v.Attestation.PackageDigest == e.pkg.Digest()
	})
}
