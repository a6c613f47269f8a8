package tui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aipfleet/aipfleet/pkg/registry"
)

// jsonFacts is an object as JSON, as it was when asked for.
type jsonFacts struct {
	value any
	text  []string
	same  string // the command of the page it came from
}

// maxJSONLines bounds the lines kept of one object.
const maxJSONLines = 20_000

func newJSON(value any, command string) jsonFacts {
	if r, ok := value.(*routeItem); ok {
		value = veiled(r.RouteRecord)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(value); err != nil {
		return jsonFacts{value: value, text: []string{"it cannot be written as JSON"}, same: command}
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	if len(lines) > maxJSONLines {
		lines = append(lines[:maxJSONLines], "… the rest is not shown")
	}
	for i, l := range lines {
		lines[i] = escapeJSON(l)
	}
	return jsonFacts{value: value, text: lines, same: command}
}

func (f jsonFacts) object() any     { return f.value }
func (f jsonFacts) command() string { return f.same }

func (f jsonFacts) lines(time.Time) []line {
	lines := make([]line, len(f.text))
	for i, l := range f.text {
		lines[i] = line{text: l}
	}
	return lines
}

// escapeJSON writes what could mislead a terminal as \uXXXX, which means the same.
func escapeJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == utf8.RuneError || unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\u%04x\u%04x`, (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// commandOf is the command of aipctl that shows a row of a table.
func commandOf(item any) string {
	switch x := item.(type) {
	case *registry.ReplicaRecord:
		return "aipctl describe replica " + x.ID.String()
	case *routeItem:
		return "aipctl route inspect " + x.Route.Action.String()
	}
	return ""
}

// shellWord quotes a word for a POSIX shell when it needs that.
func shellWord(s string) string {
	s = clean(s)
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:-/@", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
