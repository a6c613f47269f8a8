package envelope

import "unicode/utf8"

func (p *parser) string() error {
	start := p.at
	p.at++
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case c == '"':
			p.at++
			p.doc.leaf(String, start, p.at)
			return nil
		case c == '\\':
			if err := p.escape(); err != nil {
				return err
			}
		case c < 0x20:
			return p.fail("a control character is not escaped")
		case c < utf8.RuneSelf:
			p.at++
		default:
			r, size := utf8.DecodeRune(p.data[p.at:])
			if r == utf8.RuneError && size <= 1 {
				return p.fail("the text is not valid UTF-8")
			}
			p.at += size
		}
	}
	return p.fail("a string does not end")
}

func (p *parser) escape() error {
	if p.at+1 >= len(p.data) {
		return p.fail("a string does not end")
	}
	switch p.data[p.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		p.at += 2
		return nil
	case 'u':
		return p.unicodeEscape()
	default:
		return p.fail("an escape is unknown")
	}
}

func (p *parser) unicodeEscape() error {
	r, ok := hex4(p.data[p.at:])
	if !ok {
		return p.fail("an escape is not four hexadecimal digits")
	}
	p.at += 6
	switch {
	case r < 0xd800 || r > 0xdfff:
		return nil
	case r > 0xdbff:
		return p.fail("a surrogate stands alone")
	}
	low, ok := hex4(p.data[p.at:])
	if !ok || low < 0xdc00 || low > 0xdfff {
		return p.fail("a surrogate stands alone")
	}
	p.at += 6
	return nil
}

// hex4 reads the four digits of an escape that starts at b[0].
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
