package admission

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Predicate types of software bills of materials.
const (
	PredicateSPDX      = "https://spdx.dev/Document"
	PredicateSPDX23    = "https://spdx.dev/Document/v2.3"
	PredicateCycloneDX = "https://cyclonedx.org/bom"
)

func sbomPredicates() []string {
	return []string{
		PredicateSPDX, PredicateSPDX23, PredicateCycloneDX,
		PredicateCycloneDX + "/v1.4", PredicateCycloneDX + "/v1.5", PredicateCycloneDX + "/v1.6", PredicateCycloneDX + "/v1.7",
	}
}

// bill is what both formats come down to.
type bill struct {
	made       time.Time
	subjects   []string // sha256 hex digests of what the bill describes
	components []component
}

type component struct {
	name    string
	licence string // SPDX expression, "" when unknown
}

// evaluateSBOM asks: does the bill name this artifact, list what is in it, and
// are the licences acceptable?
func (e *evaluation) evaluateSBOM(d document) {
	var b bill
	var ok bool
	if strings.HasPrefix(d.statement.PredicateType, PredicateCycloneDX) {
		b, ok = e.readCycloneDX(d)
	} else {
		b, ok = e.readSPDX(d)
	}
	if !ok {
		return
	}
	if want := e.pkg.ArtifactDigest().Hex(); !slices.Contains(b.subjects, want) {
		e.at(&d, "artifact_not_named", "predicate", "describe the artifact with its SHA-256, "+want, "the bill of materials does not describe this artifact")
	}
	if len(b.components) == 0 {
		e.at(&d, "empty", "predicate", "list the components of the artifact", "the bill of materials lists no component")
	}
	e.checkLicences(d, b)
	e.checkAge(d, "predicate", b.made)
	e.sboms = append(e.sboms, fleet.DigestBytes(d.statement.Predicate))
}

// PredicateDigest is how scans name the bill of materials they looked at: the
// digest of the predicate's bytes inside the signed statement.
func PredicateDigest(payload []byte) (fleet.Digest, error) {
	var s statement
	if err := envelope.DecodeStrict(payload, strict(), &s); err != nil {
		return fleet.Digest{}, fleet.Invalidf("attest.statement", "the payload is not an in-toto statement").Caused(err)
	}
	return fleet.DigestBytes(s.Predicate), nil
}

func (e *evaluation) checkLicences(d document, b bill) {
	rule := e.policy.doc.Slots.SBOM.Licences
	var unknown, refused []string
	for _, c := range b.components {
		switch rule.judge(c.licence) {
		case licenceUnknown:
			unknown = append(unknown, c.name)
		case licenceRefused:
			refused = append(refused, c.name+" ("+c.licence+")")
		}
	}
	if len(refused) > 0 {
		e.at(&d, "licence_not_allowed", "predicate", "remove these components or change licences in the trust policy", "%d component(s): %s", len(refused), some(refused))
	}
	if len(unknown) > 0 && rule.Unknown != "accept" {
		e.at(&d, "licence_unknown", "predicate", "state the licences, or accept unknown ones in the trust policy", "%d component(s) state no licence: %s", len(unknown), some(unknown))
	}
}

func some(names []string) string {
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

type spdxDocument struct {
	SPDXVersion  string `json:"spdxVersion"`
	SPDXID       string `json:"SPDXID"`
	CreationInfo struct {
		Created time.Time `json:"created"`
	} `json:"creationInfo"`
	DocumentDescribes []string       `json:"documentDescribes"`
	Packages          []spdxPackage  `json:"packages"`
	Files             []spdxPackage  `json:"files"`
	Relationships     []spdxRelation `json:"relationships"`
}

type spdxPackage struct {
	SPDXID           string `json:"SPDXID"`
	Name             string `json:"name"`
	FileName         string `json:"fileName"`
	LicenseConcluded string `json:"licenseConcluded"`
	LicenseDeclared  string `json:"licenseDeclared"`
	Checksums        []struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	} `json:"checksums"`
}

type spdxRelation struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

func (e *evaluation) readSPDX(d document) (bill, bool) {
	var doc spdxDocument
	if !e.decodePredicate(d, &doc) {
		return bill{}, false
	}
	if doc.SPDXVersion != "SPDX-2.3" {
		e.at(&d, "format", "predicate.spdxVersion", "write SPDX 2.3 or CycloneDX 1.4 or later", "the version is %q", doc.SPDXVersion)
		return bill{}, false
	}
	described := doc.DocumentDescribes
	for _, r := range doc.Relationships {
		if r.Type == "DESCRIBES" && r.Element == doc.SPDXID {
			described = append(described, r.Related)
		}
	}
	b := bill{made: doc.CreationInfo.Created}
	for _, p := range slices.Concat(doc.Packages, doc.Files) {
		if slices.Contains(described, p.SPDXID) {
			b.subjects = append(b.subjects, p.sha256())
		}
	}
	for _, p := range doc.Packages {
		if !slices.Contains(described, p.SPDXID) {
			b.components = append(b.components, component{name: p.Name, licence: p.licence()})
		}
	}
	return b, true
}

func (p spdxPackage) sha256() string {
	for _, c := range p.Checksums {
		if c.Algorithm == "SHA256" {
			return strings.ToLower(c.Value)
		}
	}
	return ""
}

func (p spdxPackage) licence() string {
	for _, l := range []string{p.LicenseConcluded, p.LicenseDeclared} {
		if l != "" && l != "NOASSERTION" && l != "NONE" {
			return l
		}
	}
	return ""
}

type cycloneDocument struct {
	BOMFormat   string `json:"bomFormat"`
	SpecVersion string `json:"specVersion"`
	Metadata    struct {
		Timestamp time.Time        `json:"timestamp"`
		Component cycloneComponent `json:"component"`
	} `json:"metadata"`
	Components []cycloneComponent `json:"components"`
}

type cycloneComponent struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Hashes  []struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	} `json:"hashes"`
	Licenses []struct {
		Expression string `json:"expression"`
		License    struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"license"`
	} `json:"licenses"`
	Components json.RawMessage `json:"components"` // nested; judged below
}

func (e *evaluation) readCycloneDX(d document) (bill, bool) {
	var doc cycloneDocument
	if !e.decodePredicate(d, &doc) {
		return bill{}, false
	}
	if doc.BOMFormat != "CycloneDX" || !slices.Contains([]string{"1.4", "1.5", "1.6", "1.7"}, doc.SpecVersion) {
		e.at(&d, "format", "predicate.specVersion", "write SPDX 2.3 or CycloneDX 1.4 or later", "it is %q %q", doc.BOMFormat, doc.SpecVersion)
		return bill{}, false
	}
	b := bill{made: doc.Metadata.Timestamp}
	b.subjects = doc.Metadata.Component.sha256()
	for _, c := range doc.Components {
		if len(c.Components) > 0 {
			e.at(&d, "nested_components", "predicate.components", "list components flat", "component %q nests others, which are not evaluated", c.Name)
		}
		b.components = append(b.components, component{name: c.Name, licence: c.licence()})
	}
	return b, true
}

// sha256 is every digest by which the bill names what it describes. Tools write an
// image's into its version.
func (c cycloneComponent) sha256() []string {
	var all []string
	for _, h := range c.Hashes {
		if h.Algorithm == "SHA-256" {
			all = append(all, strings.ToLower(h.Content))
		}
	}
	if hex, ok := strings.CutPrefix(c.Version, "sha256:"); ok && c.Type == "container" {
		all = append(all, hex)
	}
	return all
}

// licence joins all stated licences; all of them must be acceptable.
func (c cycloneComponent) licence() string {
	var all []string
	for _, l := range c.Licenses {
		switch {
		case l.Expression != "":
			all = append(all, "("+l.Expression+")")
		case l.License.ID != "":
			all = append(all, l.License.ID)
		case l.License.Name != "":
			all = append(all, "LicenseRef-"+strings.Map(licenceRune, l.License.Name))
		}
	}
	return strings.Join(all, " AND ")
}

func licenceRune(r rune) rune {
	if r < 0x80 && isIDByte(byte(r)) {
		return r
	}
	return '-'
}
