package admission

// Names of the evidence slots.
const (
	SlotSignature  = "signature"
	SlotProvenance = "provenance"
	SlotSBOM       = "sbom"
)

// slot is one row of the table that says how a kind of evidence is evaluated. A
// further kind is one more row and one more rule in SlotRules.
type slot struct {
	name string
	// rule is the policy's rule for the slot, nil when the slot must be empty.
	rule func(*Policy) *SlotRule
	// predicates lists the predicate types of the slot, exact.
	predicates []string
	// message says that a signature over the bare artifact is a document of the slot.
	message bool
	// evaluate judges a verified statement's predicate; what passes is computed
	// from the document, never asserted by its signer.
	evaluate func(*evaluation, document)
}

// slotTable lists the slots in the order in which they are evaluated.
func slotTable() []slot {
	return []slot{
		{
			name: SlotSignature, predicates: []string{PredicateRelease}, message: true,
			rule: func(p *Policy) *SlotRule {
				if r := p.doc.Slots.Signature; r != nil {
					return &r.SlotRule
				}
				return nil
			},
			evaluate: (*evaluation).evaluateRelease,
		},
		{
			name: SlotProvenance, predicates: []string{PredicateProvenance},
			rule: func(p *Policy) *SlotRule {
				if r := p.doc.Slots.Provenance; r != nil {
					return &r.SlotRule
				}
				return nil
			},
			evaluate: (*evaluation).evaluateProvenance,
		},
		{
			name: SlotSBOM, predicates: sbomPredicates(),
			rule: func(p *Policy) *SlotRule {
				if r := p.doc.Slots.SBOM; r != nil {
					return &r.SlotRule
				}
				return nil
			},
			evaluate: (*evaluation).evaluateSBOM,
		},
	}
}
