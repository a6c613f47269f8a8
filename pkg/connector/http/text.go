package http

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/envelope"
)

// ref is a placeholder: a source, and for documents the way into them.
type ref struct {
	source string
	path   []string
}

// String is the placeholder as it is written.
func (r ref) String() string {
	return "{" + strings.Join(append([]string{r.source}, r.path...), ".") + "}"
}

// documents are the sources that have parts; the others are one text.
func documents() []string { return []string{"input", "account", "plan", "result"} }

func scalars() []string {
	return []string{"idempotency_key", "action_id", "tenant", "deadline", "operation", "undone_key"}
}

// text is a string with placeholders. The zero text is the empty string.
type text struct {
	parts []part
}

type part struct {
	literal string
	ref     *ref
}

// parseText reads placeholders in braces; doubled braces stand for themselves.
func parseText(s string) (text, error) {
	var t text
	var literal strings.Builder
	for len(s) > 0 {
		switch {
		case strings.HasPrefix(s, "{{") || strings.HasPrefix(s, "}}"):
			literal.WriteByte(s[0])
			s = s[2:]
		case s[0] == '{':
			end := strings.IndexByte(s, '}')
			if end < 0 {
				return t, errors.New("a brace is not closed")
			}
			r, err := parseRef(s[1:end])
			if err != nil {
				return t, err
			}
			if literal.Len() > 0 {
				t.parts = append(t.parts, part{literal: literal.String()})
				literal.Reset()
			}
			t.parts, s = append(t.parts, part{ref: &r}), s[end+1:]
		case s[0] == '}':
			return t, errors.New("a brace is closed that was not opened")
		default:
			literal.WriteByte(s[0])
			s = s[1:]
		}
	}
	if literal.Len() > 0 {
		t.parts = append(t.parts, part{literal: literal.String()})
	}
	return t, nil
}

func parseRef(s string) (ref, error) {
	names := strings.Split(s, ".")
	r := ref{source: names[0], path: names[1:]}
	switch {
	case slices.Contains(scalars(), r.source) && len(r.path) == 0:
	case slices.Contains(documents(), r.source) && !slices.Contains(r.path, "") && (r.source != "account" || len(r.path) == 1):
	default:
		return r, fmt.Errorf("there is no placeholder {%s}", s)
	}
	return r, nil
}

// literal is the text without placeholders; false when it has some.
func (t text) literal() (string, bool) {
	switch {
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].ref == nil:
		return t.parts[0].literal, true
	}
	return "", false
}

// whole is the one placeholder that the text consists of; nil when it is more or less.
func (t text) whole() *ref {
	if len(t.parts) == 1 {
		return t.parts[0].ref
	}
	return nil
}

// scope is what the placeholders of one call stand for.
type scope map[string]envelope.Value

// get follows a placeholder; false when there is no value, or null.
func (s scope) get(r ref) (envelope.Value, bool) {
	v, ok := s[r.source]
	if !ok {
		return v, false
	}
	for _, name := range r.path {
		switch v.Kind() {
		case envelope.Object:
			if v, ok = v.Get(name); !ok {
				return v, false
			}
		case envelope.Array:
			items := v.Items()
			n, valid := index(name)
			if !valid || n >= len(items) {
				return v, false
			}
			v = items[n]
		default:
			return v, false
		}
	}
	return v, v.Kind() != envelope.Null
}

func index(s string) (int, bool) {
	if s == "" || len(s) > 6 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// scalar is a value as text; an object or a list has none.
func scalar(v envelope.Value) (string, error) {
	switch v.Kind() {
	case envelope.String:
		return v.Text(), nil
	case envelope.Number, envelope.True, envelope.False:
		return string(v.Raw()), nil
	}
	return "", errors.New("its value is not a text, a number or a truth value")
}

// render fills a text; escape is applied to every value and to no literal. Without a
// value for a placeholder that is the whole text, there is none: absent.
func (t text) render(s scope, escape func(string) (string, error)) (filled string, absent bool, err error) {
	var out strings.Builder
	for _, p := range t.parts {
		if p.ref == nil {
			out.WriteString(p.literal)
			continue
		}
		v, ok := s.get(*p.ref)
		if !ok {
			if t.whole() != nil {
				return "", true, nil
			}
			return "", false, fmt.Errorf("%s has no value", p.ref)
		}
		value, err := scalar(v)
		if err == nil {
			value, err = escape(value)
		}
		if err != nil {
			return "", false, fmt.Errorf("%s: %w", p.ref, err)
		}
		out.WriteString(value)
	}
	return out.String(), false, nil
}
