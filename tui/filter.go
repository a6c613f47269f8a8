package tui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// filter is terms that must all hold: words found anywhere in a row, and comparisons
// of one field.
type filter struct {
	source string
	terms  []term
}

// term is one condition. field -1 looks for text anywhere in the row.
type term struct {
	field  int
	op     string // = != ~ < <= > >=, and ^ (begins with) for = while it is typed
	text   string // as typed for = and !=, else folded to lower case
	number float64
}

// operators, longest first.
func operators() []string { return []string{"!=", "<=", ">=", "==", "=", "~", "<", ">"} }

// parseFilter reads terms separated by blanks or &&, over the named fields. Quotes
// keep blanks together. With an error come the terms before it.
func parseFilter(source string, fields []string) (filter, error) {
	f := filter{source: strings.TrimSpace(source)}
	words, unclosed := splitWords(source)
	for _, w := range words {
		if w == "&&" {
			continue
		}
		t, err := parseTerm(w, fields)
		if err != nil {
			return f, err
		}
		f.terms = append(f.terms, t)
	}
	return f, unclosed
}

// splitWords cuts at blanks outside double quotes; the quotes go.
func splitWords(s string) (words []string, err error) {
	var b strings.Builder
	quoted, begun := false, false
	for _, r := range s {
		switch {
		case r == '"':
			quoted, begun = !quoted, true
		case unicode.IsSpace(r) && !quoted:
			if begun {
				words = append(words, b.String())
			}
			b.Reset()
			begun = false
		default:
			b.WriteRune(r)
			begun = true
		}
	}
	if quoted {
		return words, fmt.Errorf("a quote is not closed")
	}
	if begun {
		words = append(words, b.String())
	}
	return words, nil
}

func parseTerm(word string, fields []string) (term, error) {
	name, op, value := cutOperator(word)
	if op == "" {
		return term{field: -1, text: strings.ToLower(word)}, nil
	}
	t := term{field: -1, op: op, text: value}
	if op == "~" {
		t.text = strings.ToLower(value)
	}
	for i, f := range fields {
		if f == name {
			t.field = i
		}
	}
	if t.field < 0 {
		return t, fmt.Errorf("no field %q; fields: %s", clean(name), strings.Join(fields, " "))
	}
	if op[0] == '<' || op[0] == '>' {
		n, ok := quantity(value)
		if !ok {
			return t, fmt.Errorf("%s needs a number or a duration such as 10s", op)
		}
		t.number = n
	}
	return t, nil
}

// cutOperator splits field, operator and value. A word whose head is not a field's
// name, such as an endpoint, is text.
func cutOperator(word string) (name, op, value string) {
	for i, r := range word {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '-' {
			continue
		}
		if i == 0 {
			return "", "", ""
		}
		for _, o := range operators() {
			if rest, ok := strings.CutPrefix(word[i:], o); ok {
				if o == "==" {
					o = "="
				}
				return strings.ToLower(word[:i]), o, rest
			}
		}
		return "", "", ""
	}
	return "", "", ""
}

// quantity reads a number, or a duration in seconds.
func quantity(s string) (float64, bool) {
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		return n, true
	}
	d, err := time.ParseDuration(s)
	return d.Seconds(), err == nil
}

// holds compares a field's text, or its amount, with the term.
func (t term) holds(text string, amount float64, measured bool) bool {
	switch t.op {
	case "=":
		return strings.EqualFold(text, t.text)
	case "!=":
		return !strings.EqualFold(text, t.text)
	case "^":
		return strings.HasPrefix(strings.ToLower(text), strings.ToLower(t.text))
	case "~":
		return strings.Contains(strings.ToLower(text), t.text)
	}
	if !measured {
		return false
	}
	switch t.op {
	case "<":
		return amount < t.number
	case "<=":
		return amount <= t.number
	case ">":
		return amount > t.number
	}
	return amount >= t.number
}

// exact returns the value that a field must equal, when the filter says so.
func (f filter) exact(fields []string, name string) string {
	for _, t := range f.terms {
		if t.op == "=" && t.field >= 0 && fields[t.field] == name {
			return t.text
		}
	}
	return ""
}
