package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/apptest"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

// overPostgres makes commands open the target's database, as the program does.
func overPostgres(a *app.App) *cobra.Command {
	a.Now = time.Now
	a.Open, a.Verify = opener(a), verifier(a)
	return root(a)
}

// sharedPassword is the roles' on the shared server, whose tests each use a database.
const sharedPassword = "a password of these tests"

// emptyDatabase is a harness whose target is a new database of the shared server, with
// the URL files of its roles in a directory.
func emptyDatabase(t *testing.T) (*apptest.Harness, string) {
	t.Helper()
	cluster, db := pgclustertest.Shared(t), pgclustertest.NewDatabase(t, "")
	h := apptest.New(t, overPostgres)
	urls := targetAt(h, cluster, db)
	if err := os.Mkdir(urls, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, role := range migrate.LoginRoles() {
		name := strings.TrimPrefix(role, "aip_") + ".url"
		if err := os.WriteFile(filepath.Join(urls, name), []byte(cluster.DSN(role, sharedPassword, db)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return h, urls
}

// targetAt makes a database the target of a harness, and gives the directory in which
// that looks for the URL files.
func targetAt(h *apptest.Harness, cluster *pgcluster.Cluster, db string) string {
	admin := h.File("admin.url", cluster.AdminDSN(db)+"\n")
	urls := filepath.Join(h.Dir, "urls")
	config := "current: pg\ncontexts:\n  pg:\n    aipd: {url: '" + h.Aipd.URL + "', token_file: '" + filepath.Join(h.Dir, "token") + "'}\n" +
		"    operator_key: '" + filepath.Join(h.Dir, "operator.pem") + "'\n    registry: {admin_url_file: '" + admin + "'"
	for _, role := range []string{"migrate", "control", "readonly"} {
		config += ", " + role + "_url_file: '" + filepath.Join(urls, role+".url") + "'"
	}
	h.File("config.yaml", config+"}\n")
	return urls
}

// filled runs registry init and fills the registry under the daemons' roles.
func filled(t *testing.T) *apptest.Harness {
	t.Helper()
	h, urls := emptyDatabase(t)
	h.OK("registry", "init", "--urls", urls)
	read := func(role string) string {
		data, err := os.ReadFile(filepath.Join(urls, role+".url"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	r, err := postgres.Open(t.Context(), postgres.Config{ControlURL: read("control"), DataURL: read("data"), LifecycleURL: read("lifecycle"), Connections: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	h.Registry = &app.Registry{Catalog: r, Router: r, Reader: r, Publisher: r, Fleet: r, Uncertain: r, Custody: r, Close: func() {}}
	h.Populate()
	return h
}

// TestPostgres_G20_RegistryCommandsOverARealDatabase runs the life of a database
// under the roles that each command may hold.
func TestPostgres_G20_RegistryCommandsOverARealDatabase(t *testing.T) {
	h, urls := emptyDatabase(t)
	for _, line := range []string{"registry init --urls " + urls, "registry init --urls " + urls, "registry init", "registry migrate", "registry status", "registry verify", "registry roles", "registry audit", "registry archive --older-than 48h --dry-run", "registry archive --older-than 48h --yes", "doctor"} {
		r := h.Run(append(strings.Fields(line), "-o", "json")...)
		if r.Code != 0 {
			t.Fatalf("%s: exit %d\n%s%s", line, r.Code, r.Stdout, r.Stderr)
		}
		h.Document(r.Stdout)
	}
	for _, line := range []string{"registry status", "registry verify", "registry roles --role readonly", "registry audit", "doctor"} {
		h.OK(strings.Fields(line)...)
	}
	files, err := filepath.Glob(filepath.Join(urls, "*.url"))
	if err != nil || len(files) != 5 {
		t.Fatalf("URL files: %v (%v)", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s can be read by others", f)
		}
	}
	out := h.OK("context", "show") + h.OK("registry", "status", "-o", "json")
	if data, _ := os.ReadFile(files[0]); strings.Contains(out, strings.TrimSpace(string(data))) {
		t.Errorf("G21: a database URL is printed:\n%s", out)
	}
}

// TestPostgres_G20_VerifyNamesWhatDiffers shows a database that somebody changed.
func TestPostgres_G20_VerifyNamesWhatDiffers(t *testing.T) {
	h, urls := emptyDatabase(t)
	h.OK("registry", "init", "--urls", urls)
	execAsAdmin(t, h, "GRANT DELETE ON aip.route TO aip_data")
	for _, line := range []string{"registry verify", "registry roles", "doctor"} {
		r := h.Run(strings.Fields(line)...)
		if r.Code != 1 || !strings.Contains(r.Stdout, "aip_data") && !strings.Contains(r.Stdout, "difference") {
			t.Errorf("%s: exit %d\n%s%s", line, r.Code, r.Stdout, r.Stderr)
		}
	}
	swapped, err := os.ReadFile(filepath.Join(urls, "control.url"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(urls, "readonly.url"), swapped, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, h, 4, "registry.role", "get", "replicas")
}

func execAsAdmin(t *testing.T, h *apptest.Harness, statement string) {
	t.Helper()
	url, err := os.ReadFile(filepath.Join(h.Dir, "admin.url"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), strings.TrimSpace(string(url)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// TestPostgres_G40_EveryLeafOverTheRestrictedRoles runs the lines of the JSON test
// against PostgreSQL, each under the role that its command opens.
func TestPostgres_G40_EveryLeafOverTheRestrictedRoles(t *testing.T) {
	h := filled(t)
	h.Offline("crepl_globex_a")
	all := lines(h)
	allowed := map[string]int{"reconcile probe": app.ExitTimeout}
	for _, path := range order() {
		r := h.Run(append(all[path], "-o", "json")...)
		if r.Code != allowed[path] {
			t.Errorf("aipctl %s: exit %d\n%s%s", strings.Join(all[path], " "), r.Code, r.Stdout, r.Stderr)
			continue
		}
		if r.Code == 0 {
			h.Document(r.Stdout)
		}
	}
}

// TestPostgres_G37_DrainNamesWhatHoldsIt shows that drain, explain and decisions work
// under aip_control alone.
func TestPostgres_G37_DrainNamesWhatHoldsIt(t *testing.T) {
	h := filled(t)
	replica := heldBy(t, h)
	line := []string{"drain", "replica", replica, "--yes", "--confirm", replica, "--reason", "test", "--interval", "1ms", "--deadline"}
	expect(t, h, 6, "act_held", append(line, "1ms")...)
	expect(t, h, 0, "drain_intent", "route", "explain", "--tenant", "acme", "--capability", "desk:open")
	h.Settle("act_held", fleet.Settlement{Outcome: fleet.OutcomeCompleted, Code: "dispatch.completed"})
	h.Offline(replica)
	h.OK(append(line, "30s")...)
}

func heldBy(t *testing.T, h *apptest.Harness) string {
	t.Helper()
	var i struct {
		Route fleet.RouteAssignment
	}
	if err := json.Unmarshal(h.Document(h.OK("route", "inspect", "act_held", "-o", "json")).Item, &i); err != nil {
		t.Fatal(err)
	}
	return i.Route.Replica.String()
}

// TestRun_G40_ProgramEndsWithTheExitCode runs the program's own entry.
func TestRun_G40_ProgramEndsWithTheExitCode(t *testing.T) {
	var out, errs bytes.Buffer
	none := func(string) (string, bool) { return "", false }
	if code := run(t.Context(), []string{"version", "-o", "name"}, none, app.IO{In: strings.NewReader(""), Out: &out, Err: &errs}); code != 0 || out.Len() == 0 {
		t.Errorf("exit %d, %q %q", code, out.String(), errs.String())
	}
	if code := run(t.Context(), []string{"get", "replicas"}, none, app.IO{In: strings.NewReader(""), Out: &out, Err: &errs}); code != 2 || !strings.Contains(errs.String(), "context.none") {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}
