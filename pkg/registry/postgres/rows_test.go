package postgres_test

import (
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// TestRows_G06_BothFormsSayTheSame reads a stored route and attempt in the text and in the
// binary form of their rows, and then both cut short at every byte: a row that is not
// whole is refused, never guessed.
func TestRows_G06_BothFormsSayTheSame(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 1, replicas: 1, capacity: 1})
	want := d.resolve(t, "rows", 0)
	form := func(row string, code int16) []byte {
		var b pgtype.UndecodedBytes
		if err := d.admin.QueryRow(t.Context(), row, pgx.QueryResultFormats{code}).Scan(&b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, row := range map[string]struct {
		query string
		want  any
		read  func([]byte) (any, error)
	}{
		"route":   {"SELECT r FROM aip.route r", want.Route, func(b []byte) (any, error) { return postgres.ReadRoute(b) }},
		"attempt": {"SELECT a FROM aip.attempt a", want.Attempt, func(b []byte) (any, error) { return postgres.ReadAttempt(b) }},
	} {
		for form, b := range map[string][]byte{"text": form(row.query, pgx.TextFormatCode), "binary": form(row.query, pgx.BinaryFormatCode)} {
			have, err := row.read(b)
			if err != nil || !reflect.DeepEqual(have, row.want) {
				t.Errorf("%s as %s: %+v, %v; want %+v", name, form, have, err, row.want)
			}
			for n := range b {
				if have, err := row.read(b[:n]); err == nil {
					t.Errorf("%s as %s, the first %d of %d bytes: %+v", name, form, n, len(b), have)
				}
			}
		}
	}
}
