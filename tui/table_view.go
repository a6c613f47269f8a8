package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
)

// area is where and how something is drawn.
type area struct {
	w, h  int
	now   time.Time
	theme *Theme
}

// headRows is the lines above the rows of a table.
const headRows = 1

// view draws the header and the rows that fit: never more than the screen has,
// however many there are.
func (t *table[T]) view(a area) []string {
	if !t.loaded {
		return []string{"", "  reading " + t.noun + " …"}
	}
	widths := t.widths(a.w)
	lines := []string{paint(a.theme.title, t.header(widths))}
	if len(t.order) == 0 {
		return append(lines, "", "  "+t.nothing())
	}
	for place := t.top; place < len(t.order) && len(lines) < a.h; place++ {
		lines = append(lines, t.line(a, widths, place))
	}
	return lines
}

func (t *table[T]) nothing() string {
	if t.filter.source != "" {
		return "no " + t.noun + " match " + clean(t.filter.source) + " (Esc clears the filter)"
	}
	return "there are no " + t.noun
}

func (t *table[T]) header(widths []int) string {
	var b strings.Builder
	b.WriteString("  ")
	for i, c := range t.columns {
		if widths[i] == 0 {
			continue
		}
		title := c.title
		if i == t.sort {
			title = sorted(title, t.desc, widths[i])
		}
		b.WriteString(placed(title, widths[i], c.right))
		b.WriteString("  ")
	}
	return strings.TrimRight(b.String(), " ")
}

// sorted marks the title of the column that rows are sorted by.
func sorted(title string, desc bool, w int) string {
	arrow := "▲"
	if desc {
		arrow = "▼"
	}
	return clip(title, w-1) + arrow
}

func placed(s string, w int, right bool) string {
	if right {
		return fitRight(s, w)
	}
	return fit(s, w)
}

// line draws one row. The chosen one has a sign of its own beside its colours.
func (t *table[T]) line(a area, widths []int, place int) string {
	r := &t.rows[t.order[place]]
	chosen := place == t.at
	var b strings.Builder
	b.WriteString(pointer(chosen, t.marks[r.key]))
	for i := range t.columns {
		if widths[i] == 0 {
			continue
		}
		c := &t.columns[i]
		text := c.cell(r, i, a.now)
		if c.ident {
			text = clipMiddle(text, widths[i])
		}
		text = placed(text, widths[i], c.right)
		if c.sign && !chosen {
			text = a.theme.toned(text)
		}
		b.WriteString(text)
		b.WriteString("  ")
	}
	if chosen {
		return paint(a.theme.cursor, fit(strings.TrimRight(b.String(), " "), a.w))
	}
	return strings.TrimRight(b.String(), " ")
}

// pointerWidth is the cells before a row: which is chosen, which are marked.
const pointerWidth = 2

// pointer is those cells.
func pointer(chosen, marked bool) string {
	p := " "
	if chosen {
		p = "›"
	}
	if marked {
		return p + "*"
	}
	return p + " "
}

// tally says how many rows there are, and honestly when not all were read.
func (t *table[T]) tally() string {
	if !t.loaded {
		return ""
	}
	s := fmt.Sprintf("%d %s", len(t.order), t.noun)
	if len(t.order) != len(t.rows) {
		s = fmt.Sprintf("%d of %d %s", len(t.order), len(t.rows), t.noun)
	}
	if t.cut {
		s += fmt.Sprintf(", only the first %d were read: narrow with field=value", len(t.rows))
	}
	return s
}

// boxed draws lines in a border with a title, w cells wide.
func boxed(theme *Theme, chosen bool, title string, lines []string, w int) []string {
	edge := theme.frame
	tl, tr, bl, br, h, v := "╭", "╮", "╰", "╯", "─", "│"
	if chosen {
		edge = theme.title
		tl, tr, bl, br, h, v = "┏", "┓", "┗", "┛", "━", "┃"
	}
	inner := w - 4
	title = clip(title, inner-2)
	fill := strings.Repeat(h, max(w-4-cells(title)-1, 0))
	out := []string{paint(edge, tl+h+" ") + paint(theme.title, title) + paint(edge, " "+fill+tr)}
	for _, l := range lines {
		out = append(out, paint(edge, v)+" "+padded(l, inner)+" "+paint(edge, v))
	}
	return append(out, paint(edge, bl+strings.Repeat(h, w-2)+br))
}

// padded fills text that may carry colours to w cells.
func padded(s string, w int) string {
	if n := lipgloss.Width(s); n < w {
		return s + strings.Repeat(" ", w-n)
	}
	return s
}
