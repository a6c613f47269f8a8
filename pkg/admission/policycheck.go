package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// check names everything that is wrong with the written policy.
func (p *Policy) check() error {
	return errors.Join(
		wrong(p.doc.Format != PolicyFormat, "format", "it must be "+PolicyFormat),
		p.checkKeys(),
		p.checkRoots(),
		p.checkIdentities(),
		p.checkTypes(),
		p.checkSlots(),
		p.checkGroups(),
		p.checkStatementTypes(),
		p.checkRevocation(),
	)
}

func (p *Policy) checkKeys() error {
	signers := len(p.doc.Keys) + len(p.doc.Identities)
	problems := []error{wrong(signers == 0 || signers > 1000, "keys", "keys and identities need 1..1000 entries together")}
	hints, ids := map[string]bool{}, map[string]bool{}
	for i, doc := range p.doc.Keys {
		place := fmt.Sprintf("keys[%d]", i)
		key, err := NewKey(doc.ID, doc.PublicKey)
		if err != nil {
			problems = append(problems, wrong(true, place+".public_key", err.Error()))
			continue
		}
		key.NotBefore, key.NotAfter, key.Root = doc.NotBefore, doc.NotAfter, doc.Root
		problems = append(problems,
			text(place+".id", doc.ID, 128),
			wrong(ids[doc.ID], place+".id", "it occurs twice"),
			wrong(hints[key.hint], place+".public_key", "another id has the same key"),
			wrong(!doc.NotAfter.IsZero() && !doc.NotBefore.Before(doc.NotAfter), place+".not_after", "the window is empty"),
			wrong(p.windowTooLong(doc.NotBefore, doc.NotAfter), place+".not_after", "the window is open or longer than max_validity"),
			wrong(doc.Root != "" && p.root(doc.Root) == nil, place+".root", "no root has this id"),
		)
		ids[doc.ID], hints[key.hint] = true, true
		p.keys = append(p.keys, key)
	}
	return errors.Join(problems...)
}

func (p *Policy) checkTypes() error {
	problems := []error{wrong(len(p.doc.Types) == 0, "types", "it needs a rule for each connector type that may be released")}
	seen := map[fleet.TypeID]bool{}
	for i, rule := range p.doc.Types {
		place := fmt.Sprintf("types[%d]", i)
		problems = append(problems,
			wrong(rule.Type.IsZero(), place+".type", "it is missing"),
			wrong(seen[rule.Type], place+".type", "it occurs twice"),
			wrong(len(rule.Owners) == 0, place+".owners", "it needs an owner"),
			p.checkSigners(place, rule.Signers),
		)
		seen[rule.Type] = true
	}
	return errors.Join(problems...)
}

func (p *Policy) checkSigners(place string, ids []string) error {
	problems := []error{wrong(len(ids) == 0, place+".signers", "it needs the id of a key or identity")}
	for _, id := range ids {
		problems = append(problems, wrong(!p.signerKnown(id), place+".signers", fmt.Sprintf("no key or identity has the id %q", fleet.Printable(id, 128))))
	}
	return errors.Join(problems...)
}

func (p *Policy) checkSlots() error {
	problems := []error{wrong(p.doc.Slots.Signature == nil, "slots.signature", "a policy without it would admit what nobody signed")}
	for _, s := range slotTable() {
		rule := s.rule(p)
		if rule == nil {
			continue
		}
		place := "slots." + s.name
		problems = append(problems,
			p.checkSigners(place, rule.Signers),
			wrong(rule.Count < 0 || rule.Count > 16 || rule.Count > len(rule.Signers), place+".count", "it needs 1..16, and as many signers"),
			p.checkSubjectDigests(place, rule.SubjectDigests),
		)
	}
	return errors.Join(append(problems, p.checkProvenance(), p.checkLicences(), p.checkVulnerability(), p.checkConformance())...)
}

func (p *Policy) checkProvenance() error {
	rule := p.doc.Slots.Provenance
	if rule == nil {
		return nil
	}
	const place = "slots.provenance"
	problems := []error{
		wrong(len(rule.Builders) == 0, place+".builders", "it needs an entry"),
		wrong(len(rule.Sources) == 0, place+".sources", "it needs an entry"),
	}
	for i, b := range rule.Builders {
		at := fmt.Sprintf("%s.builders[%d]", place, i)
		problems = append(problems, p.checkSigners(at, []string{b.Signer}), text(at+".builder_id", b.BuilderID, 2048))
	}
	for i, s := range rule.Sources {
		at := fmt.Sprintf("%s.sources[%d]", place, i)
		problems = append(problems, exactText(at+".repository", s.Repository), refPattern(at+".ref", s.Ref))
	}
	return errors.Join(problems...)
}

func (p *Policy) checkLicences() error {
	rule := p.doc.Slots.SBOM
	if rule == nil {
		return nil
	}
	u := rule.Licences.Unknown
	return wrong(u != "" && u != "refuse" && u != "accept", "slots.sbom.licences.unknown", "it must be refuse or accept")
}

// exactText refuses what looks like a pattern, so that nobody believes in one.
func exactText(member, s string) error {
	return errors.Join(text(member, s, 2048), wrong(strings.Contains(s, "*"), member, "only exact values are accepted"))
}

func refPattern(member, s string) error {
	prefix, isPrefix := strings.CutSuffix(s, "*")
	return errors.Join(
		text(member, s, 1024),
		wrong(strings.Contains(prefix, "*"), member, "a * is accepted at the end alone"),
		wrong(isPrefix && !strings.Contains(prefix, "/"), member, "a prefix must reach below the first slash"),
	)
}

func (p *Policy) checkGroups() error {
	var problems []error
	for i, group := range p.doc.DistinctSigners {
		place := fmt.Sprintf("distinct_signers[%d]", i)
		problems = append(problems, wrong(len(group) < 2, place, "it needs two slots or more"))
		for _, name := range group {
			problems = append(problems, wrong(!slices.Contains(p.Slots(), name), place, fmt.Sprintf("slot %q has no rule", fleet.Printable(name, 64))))
		}
	}
	return errors.Join(problems...)
}

func (p *Policy) checkStatementTypes() error {
	for _, t := range p.doc.StatementTypes {
		if t != StatementV1 && t != StatementV01 {
			return wrong(true, "statement_types", "only "+StatementV1+" and "+StatementV01+" are known")
		}
	}
	return nil
}

func (p *Policy) checkSubjectDigests(place string, names []string) error {
	for _, name := range names {
		if name != digestSHA512 {
			return wrong(true, place+".subject_digests", "only "+digestSHA512+" may stand in for sha256")
		}
	}
	return nil
}
