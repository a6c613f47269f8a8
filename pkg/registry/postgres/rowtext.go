package postgres

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Rows of the hot tables as PostgreSQL writes a composite value: a tenth of the
// server's work that JSON costs. The order is that of the columns.

// text is a row that claims to be stored: what the database compares.
func (r routeRow) text() string {
	var w rowWriter
	w.strings(r.Action, r.Capability, r.Tenant, r.Instance, r.Replica, r.Endpoint, r.Region, r.Zone, r.CapacityClass,
		r.PeerPrincipalID, r.PeerPrincipalKind, r.PeerDID, r.TrustDomain, r.TransportProfile, r.Version, r.ManifestDigest, r.ArtifactDigest)
	w.numbers(r.CatalogRevision, r.BindingPolicyRevision)
	w.strings(r.CredentialRevisionRef, r.QuotaPolicyRef)
	w.numbers(r.QuotaPolicyRevision, uint64(r.Priority))
	w.bools(r.RegionMatch, r.ZoneMatch)
	w.numbers(uint64(r.ActiveBefore))
	w.times(r.AssignedAt)
	return w.row()
}

func (r attemptRow) text() string {
	var w rowWriter
	w.strings(r.Action)
	w.numbers(r.Fence)
	w.strings(r.Token)
	w.numbers(r.LeaseEpoch)
	w.strings(r.Journal, arrayText(r.ScopeKinds), arrayText(r.ScopeKeys), numbersText(r.ScopeLimits))
	w.numbers(uint64(r.CircuitThreshold), uint64(r.CircuitOpenMillis), uint64(r.CircuitProbes))
	w.bools(r.Probe)
	w.times(r.ReservedAt, r.Deadline)
	return w.row()
}

// fieldReader reads the columns of a row in their order. After the first failure
// everything is empty and end reports it.
type fieldReader interface {
	string() string
	number(bits int) uint64
	bool() bool
	time() time.Time
	array() []string
	numbers() []uint32
	end() error
}

// routeOf reads a row that the database wrote.
func routeOf(p fieldReader) (routeRow, error) {
	r := routeRow{
		Action: p.string(), Capability: p.string(), Tenant: p.string(), Instance: p.string(), Replica: p.string(), Endpoint: p.string(),
		Region: p.string(), Zone: p.string(), CapacityClass: p.string(), PeerPrincipalID: p.string(), PeerPrincipalKind: p.string(),
		PeerDID: p.string(), TrustDomain: p.string(), TransportProfile: p.string(), Version: p.string(),
		ManifestDigest: p.string(), ArtifactDigest: p.string(), CatalogRevision: p.number(64), BindingPolicyRevision: p.number(64),
		CredentialRevisionRef: p.string(), QuotaPolicyRef: p.string(), QuotaPolicyRevision: p.number(64), Priority: uint32(p.number(32)),
		RegionMatch: p.bool(), ZoneMatch: p.bool(), ActiveBefore: uint32(p.number(32)), AssignedAt: p.time(),
	}
	return r, p.end()
}

func attemptOf(p fieldReader) (attemptRow, error) {
	r := attemptRow{
		Action: p.string(), Fence: p.number(64), Token: p.string(), LeaseEpoch: p.number(64), Journal: p.string(),
		ScopeKinds: p.array(), ScopeKeys: p.array(), ScopeLimits: p.numbers(),
		CircuitThreshold: uint32(p.number(32)), CircuitOpenMillis: uint32(p.number(32)), CircuitProbes: uint32(p.number(32)),
		Probe: p.bool(), ReservedAt: p.time(), Deadline: p.time(),
	}
	return r, p.end()
}

// rowWriter builds the text of a composite value.
type rowWriter struct{ b strings.Builder }

func (w *rowWriter) field(quoted string) {
	if w.b.Len() == 0 {
		w.b.WriteByte('(')
	} else {
		w.b.WriteByte(',')
	}
	w.b.WriteString(quoted)
}

func (w *rowWriter) strings(all ...string) {
	for _, s := range all {
		w.field(quotedText(s))
	}
}

func (w *rowWriter) numbers(all ...uint64) {
	for _, n := range all {
		w.field(strconv.FormatUint(n, 10))
	}
}

func (w *rowWriter) bools(all ...bool) {
	for _, b := range all {
		w.field(strconv.FormatBool(b))
	}
}

func (w *rowWriter) times(all ...time.Time) {
	for _, t := range all {
		w.field(`"` + t.UTC().Format("2006-01-02T15:04:05.999999Z") + `"`)
	}
}

func (w *rowWriter) row() string { return w.b.String() + ")" }

var quoting = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func quotedText(s string) string { return `"` + quoting.Replace(s) + `"` }

func arrayText(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = quotedText(s)
	}
	return "{" + strings.Join(quoted, ",") + "}"
}

func numbersText(all []uint32) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.FormatUint(uint64(n), 10)
	}
	return "{" + strings.Join(texts, ",") + "}"
}

var errRowText = errors.New("not the text of a row")

// rowReader reads the text of a composite value, field by field.
type rowReader struct {
	text string
	at   int
	err  error
}

func (p *rowReader) string() string {
	opening := byte(',')
	if p.at == 0 {
		opening = '('
	}
	if p.err != nil || p.at >= len(p.text) || p.text[p.at] != opening {
		p.fail(errRowText)
		return ""
	}
	p.at++
	value, next, ok := readElement(p.text, p.at, ')')
	if !ok {
		p.fail(errRowText)
		return ""
	}
	p.at = next
	return value
}

func (p *rowReader) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *rowReader) end() error {
	if p.err == nil && p.text[p.at:] != ")" {
		p.err = errRowText
	}
	return p.err
}

func (p *rowReader) number(bits int) uint64 {
	n, err := strconv.ParseUint(p.string(), 10, bits)
	if err != nil {
		p.fail(err)
	}
	return n
}

func (p *rowReader) bool() bool { return p.string() == "t" }

func (p *rowReader) time() time.Time {
	t, err := time.Parse("2006-01-02 15:04:05.999999-07", p.string())
	if err != nil {
		p.fail(err)
	}
	return t
}

func (p *rowReader) array() []string {
	text := p.string()
	all := []string{}
	if text == "{}" {
		return all
	}
	for at := 0; at < len(text) && text[at] != '}'; {
		value, next, ok := readElement(text, at+1, '}')
		if !ok {
			p.fail(errRowText)
			return all
		}
		all, at = append(all, value), next
	}
	return all
}

func (p *rowReader) numbers() []uint32 {
	all := []uint32{}
	for _, text := range p.array() {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			p.fail(err)
		}
		all = append(all, uint32(n))
	}
	return all
}

// readElement reads one element that ends before a comma or closing. In quotes a
// backslash keeps the next byte, and a doubled quote is one.
func readElement(text string, at int, closing byte) (value string, next int, ok bool) {
	if at < len(text) && text[at] != '"' {
		end := at
		for end < len(text) && text[end] != ',' && text[end] != closing {
			end++
		}
		return text[at:end], end, end < len(text)
	}
	var b []byte
	start := at + 1
	for i := start; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			b = append(b, text[start:i]...)
			i++
			start = i
		case text[i] != '"':
		case i+1 < len(text) && text[i+1] == '"':
			b = append(b, text[start:i]...)
			i++
			start = i
		default:
			if b == nil {
				return text[start:i], i + 1, i+1 < len(text)
			}
			return string(append(b, text[start:i]...)), i + 1, i+1 < len(text)
		}
	}
	return "", at, false
}
