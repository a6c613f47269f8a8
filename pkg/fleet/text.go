package fleet

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

func checkNoControl(s string, limit int) error {
	if len(s) < 1 || len(s) > limit {
		return fmt.Errorf("it needs 1..%d bytes, has %d", limit, len(s))
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("it is not valid UTF-8")
	}
	for i, r := range s {
		if unicode.IsControl(r) {
			return fmt.Errorf("character %d is a control character", i)
		}
	}
	return nil
}

// Printable strips control, ANSI and bidirectional-override characters from text
// that came from outside, and cuts it to at most limit bytes, so that it can be
// shown to a person. It is for messages and screens, never for stored data.
func Printable(s string, limit int) string { return printable(s, limit) }

func printable(s string, limit int) string {
	var b strings.Builder
	for _, r := range s {
		if r == utf8.RuneError || unicode.IsControl(r) || isBidi(r) || !unicode.IsPrint(r) && r != ' ' {
			r = '·'
		}
		if b.Len()+utf8.RuneLen(r) > limit {
			return b.String() + "…"
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isBidi(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x061c
}
