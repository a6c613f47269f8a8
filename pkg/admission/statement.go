package admission

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// PayloadInToto is the one payload type of a statement.
const PayloadInToto = "application/vnd.in-toto+json"

// statement is an in-toto statement; its predicate is kept as received.
type statement struct {
	Type          string          `json:"_type"`
	Subject       []subject       `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate,omitempty"`
}

// subject is an in-toto resource descriptor.
type subject struct {
	Name             string            `json:"name,omitempty"`
	URI              string            `json:"uri,omitempty"`
	Digest           map[string]string `json:"digest,omitempty"`
	Content          string            `json:"content,omitempty"`
	DownloadLocation string            `json:"downloadLocation,omitempty"`
	MediaType        string            `json:"mediaType,omitempty"`
	Annotations      json.RawMessage   `json:"annotations,omitempty"`
}

// document is one evidence file on its way through the checks.
type document struct {
	slot      slot
	place     string // file in the package
	key       Key
	statement statement
}

// strict is the gate that every signed payload passes.
func strict() envelope.Limits {
	return envelope.Limits{MaxBytes: 8 << 20, MaxDepth: 32, SafeIntegers: true}
}

// openStatement checks a verified envelope down to its predicate. It reports
// false when what the statement says must not be looked at.
func (e *evaluation) openStatement(d *document, signed *SignedStatement) bool {
	before := len(e.found)
	if signed.PayloadType != PayloadInToto {
		e.at(d, "payload_type", "", "sign an in-toto statement", "the payload type is %q", signed.PayloadType)
	}
	v, err := envelope.ParseStrict(signed.Payload, strict())
	if err == nil {
		err = v.Decode(&d.statement, envelope.RefuseUnknown)
	}
	if err != nil {
		e.at(d, "statement_malformed", "payload", "sign one strict in-toto statement", "%v", err)
		return false
	}
	s := d.statement
	if !slices.Contains(e.policy.statementTypes(), s.Type) {
		e.at(d, "statement_type", "_type", "use "+strings.Join(e.policy.statementTypes(), " or "), "the statement type is %q", s.Type)
	}
	switch {
	case s.PredicateType == "":
		e.at(d, "predicate_type_missing", "predicateType", "use "+strings.Join(d.slot.predicates, " or "), "there is no predicate type")
	case !slices.Contains(d.slot.predicates, s.PredicateType):
		e.at(d, "predicate_type", "predicateType", "use "+strings.Join(d.slot.predicates, " or "), "the predicate type is %q", s.PredicateType)
	}
	e.checkSubject(d)
	return len(e.found) == before
}

// checkSubject insists on exactly one subject, the artifact, by SHA-256 and by
// nothing weaker or different.
func (e *evaluation) checkSubject(d *document) {
	const place = "subject"
	want := e.pkg.ArtifactDigest()
	satisfy := "name exactly the artifact, sha256 " + want.Hex()
	if n := len(d.statement.Subject); n != 1 {
		e.at(d, "subject_count", place, satisfy, "there are %d subjects", n)
		return
	}
	digests := d.statement.Subject[0].Digest
	for _, algorithm := range slices.Sorted(maps.Keys(digests)) {
		if algorithm != "sha256" {
			e.at(d, "subject_digest_weak", place+"[0].digest", satisfy, "it carries a %s digest, which is not evaluated", algorithm)
		}
	}
	switch got, has := digests["sha256"]; {
	case !has:
		e.at(d, "subject_digest_missing", place+"[0].digest", satisfy, "there is no sha256 digest")
	case got != want.Hex():
		e.at(d, "subject_mismatch", place+"[0].digest.sha256", satisfy, "it is about another artifact: %s", got)
	}
}

// checkAge compares the time a document states with the slot's bound.
func (e *evaluation) checkAge(d document, place string, stated time.Time) {
	rule := d.slot.rule(e.policy)
	if rule.MaxAge.IsZero() {
		return
	}
	satisfy := "make the evidence anew; it may be " + rule.MaxAge.String() + " old"
	switch age := e.now.Sub(stated); {
	case stated.IsZero():
		e.at(&d, "age_unknown", place, satisfy, "the document does not say when it was made")
	case age > rule.MaxAge.Duration:
		e.at(&d, "too_old", place, satisfy, "it is from %s", stated.UTC().Format(time.RFC3339))
	case age < -5*time.Minute:
		e.at(&d, "from_the_future", place, satisfy, "it is from %s", stated.UTC().Format(time.RFC3339))
	}
}

// at adds a finding of the document's slot.
func (e *evaluation) at(d *document, code, member, satisfy, format string, args ...any) {
	place := d.place
	if member != "" {
		place += "#" + member
	}
	e.found.add("evidence."+d.slot.name+"."+code, place, satisfy, format, args...)
}

// decodePredicate reads the predicate into dst; members that dst does not have
// are ignored, since predicates may be extended, but case variants are refused.
func (e *evaluation) decodePredicate(d document, dst any) bool {
	v, err := envelope.ParseStrict(d.statement.Predicate, strict())
	if err == nil {
		err = v.Decode(dst)
	}
	if err != nil {
		e.at(&d, "predicate_malformed", "predicate", "write the predicate as its type says", "%v", err)
		return false
	}
	return true
}

// stated compares a digest that evidence states about a document of the package
// and remembers that the document is bound.
func (e *evaluation) stated(d document, place, name string, got fleet.Digest) {
	want := e.documentDigest(name)
	code := strings.TrimSuffix(strings.TrimSuffix(name, ".json"), ".yaml") + "_mismatch"
	if got != want {
		e.at(&d, code, place, "sign again after packing", "it binds %s %s, the package has %s", name, got, want)
		return
	}
	e.bound[name] = true
}

// documentDigest is how evidence names a document: the manifest by its canonical
// form, anything else by its bytes.
func (e *evaluation) documentDigest(name string) fleet.Digest {
	if name == ManifestFile {
		return e.pkg.ManifestDigest()
	}
	return fleet.DigestBytes(e.pkg.files[name])
}
