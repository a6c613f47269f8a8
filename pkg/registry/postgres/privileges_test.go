package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/aipfleet/aipfleet/schema"
)

// TestMatrix_G20_EachCellIsProbed tries every verb on every table, and every column,
// as every role: what the golden matrix does not list must be refused by the server,
// and what it lists must work.
func TestMatrix_G20_EachCellIsProbed(t *testing.T) {
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	matrix, err := schema.Matrix()
	if err != nil {
		t.Fatal(err)
	}
	tables := tableColumns(t, d)
	if len(tables) < 25 {
		t.Fatalf("only %d tables: nothing was probed", len(tables))
	}
	for _, role := range []string{"aip_control", "aip_data", "aip_lifecycle", "aip_readonly"} {
		t.Run(role, func(t *testing.T) {
			conn, err := pgx.Connect(t.Context(), url(t, d.name, role))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(t.Context()) }()
			if _, err := conn.Exec(t.Context(), "SET default_transaction_read_only = off"); err != nil {
				t.Fatal(err) // the grants must hold without that belt
			}
			for table, columns := range tables {
				probeTable(t, conn, granted{matrix, role, table}, columns)
			}
		})
	}
}

type granted struct {
	matrix      []string
	role, table string
}

// on reports whether the matrix grants a verb on the table, or on one column of it.
func (g granted) on(verb, column string) bool {
	for _, line := range g.matrix {
		if rest, ok := strings.CutPrefix(line, g.role+" table "+g.table+" "); ok && slices.Contains(strings.Fields(rest), verb) {
			return true
		}
		rest, ok := strings.CutPrefix(line, g.role+" columns "+g.table+" "+verb+" (")
		if ok && column != "" && slices.Contains(strings.Split(strings.TrimSuffix(rest, ")"), ", "), column) {
			return true
		}
	}
	return false
}

// probeTable runs statements that touch no row, so that only the privilege decides.
func probeTable(t *testing.T, conn *pgx.Conn, g granted, columns []string) {
	expect := func(allowed bool, statement string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
		var pg *pgconn.PgError
		denied := errors.As(err, &pg) && pg.Code == "42501"
		switch {
		case err != nil && !denied:
			t.Errorf("%s: %v", statement, err)
		case denied == allowed:
			t.Errorf("%s may %s: %v, the matrix says %v", g.role, statement, !denied, allowed)
		}
	}
	expect(g.on("DELETE", ""), fmt.Sprintf("DELETE FROM aip.%s WHERE false", g.table))
	expect(false, fmt.Sprintf("TRUNCATE aip.%s", g.table))
	for _, c := range columns {
		expect(g.on("SELECT", c), fmt.Sprintf("SELECT %s FROM aip.%s WHERE false", c, g.table))
		expect(g.on("UPDATE", c), fmt.Sprintf("UPDATE aip.%s SET %s = DEFAULT WHERE false", g.table, c))
		if g.table != "event" || c != "sequence" { // an identity column takes no value from anybody
			expect(g.on("INSERT", c), fmt.Sprintf("INSERT INTO aip.%s (%s) SELECT NULL WHERE false", g.table, c))
		}
	}
}

func tableColumns(t *testing.T, d *database) map[string][]string {
	t.Helper()
	rows, err := d.admin.Query(t.Context(), `SELECT c.relname::text, a.attname::text FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE n.nspname = 'aip' AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped`)
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string][]string{}
	var table, column string
	if _, err := pgx.ForEachRow(rows, []any{&table, &column}, func() error {
		tables[table] = append(tables[table], column)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return tables
}

// TestGrants_G01_G02_NobodyRewritesARoute names the ones that matter most.
func TestGrants_G01_G02_NobodyRewritesARoute(t *testing.T) {
	matrix, err := schema.Matrix()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range matrix {
		for _, table := range []string{"route", "attempt", "attempt_settlement", "tombstone", "deployment", "trust_revision", "connector_version"} {
			touches := strings.Contains(line, " table "+table+" ") || strings.Contains(line, " columns "+table+" ")
			if touches && (strings.Contains(line, "UPDATE") || strings.Contains(line, "DELETE")) {
				t.Errorf("%s", line)
			}
		}
	}
}
