package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// document is one evidence file on its way through the checks.
type document struct {
	slot      slot
	prefix    string // of finding codes; "" for evidence.<slot>.
	place     string // file in the package
	signer    string // id of the key or identity that verifiably signed
	key       *Key
	proof     Proof
	statement statement
}

func (e *evaluation) checkSlot(s slot, rule SlotRule, places []string) {
	code, first := "evidence."+s.name, EvidenceDir+"/"+s.name+evidenceSuffix
	if len(places) == 0 {
		e.found.add(code+".missing", first, "add the evidence, signed by one of: "+strings.Join(rule.Signers, ", "), "the slot is empty")
	}
	counted := 0
	for _, place := range places {
		d := document{slot: s, place: place}
		e.checkDocument(&d)
		if !slices.Contains(s.beside, d.statement.PredicateType) {
			counted++
		}
	}
	switch {
	case counted < rule.count() && len(places) > 0:
		e.found.add(code+".count", first, fmt.Sprintf("add evidence by %d different signers", rule.count()), "there are %d documents", counted)
	case counted > rule.count() && !(s.more && counted <= len(rule.Signers)):
		e.found.add(code+".duplicate", places[len(places)-1], fmt.Sprintf("leave exactly %d", rule.count()), "there are %d documents", counted)
	}
	if list := e.signers[s.name]; len(slices.Compact(slices.Sorted(slices.Values(list)))) < len(list) {
		e.found.add(code+".signer_repeated", first, "sign with different keys", "one signer signed more than one document")
	}
	if s.finish != nil {
		s.finish(e)
	}
}

// checkDocument takes one evidence file from its bytes to its verdict. What is in
// it is looked at only when a known signer really signed it.
func (e *evaluation) checkDocument(d *document) {
	raw := e.pkg.files[d.place]
	bundle, err := e.bundles.Parse(raw)
	if err != nil {
		e.refusedBy(d, err, "make the bundle again with release sign or release attest")
		return
	}
	if overhead := int64(len(raw)) - encodedPayload(bundle); overhead > e.pkg.limits.BundleBytes {
		e.at(d, "bundle_too_large", "", "leave out what is not needed", "it has %d bytes beside its payload, allowed are %d", overhead, e.pkg.limits.BundleBytes)
		return
	}
	if !e.verify(d, bundle) {
		return
	}
	opened := bundle.Statement != nil && e.openStatement(d, bundle.Statement)
	e.checkSigner(d)
	if bundle.Message != nil {
		e.checkMessage(d, *bundle.Message)
	} else if opened {
		d.slot.evaluate(e, *d)
	}
	if !slices.Contains(d.slot.beside, d.statement.PredicateType) {
		e.signers[d.slot.name] = append(e.signers[d.slot.name], d.signer)
	}
	e.documents = append(e.documents, DocumentReport{
		Slot: d.slot.name, File: d.place, Digest: fleet.DigestBytes(raw), Signer: d.signer, Identity: d.proof.Identity,
		Observed: d.proof.Observed, PredicateType: d.statement.PredicateType,
	})
}

// verify finds who is said to have signed in the policy, and has it proved.
func (e *evaluation) verify(d *document, b Bundle) bool {
	anchor, ok := e.anchor(d, b)
	if !ok {
		return false
	}
	proof, err := e.bundles.Verify(b, anchor)
	if err != nil {
		e.refusedBy(d, err, "sign again; the content was changed after signing or somebody else signed")
		return false
	}
	d.proof = proof
	if b.Claim != nil && (proof.Identity == nil || *proof.Identity != *b.Claim) {
		e.at(d, "identity_disagrees", "verificationMaterial", "sign again", "the certificate was issued to somebody else")
		return false
	}
	return true
}

// anchor chooses what the bundle is verified against, from the policy alone.
func (e *evaluation) anchor(d *document, b Bundle) (Anchor, bool) {
	const member = "verificationMaterial"
	if b.Claim == nil {
		key, known := e.policy.byHint(b.Hint)
		if !known {
			e.at(d, "unknown_signer", member, "sign with a key of the trust policy", "no key of the trust policy answers to %q", b.Hint)
			return Anchor{}, false
		}
		d.signer, d.key = key.ID, &key
		return Anchor{Key: &key, Root: e.policy.root(key.Root)}, true
	}
	rule, known := e.policy.byIdentity(*b.Claim)
	if !known {
		e.at(d, "unknown_identity", member, "sign as an identity of the trust policy", "no identity of the trust policy is %q of %q", b.Claim.Subject, b.Claim.Issuer)
		return Anchor{}, false
	}
	d.signer = rule.ID
	return Anchor{Root: e.policy.root(rule.Root)}, true
}

// encodedPayload is how many bytes of the file the payload takes in base64.
func encodedPayload(b Bundle) int64 {
	if b.Statement == nil {
		return 0
	}
	return int64((len(b.Statement.Payload) + 2) / 3 * 4)
}

func (e *evaluation) refusedBy(d *document, err error, satisfy string) {
	code := "bundle_malformed"
	var coded *fleet.Error
	if errors.As(err, &coded) {
		code = coded.Code
		if coded.Next != "" {
			satisfy = coded.Next
		}
	}
	e.at(d, code, "", satisfy, "%v", err)
}

// checkSigner asks whether this signer may speak here and now.
func (e *evaluation) checkSigner(d *document) {
	const member = "verificationMaterial"
	if allowed := d.slot.signersFor(e.policy, d.statement.PredicateType); !slices.Contains(allowed, d.signer) {
		e.at(d, "signer_not_allowed", member, "sign as one of: "+strings.Join(allowed, ", "), "%s is not a signer of this slot", d.signer)
	}
	if typeRule, ok := e.policy.typeRule(e.pkg.release.Type.ID); ok && !slices.Contains(typeRule.Signers, d.signer) {
		e.at(d, "signer_not_for_type", member, "sign as one of: "+strings.Join(typeRule.Signers, ", "), "%s may not vouch for %s", d.signer, typeRule.Type)
	}
	if d.key != nil {
		e.checkWindow(d, member)
	}
	for _, o := range d.proof.Observed {
		if o.At.After(e.now.Add(clockSlack)) {
			e.at(d, "seen_in_the_future", member, "evaluate after signing", "the signature was seen at %s", o.At.UTC().Format(time.RFC3339))
		}
	}
	if longest := e.policy.doc.MaxValidity.Duration; longest > 0 && d.proof.Lifetime > longest {
		e.at(d, "certificate_lifetime", member, "sign with a certificate that lives at most "+longest.String(), "the certificate lives %s", d.proof.Lifetime)
	}
}

// checkWindow asks whether the key counted when somebody trusted saw the signature,
// or now when nobody did.
func (e *evaluation) checkWindow(d *document, member string) {
	times, unseen := []time.Time{}, ", and no trusted timestamp says when it signed"
	for _, o := range d.proof.Observed {
		times, unseen = append(times, o.At), ""
	}
	if len(times) == 0 {
		times = append(times, e.now)
	}
	for _, at := range times {
		if !d.key.NotBefore.IsZero() && at.Before(d.key.NotBefore) {
			e.at(d, "key_not_yet_valid", member, "sign with a key that is valid now", "key %s is valid from %s", d.signer, d.key.NotBefore.UTC().Format(time.RFC3339))
		}
		if !d.key.NotAfter.IsZero() && !at.Before(d.key.NotAfter) {
			e.at(d, "key_expired", member, "sign with a key that is valid now", "key %s was valid until %s%s", d.signer, d.key.NotAfter.UTC().Format(time.RFC3339), unseen)
		}
	}
}

// clockSlack is how far two honest clocks may differ.
const clockSlack = 5 * time.Minute

// checkMessage judges a signature over the bare artifact.
func (e *evaluation) checkMessage(d *document, m MessageSignature) {
	if !d.slot.message {
		e.at(d, "not_a_statement", "messageSignature", "sign an in-toto statement", "a bare signature says nothing that this slot evaluates")
		return
	}
	if want := e.pkg.ArtifactDigest(); m.Digest != want {
		e.at(d, "artifact_mismatch", "messageSignature.messageDigest", "sign the artifact, sha256 "+want.Hex(), "it is over another artifact: %s", m.Digest)
	}
	e.checkAge(*d, "messageSignature", time.Time{})
}
