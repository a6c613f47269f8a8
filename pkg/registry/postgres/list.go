package postgres

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// listing is how records of one noun are read: what to select from, the document and
// the order, and what each filter compares. In a condition, $ stands for the filter's
// value; an empty condition means that the noun has no such property, so that a
// filter on it matches nothing.
type listing struct {
	from     string
	document string
	keys     []string // ordered by these; each is text, bigint or timestamptz
	kinds    []string // their types
	falling  bool     // the first key falls, the rest rise
	ids      string   // expression compared with the asked ids
	tenant   string
	instance string
	version  string
	replica  string
	state    string
	reserved string
	once     string // what must hold of every record, "" is nothing
	at       string // what Since and Until compare
}

// arguments collects the values of a statement in the order of their places.
type arguments struct{ values []any }

func (a *arguments) place(v any) string {
	a.values = append(a.values, v)
	return fmt.Sprintf("$%d", len(a.values))
}

// query writes the statement that reads one page, and one record beyond it.
func (l listing) query(s registry.Selection) (string, []any, error) {
	var args arguments
	where := []string{"true"}
	if l.once != "" {
		where = append(where, l.once)
	}
	l.filter(s, &args, &where)
	if len(s.IDs) > 0 {
		where = append(where, l.ids+" = ANY ("+args.place(s.IDs)+"::text[])")
	} else if s.After != "" {
		after, err := openKey(s.After, len(l.keys))
		if err != nil {
			return "", nil, err
		}
		where = append(where, l.after(after, &args))
	}
	statement := "SELECT " + l.document + ", " + l.keyColumns() + " FROM " + l.from +
		" WHERE " + strings.Join(where, " AND ") + " ORDER BY " + l.order()
	if len(s.IDs) == 0 && s.Limit > 0 {
		statement += " LIMIT " + args.place(s.Limit+1) + "::integer"
	}
	return statement, args.values, nil
}

func (l listing) filter(s registry.Selection, args *arguments, where *[]string) {
	for _, f := range []struct {
		asked     bool
		value     any
		condition string
	}{
		{!s.Tenant.IsZero(), s.Tenant.String(), l.tenant},
		{!s.Instance.IsZero(), s.Instance.String(), l.instance},
		{!s.Version.IsZero(), s.Version.String(), l.version},
		{!s.Replica.IsZero(), s.Replica.String(), l.replica},
		{s.State != "", s.State, l.state},
		{s.Reserved, nil, l.reserved},
		{!s.Since.IsZero(), stamp(s.Since), compared(l.at, ">=")},
		{!s.Until.IsZero(), stamp(s.Until), compared(l.at, "<")},
	} {
		switch {
		case !f.asked:
		case f.condition == "":
			*where = append(*where, "false")
		case f.value == nil:
			*where = append(*where, f.condition)
		default:
			*where = append(*where, strings.ReplaceAll(f.condition, "$", args.place(f.value)+"::text"))
		}
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// compared is the condition on a record's time, or none when it has no time.
func compared(at, operator string) string {
	if at == "" {
		return ""
	}
	return at + " " + operator + " $::timestamptz"
}

func (l listing) keyColumns() string {
	columns := make([]string, len(l.keys))
	for i, k := range l.keys {
		columns[i] = "(" + k + ")::text"
		if l.kinds[i] == "timestamptz" {
			columns[i] = "aip.instant(" + k + ")"
		}
	}
	return strings.Join(columns, ", ")
}

func (l listing) order() string {
	columns := append([]string(nil), l.keys...)
	if l.falling {
		columns[0] += " DESC"
	}
	return strings.Join(columns, ", ")
}

// after is the keyset condition. With a falling first key a row comparison would
// compare the rest the wrong way round.
func (l listing) after(values []string, args *arguments) string {
	places := make([]string, len(values))
	for i, v := range values {
		places[i] = args.place(v) + "::text::" + l.kinds[i]
	}
	if !l.falling {
		return "(" + strings.Join(l.keys, ", ") + ") > (" + strings.Join(places, ", ") + ")"
	}
	condition := l.keys[0] + " < " + places[0]
	if len(l.keys) > 1 {
		condition = "(" + l.keys[0] + " <= " + places[0] + " AND (" + condition + " OR (" +
			strings.Join(l.keys[1:], ", ") + ") > (" + strings.Join(places[1:], ", ") + ")))"
	}
	return condition
}

func sealKey(values []string) (string, error) {
	raw, err := json.Marshal(values)
	return base64.RawURLEncoding.EncodeToString(raw), err
}

func openKey(text string, n int) ([]string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var values []string
	if err == nil {
		err = json.Unmarshal(raw, &values)
	}
	if err != nil || len(values) != n {
		return nil, fleet.Invalidf("list.after", "this is not where a page of this kind ended").Advise("start again without it")
	}
	return values, nil
}

// fetch reads one page; scan decodes one document.
func fetch[T any](ctx context.Context, db Querier, l listing, s registry.Selection, scan func([]byte) (T, error)) (items []T, next string, err error) {
	statement, values, err := l.query(s)
	if err != nil {
		return nil, "", err
	}
	rows, err := db.Query(ctx, statement, values...)
	if err != nil {
		return nil, "", err
	}
	defer rows.Close()
	items = []T{}
	var document []byte
	keys := make([]string, len(l.keys))
	into := []any{&document}
	for i := range keys {
		into = append(into, &keys[i])
	}
	var last []string
	bytes, paged := 0, len(s.IDs) == 0 && s.Limit > 0 // a snapshot is everything
	for rows.Next() {
		if paged && len(items) == s.Limit {
			next, err = sealKey(last)
			return items, next, err
		}
		if err := rows.Scan(into...); err != nil {
			return nil, "", err
		}
		if bytes += len(document); paged && len(items) > 0 && bytes > registry.MaxListBytes {
			next, err = sealKey(last)
			return items, next, err
		}
		item, err := scan(document)
		if err != nil {
			return nil, "", err
		}
		items, last = append(items, item), append([]string(nil), keys...)
	}
	return items, "", rows.Err()
}

// decoded is the scan of records whose document is the contract's own JSON.
func decoded[T any](document []byte) (T, error) {
	var v T
	if err := json.Unmarshal(document, &v); err != nil {
		return v, malformed(err)
	}
	return v, nil
}

// List implements registry.Reader.
func (r *Registry) List(ctx context.Context, s registry.Selection) (registry.Records, error) {
	if s.Limit == 0 {
		s.Limit = 100
	}
	if s.Limit < 0 || s.Limit > registry.MaxListItems {
		return registry.Records{}, fleet.Invalidf("list.limit", "a page has 1..%d records, not %d", registry.MaxListItems, s.Limit)
	}
	read, ok := readers(s.Noun)
	if !ok {
		return registry.Records{}, fleet.Invalidf("list.noun", "%q is not a kind of record", fleet.Printable(string(s.Noun), 32))
	}
	p, err := r.readPool()
	if err != nil {
		return registry.Records{}, err
	}
	var out registry.Records
	err = p.snapshot(ctx, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, "SELECT revision FROM aip.catalog_revision").Scan(&out.Revision); err != nil {
			return err
		}
		return read(ctx, tx, s, &out)
	})
	if err != nil {
		return registry.Records{}, refused("list.unavailable", "the records could not be read", err)
	}
	return out, nil
}
