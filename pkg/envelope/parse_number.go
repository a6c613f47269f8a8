package envelope

import (
	"math"
	"strconv"
)

const (
	// maxNumberBytes and maxExponent keep a short token from standing for a
	// number that costs gigabytes to evaluate later (1e999999999). They leave
	// the whole range of IEEE decimal128 usable.
	maxNumberBytes = 1024
	maxExponent    = 6176
	maxSafeInteger = 1<<53 - 1
)

func (p *parser) number() error {
	start := p.at
	if p.peek() == '-' {
		p.at++
	}
	if p.peek() == '0' {
		p.at++
	} else if !p.digits() {
		return p.fail("a number has no digits")
	}
	if p.peek() == '.' {
		p.at++
		if !p.digits() {
			return p.fail("a number has no digits after the point")
		}
	}
	if err := p.exponent(); err != nil {
		return err
	}
	if p.at-start > maxNumberBytes {
		return p.fail("a number is too long")
	}
	if p.lim.SafeIntegers && !safeNumber(string(p.data[start:p.at])) {
		return p.fail("a number is outside the safe integers")
	}
	p.doc.leaf(Number, start, p.at)
	return nil
}

func (p *parser) digits() bool {
	start := p.at
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		p.at++
	}
	return p.at > start
}

func (p *parser) exponent() error {
	if c := p.peek(); c != 'e' && c != 'E' {
		return nil
	}
	p.at++
	if c := p.peek(); c == '+' || c == '-' {
		p.at++
	}
	start := p.at
	if !p.digits() {
		return p.fail("a number has no digits in its exponent")
	}
	if n, err := strconv.Atoi(string(p.data[start:p.at])); err != nil || n > maxExponent {
		return p.fail("a number has too large an exponent")
	}
	return nil
}

// safeNumber reports whether the token's value survives a float64.
func safeNumber(token string) bool {
	if n, err := strconv.ParseInt(token, 10, 64); err == nil {
		return n >= -maxSafeInteger && n <= maxSafeInteger
	}
	f, err := strconv.ParseFloat(token, 64)
	return err == nil && math.Abs(f) <= maxSafeInteger
}
