package admission

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// PolicyFormat is the format member of every trust policy.
const PolicyFormat = "aipfleet.trust/v1"

// MaxPolicyBytes bounds a trust policy document.
const MaxPolicyBytes = 1 << 20

// In-toto statement types.
const (
	StatementV1  = "https://in-toto.io/Statement/v1"
	StatementV01 = "https://in-toto.io/Statement/v0.1"
)

// Policy is a trust policy: who may vouch for which releases, and what their
// evidence must say. It has no level below refusal. Only ParsePolicy makes one.
type Policy struct {
	doc       policyDocument
	keys      []Key
	canonical json.RawMessage
}

// policyDocument is the written form.
type policyDocument struct {
	Format          string          `json:"format"`
	Serial          uint64          `json:"serial,omitempty"` // when given, every later policy needs a higher one
	Keys            []keyDocument   `json:"keys,omitempty"`
	Roots           []Root          `json:"roots,omitempty"`
	Identities      []IdentityRule  `json:"identities,omitempty"`
	Types           []TypeRule      `json:"types"`
	Slots           SlotRules       `json:"slots"`
	DistinctSigners [][]string      `json:"distinct_signers,omitempty"` // groups of slots that no two of may share a signer
	StatementTypes  []string        `json:"statement_types,omitempty"`  // default: v1 alone
	Revocation      *RevocationRule `json:"revocation,omitempty"`
	MaxValidity     Duration        `json:"max_validity,omitzero"` // of a key's window and of a certificate; default unbounded
}

type keyDocument struct {
	ID        string    `json:"id"`
	PublicKey string    `json:"public_key"`
	NotBefore time.Time `json:"not_before,omitzero"`
	NotAfter  time.Time `json:"not_after,omitzero"`
	Root      string    `json:"root,omitempty"` // whose logs and timestamps the key's signatures must carry
}

// TypeRule says who may release a connector type.
type TypeRule struct {
	Type    fleet.TypeID `json:"type"`
	Owners  []string     `json:"owners"`  // exact
	Signers []string     `json:"signers"` // ids of the keys and identities whose evidence counts for this type
}

// SlotRules holds the rule of each evidence slot. A slot without a rule must be empty.
type SlotRules struct {
	Signature     *SignatureRule     `json:"signature,omitempty"`
	Provenance    *ProvenanceRule    `json:"provenance,omitempty"`
	SBOM          *SBOMRule          `json:"sbom,omitempty"`
	Vulnerability *VulnerabilityRule `json:"vulnerability,omitempty"`
	Conformance   *ConformanceRule   `json:"conformance,omitempty"`
	Approval      *ApprovalRule      `json:"approval,omitempty"`
}

// SlotRule is what every slot's rule has.
type SlotRule struct {
	Signers []string `json:"signers"`          // ids of keys and identities
	Count   int      `json:"count,omitempty"`  // documents by as many different signers; default 1
	MaxAge  Duration `json:"max_age,omitzero"` // of the time the document states, or was seen at; default unbounded
	// SubjectDigests lists digests that may name the subject in place of SHA-256:
	// "sha512", which registries of some languages use. Default: SHA-256 alone.
	SubjectDigests []string `json:"subject_digests,omitempty"`
}

// SignatureRule is the rule of the slot signature.
type SignatureRule struct {
	SlotRule
}

// ProvenanceRule is the rule of the slot provenance.
type ProvenanceRule struct {
	SlotRule
	Builders           []BuilderRule `json:"builders"`
	Sources            []SourceRule  `json:"sources"`
	ExternalParameters []string      `json:"external_parameters,omitempty"` // known beside the source
}

// BuilderRule lets one signer speak for one builder.
type BuilderRule struct {
	Signer    string `json:"signer"`
	BuilderID string `json:"builder_id"` // exact
}

// SourceRule is an acceptable origin.
type SourceRule struct {
	Repository string `json:"repository"` // exact
	Ref        string `json:"ref"`        // exact, or "refs/tags/v*": a prefix below the first slash
}

// SBOMRule is the rule of the slot sbom.
type SBOMRule struct {
	SlotRule
	Licences LicenceRule `json:"licences"`
}

// LicenceRule judges the licences of components, by SPDX identifier.
type LicenceRule struct {
	Allow   []string `json:"allow,omitempty"`   // empty: all that are not denied
	Deny    []string `json:"deny,omitempty"`    //
	Unknown string   `json:"unknown,omitempty"` // "refuse" (default) or "accept"
}

// Duration is a duration written as Go writes it: "720h".
type Duration struct{ time.Duration }

// UnmarshalText parses a positive duration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed <= 0 {
		return fmt.Errorf("%q is not a positive duration such as 720h", fleet.Printable(string(text), 40))
	}
	d.Duration = parsed
	return nil
}

// MarshalText writes the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// IsZero reports whether there is none.
func (d Duration) IsZero() bool { return d.Duration == 0 }

// ParsePolicy reads a trust policy in YAML or JSON, strictly. Kind Invalid, code
// trust.policy; all that is wrong is named.
func ParsePolicy(data []byte) (*Policy, error) {
	p := &Policy{}
	canonical, err := decodeClosed(data, MaxPolicyBytes, &p.doc)
	if err == nil {
		p.canonical = canonical
		err = p.check()
	}
	if err != nil {
		return nil, fleet.Invalidf("trust.policy", "the trust policy is not valid").
			Because("%s", strings.ReplaceAll(err.Error(), "\n", "; ")).Advise("correct the named members")
	}
	return p, nil
}

// Document is the policy's canonical JSON: what a trust revision stores.
func (p *Policy) Document() json.RawMessage { return slices.Clone(p.canonical) }

// Digest is the digest of Document.
func (p *Policy) Digest() fleet.Digest { return fleet.DigestBytes(p.canonical) }

// Keys lists the keys in the order written.
func (p *Policy) Keys() []Key { return slices.Clone(p.keys) }

// Types lists the type rules.
func (p *Policy) Types() []TypeRule { return slices.Clone(p.doc.Types) }

// Slots lists the slots that every release must fill, in their fixed order.
func (p *Policy) Slots() []string {
	var names []string
	for _, s := range slotTable() {
		if s.rule(p) != nil {
			names = append(names, s.name)
		}
	}
	return names
}

func (p *Policy) statementTypes() []string {
	if len(p.doc.StatementTypes) == 0 {
		return []string{StatementV1}
	}
	return p.doc.StatementTypes
}

func (p *Policy) key(id string) (Key, bool) {
	i := slices.IndexFunc(p.keys, func(k Key) bool { return k.ID == id })
	if i < 0 {
		return Key{}, false
	}
	return p.keys[i], true
}

// byHint finds the key that a bundle names.
func (p *Policy) byHint(hint string) (Key, bool) {
	i := slices.IndexFunc(p.keys, func(k Key) bool { return k.answersTo(hint) })
	if i < 0 {
		return Key{}, false
	}
	return p.keys[i], true
}

func (p *Policy) typeRule(id fleet.TypeID) (TypeRule, bool) {
	i := slices.IndexFunc(p.doc.Types, func(r TypeRule) bool { return r.Type == id })
	if i < 0 {
		return TypeRule{}, false
	}
	return p.doc.Types[i], true
}

func (r SlotRule) count() int { return max(1, r.Count) }
