package tui

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// pageKind is what a drilled-down page is about.
type pageKind uint8

const (
	noPage pageKind = iota
	replicaPage
	routePage
	explainPage
	jsonPage
	helpPage
)

// target names a page.
type target struct {
	kind pageKind
	id   string // of the replica, or of the action
}

// facts is what was read for a page: lines for people, an object for JSON.
type facts interface {
	lines(now time.Time) []line
	object() any
	command() string // of aipctl, that shows the same
}

// lineKind is how a line of a page is drawn.
type lineKind uint8

const (
	plainLine lineKind = iota
	titleLine
	fieldLine // label and value
	headLine  // header of a list
	itemLine  // opens something
)

// line is one line of a page.
type line struct {
	kind  lineKind
	label string
	text  string
	open  target // on Enter
	value string // what c copies
	fold  bool   // goes on in further lines where it is too long
}

// name is what the cursor sticks to across readings.
func (l line) name() string {
	if l.open.kind != noPage {
		return "open " + l.open.id
	}
	return l.label
}

// page is one level of drill-down, with its own cursor.
type page struct {
	target
	facts  facts
	frozen bool // JSON and help are not read again
	at     int
	top    int
	stick  string // name of the line under the cursor
}

// title is the page's place in the path on the screen.
func (p page) title() string {
	switch p.kind {
	case replicaPage:
		return "replica " + p.id
	case routePage:
		return "route " + p.id
	case explainPage:
		return "why " + p.id
	case jsonPage:
		return "json " + p.id
	}
	return "help"
}

// lines is the page's lines at that width and time.
func (p page) lines(a area) []line {
	if p.facts == nil {
		return []line{{text: "reading …"}}
	}
	lines := p.facts.lines(a.now)
	room := a.w - pointerWidth - labelWidth - 1
	for i := 0; i < len(lines); i++ {
		if l := lines[i]; l.fold && cells(l.text) > room {
			lines = slices.Replace(lines, i, i+1, folded(l, room)...)
		}
	}
	return lines
}

// folded breaks a field's text into as many lines as it needs.
func folded(l line, room int) []line {
	var all []line
	for i, text := range wrap(l.text, room) {
		part := l
		part.text, part.fold = text, false
		if i > 0 {
			part.label = ""
		}
		all = append(all, part)
	}
	return all
}

// settle keeps the cursor on its line after a reading, and inside the page.
func (p *page) settle(a area) {
	lines := p.lines(a)
	if p.stick != "" {
		for i, l := range lines {
			if l.name() == p.stick {
				p.at = i
				break
			}
		}
	}
	p.move(0, a)
}

// move moves the cursor and scrolls after it.
func (p *page) move(by int, a area) {
	lines := p.lines(a)
	p.at = max(min(p.at+by, len(lines)-1), 0)
	p.stick = lines[p.at].name()
	height := max(a.h, 1)
	p.top = min(p.top, max(len(lines)-height, 0))
	if p.at < p.top {
		p.top = p.at
	}
	if p.at >= p.top+height {
		p.top = p.at - height + 1
	}
}

// under is the line under the cursor.
func (p page) under(a area) line {
	lines := p.lines(a)
	return lines[min(p.at, len(lines)-1)]
}

// labelWidth is how wide labels of fields are.
const labelWidth = 18

// view draws the lines that fit.
func (p page) view(a area) []string {
	lines := p.lines(a)
	var out []string
	for i := p.top; i < len(lines) && len(out) < a.h; i++ {
		out = append(out, drawLine(a, lines[i], i == p.at))
	}
	return out
}

func drawLine(a area, l line, chosen bool) string {
	text := pointer(chosen, false)
	switch l.kind {
	case titleLine, headLine:
		text += l.text
	case fieldLine:
		text += fit(l.label, labelWidth) + " " + l.text
	default:
		text += "  " + l.text
	}
	text = clip(text, a.w)
	switch {
	case chosen:
		return paint(a.theme.cursor, fit(text, a.w))
	case l.kind == titleLine:
		return paint(a.theme.title, text)
	case l.kind == headLine:
		return paint(a.theme.label, text)
	case l.kind == fieldLine:
		head := pointer(false, false) + fit(l.label, labelWidth) + " "
		return paint(a.theme.label, head) + a.theme.toned(strings.TrimPrefix(text, head))
	}
	return text
}

// field makes label and value; value is made safe to show.
func field(label, value string) line {
	return line{kind: fieldLine, label: label, text: clean(value), value: value}
}

// signed makes a field whose value is a status word, followed by more.
func signed(label, word, more string) line {
	l := field(label, strings.TrimSpace(status(clean(word))+" "+clean(more)))
	l.value = word
	return l
}

// told makes a field whose text is shown in full, on more lines if need be.
func told(label, text string) line {
	l := field(label, text)
	l.fold = true
	return l
}

func title(text string) line { return line{kind: titleLine, text: clean(text)} }

// list makes a header and one line per row, aligned; opens names what each opens.
func list(header []string, rows [][]string, opens func(i int) target) []line {
	all := aligned(append([][]string{header}, rows...))
	lines := []line{{kind: headLine, text: "  " + all[0]}}
	for i, text := range all[1:] {
		l := line{kind: itemLine, text: text, value: strings.Join(rows[i], " ")}
		if opens != nil {
			l.open = opens(i)
			l.value = l.open.id
		}
		lines = append(lines, l)
	}
	return lines
}

// readPage reads what a page shows.
func (c Config) readPage(ctx context.Context, t target) (facts, error) {
	switch t.kind {
	case replicaPage:
		return c.readReplica(ctx, t.id)
	case routePage:
		return c.readRoute(ctx, t.id)
	case explainPage:
		return c.readExplain(ctx, t.id)
	}
	return nil, nil
}

// one reads the record of one identity.
func (c Config) one(ctx context.Context, noun registry.Noun, id string) (registry.Records, error) {
	return c.Reader.List(ctx, registry.Selection{Noun: noun, IDs: []string{id}})
}

// absent is the page about something that is not there (any more).
type absent struct {
	target
	what string
}

func (f absent) lines(time.Time) []line {
	return []line{title(f.what), {text: "There is no " + f.what + " in this registry (any more)."}}
}
func (f absent) object() any     { return nil }
func (f absent) command() string { return "" }

var _ facts = absent{}

// parseAction parses an id that the dashboard itself read; a wrong one is absent.
func parseAction(id string) (fleet.ActionID, bool) {
	a, err := fleet.ParseActionID(id)
	return a, err == nil
}
