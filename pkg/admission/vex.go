package admission

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
)

// PredicateVEX is an OpenVEX document as a predicate.
const PredicateVEX = "https://openvex.dev/ns/v0.2.0"

func vexPredicates() []string { return []string{PredicateVEX, "https://openvex.dev/ns"} }

// vexDocument is OpenVEX 0.2, as far as it is evaluated.
type vexDocument struct {
	Context    string         `json:"@context"`
	Timestamp  time.Time      `json:"timestamp"`
	Statements []vexStatement `json:"statements"`
}

// vexStatement answers one vulnerability.
type vexStatement struct {
	Vulnerability   vexVulnerability `json:"vulnerability"`
	Products        []vexProduct     `json:"products"`
	Status          string           `json:"status"`
	Justification   string           `json:"justification"`
	ImpactStatement string           `json:"impact_statement"`
}

type vexVulnerability struct {
	ID      string   `json:"@id"`
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
}

// UnmarshalJSON takes the object of 0.2, or the bare name that older documents have.
func (v *vexVulnerability) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, &v.Name)
	}
	type plain vexVulnerability
	return envelope.DecodeStrict(raw, strict(), (*plain)(v))
}

type vexProduct struct {
	ID            string            `json:"@id"`
	Hashes        map[string]string `json:"hashes"`
	Identifiers   map[string]string `json:"identifiers"`
	Subcomponents []vexProduct      `json:"subcomponents"`
}

// readVEX keeps the statements that are about this artifact and answer something.
// What is affected, or still under investigation, answers nothing.
func (e *evaluation) readVEX(d document) {
	var doc vexDocument
	if !e.decodePredicate(d, &doc) {
		return
	}
	if !strings.HasPrefix(doc.Context, "https://openvex.dev/ns") {
		e.at(&d, "vex_format", "predicate.@context", "write an OpenVEX document", "its context is %q", doc.Context)
		return
	}
	artifact := e.pkg.ArtifactDigest().Hex()
	for _, s := range doc.Statements {
		if s.about(artifact) && s.final() {
			e.scans.answers = append(e.scans.answers, s)
		}
	}
}

// about reports whether the statement is about the artifact. Without products it is
// about the subject of the attestation, which is the artifact.
func (s vexStatement) about(artifact string) bool {
	return len(s.Products) == 0 || slices.ContainsFunc(s.Products, func(p vexProduct) bool { return p.is(artifact) })
}

func (p vexProduct) is(artifact string) bool {
	return p.Hashes["sha-256"] == artifact || p.Hashes["sha256"] == artifact || strings.HasSuffix(p.ID, "sha256:"+artifact)
}

// final: fixed, or not affected for a stated reason.
func (s vexStatement) final() bool {
	switch s.Status {
	case "fixed":
		return true
	case "not_affected":
		return s.Justification != "" || s.ImpactStatement != ""
	}
	return false
}

// answers reports whether the statement answers the finding. One that names
// components answers for these alone.
func (s vexStatement) answers(v vulnerability) bool {
	names := append([]string{s.Vulnerability.Name, s.Vulnerability.ID}, s.Vulnerability.Aliases...)
	if !slices.ContainsFunc(names, v.names) {
		return false
	}
	var parts []vexProduct
	for _, p := range s.Products {
		parts = append(parts, p.Subcomponents...)
	}
	return len(parts) == 0 || slices.ContainsFunc(parts, func(p vexProduct) bool {
		return p.ID != "" && (p.ID == v.purl || p.ID == v.component) || p.Identifiers["purl"] != "" && p.Identifiers["purl"] == v.purl
	})
}
