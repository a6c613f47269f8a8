package tui

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// table is the rows of one screen in the order and selection that the operator
// chose. The cursor is the object, not the line: it stays on it across readings,
// sorting and filtering.
type table[T any] struct {
	noun    string // in the plural
	columns []column[T]

	rows   []row[T]
	needs  []int // cells each column can use, of these rows
	order  []int // rows that the filter lets through, in the shown order
	filter filter
	sort   int // column; -1 is the registry's own order
	desc   bool
	cursor string          // key of the chosen row
	at     int             // its place in order
	top    int             // first drawn place
	marks  map[string]bool // keys; never changed in place
	loaded bool
	cut    bool // more exist than were read
	wide   bool // the unfiltered reading was cut: exact terms go to the registry
}

func newTable[T any](noun string, columns []column[T]) table[T] {
	return table[T]{noun: noun, columns: columns, sort: -1}
}

// grid is a table whatever its rows are.
type grid interface {
	fields() []string
	setFilter(source string, now time.Time) error
	tryFilter(source string, now time.Time) error
	filterText() string
	cycleSort(now time.Time, width int)
	reverse(now time.Time)
	sortBy(name string, now time.Time) bool
	sortText() string
	move(by int)
	scroll(height int)
	key() string
	stick(key string)
	held() string
	item() any
	mark()
	marked() (all []string, hidden int)
	tally() string
	view(area area) []string
}

func (t *table[T]) fields() []string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	return names
}

// set takes a new reading.
func (t *table[T]) set(l *listing[T], now time.Time) {
	t.rows, t.cut, t.loaded = l.rows, l.cut, true
	if l.whole {
		t.wide = l.cut
	}
	t.needs = make([]int, len(t.columns))
	for i := range t.columns {
		t.needs[i] = t.columns[i].need(t.rows, i)
	}
	t.arrange(now)
}

// widths is how wide each column is on a screen of that width.
func (t *table[T]) widths(width int) []int {
	if !t.loaded {
		return make([]int, len(t.columns))
	}
	return layout(t.columns, t.needs, width-pointerWidth)
}

// arrange filters and sorts, then finds the cursor's object again.
func (t *table[T]) arrange(now time.Time) {
	order := make([]int, 0, len(t.rows))
	for i := range t.rows {
		if t.passes(&t.rows[i], now) {
			order = append(order, i)
		}
	}
	if t.sort >= 0 {
		c, n := &t.columns[t.sort], t.sort
		slices.SortStableFunc(order, func(a, b int) int {
			d := c.compare(&t.rows[a], &t.rows[b], n)
			if t.desc {
				d = -d
			}
			return d
		})
	}
	t.order = order
	t.find()
}

func (t *table[T]) passes(r *row[T], now time.Time) bool {
	for _, term := range t.filter.terms {
		if term.field < 0 {
			if !strings.Contains(r.hay, term.text) {
				return false
			}
			continue
		}
		c := &t.columns[term.field]
		amount, measured := c.amount(r, now)
		if !term.holds(r.text[term.field], amount, measured) {
			return false
		}
	}
	return true
}

// find puts the cursor on its object, or near where it was when that is gone. As
// long as nobody has chosen one it is the first row, whichever that is.
func (t *table[T]) find() {
	if t.cursor == "" {
		t.at = 0
		return
	}
	for place, i := range t.order {
		if t.rows[i].key == t.cursor {
			t.at = place
			return
		}
	}
	t.at = max(min(t.at, len(t.order)-1), 0)
	t.stick(t.key())
}

// move moves the cursor by rows and keeps it on the object there; all the way up it
// follows the first row again.
func (t *table[T]) move(by int) {
	t.at = max(min(t.at+by, len(t.order)-1), 0)
	t.stick(t.key())
	if by <= -far {
		t.cursor = ""
	}
}

// stick keeps the cursor on an object from now on; "" follows the first row.
func (t *table[T]) stick(key string) { t.cursor = key }

// held is the object that the cursor sticks to.
func (t *table[T]) held() string { return t.cursor }

// scroll keeps the cursor inside the height of the drawn rows.
func (t *table[T]) scroll(height int) {
	height = max(height, 1)
	t.top = min(t.top, max(len(t.order)-height, 0))
	if t.at < t.top {
		t.top = t.at
	}
	if t.at >= t.top+height {
		t.top = t.at - height + 1
	}
}

func (t *table[T]) chosen() *row[T] {
	if t.at < len(t.order) {
		return &t.rows[t.order[t.at]]
	}
	return nil
}

func (t *table[T]) key() string {
	if r := t.chosen(); r != nil {
		return r.key
	}
	return ""
}

func (t *table[T]) item() any {
	if r := t.chosen(); r != nil {
		return r.item
	}
	return nil
}

func (t *table[T]) setFilter(source string, now time.Time) error {
	f, err := parseFilter(source, t.fields())
	if err != nil {
		return err
	}
	t.filter = f
	t.arrange(now)
	return nil
}

// tryFilter sets a filter that is still being typed. A value may have more to come,
// and a last word that is not a term yet, or may become a field's name, does not act.
func (t *table[T]) tryFilter(source string, now time.Time) error {
	f, err := parseFilter(source, t.fields())
	n := len(f.terms)
	switch {
	case err != nil || n == 0:
	case f.terms[n-1].op == "=":
		f.terms[n-1].op = "^"
	case f.terms[n-1].op == "" && t.begins(f.terms[n-1].text):
		f.terms = f.terms[:n-1]
	}
	t.filter = f
	t.arrange(now)
	return err
}

// begins reports whether a field's name begins with the word.
func (t *table[T]) begins(word string) bool {
	return slices.ContainsFunc(t.fields(), func(name string) bool { return strings.HasPrefix(name, word) })
}

func (t *table[T]) filterText() string { return t.filter.source }

// cycleSort goes on to the next column that is shown at this width, and from the
// last back to the registry's own order.
func (t *table[T]) cycleSort(now time.Time, width int) {
	t.desc = false
	t.stick(t.key())
	widths := t.widths(width)
	for t.sort++; t.sort < len(t.columns) && widths[t.sort] == 0; t.sort++ {
	}
	if t.sort == len(t.columns) {
		t.sort = -1
	}
	t.arrange(now)
}

func (t *table[T]) reverse(now time.Time) {
	if t.sort >= 0 {
		t.desc = !t.desc
		t.stick(t.key())
		t.arrange(now)
	}
}

func (t *table[T]) sortBy(name string, now time.Time) bool {
	i := slices.Index(t.fields(), name)
	if i < 0 {
		return false
	}
	t.sort, t.desc = i, false
	t.arrange(now)
	return true
}

func (t *table[T]) sortText() string {
	switch {
	case t.sort < 0:
		return ""
	case t.desc:
		return t.columns[t.sort].name + " ▼"
	}
	return t.columns[t.sort].name + " ▲"
}

// mark marks the chosen row, or takes its mark off, and goes on to the next.
func (t *table[T]) mark() {
	k := t.key()
	if k == "" {
		return
	}
	marks := maps.Clone(t.marks)
	if marks == nil {
		marks = map[string]bool{}
	}
	if marks[k] {
		delete(marks, k)
	} else {
		marks[k] = true
	}
	t.marks = marks
	t.move(1)
}

// marked lists the marked keys in order, and how many of them are not shown.
func (t *table[T]) marked() (all []string, hidden int) {
	shown := map[string]bool{}
	for _, i := range t.order {
		if k := t.rows[i].key; t.marks[k] {
			shown[k] = true
		}
	}
	return slices.Sorted(maps.Keys(t.marks)), len(t.marks) - len(shown)
}
