package serve

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/schema"
)

// next is the database after the migrations of later releases, written by hand: the
// registry's own test builds such a release.
type next struct {
	t     *testing.T
	admin *pgx.Conn
	top   int64 // the newest migration that the built program knows
}

func (s *small) next(db string) *next {
	s.t.Helper()
	admin, err := pgx.Connect(s.t.Context(), pgclustertest.Shared(s.t).AdminDSN(db))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = admin.Close(s.t.Context()) })
	return &next{t: s.t, admin: admin, top: must(postgres.SchemaMax())}
}

func (n *next) exec(statement string, args ...any) {
	n.t.Helper()
	if len(args) == 0 {
		args = []any{pgx.QueryExecModeSimpleProtocol}
	}
	if _, err := n.admin.Exec(n.t.Context(), statement, args...); err != nil {
		n.t.Fatal(err)
	}
}

// record writes down a migration as its release would: whom the schema serves now, and
// what it grants.
func (n *next) record(version, serves int64) {
	n.t.Helper()
	n.exec("INSERT INTO aip.schema_file (name, version, sha256, serves) VALUES ($1, $2, repeat('0', 64), $3)", fmt.Sprintf("%05d_later.sql", version), version, serves)
	n.exec("DELETE FROM aip.schema_privilege")
	n.exec("INSERT INTO aip.schema_privilege (line) SELECT unnest($1::text[])", must(postgres.ReadMatrix(n.t.Context(), n.admin)))
}

// expand adds a column, a table and grants, replaces a function, and serves the program.
func (n *next) expand() {
	n.t.Helper()
	n.exec(`SET ROLE aip_owner;
		ALTER TABLE aip.replica_live ADD COLUMN next_hint text NOT NULL DEFAULT '';
		GRANT UPDATE (next_hint) ON aip.replica_live TO aip_data, aip_lifecycle;
		CREATE TABLE aip.next_note (action_id text PRIMARY KEY, note text NOT NULL);
		GRANT SELECT, INSERT ON aip.next_note TO aip_data`)
	for _, f := range must(schema.Functions()) {
		if f.Name == "settle_one.sql" {
			n.exec(f.Text + "-- of the next release\n")
			n.exec("UPDATE aip.schema_file SET sha256 = $2 WHERE name = $1", f.Name, strings.Repeat("1", 64))
		}
	}
	n.record(n.top+1, n.top)
	n.exec("RESET ROLE")
}

// contract takes something away that the program reads, and does not serve it.
func (n *next) contract() {
	n.t.Helper()
	n.exec("SET ROLE aip_owner; ALTER TABLE aip.event RENAME COLUMN detail TO details")
	n.record(n.top+2, n.top+2)
	n.exec("RESET ROLE")
}

// program is a running aipd, built from this tree.
type program struct {
	cmd    *exec.Cmd
	listen string
	errors bytes.Buffer // its log, complete when it has ended
}

// buildAipd builds the program that is shipped.
func buildAipd(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "aipd")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", path, "github.com/aipfleet/aipfleet/cmd/aipd").CombinedOutput(); err != nil {
		t.Fatalf("aipd does not build: %v\n%s", err, out)
	}
	return path
}

// startProgram runs it until it says that it is ready.
func startProgram(t *testing.T, path string, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(path, args...)}
	p.cmd.Stderr = &p.errors
	out := must(p.cmd.StdoutPipe())
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	var ready struct{ Listen string }
	if line, err := bufio.NewReader(out).ReadBytes('\n'); err != nil || json.Unmarshal(line, &ready) != nil {
		t.Fatalf("aipd %s is not ready: %q %v, %v\n%s", args[0], line, err, p.cmd.Wait(), p.errors.String())
	}
	p.listen = "http://" + ready.Listen
	return p
}

// stop ends it as an operator does, and returns its log.
func (p *program) stop(t *testing.T) string {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("a graceful stop: %v", err)
	}
	return p.errors.String()
}

// refuses runs it, and fails unless it ends at once as a refusal should.
func refuses(t *testing.T, path, code string, args ...string) {
	t.Helper()
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 1 || out.Len() > 0 {
		t.Errorf("aipd %s ended with %v, and said %q", args[0], err, out.String())
	}
	for _, part := range []string{"error[" + code + "]: ", "cause: ", "next: use a newer binary"} {
		if !strings.Contains(complaint.String(), part) {
			t.Errorf("aipd %s does not say %q:\n%s", args[0], part, complaint.String())
		}
	}
}

// TestOlder_G20_AipdWorksOnANewerSchemaThatServesIt runs the built aipd, both daemons, on a
// schema of a later release. One that serves it: they start, say so in their logs, and an
// action goes all the way through. One that does not: they refuse to start.
func TestOlder_G20_AipdWorksOnANewerSchemaThatServesIt(t *testing.T) {
	s, aipd := newSmall(t), buildAipd(t)
	db := s.migrated()
	later := s.next(db)
	later.expand()

	key := must(envelope.GenerateKeyFile(filepath.Join(s.dir, "lifecycle.pem")))
	s.write("lifecycle.yaml", fmt.Sprintf("listen: 127.0.0.1:0\nidentity_key: %s\ndatabase_url: %q\n",
		filepath.Join(s.dir, "lifecycle.pem"), pgclustertest.Shared(t).DSN(postgres.RoleLifecycle, password, db)))
	daemons := map[string][]string{
		"serve":     {"serve", "--config", s.config("gateway-1")},
		"lifecycle": {"lifecycle", "--config", filepath.Join(s.dir, "lifecycle.yaml")},
	}
	lifecycle, serve := startProgram(t, aipd, daemons["lifecycle"]...), startProgram(t, aipd, daemons["serve"]...)
	s.host(lifecycle.listen, key.DID())
	request := openTicket()
	if got := submit(t, daemon{address: serve.listen}.client(t, "token-acme"), request); got.State != action.Completed || s.product.called(request.ID) != 1 {
		t.Errorf("an action on the newer schema is %s, and was called %d times", got.State, s.product.called(request.ID))
	}
	s.wantNothingReserved()

	later.contract()
	for name, args := range daemons {
		refuses(t, aipd, "registry.schema_newer", args...)
		running := map[string]*program{"serve": serve, "lifecycle": lifecycle}[name]
		said := running.stop(t)
		if want := fmt.Sprintf(`is newer than this program, and serves it","schema":%d,"program":%d,"serves_from":%d`, later.top+1, later.top, later.top); !strings.Contains(said, want) {
			t.Errorf("aipd %s does not say %q in its log:\n%s", name, want, said)
		}
	}
}
