package tui

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Lines around the body.
const (
	headerLines = 2
	footerLines = 2
)

func (m *Model) bodyHeight() int { return max(m.height-headerLines-footerLines, 1) }

// View draws the whole screen: header, body, footer, never wider or higher than it.
func (m Model) View() string {
	if m.width < MinWidth || m.height < MinHeight {
		return m.tooSmall()
	}
	lines := append(m.header(), m.body()...)
	for len(lines) < m.height-footerLines {
		lines = append(lines, "")
	}
	return strings.Join(append(lines, m.footer()...), "\n")
}

func (m *Model) tooSmall() string {
	lines := []string{
		fmt.Sprintf("aipctl dash needs %dx%d,", MinWidth, MinHeight), fmt.Sprintf("this terminal has %dx%d.", m.width, m.height), "q quits",
	}
	lines = lines[:max(min(len(lines), m.height), 0)]
	for i, l := range lines {
		lines[i] = clip(l, m.width)
	}
	return strings.Join(lines, "\n")
}

// body is the shown page or screen; stale data is dimmed as a whole.
func (m *Model) body() []string {
	a := m.pageArea()
	var lines []string
	switch {
	case m.page() != nil:
		lines = m.page().view(a)
	case m.grid() != nil:
		lines = m.grid().view(a)
	default:
		lines = m.overviewView(a)
	}
	if m.feed.okAt.IsZero() && m.feed.failures > 0 && (m.page() == nil || !m.page().frozen) {
		lines = m.noData(a)
	}
	lines = lines[:min(len(lines), a.h)]
	if m.dimmed() {
		for i, l := range lines {
			lines[i] = paint(a.theme.stale, ansi.Strip(l))
		}
	}
	return lines
}

// dimmed reports whether what is shown is old.
func (m *Model) dimmed() bool {
	if p := m.page(); p != nil && p.frozen {
		return false
	}
	return m.feed.stale(m.config.Now()) && !m.feed.okAt.IsZero()
}

func (m *Model) noData(a area) []string {
	lines := []string{"", "  The registry has not answered yet.", ""}
	for _, l := range wrap(m.feed.problem(), a.w-4) {
		lines = append(lines, "  "+l)
	}
	return append(lines, "", "  It is asked again by itself; r asks at once. aipctl doctor looks for the reason.")
}

// header says which fleet this is, how fresh the data is, and how the fleet is.
func (m *Model) header() []string {
	t := &m.config.Theme
	badge, now := m.feed.badge(m.config.Now()), m.config.Now()
	style := t.badge
	if m.feed.stale(now) {
		style = t.alarm
	}
	env := paint(t.label, "NON-PROD")
	if m.config.Production {
		env = paint(t.alarm, "PRODUCTION")
	}
	name := clip(clean(m.config.Context), max(m.width-50, 8))
	left := paint(t.title, "aipctl dash") + " " + name + " " + env + " RO  " + paint(style, badge)
	room := m.width - ansi.StringWidth(left) - 2
	counters := paint(t.label, m.counters(room))
	if gap := m.width - ansi.StringWidth(left) - ansi.StringWidth(counters); gap > 0 {
		left += strings.Repeat(" ", gap)
	}
	return []string{ansi.Truncate(left+counters, m.width, "…"), m.tabs()}
}

// counters is as much about the fleet as there is room for.
func (m *Model) counters(room int) string {
	if m.feed.okAt.IsZero() {
		return ""
	}
	s, text := m.status, ""
	for _, part := range []string{
		fmt.Sprintf("%d uncertain", unresolved(s)), many(s.ReplicasDeclared, "replica", "replicas"), many(int(s.Routes), "route", "routes"),
		many(s.Instances, "instance", "instances"), fmt.Sprintf("%d reserved", s.Active),
	} {
		next := strings.TrimPrefix(text+" · "+part, " · ")
		if cells(next) > room {
			break
		}
		text = next
	}
	return text
}

// tabs names the screens and the path down to the shown page.
func (m *Model) tabs() string {
	t := &m.config.Theme
	var b strings.Builder
	for _, s := range Screens() {
		text := fmt.Sprintf(" %d %s ", s, s)
		if s == m.screen {
			text = fmt.Sprintf("[%d %s]", s, s)
			text = paint(t.title, text)
		} else {
			text = paint(t.label, text)
		}
		b.WriteString(text)
	}
	for _, p := range m.pages {
		b.WriteString(" › " + clean(p.title()))
	}
	return ansi.Truncate(b.String(), m.width, "…")
}

// footer is the line of the filter, the input or the notice, and the line of keys.
func (m *Model) footer() []string {
	return []string{ansi.Truncate(m.stateLine(), m.width, "…"), m.keyLine()}
}

func (m *Model) stateLine() string {
	t := &m.config.Theme
	switch {
	case m.input.kind != noInput:
		return m.inputLine()
	case m.notice != "":
		return paint(t.title, clip(m.notice, m.width))
	case m.feed.err != nil && !m.feed.okAt.IsZero():
		return paint(t.alarm, clip(m.feed.problem(), m.width))
	}
	g := m.grid()
	if g == nil {
		return ""
	}
	parts := []string{g.tally()}
	if f := g.filterText(); f != "" {
		parts = append(parts, "filter "+clean(f))
	}
	if s := g.sortText(); s != "" {
		parts = append(parts, "sort "+s)
	}
	if ids, hidden := g.marked(); len(ids) > 0 {
		text := fmt.Sprintf("%d marked", len(ids))
		if hidden > 0 {
			text += fmt.Sprintf(" (%d not shown)", hidden)
		}
		parts = append(parts, text)
	}
	return clip(strings.Join(parts, " · "), m.width)
}

// inputLine is what is being typed, its cursor, and what could follow.
func (m *Model) inputLine() string {
	t := &m.config.Theme
	mark := "/"
	if m.input.kind == commandInput {
		mark = ":"
	}
	text := mark + clean(m.input.text) + "▏"
	if over := cells(text) - m.width + 1; over > 0 {
		text = mark + "…" + ansi.TruncateLeft(text[len(mark):], over+1, "")
	}
	room := m.width - cells(text) - 1
	switch {
	case m.input.wrong != "":
		return text + " " + paint(t.alarm, clip(m.input.wrong, room))
	case room > 4:
		return text + " " + paint(t.label, clip(clean(strings.Join(head(m.options(), 12), "  ")), room))
	}
	return text
}

func head(list []string, n int) []string { return list[:min(len(list), n)] }

// keyLine names the keys of the shown screen, as many as there is room for, and
// always how to get help and out.
func (m *Model) keyLine() string {
	always := "? help  q quit"
	if m.input.kind != noInput {
		always = "Tab complete"
	}
	text, room := "", m.width-cells(always)
	for _, k := range m.keys() {
		if cells(text)+cells(k)+2 > room {
			break
		}
		text += k + "  "
	}
	return paint(m.config.Theme.label, text+always)
}

// keys is what can be done here, most useful first.
func (m *Model) keys() []string {
	switch p := m.page(); {
	case m.input.kind == filterInput:
		return []string{"Enter keep", "Esc take back", "word", "field=value", "field~part", "lease<10s"}
	case m.input.kind == commandInput:
		return []string{"Enter run", "Esc leave"}
	case p != nil && p.frozen:
		return []string{"Esc back", "↑↓ scroll", "c copy line"}
	case p != nil && p.kind == routePage:
		return []string{"Esc back", "w why", "Enter open", "y json", "c copy", "C command", "p pause"}
	case p != nil:
		return []string{"Esc back", "Enter open", "y json", "c copy", "C command", "p pause"}
	case m.screen == Routes:
		return []string{"Enter inspect", "/ filter", "s sort", "w why", "y json", "c copy", "p pause", ": command", "Space mark"}
	case m.screen == Replicas:
		return []string{"Enter describe", "/ filter", "s sort", "y json", "c copy", "p pause", ": command", "Space mark"}
	}
	return []string{"arrows choose", "Enter open", "p pause", ": command", "y json"}
}
