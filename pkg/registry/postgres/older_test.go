package postgres_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/schema"
)

// The next release: one migration that adds and declares to serve this one, then one that
// does not. It also replaces a function, brings one of its own, and grants more.
const (
	expanding = `-- A column, a table and an index more.
-- Serves: %d
--
-- +goose Up
ALTER TABLE aip.replica_live ADD COLUMN next_hint text NOT NULL DEFAULT '';
GRANT UPDATE (next_hint) ON aip.replica_live TO aip_data;
CREATE TABLE aip.next_note (action_id text PRIMARY KEY, note text NOT NULL);
GRANT SELECT, INSERT ON aip.next_note TO aip_data;
CREATE INDEX reconciliation_next ON aip.reconciliation (instance_id);
-- +goose Down
DROP INDEX aip.reconciliation_next;
DROP TABLE aip.next_note;
ALTER TABLE aip.replica_live DROP COLUMN next_hint;
`
	contracting = `-- Something that older programs read is gone.
--
-- +goose Up
ALTER TABLE aip.event RENAME COLUMN detail TO details;
-- +goose Down
ALTER TABLE aip.event RENAME COLUMN details TO detail;
`
	nextFunction = `CREATE OR REPLACE FUNCTION aip.next_only(p_id text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT p_id $$;
GRANT EXECUTE ON FUNCTION aip.next_only(text) TO aip_data;
`
)

// nextRelease builds the program of the next release: this tree with the schema of that
// release laid over it. It returns its path.
func nextRelease(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	top, err := postgres.SchemaMax()
	if err != nil {
		t.Fatal(err)
	}
	settle, err := os.ReadFile(filepath.Join(root, "schema/functions/settle_one.sql"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	for name, text := range map[string]string{
		fmt.Sprintf("migrations/%05d_expand.sql", top+1):   fmt.Sprintf(expanding, top),
		fmt.Sprintf("migrations/%05d_contract.sql", top+2): contracting,
		"functions/settle_one.sql":                         string(settle) + "-- of the next release\n",
		"functions/next_only.sql":                          nextFunction,
		"privileges.golden":                                nextMatrix(t),
	} {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][filepath.Join(root, "schema", name)] = file
	}
	raw, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "next")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "go", "build", "-buildvcs=false", "-overlay", file, "-o", program, "./testdata/next")
	return program
}

// nextMatrix is the golden matrix with what the next release grants more.
func nextMatrix(t *testing.T) string {
	t.Helper()
	lines, err := schema.Matrix()
	if err != nil {
		t.Fatal(err)
	}
	const columns = "aip_data columns replica_live UPDATE ("
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, columns) })
	if at < 0 {
		t.Fatal("the matrix grants aip_data no column of replica_live")
	}
	names := append(strings.Split(strings.TrimSuffix(strings.TrimPrefix(lines[at], columns), ")"), ", "), "next_hint")
	slices.Sort(names)
	lines[at] = columns + strings.Join(names, ", ") + ")"
	lines = append(lines, "aip_data table next_note INSERT SELECT", "aip_data function next_only EXECUTE")
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func run(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	out, err := output(t, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func output(t *testing.T, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(t.Context(), program, args...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", program, args[0], err, complaint.String())
	}
	return out, nil
}

// TestOlder_G20_WorksOnANewerSchemaThatServesIt: this program is the older one. On a schema
// that a newer release migrated and that does not declare to serve it, every plane refuses
// to start. One step back is a schema that does: every plane starts, routes beside the newer
// program, and settles what that one reserved. What nobody agreed on is still refused there.
func TestOlder_G20_WorksOnANewerSchemaThatServesIt(t *testing.T) {
	t.Parallel()
	next := nextRelease(t)
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 8, replicas: 3, capacity: 64})
	before := d.resolve(t, "before", 0)
	owner := url(t, d.name, "aip_migrate")
	run(t, next, "up", owner)

	planes := map[string]postgres.Config{
		"aip_control":   {ControlURL: url(t, d.name, "aip_control")},
		"aip_data":      {DataURL: url(t, d.name, "aip_data")},
		"aip_lifecycle": {LifecycleURL: url(t, d.name, "aip_lifecycle")},
		"aip_readonly":  {ReadURL: url(t, d.name, "aip_readonly")},
	}
	for role, config := range planes {
		if e := refusal(t, config); e.Code != "registry.schema_newer" || !fleet.Is(e, fleet.Conflict) {
			t.Errorf("%s was refused with %s: %v", role, e.Code, e)
		}
	}
	run(t, next, "down", owner)

	older := *d
	older.control, older.lifecycle = d.open(t, planes["aip_control"]), d.open(t, planes["aip_lifecycle"])
	older.data, older.read = d.open(t, planes["aip_data"]), d.open(t, planes["aip_readonly"])
	older.settle(t, before)
	older.besideANewer(t, next)
	older.everyVerb(t)
	older.audit(t)

	for name, c := range map[string]struct{ prepare, restore, code string }{
		"a privilege that nobody recorded": {"GRANT DELETE ON aip.next_note TO aip_data", "REVOKE DELETE ON aip.next_note FROM aip_data", "registry.privileges"},
		"a privilege that this one needs":  {"REVOKE INSERT ON aip.route FROM aip_data", "GRANT INSERT ON aip.route TO aip_data", "registry.privileges"},
		"a needed privilege given up on record": {`REVOKE INSERT ON aip.route FROM aip_data; UPDATE aip.schema_privilege SET line = 'aip_data table route SELECT' WHERE line = 'aip_data table route INSERT SELECT'`,
			`GRANT INSERT ON aip.route TO aip_data; UPDATE aip.schema_privilege SET line = 'aip_data table route INSERT SELECT' WHERE line = 'aip_data table route SELECT'`, "registry.privileges"},
		"a function that is gone":     {"UPDATE aip.schema_file SET name = 'gone.sql' WHERE name = 'tick.sql'", "UPDATE aip.schema_file SET name = 'tick.sql' WHERE name = 'gone.sql'", "registry.schema_newer"},
		"a migration that was edited": {"UPDATE aip.schema_file SET sha256 = 'x' || sha256 WHERE version = 1", "UPDATE aip.schema_file SET sha256 = substr(sha256, 2) WHERE version = 1", "registry.schema_newer"},
	} {
		d.exec(t, c.prepare)
		if e := refusal(t, planes["aip_data"]); e.Code != c.code {
			t.Errorf("%s: refused with %s (%v), want %s", name, e.Code, e, c.code)
		}
		d.exec(t, c.restore)
	}
	d.open(t, planes["aip_data"])
}

// besideANewer routes at the same time as the newer program, and settles what it left.
func (d *database) besideANewer(t *testing.T, next string) {
	t.Helper()
	const each = 40
	var both sync.WaitGroup
	var held []byte
	var failed error
	both.Go(func() { held, failed = output(t, next, "route", url(t, d.name, "aip_data"), "0", fmt.Sprint(each)) })
	errs := make([]error, 4)
	for c := range errs {
		both.Go(func() {
			for n := range each {
				if err := d.once(t, fmt.Sprintf("older%dn%d", c, n), n); err != nil {
					errs[c] = err
					return
				}
			}
		})
	}
	both.Wait()
	for _, err := range append(errs, failed) {
		if err != nil {
			t.Fatal(err)
		}
	}
	settled := 0
	for lines := bufio.NewScanner(bytes.NewReader(held)); lines.Scan(); settled++ {
		var a fleet.Assignment
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		if receipt := d.settle(t, a); !receipt.First {
			t.Errorf("%s was settled before", a.Route.Action)
		}
	}
	if settled != each/2 {
		t.Errorf("%d assignments of the newer program were settled, want %d", settled, each/2)
	}
}

// everyVerb makes one call of each contract.
func (d *database) everyVerb(t *testing.T) {
	t.Helper()
	d.everyHotVerb(t)
	d.publish(t, registry.ChangeSet{Bindings: []fleet.CapabilityBinding{binding(0, 2, true)}})
	ctx := t.Context()
	_, explained := d.data.Explain(ctx, request("asked", 0))
	_, listed := d.read.List(ctx, registry.Selection{Noun: registry.Routes})
	_, page := d.data.Query(ctx, tenantID(0), registry.CatalogQuery{Limit: 10})
	_, expired := d.data.Expire(ctx, 100)
	_, intended := d.control.Intend(ctx, registry.Intent{Replica: replicaID(0, 0), Want: fleet.IntentDrain, Actor: "a", Reason: "r"})
	_, due := d.data.Due(ctx, 10, registry.SettleGrace)
	for verb, err := range map[string]error{"explain": explained, "list": listed, "query": page, "expire": expired, "intend": intended, "due": due} {
		if err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
}
