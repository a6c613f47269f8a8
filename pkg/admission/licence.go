package admission

import (
	"slices"
	"strings"
)

// licenceVerdict is what a rule says about one licence expression.
type licenceVerdict int

const (
	licenceAllowed licenceVerdict = iota
	licenceRefused
	licenceUnknown
)

// judge evaluates an SPDX licence expression: with OR one side must be
// acceptable, with AND both. What does not parse is refused.
func (r LicenceRule) judge(expression string) licenceVerdict {
	tokens := licenceTokens(expression)
	if len(tokens) == 0 {
		return licenceUnknown
	}
	p := licenceParser{rule: r, tokens: tokens}
	ok := p.or(0)
	if !ok || p.broken || len(p.tokens) > 0 {
		return licenceRefused
	}
	return licenceAllowed
}

func licenceTokens(s string) []string {
	s = strings.NewReplacer("(", " ( ", ")", " ) ").Replace(s)
	return strings.Fields(s)
}

type licenceParser struct {
	rule   LicenceRule
	tokens []string
	broken bool
}

func (p *licenceParser) next(word string) bool {
	if len(p.tokens) > 0 && p.tokens[0] == word {
		p.tokens = p.tokens[1:]
		return true
	}
	return false
}

func (p *licenceParser) or(depth int) bool {
	ok := p.and(depth)
	for p.next("OR") {
		right := p.and(depth)
		ok = ok || right
	}
	return ok
}

func (p *licenceParser) and(depth int) bool {
	ok := p.one(depth)
	for p.next("AND") {
		right := p.one(depth)
		ok = ok && right
	}
	return ok
}

func (p *licenceParser) one(depth int) bool {
	if depth > 16 || len(p.tokens) == 0 {
		p.broken = true
		return false
	}
	if p.next("(") {
		ok := p.or(depth + 1)
		p.broken = p.broken || !p.next(")")
		return ok
	}
	id := p.tokens[0]
	p.tokens = p.tokens[1:]
	if !isLicenceID(id) {
		p.broken = true
		return false
	}
	if p.next("WITH") { // an exception only adds permissions
		if len(p.tokens) == 0 || !isLicenceID(p.tokens[0]) {
			p.broken = true
			return false
		}
		p.tokens = p.tokens[1:]
	}
	return p.allows(strings.TrimSuffix(id, "+"))
}

func (p *licenceParser) allows(id string) bool {
	if slices.Contains(p.rule.Deny, id) {
		return false
	}
	return len(p.rule.Allow) == 0 || slices.Contains(p.rule.Allow, id)
}

func isLicenceID(s string) bool {
	if s == "AND" || s == "OR" || s == "WITH" || s == "" {
		return false
	}
	for _, c := range []byte(s) {
		if !isIDByte(c) && c != '+' && c != ':' {
			return false
		}
	}
	return true
}

func isIDByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-'
}
