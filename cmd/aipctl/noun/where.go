package noun

import (
	"cmp"
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
)

// Condition is one comparison of --where: column, operator, literal.
type Condition struct {
	Column Column
	Op     string // = != < <= > >= ~
	Want   string
}

// Where is conditions that must all hold.
type Where []Condition

var comparison = regexp.MustCompile(`^\s*([A-Za-z0-9_.-]+)\s*(!=|<=|>=|==|=|<|>|~)\s*(.*?)\s*$`)

// ParseWhere reads comparisons joined by && over the columns of a noun, or dotted
// paths of its JSON form. Numbers compare as numbers; a time compares with a
// duration as time ahead for columns that look ahead and as age for the others.
func (n Noun) ParseWhere(text string) (Where, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var where Where
	for _, part := range strings.Split(text, "&&") {
		c, err := n.parseCondition(part)
		if err != nil {
			return nil, err
		}
		where = append(where, c)
	}
	return where, nil
}

// ParseLabels reads name=value pairs joined by commas, all of which must hold.
func (n Noun) ParseLabels(pairs []string) (Where, error) {
	var where Where
	for _, pair := range pairs {
		c, err := n.parseCondition(pair)
		if err != nil {
			return nil, err
		}
		if c.Op != "=" && c.Op != "!=" {
			return nil, app.Usagef("usage.label", "a label selector compares with = or !=, not %s", c.Op).Advise("use --where for other comparisons")
		}
		where = append(where, c)
	}
	return where, nil
}

func (n Noun) parseCondition(text string) (Condition, error) {
	m := comparison.FindStringSubmatch(text)
	if m == nil {
		return Condition{}, app.Usagef("usage.where", "%q is not a comparison", strings.TrimSpace(text)).
			Advise("write column operator value, with = != < <= > >= ~, joined by &&")
	}
	c, err := n.column(m[1])
	if err != nil {
		return Condition{}, err
	}
	op := m[2]
	if op == "==" {
		op = "="
	}
	want := m[3]
	if len(want) >= 2 && (want[0] == '"' || want[0] == '\'') && want[len(want)-1] == want[0] {
		want = want[1 : len(want)-1]
	}
	return Condition{Column: c, Op: op, Want: want}, nil
}

// Match reports whether a record satisfies every condition at now.
func (w Where) Match(r Record, now time.Time) bool {
	for _, c := range w {
		if !c.match(r, now) {
			return false
		}
	}
	return true
}

func (c Condition) match(r Record, now time.Time) bool {
	v := r.Get(c.Column.Path)
	if c.Op == "~" {
		return strings.Contains(strings.ToLower(plain(v)), strings.ToLower(c.Want))
	}
	order, comparable := c.compare(v, now)
	switch c.Op {
	case "=":
		return comparable && order == 0
	case "!=":
		return !comparable || order != 0
	case "<":
		return comparable && order < 0
	case "<=":
		return comparable && order <= 0
	case ">":
		return comparable && order > 0
	}
	return comparable && order >= 0
}

// compare orders the value against the literal; a missing value compares with nothing.
func (c Condition) compare(v any, now time.Time) (int, bool) {
	switch c.Column.Form {
	case Switch:
		on, _ := v.(bool)
		return strings.Compare(switchWord(on), switchLiteral(c.Want)), true
	case Count:
		list, _ := v.([]any)
		return compareNumbers(json.Number(big.NewInt(int64(len(list))).String()), c.Want)
	}
	switch x := v.(type) {
	case nil:
		return 0, false
	case json.Number:
		return compareNumbers(x, c.Want)
	case string:
		if t := moment(x); !t.IsZero() {
			return c.compareTime(t, now)
		}
		return strings.Compare(x, c.Want), true
	}
	return strings.Compare(plain(v), c.Want), true
}

func (c Condition) compareTime(t, now time.Time) (int, bool) {
	if d, err := time.ParseDuration(c.Want); err == nil {
		have := now.Sub(t)
		if c.Column.Form == Until {
			have = t.Sub(now)
		}
		return cmp.Compare(have, d), true
	}
	want, err := time.Parse(time.RFC3339, c.Want)
	if err != nil {
		return 0, false
	}
	return t.Compare(want), true
}

func switchWord(on bool) string {
	if on {
		return "enabled"
	}
	return "disabled"
}

func switchLiteral(s string) string {
	switch s {
	case "true", "on":
		return "enabled"
	case "false", "off":
		return "disabled"
	}
	return s
}

func compareNumbers(have json.Number, want string) (int, bool) {
	x, ok1 := new(big.Float).SetString(have.String())
	y, ok2 := new(big.Float).SetString(want)
	if !ok1 || !ok2 {
		return 0, false
	}
	return x.Cmp(y), true
}

// Sort orders records by a column; a leading minus turns it round. Equal ones keep
// their order.
func (n Noun) Sort(records []Record, by string) error {
	if by == "" {
		return nil
	}
	name, reverse := strings.CutPrefix(by, "-")
	c, err := n.column(name)
	if err != nil {
		return err
	}
	slices.SortStableFunc(records, func(x, y Record) int {
		order := compareValues(x.Get(c.Path), y.Get(c.Path))
		if reverse {
			return -order
		}
		return order
	})
	return nil
}

func compareValues(x, y any) int {
	if n, ok := x.(json.Number); ok {
		if order, ok := compareNumbers(n, plain(y)); ok {
			return order
		}
	}
	if s, t := moment(x), moment(y); !s.IsZero() && !t.IsZero() {
		return s.Compare(t)
	}
	return strings.Compare(plain(x), plain(y))
}

// Have writes what a record says in the columns of the conditions.
func (w Where) Have(r Record) string {
	parts := make([]string, len(w))
	for i, c := range w {
		parts[i] = c.Column.Name + "=" + plain(r.Get(c.Column.Path))
	}
	return strings.Join(parts, ", ")
}
