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

// TestMatrix_G20_EachFunctionIsProbed plans a call of every function as every role: the
// server checks the privilege before it would run anything. What the golden matrix does
// not list must be refused, and what it lists must be allowed.
func TestMatrix_G20_EachFunctionIsProbed(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	matrix, err := schema.Matrix()
	if err != nil {
		t.Fatal(err)
	}
	calls := functionCalls(t, d)
	if len(calls) < 20 {
		t.Fatalf("only %d functions: nothing was probed", len(calls))
	}
	allowed, refused := 0, 0
	for _, role := range []string{"aip_control", "aip_data", "aip_lifecycle", "aip_readonly"} {
		conn, err := pgx.Connect(t.Context(), url(t, d.name, role))
		if err != nil {
			t.Fatal(err)
		}
		for name, call := range calls {
			granted := slices.Contains(matrix, fmt.Sprintf("%s function %s EXECUTE", role, name))
			_, err := conn.Exec(t.Context(), "EXPLAIN "+call)
			switch denied := sqlStateOf(err) == "42501"; { // another error comes from a function that ran on nulls
			case denied == granted:
				t.Errorf("%s may call %s: %v, the matrix says %v", role, name, !denied, granted)
			case denied:
				refused++
			default:
				allowed++
			}
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d functions, %d calls allowed, %d refused", len(calls), allowed, refused)
}

func sqlStateOf(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// functionCalls writes one call of each function, every argument null.
func functionCalls(t *testing.T, d *database) map[string]string {
	t.Helper()
	rows, err := d.admin.Query(t.Context(), `SELECT p.proname::text,
			COALESCE((SELECT array_agg(format_type(a.type, NULL) ORDER BY a.n) FROM unnest(p.proargtypes) WITH ORDINALITY a (type, n)), '{}')
		FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'aip' AND p.prorettype <> 'trigger'::regtype`)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]string{}
	var name string
	var types []string
	if _, err := pgx.ForEachRow(rows, []any{&name, &types}, func() error {
		args := make([]string, len(types))
		for i, typ := range types {
			args[i] = "NULL::" + typ
		}
		calls[name] = fmt.Sprintf("SELECT * FROM aip.%s(%s)", name, strings.Join(args, ", "))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return calls
}

// TestMatrix_G20_NobodyMayAttachATriggerFunction: a trigger function cannot be called, and
// the privilege to execute it is the privilege to attach it to a table.
func TestMatrix_G20_NobodyMayAttachATriggerFunction(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	rows, err := d.admin.Query(t.Context(), `SELECT p.proname::text, r.rolname::text, has_function_privilege(r.oid, p.oid, 'EXECUTE')
		FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		CROSS JOIN pg_roles r
		WHERE n.nspname = 'aip' AND p.prorettype = 'trigger'::regtype
		  AND r.rolname IN ('aip_control', 'aip_data', 'aip_lifecycle', 'aip_readonly')`)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	var function, role string
	var may bool
	if _, err := pgx.ForEachRow(rows, []any{&function, &role, &may}, func() error {
		if seen++; may {
			t.Errorf("%s may attach %s to a table", role, function)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Fatal("there is no trigger function: nothing was checked")
	}
}

// TestMatrix_G20_NobodyMakesOrAltersObjects: no login role of a daemon can make a table,
// a function or a schema, alter or drop what there is, take a sequence's next number, or
// become the owner.
func TestMatrix_G20_NobodyMakesOrAltersObjects(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	for _, role := range []string{"aip_control", "aip_data", "aip_lifecycle", "aip_readonly"} {
		conn, err := pgx.Connect(t.Context(), url(t, d.name, role))
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{
			"CREATE TABLE aip.more (id int)", "CREATE TABLE public.more (id int)", "CREATE SCHEMA more",
			"CREATE FUNCTION aip.more() RETURNS int LANGUAGE sql AS 'SELECT 1'",
			"ALTER TABLE aip.route ADD COLUMN more int", "ALTER TABLE aip.route DISABLE TRIGGER ALL", "DROP TABLE aip.route",
			"CREATE INDEX more ON aip.route (tenant_id)", "CREATE TRIGGER more BEFORE INSERT ON aip.route EXECUTE FUNCTION suppress_redundant_updates_trigger()",
			"SELECT nextval('aip.event_sequence_seq')", "SELECT setval('aip.event_sequence_seq', 1)", "SET ROLE aip_owner", "SET ROLE aip_migrate",
			"ALTER DEFAULT PRIVILEGES IN SCHEMA aip GRANT SELECT ON TABLES TO PUBLIC; CREATE TABLE aip.more (id int)",
			"TRUNCATE aip.route", "DO 'BEGIN LOCK TABLE aip.route IN ACCESS EXCLUSIVE MODE; END'", "COPY aip.route FROM PROGRAM 'true'",
			"ALTER FUNCTION aip.clock() OWNER TO CURRENT_USER", "CREATE OR REPLACE FUNCTION aip.clock() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
		} {
			_, err := conn.Exec(t.Context(), "SET default_transaction_read_only = off", pgx.QueryExecModeSimpleProtocol)
			if err != nil {
				t.Fatal(err)
			}
			_, err = conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
			if state := sqlStateOf(err); state != "42501" && state != "42809" {
				t.Errorf("%s: %s gave %v", role, statement, err)
			}
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
