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

// Names of digests in statements.
const (
	digestSHA256 = "sha256"
	digestSHA512 = "sha512"
)

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

// expected is one subject that a statement has to name.
type expected struct {
	what   string // for people
	sha256 string
	sha512 string   // "" when it may not stand in
	or     []string // further SHA-256 digests that name it as well
}

// strict is the gate that every signed payload passes.
func strict() envelope.Limits {
	return envelope.Limits{MaxBytes: 8 << 20, MaxDepth: 32, SafeIntegers: true}
}

// openStatement checks a verified envelope down to its predicate. It reports
// false when what the statement says must not be looked at.
func (e *evaluation) openStatement(d *document, signed *SignedStatement) bool {
	before := len(e.found.list)
	if signed.PayloadType != PayloadInToto {
		e.at(d, "payload_type", "", "sign an in-toto statement", "the payload type is %q", signed.PayloadType)
	}
	v, err := envelope.ParseStrict(signed.Payload, strict())
	if err == nil {
		err = v.Decode(&d.statement, envelope.RefuseUnknown)
	}
	if err != nil {
		d.statement = statement{}
		e.at(d, "statement_malformed", "payload", "sign one strict in-toto statement", "%v", err)
		return false
	}
	s := d.statement
	if !slices.Contains(e.policy.statementTypes(), s.Type) {
		e.at(d, "statement_type", "_type", "use "+strings.Join(e.policy.statementTypes(), " or "), "the statement type is %q", s.Type)
	}
	accepted := append(slices.Clone(d.slot.predicates), d.slot.beside...)
	switch {
	case s.PredicateType == "":
		e.at(d, "predicate_type_missing", "predicateType", "use "+strings.Join(accepted, " or "), "there is no predicate type")
	case !slices.Contains(accepted, s.PredicateType):
		e.at(d, "predicate_type", "predicateType", "use "+strings.Join(accepted, " or "), "the predicate type is %q", s.PredicateType)
	}
	e.checkSubjects(d)
	return len(e.found.list) == before
}

// artifactSubject is the artifact as a statement names it.
func (e *evaluation) artifactSubject(d *document) expected {
	want := expected{what: "the artifact", sha256: e.pkg.ArtifactDigest().Hex()}
	if slices.Contains(d.slot.rule(e.policy).SubjectDigests, digestSHA512) {
		want.sha512 = e.pkg.artifact.sha512
	}
	return want
}

// checkSubjects insists on exactly the expected subjects, each by SHA-256 and by
// nothing weaker or different.
func (e *evaluation) checkSubjects(d *document) {
	wanted := []expected{e.artifactSubject(d)}
	if d.slot.subjects != nil {
		wanted = d.slot.subjects(e, d)
	}
	var names []string
	for _, w := range wanted {
		names = append(names, w.what+", sha256 "+w.sha256)
	}
	satisfy := "name exactly " + strings.Join(names, ", and ")
	if n := len(d.statement.Subject); n != len(wanted) {
		e.at(d, "subject_count", "subject", satisfy, "there are %d subjects", n)
		return
	}
	for i, want := range wanted {
		e.checkSubject(d, i, want, satisfy)
	}
}

func (e *evaluation) checkSubject(d *document, i int, want expected, satisfy string) {
	place := "subject[" + string(rune('0'+i)) + "].digest"
	digests := d.statement.Subject[i].Digest
	for _, algorithm := range slices.Sorted(maps.Keys(digests)) {
		if algorithm != digestSHA256 && (algorithm != digestSHA512 || want.sha512 == "") {
			e.at(d, "subject_digest_weak", place, satisfy, "it carries a %s digest, which is not evaluated", algorithm)
		}
	}
	got256, has256 := digests[digestSHA256]
	got512, has512 := digests[digestSHA512]
	has512 = has512 && want.sha512 != ""
	switch {
	case !has256 && !has512:
		e.at(d, "subject_digest_missing", place, satisfy, "there is no sha256 digest")
	case has256 && !want.is(got256):
		e.at(d, "subject_mismatch", place+".sha256", satisfy, "it is about something else: %s", got256)
	case has512 && got512 != want.sha512:
		e.at(d, "subject_mismatch", place+".sha512", satisfy, "it is about something else: %s", got512)
	}
}

// is compares a stated SHA-256 with the wanted one, or with one that may stand for it.
func (x expected) is(sha256 string) bool {
	return sha256 == x.sha256 || slices.Contains(x.or, sha256)
}

// checkAge compares the time a document states with the slot's bound, and with when
// the signature was seen. A document that states none is as old as its signature.
func (e *evaluation) checkAge(d document, place string, stated time.Time) {
	for _, o := range d.proof.Observed {
		if stated.After(o.At.Add(clockSlack)) {
			e.at(&d, "time_disagrees", place, "state when it was made", "it says %s, and was signed before, at %s", stated.UTC().Format(time.RFC3339), o.At.UTC().Format(time.RFC3339))
		}
	}
	rule := d.slot.rule(e.policy)
	if rule.MaxAge.IsZero() {
		return
	}
	if stated.IsZero() && len(d.proof.Observed) > 0 {
		stated = slices.MinFunc(d.proof.Observed, func(a, b Observed) int { return a.At.Compare(b.At) }).At
	}
	e.checkNotOlder(d, place, stated, rule.MaxAge)
}

func (e *evaluation) checkNotOlder(d document, place string, stated time.Time, longest Duration) {
	satisfy := "make the evidence anew; it may be " + longest.String() + " old"
	switch age := e.now.Sub(stated); {
	case stated.IsZero():
		e.at(&d, "age_unknown", place, satisfy, "the document does not say when it was made")
	case age > longest.Duration:
		e.at(&d, "too_old", place, satisfy, "it is from %s", stated.UTC().Format(time.RFC3339))
	case age < -clockSlack:
		e.at(&d, "from_the_future", place, satisfy, "it is from %s", stated.UTC().Format(time.RFC3339))
	}
}

// at adds a finding of the document's slot.
func (e *evaluation) at(d *document, code, member, satisfy, format string, args ...any) {
	place := d.place
	if member != "" {
		place += "#" + member
	}
	prefix := d.prefix
	if prefix == "" {
		prefix = "evidence." + d.slot.name + "."
	}
	e.found.add(prefix+code, place, satisfy, format, args...)
}

// decodePredicate reads the predicate into dst; members that dst does not have
// are ignored, since predicates may be extended, but case variants are refused.
func (e *evaluation) decodePredicate(d document, dst any) bool {
	return e.decodePart(d, "predicate", d.statement.Predicate, dst)
}

func (e *evaluation) decodePart(d document, place string, raw json.RawMessage, dst any) bool {
	if err := envelope.DecodeStrict(raw, strict(), dst); err != nil {
		e.at(&d, "predicate_malformed", place, "write the predicate as its type says", "%v", err)
		return false
	}
	return true
}

// stated compares a digest that evidence states about a document of the package
// and remembers that the document is bound.
func (e *evaluation) stated(d document, place, name string, got fleet.Digest) {
	want := e.documentDigest(name)
	if got != want {
		e.at(&d, baseName(name)+"_mismatch", place, "sign again after packing", "it binds %s %s, the package has %s", name, got, want)
		return
	}
	e.bound[name] = true
}

func baseName(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, ".json"), ".yaml")
}

// documentDigest is how evidence names a document: the manifest by its canonical
// form, anything else by its bytes.
func (e *evaluation) documentDigest(name string) fleet.Digest {
	if name == ManifestFile {
		return e.pkg.ManifestDigest()
	}
	return fleet.DigestBytes(e.pkg.files[name])
}
