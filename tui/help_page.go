package tui

import (
	"strings"
	"time"
)

// helpFacts is the page of keys and commands.
type helpFacts struct{}

func (helpFacts) object() any     { return nil }
func (helpFacts) command() string { return "aipctl dash --help" }

func (helpFacts) lines(time.Time) []line {
	lines := []line{title("Keys")}
	for _, k := range [][2]string{
		{"1 2 4", "overview, replicas, routes"},
		{"↑ ↓ PgUp PgDn g G", "move; j and k too"},
		{"Enter, Esc", "open what is chosen, go back; Esc on a list clears its filter"},
		{"/", "filter while typing; Enter keeps it, Esc takes it back, Tab completes"},
		{"s S", "sort by the next column; the other way round"},
		{"Space", "mark a row; c copies the ids of all marked rows"},
		{"w", "why: what the router would decide for this action, reserving nothing"},
		{"y", "the object as JSON"},
		{"c C", "copy the id or value; copy the command of aipctl that shows the same"},
		{"p r", "pause and go on; read at once"},
		{":", "command line; Tab completes"},
		{"q Ctrl-C", "quit"},
	} {
		lines = append(lines, told(k[0], k[1]))
	}
	lines = append(lines, line{}, title("Filters"),
		field("draining zone-a", "both words, anywhere in the row"),
		field("status=draining", "the field is exactly that; != is anything else"),
		field("tenant~acm", "the field contains that"),
		field("lease<10s", "numbers, and durations ahead or ago"),
		line{}, title("Commands"))
	for _, c := range commands() {
		lines = append(lines, told(strings.TrimSpace(":"+c.name+" "+c.args), c.about))
	}
	return append(lines, line{}, title("Signs"),
		told("● ◐ ○ ▲", "well, passing, out, needs attention; the word always stands beside it"),
		told("LIVE STALE", "STALE is dimmed: the registry has not answered since; it is asked again by itself"))
}
