package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// EvaluatorVersion names the rules of this package in the journal. It grows
// whenever the same input could give another answer.
const EvaluatorVersion = "1"

// Evaluator decides about packages. The zero value refuses everything, since it
// has no cryptography.
type Evaluator struct{ Bundles Bundles }

// Request is everything that a decision depends on. The same request gets the
// same answer, at any time and on any machine (G35).
type Request struct {
	Package       *Package
	Policy        *Policy
	TrustRevision uint64    // number under which Policy is recorded; 0 for a trial
	At            time.Time // of the evaluation
	Known         Known
}

// Known is what the registry holds about the release's type.
type Known struct {
	Type     *fleet.ConnectorType     // nil when the type is new
	Versions []fleet.ConnectorVersion // every admitted version of the type
}

// evaluation is one decision in the making.
type evaluation struct {
	bundles   Bundles
	policy    *Policy
	pkg       *Package
	now       time.Time
	known     Known
	found     findings
	documents []DocumentReport
	signers   map[string][]string // key ids by slot
	bound     map[string]bool     // documents that verified evidence names
	relations Deployment
	repeated  bool // this very package is admitted already
}

// Evaluate runs every check, in a fixed order, and reports all findings. Verified
// is usable only without findings.
func (v Evaluator) Evaluate(r Request) (Verified, []Finding) {
	e := &evaluation{
		bundles: v.Bundles, policy: r.Policy, pkg: r.Package, now: r.At.UTC(), known: r.Known,
		signers: map[string][]string{}, bound: map[string]bool{},
	}
	if e.bundles == nil || e.policy == nil || e.pkg == nil || e.now.IsZero() {
		e.found.add("evaluation.incomplete", ".", "give a package, a policy, a time and a cryptography", "the request is not complete")
		return Verified{}, e.found
	}
	e.checkRelease()
	e.checkEvidence()
	e.checkDistinct()
	e.checkBinding()
	e.checkManifest()
	e.checkRelations()
	if len(e.found) > 0 {
		return Verified{}, e.found
	}
	return e.verified(r), nil
}

// checkEvidence walks the slots in their order.
func (e *evaluation) checkEvidence() {
	filed := map[string][]string{}
	for _, place := range e.pkg.Evidence() {
		name := evidenceName.FindStringSubmatch(place)[1]
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
		name := evidenceName.FindStringSubmatch(place)[1]
		if _, extra := filed[name]; extra {
			e.found.add("evidence.extra", place, "remove the file, or give the slot a rule in the trust policy", "no rule of the trust policy evaluates slot %s", name)
		}
	}
}

func (e *evaluation) checkSlot(s slot, rule SlotRule, places []string) {
	code := "evidence." + s.name
	switch n := len(places); {
	case n == 0:
		e.found.add(code+".missing", EvidenceDir+"/"+s.name+evidenceSuffix, "add the evidence, signed by one of: "+strings.Join(rule.Signers, ", "), "the slot is empty")
	case n < rule.count():
		e.found.add(code+".count", EvidenceDir+"/"+s.name+evidenceSuffix, fmt.Sprintf("add evidence by %d different keys", rule.count()), "there are %d documents", n)
	case n > rule.count():
		e.found.add(code+".duplicate", places[len(places)-1], fmt.Sprintf("leave exactly %d", rule.count()), "there are %d documents", n)
	}
	for _, place := range places {
		e.checkDocument(document{slot: s, place: place})
	}
	if list := e.signers[s.name]; len(slices.Compact(slices.Sorted(slices.Values(list)))) < len(list) {
		e.found.add(code+".signer_repeated", EvidenceDir+"/"+s.name+evidenceSuffix, "sign with different keys", "one key signed more than one document")
	}
}

// checkDocument takes one evidence file from its bytes to its verdict. What is in
// it is looked at only when a known key really made the signature.
func (e *evaluation) checkDocument(d document) {
	raw := e.pkg.files[d.place]
	bundle, err := e.bundles.Parse(raw)
	if err != nil {
		e.refusedBy(d, err, "make the bundle again with release sign or release attest")
		return
	}
	if overhead := int64(len(raw)) - encodedPayload(bundle); overhead > e.pkg.limits.BundleBytes {
		e.at(&d, "bundle_too_large", "", "leave out what is not needed", "it has %d bytes beside its payload, allowed are %d", overhead, e.pkg.limits.BundleBytes)
		return
	}
	key, known := e.policy.byHint(bundle.Hint)
	if !known {
		e.at(&d, "unknown_signer", "verificationMaterial", "sign with a key of the trust policy", "no key of the trust policy answers to %q", bundle.Hint)
		return
	}
	if err := e.bundles.Verify(bundle, key); err != nil {
		e.refusedBy(d, err, "sign again; the content was changed after signing or another key signed")
		return
	}
	d.key = key
	e.signers[d.slot.name] = append(e.signers[d.slot.name], key.ID)
	e.checkSigner(d)
	predicate := ""
	if bundle.Message != nil {
		e.checkMessage(d, *bundle.Message)
	} else if e.openStatement(&d, bundle.Statement) {
		predicate = d.statement.PredicateType
		d.slot.evaluate(e, d)
	}
	e.documents = append(e.documents, DocumentReport{
		Slot: d.slot.name, File: d.place, Digest: fleet.DigestBytes(raw), Signer: key.ID, PredicateType: predicate,
	})
}

// encodedPayload is how many bytes of the file the payload takes in base64.
func encodedPayload(b Bundle) int64 {
	if b.Statement == nil {
		return 0
	}
	return int64((len(b.Statement.Payload) + 2) / 3 * 4)
}

func (e *evaluation) refusedBy(d document, err error, satisfy string) {
	code := "bundle_malformed"
	var coded *fleet.Error
	if errors.As(err, &coded) {
		code = coded.Code
		if coded.Next != "" {
			satisfy = coded.Next
		}
	}
	e.at(&d, code, "", satisfy, "%v", err)
}

// checkSigner asks whether this key may speak here and now.
func (e *evaluation) checkSigner(d document) {
	const member = "verificationMaterial"
	rule := d.slot.rule(e.policy)
	if !slices.Contains(rule.Signers, d.key.ID) {
		e.at(&d, "signer_not_allowed", member, "sign with one of: "+strings.Join(rule.Signers, ", "), "key %s is not a signer of this slot", d.key.ID)
	}
	if typeRule, ok := e.policy.typeRule(e.pkg.release.Type.ID); ok && !slices.Contains(typeRule.Signers, d.key.ID) {
		e.at(&d, "signer_not_for_type", member, "sign with one of: "+strings.Join(typeRule.Signers, ", "), "key %s may not vouch for %s", d.key.ID, typeRule.Type)
	}
	if !d.key.NotBefore.IsZero() && e.now.Before(d.key.NotBefore) {
		e.at(&d, "key_not_yet_valid", member, "sign with a key that is valid now", "key %s is valid from %s", d.key.ID, d.key.NotBefore.UTC().Format(time.RFC3339))
	}
	if !d.key.NotAfter.IsZero() && !e.now.Before(d.key.NotAfter) {
		e.at(&d, "key_expired", member, "sign with a key that is valid now", "key %s was valid until %s, and no trusted timestamp says when it signed", d.key.ID, d.key.NotAfter.UTC().Format(time.RFC3339))
	}
}

// checkMessage judges a signature over the bare artifact.
func (e *evaluation) checkMessage(d document, m MessageSignature) {
	if !d.slot.message {
		e.at(&d, "not_a_statement", "messageSignature", "sign an in-toto statement", "a bare signature says nothing that this slot evaluates")
		return
	}
	if want := e.pkg.ArtifactDigest(); m.Digest != want {
		e.at(&d, "artifact_mismatch", "messageSignature.messageDigest", "sign the artifact, sha256 "+want.Hex(), "it is over another artifact: %s", m.Digest)
	}
	e.checkAge(d, "messageSignature", time.Time{})
}

// checkDistinct enforces the groups of slots that may not share a key.
func (e *evaluation) checkDistinct() {
	for _, group := range e.policy.doc.DistinctSigners {
		used := map[string]string{}
		for _, name := range group {
			for _, id := range e.signers[name] {
				if other, taken := used[id]; taken && other != name {
					e.found.add("evidence.signers_not_distinct", EvidenceDir, "sign "+name+" and "+other+" with different keys", "key %s signed both %s and %s", id, other, name)
				}
				used[id] = name
			}
		}
	}
}

// checkBinding insists that verified evidence names the manifest and release.yaml:
// the artifact's digest alone would let anybody change what it is said to do.
func (e *evaluation) checkBinding() {
	for _, name := range []string{ManifestFile, ReleaseFile} {
		if e.bound[name] {
			continue
		}
		code := strings.TrimSuffix(strings.TrimSuffix(name, ".json"), ".yaml") + ".unbound"
		e.found.add(code, name, "sign with release sign, or let the provenance list "+name+" among its byproducts", "no verified evidence names this file's digest")
	}
}

// DocumentReport is what one evidence file gave.
type DocumentReport struct {
	Slot          string       `json:"slot"`
	File          string       `json:"file"`
	Digest        fleet.Digest `json:"digest"`
	Signer        string       `json:"signer"`
	PredicateType string       `json:"predicate_type,omitempty"`
}

// Report is the journal's record of a decision: with the stored package and the
// named trust revision it is enough to decide again (G35).
type Report struct {
	Evaluator      string           `json:"evaluator"`
	EvaluatedAt    time.Time        `json:"evaluated_at"`
	TrustRevision  uint64           `json:"trust_revision"`
	PolicyDigest   fleet.Digest     `json:"policy_digest"`
	PackageDigest  fleet.Digest     `json:"package_digest"`
	ArtifactDigest fleet.Digest     `json:"artifact_digest"`
	ManifestDigest fleet.Digest     `json:"manifest_digest"`
	Documents      []DocumentReport `json:"documents"`
	KnownVersions  []KnownVersion   `json:"known_versions"`
	Findings       []Finding        `json:"findings"`
}

// KnownVersion is a version that the decision had to respect.
type KnownVersion struct {
	ID             fleet.VersionID `json:"id"`
	Version        string          `json:"version"`
	Sequence       uint64          `json:"release_sequence"`
	ArtifactDigest fleet.Digest    `json:"artifact_digest"`
}

func (e *evaluation) report(r Request) Report {
	report := Report{
		Evaluator: EvaluatorVersion, EvaluatedAt: e.now, TrustRevision: r.TrustRevision, PolicyDigest: e.policy.Digest(),
		PackageDigest: e.pkg.Digest(), ArtifactDigest: e.pkg.ArtifactDigest(), ManifestDigest: e.pkg.ManifestDigest(),
		Documents: e.documents, KnownVersions: []KnownVersion{}, Findings: []Finding{},
	}
	for _, v := range e.known.Versions {
		report.KnownVersions = append(report.KnownVersions, KnownVersion{v.ID, v.Version, v.ReleaseSequence, v.ArtifactDigest})
	}
	return report
}

func (r Report) json() json.RawMessage {
	data, err := json.Marshal(r)
	if err != nil { // digests, texts and times always encode
		return nil
	}
	return data
}
