package envelope

import (
	"math"
	"strconv"
)

// Bounds of the strict gate where a Limits field is zero.
const (
	DefaultMaxBytes = 4 << 20
	DefaultMaxDepth = 32

	// maxDepthCeiling bounds what a caller may ask for: the parser recurses.
	maxDepthCeiling = 512
	// smallObject is the member count up to which duplicates are found by
	// comparing rather than by hashing.
	smallObject = 8
)

// Limits bounds what ParseStrict accepts. The zero value means the defaults.
type Limits struct {
	// MaxBytes is the largest document in bytes; 0 means DefaultMaxBytes.
	MaxBytes int
	// MaxDepth is the deepest nesting of arrays and objects; 0 means
	// DefaultMaxDepth.
	MaxDepth int
	// SafeIntegers refuses every number whose magnitude is above 2^53-1, for
	// documents whose numbers are our own counters.
	SafeIntegers bool
}

func (l Limits) maxBytes() int {
	if l.MaxBytes <= 0 {
		return DefaultMaxBytes
	}
	return l.MaxBytes
}

func (l Limits) maxDepth() int {
	if l.MaxDepth <= 0 {
		return DefaultMaxDepth
	}
	return min(l.MaxDepth, maxDepthCeiling)
}

// ParseStrict reads exactly one JSON value and keeps it as a tree of tokens.
// It refuses, beyond what JSON refuses: trailing bytes, a byte order mark,
// members that are equal after unescaping, invalid UTF-8, lone surrogates,
// nesting beyond lim.MaxDepth, and numbers that are absurdly long. The error
// is a *fleet.Error with code envelope.size or envelope.malformed.
func ParseStrict(data []byte, lim Limits) (Value, error) {
	if len(data) > lim.maxBytes() {
		return Value{}, tooLarge(len(data), lim.maxBytes())
	}
	if uint64(len(data)) > math.MaxUint32 {
		return Value{}, tooLarge(len(data), math.MaxUint32)
	}
	p := parser{data: data, lim: lim, doc: &document{data: data}}
	p.space()
	if err := p.value(0); err != nil {
		return Value{}, err
	}
	p.space()
	if p.at != len(data) {
		return Value{}, p.fail("more than one JSON value")
	}
	return Value{doc: p.doc}, nil
}

type parser struct {
	data []byte
	at   int
	lim  Limits
	doc  *document
}

func (p *parser) fail(why string) error {
	return malformed(why + " at byte " + strconv.Itoa(p.at))
}

func (p *parser) space() {
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

func (p *parser) peek() byte {
	if p.at < len(p.data) {
		return p.data[p.at]
	}
	return 0
}

// value reads one value whose containers are depth levels deep already.
func (p *parser) value(depth int) error {
	switch c := p.peek(); {
	case c == '{':
		return p.object(depth + 1)
	case c == '[':
		return p.array(depth + 1)
	case c == '"':
		return p.string()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case c == 't':
		return p.word("true", True)
	case c == 'f':
		return p.word("false", False)
	case c == 'n':
		return p.word("null", Null)
	case p.at >= len(p.data):
		return p.fail("the document ends early")
	default:
		return p.fail("no JSON value starts here")
	}
}

func (p *parser) word(w string, kind Kind) error {
	if len(p.data)-p.at < len(w) || string(p.data[p.at:p.at+len(w)]) != w {
		return p.fail("no JSON value starts here")
	}
	p.doc.leaf(kind, p.at, p.at+len(w))
	p.at += len(w)
	return nil
}

func (p *parser) array(depth int) error {
	if depth > p.lim.maxDepth() {
		return p.fail("nesting is deeper than " + strconv.Itoa(p.lim.maxDepth()))
	}
	node := p.doc.open(Array, p.at)
	p.at++
	p.space()
	if p.peek() == ']' {
		p.at++
		p.doc.close(node, p.at)
		return nil
	}
	for {
		p.space()
		if err := p.value(depth); err != nil {
			return err
		}
		p.space()
		done, err := p.separator(']')
		if err != nil {
			return err
		}
		if done {
			p.doc.close(node, p.at)
			return nil
		}
	}
}

// separator consumes a comma (more follows) or the closing byte (done).
func (p *parser) separator(closing byte) (done bool, err error) {
	switch p.peek() {
	case ',':
		p.at++
		return false, nil
	case closing:
		p.at++
		return true, nil
	default:
		return false, p.fail("a comma or a closing bracket is missing")
	}
}

func (p *parser) object(depth int) error {
	if depth > p.lim.maxDepth() {
		return p.fail("nesting is deeper than " + strconv.Itoa(p.lim.maxDepth()))
	}
	node := p.doc.open(Object, p.at)
	p.at++
	p.space()
	if p.peek() == '}' {
		p.at++
		p.doc.close(node, p.at)
		return nil
	}
	var seen names
	for {
		if err := p.member(depth, &seen); err != nil {
			return err
		}
		done, err := p.separator('}')
		if err != nil {
			return err
		}
		if done {
			p.doc.close(node, p.at)
			return nil
		}
	}
}

func (p *parser) member(depth int, seen *names) error {
	p.space()
	if p.peek() != '"' {
		return p.fail("a member name is missing")
	}
	name := len(p.doc.tape)
	if err := p.string(); err != nil {
		return err
	}
	if !seen.add(p.doc.text(name)) {
		return p.fail("a member name occurs twice")
	}
	p.space()
	if p.peek() != ':' {
		return p.fail("a colon is missing")
	}
	p.at++
	p.space()
	if err := p.value(depth); err != nil {
		return err
	}
	p.space()
	return nil
}

// names finds duplicates: by comparing while there are few, by hashing after.
type names struct {
	few  []string
	many map[string]struct{}
}

func (n *names) add(name string) bool {
	if n.many == nil {
		for _, have := range n.few {
			if have == name {
				return false
			}
		}
		n.few = append(n.few, name)
		if len(n.few) > smallObject {
			n.many = make(map[string]struct{}, 2*smallObject)
			for _, have := range n.few {
				n.many[have] = struct{}{}
			}
			n.few = nil
		}
		return true
	}
	if _, have := n.many[name]; have {
		return false
	}
	n.many[name] = struct{}{}
	return true
}
