package admission

// Names of the evidence slots.
const (
	SlotSignature     = "signature"
	SlotProvenance    = "provenance"
	SlotSBOM          = "sbom"
	SlotVulnerability = "vulnerability"
	SlotConformance   = "conformance"
	SlotApproval      = "approval"
)

// slot is one row of the table that says how a kind of evidence is evaluated. A
// further kind is one more row and one more rule in SlotRules.
type slot struct {
	name string
	// rule is the policy's rule for the slot, nil when the slot must be empty.
	rule func(*Policy) *SlotRule
	// predicates lists the predicate types of the slot, exact.
	predicates []string
	// beside lists predicate types of documents that the slot takes in addition to
	// those it counts.
	beside []string
	// besideSigners says who may sign them.
	besideSigners func(*Policy) []string
	// message says that a signature over the bare artifact is a document of the slot.
	message bool
	// more says that the slot takes more documents than it needs, by other signers.
	more bool
	// subjects says what a statement has to be about; nil means the artifact alone.
	subjects func(*evaluation, *document) []expected
	// evaluate judges a verified statement's predicate; what passes is computed
	// from the document, never asserted by its signer.
	evaluate func(*evaluation, document)
	// finish judges what only all documents of the slot together show; may be nil.
	finish func(*evaluation)
}

// signersFor says who may sign a document of the predicate type.
func (s slot) signersFor(p *Policy, predicateType string) []string {
	for _, b := range s.beside {
		if b == predicateType {
			return s.besideSigners(p)
		}
	}
	return s.rule(p).Signers
}

// shared gives a rule's common part, or nil for no rule.
func shared[R any](rule *R, part func(*R) *SlotRule) *SlotRule {
	if rule == nil {
		return nil
	}
	return part(rule)
}

// slotTable lists the slots in the order in which they are evaluated. Later ones
// may rely on what earlier ones showed: scans are of a verified bill of materials.
func slotTable() []slot {
	return []slot{
		{
			name: SlotSignature, predicates: []string{PredicateRelease}, message: true, evaluate: (*evaluation).evaluateRelease,
			rule: func(p *Policy) *SlotRule {
				return shared(p.doc.Slots.Signature, func(r *SignatureRule) *SlotRule { return &r.SlotRule })
			},
		},
		{
			name: SlotProvenance, predicates: []string{PredicateProvenance, PredicateProvenance02}, evaluate: (*evaluation).evaluateProvenance,
			rule: func(p *Policy) *SlotRule {
				return shared(p.doc.Slots.Provenance, func(r *ProvenanceRule) *SlotRule { return &r.SlotRule })
			},
		},
		{
			name: SlotSBOM, predicates: sbomPredicates(), evaluate: (*evaluation).evaluateSBOM,
			rule: func(p *Policy) *SlotRule {
				return shared(p.doc.Slots.SBOM, func(r *SBOMRule) *SlotRule { return &r.SlotRule })
			},
		},
		vulnerabilitySlot(),
		{
			name: SlotConformance, predicates: []string{PredicateTestResult}, evaluate: (*evaluation).evaluateConformance,
			subjects: (*evaluation).conformanceSubjects,
			rule: func(p *Policy) *SlotRule {
				return shared(p.doc.Slots.Conformance, func(r *ConformanceRule) *SlotRule { return &r.SlotRule })
			},
		},
		{
			name: SlotApproval, predicates: []string{PredicateApproval}, more: true, evaluate: (*evaluation).evaluateApproval,
			rule: func(p *Policy) *SlotRule {
				return shared(p.doc.Slots.Approval, func(r *ApprovalRule) *SlotRule { return &r.SlotRule })
			},
		},
	}
}

func vulnerabilitySlot() slot {
	return slot{
		name: SlotVulnerability, predicates: []string{PredicateScan, PredicateVulns}, beside: vexPredicates(),
		besideSigners: func(p *Policy) []string { return p.doc.Slots.Vulnerability.VEXSigners },
		subjects:      (*evaluation).scanSubjects,
		evaluate:      (*evaluation).evaluateVulnerability,
		finish:        (*evaluation).judgeVulnerabilities,
		rule: func(p *Policy) *SlotRule {
			return shared(p.doc.Slots.Vulnerability, func(r *VulnerabilityRule) *SlotRule { return &r.SlotRule })
		},
	}
}
