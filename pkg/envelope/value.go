package envelope

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind says what a Value is.
type Kind uint8

// The kinds of JSON values. Invalid is the kind of the zero Value.
const (
	Invalid Kind = iota
	Null
	True
	False
	Number
	String
	Array
	Object
)

// document is the text and a flat list of its tokens: sixteen bytes a token, so
// that a small hostile message cannot make a large tree.
type document struct {
	data []byte
	tape []token
}

// token spans data[start:end]; next is the index of the token after it and all
// of its children. An object's children alternate name, value.
type token struct {
	start, end, next uint32
	kind             Kind
}

func (d *document) leaf(kind Kind, start, end int) {
	next := uint32(len(d.tape) + 1)
	d.tape = append(d.tape, token{start: uint32(start), end: uint32(end), next: next, kind: kind})
}

func (d *document) open(kind Kind, start int) int {
	d.tape = append(d.tape, token{start: uint32(start), kind: kind})
	return len(d.tape) - 1
}

func (d *document) close(node, end int) {
	d.tape[node].end = uint32(end)
	d.tape[node].next = uint32(len(d.tape))
}

// text is the unescaped content of the string token at index i.
func (d *document) text(i int) string {
	t := d.tape[i]
	raw := d.data[t.start+1 : t.end-1]
	for j, c := range raw {
		if c == '\\' {
			return unescape(raw, j)
		}
	}
	return string(raw)
}

// unescape resolves escapes that the parser has checked already.
func unescape(raw []byte, first int) string {
	var b strings.Builder
	b.Grow(len(raw))
	b.Write(raw[:first])
	for i := first; i < len(raw); {
		if raw[i] != '\\' {
			b.WriteByte(raw[i])
			i++
			continue
		}
		if raw[i+1] != 'u' {
			b.WriteByte(unescapeByte(raw[i+1]))
			i += 2
			continue
		}
		r, _ := hex4(raw[i:])
		i += 6
		if utf16.IsSurrogate(r) {
			low, _ := hex4(raw[i:])
			r = utf16.DecodeRune(r, low)
			i += 6
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unescapeByte(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default:
		return c
	}
}

// Value is one JSON value inside a document that passed ParseStrict. Numbers
// keep the token they were written with. The zero Value is Invalid. A Value
// shares the bytes it was parsed from; they must not be changed.
type Value struct {
	doc  *document
	at   int
	omit []int // tape indexes of member names left out by Without
}

// Kind reports what the value is.
func (v Value) Kind() Kind {
	if v.doc == nil {
		return Invalid
	}
	return v.doc.tape[v.at].kind
}

// Text is the unescaped content of a string, or the token of a number, and ""
// for every other kind.
func (v Value) Text() string {
	switch v.Kind() {
	case String:
		return v.doc.text(v.at)
	case Number:
		t := v.doc.tape[v.at]
		return string(v.doc.data[t.start:t.end])
	default:
		return ""
	}
}

// Member is one name and value of an object.
type Member struct {
	Name  string
	Value Value
	at    int
}

// Members lists an object's members in the order they were written.
func (v Value) Members() []Member {
	if v.Kind() != Object {
		return nil
	}
	var out []Member
	end := int(v.doc.tape[v.at].next)
	for i := v.at + 1; i < end; i = int(v.doc.tape[i+1].next) {
		if slices.Contains(v.omit, i) {
			continue
		}
		value := Value{doc: v.doc, at: i + 1, omit: v.omit}
		out = append(out, Member{Name: v.doc.text(i), Value: value, at: i})
	}
	return out
}

// Items lists an array's elements in order.
func (v Value) Items() []Value {
	if v.Kind() != Array {
		return nil
	}
	var out []Value
	end := int(v.doc.tape[v.at].next)
	for i := v.at + 1; i < end; i = int(v.doc.tape[i].next) {
		out = append(out, Value{doc: v.doc, at: i, omit: v.omit})
	}
	return out
}

// Get follows member names, compared exactly; false when one is absent.
func (v Value) Get(path ...string) (Value, bool) {
	for _, name := range path {
		m, ok := v.member(name)
		if !ok {
			return Value{}, false
		}
		v = m.Value
	}
	return v, v.doc != nil
}

func (v Value) member(name string) (Member, bool) {
	for _, m := range v.Members() {
		if m.Name == name {
			return m, true
		}
	}
	return Member{}, false
}

// Without is the same value with the member at path left out. A path that does
// not exist changes nothing.
func (v Value) Without(path ...string) Value {
	if len(path) == 0 {
		return v
	}
	parent, ok := v.Get(path[:len(path)-1]...)
	if !ok {
		return v
	}
	m, ok := parent.member(path[len(path)-1])
	if !ok {
		return v
	}
	v.omit = append(slices.Clone(v.omit), m.at)
	return v
}

// Raw is the value's text: as received, or the canonical form if members were
// left out of it.
func (v Value) Raw() json.RawMessage {
	if v.doc == nil {
		return nil
	}
	if v.omits() {
		return v.Canonical()
	}
	t := v.doc.tape[v.at]
	return json.RawMessage(slices.Clone(v.doc.data[t.start:t.end]))
}

func (v Value) omits() bool {
	next := int(v.doc.tape[v.at].next)
	return slices.ContainsFunc(v.omit, func(i int) bool { return i > v.at && i < next })
}

// Canonical is the form that signatures and digests cover: no white space,
// members ordered by the UTF-16 code units of their names, the string escapes
// of RFC 8785, and every number as it was received.
func (v Value) Canonical() []byte {
	if v.doc == nil {
		return nil
	}
	t := v.doc.tape[v.at]
	return v.appendCanonical(make([]byte, 0, t.end-t.start))
}

func (v Value) appendCanonical(b []byte) []byte {
	switch v.Kind() {
	case Object:
		return v.appendObject(b)
	case Array:
		b = append(b, '[')
		for i, item := range v.Items() {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendCanonical(b)
		}
		return append(b, ']')
	case String:
		return appendString(b, v.doc.text(v.at))
	default:
		t := v.doc.tape[v.at]
		return append(b, v.doc.data[t.start:t.end]...)
	}
}

func (v Value) appendObject(b []byte) []byte {
	members := v.Members()
	slices.SortFunc(members, func(x, y Member) int { return compareUTF16(x.Name, y.Name) })
	b = append(b, '{')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, m.Name)
		b = append(b, ':')
		b = m.Value.appendCanonical(b)
	}
	return append(b, '}')
}

// compareUTF16 orders by UTF-16 code units, which differs from code point order
// where one side is outside the basic plane.
func compareUTF16(x, y string) int {
	for x != "" && y != "" {
		rx, nx := utf8.DecodeRuneInString(x)
		ry, ny := utf8.DecodeRuneInString(y)
		if rx != ry {
			return slices.Compare(utf16.AppendRune(nil, rx), utf16.AppendRune(nil, ry))
		}
		x, y = x[nx:], y[ny:]
	}
	return len(x) - len(y)
}

func appendString(b []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\t':
			b = append(b, '\\', 't')
		case '\n':
			b = append(b, '\\', 'n')
		case '\f':
			b = append(b, '\\', 'f')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			if c < 0x20 {
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			} else {
				b = append(b, c)
			}
		}
	}
	return append(b, '"')
}
