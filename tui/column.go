package tui

import (
	"strings"
	"time"
)

// column is one field of a table: how it is shown, filtered and sorted. Exactly one
// of text and at is set.
type column[T any] struct {
	name  string // in filters
	title string
	width int  // most cells worth giving; 0 never shows, and filters only
	floor int  // fewest cells when it may be cut; 0 is never cut
	rank  int  // the highest rank goes first where there is no room; 0 stays
	right bool // numbers
	sign  bool // a status word, shown with its glyph
	ident bool // an identity: what is cut is its middle

	text  func(*T) string
	count func(*T) float64   // what < and > and sorting compare; nil: the text
	at    func(*T) time.Time // a moment, shown relative to now
	ahead bool               // the moment is expected to lie ahead
}

// row is a record with what filters, sorting and drawing need of it, made once per reading.
type row[T any] struct {
	key  string
	item *T
	text []string // by column; "" for moments
	hay  string   // all text, folded, for words of a filter
}

// rowsOf prepares records. It is pure, and runs where the reading runs.
func rowsOf[T any](columns []column[T], key func(*T) string, items []T) []row[T] {
	rows := make([]row[T], len(items))
	texts := make([]string, len(items)*len(columns))
	for i := range items {
		r := row[T]{key: key(&items[i]), item: &items[i], text: texts[i*len(columns) : (i+1)*len(columns)]}
		size := 0
		for n := range columns {
			if columns[n].text != nil {
				r.text[n] = clean(columns[n].text(r.item))
				size += len(r.text[n]) + 1
			}
		}
		r.hay = haystack(r.text, size)
		rows[i] = r
	}
	return rows
}

// haystack is all texts of a row, folded, one to a line.
func haystack(texts []string, size int) string {
	var b strings.Builder
	b.Grow(size)
	for _, text := range texts {
		if text != "" {
			b.WriteString(text)
			b.WriteByte('\n')
		}
	}
	return strings.ToLower(b.String())
}

// cell is what a column shows of a row.
func (c *column[T]) cell(r *row[T], n int, now time.Time) string {
	switch {
	case c.at != nil && c.ahead:
		return until(c.at(r.item), now)
	case c.at != nil:
		return since(c.at(r.item), now)
	case c.sign:
		return status(r.text[n])
	}
	return r.text[n]
}

// amount is what < and > compare: a count, or seconds ahead or ago.
func (c *column[T]) amount(r *row[T], now time.Time) (float64, bool) {
	switch {
	case c.count != nil:
		return c.count(r.item), true
	case c.at == nil || c.at(r.item).IsZero():
		return 0, false
	case c.ahead:
		return c.at(r.item).Sub(now).Seconds(), true
	}
	return now.Sub(c.at(r.item)).Seconds(), true
}

// compare orders two rows by the column.
func (c *column[T]) compare(a, b *row[T], n int) int {
	switch {
	case c.count != nil:
		x, y := c.count(a.item), c.count(b.item)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	case c.at != nil:
		return c.at(a.item).Compare(c.at(b.item))
	}
	return strings.Compare(a.text[n], b.text[n])
}

// need is how many cells a column can use for the given rows. One that is empty in
// all of them needs none.
func (c *column[T]) need(rows []row[T], n int) int {
	if c.text == nil {
		return c.width
	}
	extra, longest := 0, 0
	if c.sign {
		extra = 2
	}
	for i := range rows {
		longest = max(longest, cells(rows[i].text[n]))
		if longest+extra >= c.width {
			return c.width
		}
	}
	if longest == 0 && c.rank > 0 {
		return 0
	}
	return max(longest+extra, cells(c.title))
}

// snug is the fewest cells at which a column is worth having: all that its rows
// need, or its floor when it may be cut.
func (c *column[T]) snug(need int) int {
	if c.floor > 0 {
		return min(need, max(c.floor, cells(c.title)))
	}
	return need
}

// layout chooses the columns that fit into w cells and how wide each is; 0 is not
// shown. Those that always stay have all they need before others join, unless they
// alone are too wide; what is left goes to columns of low rank first.
func layout[T any](columns []column[T], needs []int, w int) []int {
	widths := make([]int, len(columns))
	for i, c := range columns {
		if c.rank == 0 && c.width > 0 {
			widths[i] = needs[i]
		}
	}
	wide := used(widths) > w
	for i := range columns {
		if columns[i].width > 0 && (wide || columns[i].rank > 0) {
			widths[i] = columns[i].snug(needs[i])
		}
	}
	for used(widths) > w && dropOne(columns, widths) {
	}
	for rank := 0; rank <= maxRank; rank++ {
		for i, c := range columns {
			if widths[i] > 0 && c.rank == rank {
				widths[i] += max(min(needs[i]-widths[i], w-used(widths)), 0)
			}
		}
	}
	return widths
}

const maxRank = 12

func used(widths []int) int {
	sum := 0
	for _, w := range widths {
		if w > 0 {
			sum += w + gap
		}
	}
	return max(sum-gap, 0)
}

// gap is the blanks between columns.
const gap = 2

func dropOne[T any](columns []column[T], widths []int) bool {
	worst := -1
	for i, c := range columns {
		if widths[i] > 0 && c.rank > 0 && (worst < 0 || c.rank >= columns[worst].rank) {
			worst = i
		}
	}
	if worst < 0 {
		return false
	}
	widths[worst] = 0
	return true
}
