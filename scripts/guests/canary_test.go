package guests

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/pkg/action"
)

// place is one thing that people or programs can read.
type place struct {
	kind string
	name string
	text []byte
}

// forms are the ways in which a text is found although it was encoded: as it is, in
// hex as databases print bytes, and in base64 at each of the three alignments.
func forms(text string) [][]byte {
	out := [][]byte{[]byte(text), []byte(hex.EncodeToString([]byte(text))), []byte(strings.ToUpper(hex.EncodeToString([]byte(text))))}
	for shift := range 3 {
		encoded := base64.StdEncoding.EncodeToString(append(make([]byte, shift), text...))
		out = append(out, []byte(encoded[4:len(encoded)-4])) // what does not depend on the neighbours
	}
	return out
}

// search names the places that hold any of the texts.
func search(places []place, texts ...string) []place {
	var found []place
	for _, p := range places {
		for _, text := range texts {
			if slices.ContainsFunc(forms(text), func(f []byte) bool { return bytes.Contains(p.text, f) }) {
				found = append(found, p)
				break
			}
		}
	}
	return found
}

// random is a text that occurs nowhere by chance.
func random(t *testing.T, prefix string) string {
	t.Helper()
	b := make([]byte, 20)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return prefix + hex.EncodeToString(b)
}

// provider is one way by which a host gets a credential.
type provider struct {
	name    string
	secrets func(value string) tree // of the host's configuration
	env     func(value string) []string
}

func (r *rig) providers(vaultToken string) []provider {
	outside := r.TempDir() // not among what is searched
	none := func(string) []string { return nil }
	file := filepath.Join(outside, "credential")
	program, kept := filepath.Join(outside, "credential.sh"), filepath.Join(outside, "kept")
	tokenFile := filepath.Join(outside, "vault.token")
	return []provider{
		{"file", func(value string) tree {
			r.write(file, []byte(value+"\n"))
			return tree{"file": tree{"the-ref": file}}
		}, none},
		{"exec", func(value string) tree {
			r.write(kept, []byte(value))
			r.write(program, []byte("#!/bin/sh\ncat "+kept+"\necho \"debug: the token is $(cat "+kept+")\" >&2\n"))
			if err := os.Chmod(program, 0o700); err != nil {
				r.Fatal(err)
			}
			return tree{"exec": tree{"the-ref": []string{program}}}
		}, none},
		{"env", func(string) tree { return tree{"env": tree{"the-ref": "HOST_CREDENTIAL"}} },
			func(value string) []string { return []string{"HOST_CREDENTIAL=" + value} }},
		{"vault", func(value string) tree {
			r.write(tokenFile, []byte(vaultToken))
			return tree{"vault": tree{
				"address": r.vault(vaultToken, value), "token_file": tokenFile,
				"refs": tree{"the-ref": tree{"mount": "secret", "path": "desk", "field": "token"}},
			}}
		}, none},
	}
}

// vault answers as Vault's HTTP API does, and shows secrets in its errors.
func (r *rig) vault(token, value string) string {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("X-Vault-Token") != token || q.URL.Path != "/v1/secret/data/desk" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if asked++; asked == 2 {
			w.WriteHeader(http.StatusInternalServerError)
			_ = json.NewEncoder(w).Encode(tree{"errors": []string{"cannot unseal " + value + " for " + token}})
			return
		}
		_ = json.NewEncoder(w).Encode(tree{
			"request_id": "x", "lease_id": "", "renewable": false, "lease_duration": 0, "warnings": nil, "auth": nil,
			"data": tree{"data": tree{"token": value}, "metadata": tree{"version": 1, "destroyed": false, "deletion_time": "", "created_time": "2026-01-01T00:00:00Z"}},
		})
	}))
	r.Cleanup(server.Close)
	return server.URL
}

// TestCanary_G21_ACredentialStaysInItsConnector gives a credential by each provider to a
// connector that shows it in its answers, its errors, its log and its crash, and searches
// everything that the fleet writes, prints and serves. In the same places the connector
// shows a text that is no secret: it must be found, or the search looked elsewhere.
func TestCanary_G21_ACredentialStaysInItsConnector(t *testing.T) {
	r := newRig(t)
	leaky := guest{name: "leaky", artifact: filepath.Join(bin, "leaky")}
	release, manifest := r.admit(leaky)
	planted, vaultToken := random(t, "planted"), random(t, "hvs.")
	canaries := []string{vaultToken}
	var calls []action.View
	for _, p := range r.providers(vaultToken) {
		value := random(t, "canary")
		canaries = append(canaries, value)
		witness := filepath.Join(t.TempDir(), "witness")
		s := seat{
			guest: leaky, release: release, manifest: manifest, name: "leaky_" + p.name, tenant: localfleet.Acme, env: p.env(value),
			config: tree{"secrets": p.secrets(value), "connector": tree{
				"env":        tree{"LEAKY_WITNESS": witness, "LEAKY_OPENLY": planted},
				"secret_env": tree{"LEAKY_TOKEN": "default"},
			}},
		}
		r.seated(s)
		calls = append(calls, r.useUp(s)...)
		if had, err := os.ReadFile(witness); err != nil || string(had) != value {
			t.Fatalf("%s: the connector did not have its credential: %v", p.name, err)
		}
		r.aipctl("disable", "instance", s.instance(), "--yes", "--confirm", s.instance(), "--reason", planted)
	}
	places := append(r.everything(calls), r.processes()...)
	for replica := range r.hosts { // what is said at the end, one of them at a signal that prints everything
		how := syscall.SIGTERM
		if strings.HasSuffix(replica, "file") {
			how = syscall.SIGQUIT
		}
		r.end(replica, how)
	}
	places = append(places, r.files()...)
	for _, p := range search(places, canaries...) {
		t.Errorf("a credential is in %s %s", p.kind, p.name)
	}
	r.controls(places, planted, canaries)
}

// useUp calls every tool of the leaky connector.
func (r *rig) useUp(s seat) []action.View {
	r.Helper()
	var out []action.View
	for _, c := range []struct {
		tool string
		want action.State
	}{{"answer", action.Completed}, {"fail", action.Failed}, {"log", action.Completed}, {"crash", action.Uncertain}} {
		v := r.call(s.tenant, "leaky:"+c.tool, tree{}, 20*time.Second)
		if v.State != c.want {
			r.Fatalf("%s of %s is %s: %s %+v", c.tool, s.name, v.State, v.Result, v.Problem)
		}
		out = append(out, v)
	}
	r.whole(out[0])
	return out
}

// whole checks that all that the connector answers reached the client: the structure, a
// text and a picture (G39).
func (r *rig) whole(v action.View) {
	r.Helper()
	var got struct {
		Output struct {
			Plain []string `json:"plain"`
		} `json:"output"`
		Content []struct {
			Type, Text, MIMEType string
			Data                 []byte
		} `json:"content"`
	}
	if err := json.Unmarshal(v.Result, &got); err != nil {
		r.Fatal(err)
	}
	if len(got.Output.Plain) != 2 || len(got.Content) != 2 || !strings.HasPrefix(got.Content[0].Text, "inside ") ||
		got.Content[1].MIMEType != "image/png" || string(got.Content[1].Data) != "a picture" {
		r.Errorf("the client got %s", v.Result)
	}
}

// everything is what the fleet shows to clients and operators, and its database.
func (r *rig) everything(calls []action.View) []place {
	r.Helper()
	var out []place
	for _, v := range calls {
		text, err := json.Marshal(v)
		if err != nil {
			r.Fatal(err)
		}
		kind := "answer"
		if v.State != action.Completed {
			kind = "error document"
		}
		out = append(out, place{kind, v.ID.String(), text})
	}
	for _, noun := range []string{"types", "versions", "instances", "replicas", "bindings", "quotas", "capabilities", "tenants", "routes", "admissions", "reconciliations", "trust", "revocations", "events"} {
		out = append(out, place{"aipctl", "get " + noun, r.aipctl("get", noun, "--all", "-o", "json")})
	}
	for _, args := range [][]string{
		{"action", "list", "-o", "json"}, {"events", "-o", "json"}, {"reconcile", "list", "-o", "json"}, {"route", "list", "-o", "json"},
		{"registry", "status", "-o", "json"}, {"registry", "audit", "-o", "json"}, {"doctor", "-o", "json"}, {"trust", "show", "-o", "json"},
	} {
		got, err := r.fleet.Aipctl(r.bounded(), args...)
		if err != nil || got.Exit > 1 { // doctor says with 1 that hosts were switched off
			r.Fatalf("%s: %d %s %v", got.Line(), got.Exit, got.Stderr, err)
		}
		out = append(out, place{"aipctl", got.Line(), append(got.Stdout, got.Stderr...)})
	}
	out = append(out, place{"audit", "aipctl audit log", r.aipctl("audit", "log", "-o", "json")})
	for _, v := range calls {
		out = append(out, place{"aipctl", "route inspect", r.aipctl("route", "inspect", v.ID.String(), "-o", "json")})
	}
	for _, s := range []string{"/metrics", "/ready", "/health", "/aip/v1/manifest"} {
		out = append(out, place{"http", "aipd serve " + s, r.get(r.fleet.AipdURL() + s)})
	}
	for replica, address := range r.addresses {
		for _, s := range []string{"/ready", "/health"} {
			out = append(out, place{"http", replica + " " + s, r.get("http://" + address + s)})
		}
	}
	return append(out, r.tables()...)
}

// tables is every row of every table in the database.
func (r *rig) tables() []place {
	r.Helper()
	ctx := r.bounded()
	url, err := os.ReadFile(r.fleet.Place().Secret("admin.url"))
	if err != nil {
		r.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, strings.TrimSpace(string(url)))
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		r.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) < 20 {
		r.Fatalf("%d tables: %v", len(names), err)
	}
	var out []place
	for _, name := range names {
		var dump bytes.Buffer
		if _, err := conn.PgConn().CopyTo(ctx, &dump, "COPY "+name+" TO STDOUT"); err != nil {
			r.Fatalf("%s: %v", name, err)
		}
		out = append(out, place{"table", name, dump.Bytes()})
	}
	return out
}

// files is everything in the fleet's directory: journals, logs, configurations, what the
// database server keeps there, and the daemons' own secrets. The daemons have no level of
// logging below the one they write.
func (r *rig) files() []place {
	r.Helper()
	var out []place
	dir := r.fleet.Place().Dir()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		kind, _, _ := strings.Cut(name, "/")
		if filepath.Base(name) == "journal.db" {
			kind = "journal"
		}
		out = append(out, place{kind, name, text})
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// processes is what others on the machine see of the running programs: their arguments,
// and the environments of all but the host that has its credential in it.
func (r *rig) processes() []place {
	r.Helper()
	pids := map[string]int{}
	for _, name := range []string{localfleet.ProcessLifecycle, localfleet.ProcessServe} {
		pids[name] = r.fleet.Process(name).PID
	}
	for replica, cmd := range r.hosts {
		pids[replica] = cmd.Process.Pid
	}
	var out []place
	for name, pid := range pids {
		for _, what := range []string{"cmdline", "environ"} {
			if what == "environ" && strings.HasSuffix(name, "_env") {
				continue
			}
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, what))
			if err != nil {
				r.Skipf("the processes of this system cannot be looked at: %v", err)
			}
			out = append(out, place{"process", name + " " + what, text})
		}
	}
	return out
}

// controls proves that the search would have found a credential: the planted text is
// found where the connector showed it, and a credential that is put into any place is
// found there.
func (r *rig) controls(places []place, planted string, canaries []string) {
	r.Helper()
	kinds := map[string]int{}
	for _, p := range search(places, planted) {
		kinds[p.kind]++
	}
	for _, kind := range []string{"answer", "error document", "aipctl", "audit", "table", "journal", "logs"} {
		if kinds[kind] == 0 {
			r.Errorf("what the connector shows openly was not found in any %s: the search looked elsewhere", kind)
		}
	}
	for i, p := range places {
		for _, form := range forms(canaries[i%len(canaries)]) {
			spoiled := place{p.kind, p.name, slices.Concat(p.text[:len(p.text)/2], form, p.text[len(p.text)/2:])}
			if len(search([]place{spoiled}, canaries...)) != 1 {
				r.Fatalf("a credential in %s %s would not be found", p.kind, p.name)
			}
		}
	}
	count := map[string]int{}
	for _, p := range places {
		count[p.kind]++
	}
	r.Logf("searched %d places for %d credentials: %v", len(places), len(canaries), count)
}
