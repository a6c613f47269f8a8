package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// PayloadRevocations is the payload type of a signed revocation list.
const PayloadRevocations = "application/vnd.aipfleet.revocations+json"

// RevocationsFormat is the format member of every revocation list.
const RevocationsFormat = "aipfleet.revocations/v1"

// RevocationRule says who may revoke, and how new the list in force must be.
type RevocationRule struct {
	Signers  []string `json:"signers"`
	Count    int      `json:"count,omitempty"`    // documents by as many different signers; default 1
	Required bool     `json:"required,omitempty"` // nothing is admitted before there is a list
	MaxAge   Duration `json:"max_age,omitzero"`   // nothing is admitted under an older list
}

// RevocationList names what is not trusted any more. Every list is complete: a later
// one repeats what an earlier one says.
type RevocationList struct {
	Format   string                     `json:"format"`
	Number   uint64                     `json:"number"`
	IssuedAt time.Time                  `json:"issued_at"`
	Entries  []registry.RevocationEntry `json:"entries"`
}

// ParseRevocations reads the payload of a list, in YAML or JSON, strictly.
func ParseRevocations(data []byte) (*RevocationList, error) {
	var l RevocationList
	_, err := decodeClosed(data, MaxPolicyBytes, &l)
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return nil, fleet.Invalidf("revocation.malformed", "the revocation list is not valid").
			Because("%s", strings.ReplaceAll(err.Error(), "\n", "; ")).Advise("correct the named members")
	}
	return &l, nil
}

// Payload is the list's canonical JSON, ready to be signed.
func (l *RevocationList) Payload() (json.RawMessage, error) { return envelope.CanonicalOf(l) }

func (l *RevocationList) check() error {
	problems := []error{
		wrong(l.Format != RevocationsFormat, "format", "it must be "+RevocationsFormat),
		wrong(l.Number == 0, "number", "it must be 1 or more"),
		wrong(l.IssuedAt.IsZero(), "issued_at", "it is missing"),
		wrong(len(l.Entries) > registry.MaxRevocations, "entries", fmt.Sprintf("there are more than %d", registry.MaxRevocations)),
	}
	for i, entry := range l.Entries {
		if err := entry.Wrong(); err != nil {
			problems = append(problems, wrong(true, fmt.Sprintf("entries[%d]", i), err.Error()))
		}
	}
	return errors.Join(problems...)
}

func (p *Policy) checkRevocation() error {
	rule := p.doc.Revocation
	if rule == nil {
		return nil
	}
	return errors.Join(
		p.checkSigners("revocation", rule.Signers),
		wrong(rule.Count < 0 || rule.Count > len(rule.Signers), "revocation.count", "it needs 1 or more, and as many signers"),
	)
}

// OpenRevocations proves that a signed list may be applied under the policy after
// the earlier one: by whom it is signed, that its number grows, that it drops
// nothing. All that is wrong is found at once.
func (v Evaluator) OpenRevocations(document []byte, policy *Policy, earlier *RevocationList, at time.Time) (*RevocationList, []Finding) {
	const place = "revocations"
	e := v.begin(Request{Policy: policy, At: at})
	rule := policy.doc.Revocation
	if rule == nil {
		e.found.add("revocation.no_rule", place, "give the trust policy a member revocation", "the trust policy lets nobody revoke")
		return nil, e.found.list
	}
	list := e.openRevocations(document, *rule)
	if list == nil {
		return nil, e.found.list
	}
	if earlier != nil {
		e.checkFollows(list, earlier)
	}
	if len(e.found.list) > 0 {
		return nil, e.found.list
	}
	return list, nil
}

func (e *evaluation) openRevocations(raw []byte, rule RevocationRule) *RevocationList {
	const place = "revocations"
	d := document{prefix: "revocation.", place: place}
	bundle, err := e.bundles.Parse(raw)
	if err != nil {
		e.refused("revocation.", place, err)
		return nil
	}
	if bundle.Statement == nil || bundle.Statement.PayloadType != PayloadRevocations {
		e.found.add("revocation.payload_type", place, "sign the list with revocation sign", "it is not a signed revocation list")
		return nil
	}
	before := len(e.found.list)
	if !e.verify(&d, bundle) {
		return nil
	}
	if !slices.Contains(rule.Signers, d.signer) {
		e.found.add("revocation.signer_not_allowed", place, "sign as one of: "+strings.Join(rule.Signers, ", "), "%s may not revoke", d.signer)
	}
	if d.key != nil {
		e.checkWindow(&d, "verificationMaterial")
	}
	list, err := ParseRevocations(bundle.Statement.Payload)
	if err != nil {
		e.refused("", place, err)
		return nil
	}
	if len(e.found.list) > before {
		return nil
	}
	return list
}

func (e *evaluation) refused(prefix, place string, err error) {
	code, satisfy := "malformed", "sign the list with revocation sign"
	var coded *fleet.Error
	if errors.As(err, &coded) {
		code = coded.Code
	}
	e.found.addError(prefix+code, place, satisfy, err)
}

// checkFollows: numbers grow, and what was revoked stays so.
func (e *evaluation) checkFollows(list, earlier *RevocationList) {
	const place = "revocations"
	if list.Number <= earlier.Number {
		e.found.add("revocation.rolled_back", place+"#number", fmt.Sprintf("number it %d or higher", earlier.Number+1), "its number is %d, number %d is in force", list.Number, earlier.Number)
	}
	for _, old := range earlier.Entries {
		if !slices.ContainsFunc(list.Entries, func(n registry.RevocationEntry) bool { return n.Kind == old.Kind && n.Value == old.Value }) {
			e.found.add("revocation.entry_dropped", place+"#entries", "repeat what earlier lists say", "it does not name %s %s any more", old.Kind, old.Value)
		}
	}
}

// checkRevocations holds the package against the list in force.
func (e *evaluation) checkRevocations() {
	const place = "."
	rule, list := e.policy.doc.Revocation, e.revocations
	if rule != nil && rule.Required && list == nil {
		e.found.add("revocation.missing", place, "apply a revocation list, an empty one if need be", "the trust policy asks for a revocation list, and there is none")
	}
	if list == nil {
		return
	}
	if rule != nil && !rule.MaxAge.IsZero() && e.now.Sub(list.IssuedAt) > rule.MaxAge.Duration {
		e.found.add("revocation.stale", place, "apply a new list; it may be "+rule.MaxAge.String()+" old", "list %d is from %s", list.Number, list.IssuedAt.UTC().Format(time.RFC3339))
	}
	for _, entry := range list.Entries {
		if hit := e.revokes(entry); hit != "" {
			e.found.add("revocation."+string(entry.Kind)+"_revoked", hit, "release anew without it", "list %d revokes %s %s: %s", list.Number, entry.Kind, entry.Value, entry.Reason)
		}
	}
}

// revokes names the place that an entry hits, or "".
func (e *evaluation) revokes(entry registry.RevocationEntry) string {
	is := func(hit bool, place string) string {
		if hit {
			return place
		}
		return ""
	}
	switch entry.Kind {
	case registry.RevokePackage:
		return is(entry.Value == e.pkg.Digest().String(), ".")
	case registry.RevokeArtifact:
		return is(entry.Value == e.pkg.ArtifactDigest().String(), ArtifactDir)
	case registry.RevokeManifest:
		return is(entry.Value == e.pkg.ManifestDigest().String(), ManifestFile)
	case registry.RevokeVersion:
		return is(entry.Value == e.pkg.release.VersionID.String(), ReleaseFile)
	case registry.RevokeEvidence:
		for _, d := range e.documents {
			if d.Digest.String() == entry.Value {
				return d.File
			}
		}
	case registry.RevokeSigner:
		for _, d := range e.documents {
			if d.Signer == entry.Value {
				return d.File
			}
		}
	}
	return ""
}
