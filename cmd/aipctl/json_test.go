package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/apptest"
)

// leaves lists the command paths that do something, without the name of the program.
func leaves(t *testing.T) []string {
	t.Helper()
	h := apptest.New(t, root)
	var paths []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			switch {
			case sub.Name() == "help" || sub.Hidden:
			case sub.HasSubCommands():
				walk(sub)
			default:
				paths = append(paths, strings.TrimPrefix(sub.CommandPath(), "aipctl "))
			}
		}
	}
	walk(root(h.App(new(bytes.Buffer), new(bytes.Buffer))))
	return paths
}

// elsewhere are the leaves whose JSON is tested where their files, database or
// daemons are.
func elsewhere() map[string]string {
	return map[string]string{
		"registry init": "needs a database", "registry migrate": "needs a database", "registry status": "needs a database",
		"registry verify": "needs a database", "registry archive": "needs a database", "registry roles": "needs a database",
		"release pack": "cmd/aipctl/release", "release sign": "cmd/aipctl/release", "release attest": "cmd/aipctl/release",
		"release verify": "cmd/aipctl/release", "release inspect": "cmd/aipctl/release", "release keygen": "cmd/aipctl/release",
		"admit release": "cmd/aipctl/admit",
		"trust apply":   "cmd/aipctl/trust", "trust show": "cmd/aipctl/trust", "trust history": "cmd/aipctl/trust", "trust reverify": "cmd/aipctl/reverify",
		"release export": "cmd/aipctl/reverify", "release approve": "cmd/aipctl/release", "release conform": "cmd/aipctl/conform",
		"release push": "cmd/aipctl/release", "release pull": "cmd/aipctl/release",
		"revocation sign": "cmd/aipctl/reverify", "revocation apply": "cmd/aipctl/reverify", "revocation show": "cmd/aipctl/reverify",
		"accept journal": "custody_test.go",
		"dev up":         "cmd/aipctl/dev", "dev down": "cmd/aipctl/dev", "dev status": "cmd/aipctl/dev", "dev demo": "cmd/aipctl/dev",
	}
}

// lines gives each leaf a command line that succeeds, or ends with a listed exit code.
func lines(h *apptest.Harness) map[string][]string {
	evidence := h.File("evidence.txt", "ticket T-9 is not there\n")
	fleetFile := h.File("fleet.yaml", "bindings:\n- {tenant_id: acme, capability_id: 'desk:open', instance_id: cinst_acme, priority: 7, credential_revision_ref: cred-1, enabled: true}\n")
	yes := []string{"--yes", "--reason", "test"}
	with := func(args string, more ...string) []string { return append(strings.Fields(args), more...) }
	return map[string][]string{
		"get":               with("get replicas"),
		"dash":              with("dash --once"),
		"describe":          with("describe replica crepl_acme_a"),
		"route inspect":     with("route inspect act_lost"),
		"route explain":     with("route explain --tenant acme --capability desk:open"),
		"route list":        with("route list"),
		"events":            with("events"),
		"audit log":         with("audit log"),
		"wait":              with("wait replica crepl_acme_a --for status=ready"),
		"doctor":            with("doctor"),
		"plan":              with("plan -f", fleetFile),
		"apply":             with("apply -f", fleetFile),
		"bind":              with("bind acme desk:read cinst_acme --priority 3"),
		"unbind":            with("unbind globex desk:read cinst_globex", "--yes", "--confirm", "desk:read", "--reason", "test"),
		"enable":            with("enable binding globex desk:read cinst_globex"),
		"disable":           with("disable instance cinst_globex", "--yes", "--confirm", "cinst_globex", "--reason", "test"),
		"drain":             with("drain replica crepl_acme_a --detach", "--yes", "--confirm", "crepl_acme_a", "--reason", "test"),
		"undrain":           with("undrain replica crepl_acme_a"),
		"retire replica":    with("retire replica crepl_globex_a", "--yes", "--confirm", "crepl_globex_a", "--reason", "test"),
		"deprecate":         with("deprecate version cver_desk1", yes...),
		"quarantine":        with("quarantine version cver_desk1", "--yes", "--confirm", "cver_desk1", "--reason", "test"),
		"promote":           with("promote version cver_desk1", yes...),
		"revoke":            with("revoke version cver_desk1", "--yes", "--confirm", "cver_desk1", "--reason", "test"),
		"action submit":     with("action submit desk:open --id act_json --wait 1s"),
		"action status":     with("action status act_json"),
		"action result":     with("action result act_json"),
		"action cancel":     with("action cancel act_json"),
		"action list":       with("action list"),
		"action watch":      with("action watch act_json"),
		"reconcile list":    with("reconcile list"),
		"reconcile show":    with("reconcile show act_lost"),
		"reconcile probe":   with("reconcile probe act_lost --timeout 0s"),
		"reconcile resolve": with("reconcile resolve act_lost --outcome did-not-happen --evidence", append([]string{evidence}, yes...)...),
		"registry audit":    with("registry audit"),
		"context list":      with("context list"),
		"context show":      with("context show"),
		"context set":       with("context set other --aipd-url http://127.0.0.1:1"),
		"context use":       with("context use other"),
		"explain":           with("explain replica"),
		"version":           with("version"),
		"completion":        with("completion bash"),
		"man":               with("man"),
	}
}

// order is the order in which lines are run: some need what others did.
func order() []string {
	return []string{"get", "describe", "route inspect", "route explain", "route list", "events", "audit log", "wait", "doctor", "plan", "apply",
		"bind", "unbind", "enable", "disable", "drain", "undrain", "retire replica", "quarantine", "promote", "deprecate", "revoke", "action submit", "action status",
		"action result", "action cancel", "action list", "action watch", "reconcile list", "reconcile show", "reconcile probe", "reconcile resolve",
		"registry audit", "context list", "context show", "context set", "explain", "version", "completion", "man", "dash", "context use"}
}

// TestJSON_G40_EveryLeafAnswersInTheEnvelope walks the command tree: every command
// that does something has a line here or a place where its JSON is tested, and every
// line prints the envelope, alone, on stdout.
func TestJSON_G40_EveryLeafAnswersInTheEnvelope(t *testing.T) {
	h := populated(t)
	h.Offline("crepl_globex_a")
	all := lines(h)
	for _, path := range leaves(t) {
		if _, ok := all[path]; !ok && elsewhere()[path] == "" {
			t.Errorf("aipctl %s has no line in this test", path)
		}
	}
	if len(order()) != len(all) {
		t.Errorf("%d lines in order, %d lines", len(order()), len(all))
	}
	allowed := map[string]int{"reconcile probe": app.ExitTimeout}
	for _, path := range order() {
		t.Run(path, func(t *testing.T) {
			r := h.Run(append(all[path], "-o", "json")...)
			if r.Code != allowed[path] {
				t.Fatalf("exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
			}
			if r.Code == 0 {
				h.Document(r.Stdout)
			}
			if strings.ContainsAny(r.Stdout, "\u202e\u2066\x1b") {
				t.Errorf("stdout carries characters that turn or move text:\n%q", r.Stdout)
			}
		})
	}
}

// TestJSON_G40_ErrorsAreDocumentsOnStderr shows the shape of an error for programs.
func TestJSON_G40_ErrorsAreDocumentsOnStderr(t *testing.T) {
	h := populated(t)
	for _, line := range []string{
		"action status act_none -o json", "get nonsense -o json", "gett replicas -o json", "get replicas --tenent x -o json", "get replicas -o jsonn",
		"describe replica crepl_none --output=json", "apply -f /nonexistent -ojson", "route inspect act_none -o yaml", "drain replica crepl_acme_a -o json",
	} {
		r := h.Run(strings.Fields(line)...)
		if r.Code == 0 || r.Stdout != "" {
			t.Errorf("%s: exit %d, stdout %q", line, r.Code, r.Stdout)
		}
		var doc struct {
			APIVersion, Kind string
			Error            struct {
				Code, Message, Kind string
				ExitCode            int `json:"exit_code"`
			}
		}
		if strings.HasSuffix(line, "jsonn") {
			continue // not a machine format: the error is for people
		}
		if err := json.Unmarshal([]byte(r.Stderr), &doc); err != nil {
			t.Errorf("%s: stderr is not JSON: %v\n%s", line, err, r.Stderr)
			continue
		}
		if doc.APIVersion != app.APIVersion || doc.Kind != "Error" || doc.Error.Code == "" || doc.Error.Message == "" || doc.Error.ExitCode != r.Code {
			t.Errorf("%s: exit %d, %+v", line, r.Code, doc)
		}
	}
}

// TestFormats_G18_HostileNamesAreStripped shows that no format lets a name move the
// cursor or turn text round, and that JSON keeps its meaning.
func TestFormats_G18_HostileNamesAreStripped(t *testing.T) {
	h := populated(t)
	for _, format := range []string{"table", "wide", "json", "jsonl", "yaml", "template={{range .items}}{{.name}}{{end}}"} {
		out := h.OK("get", "types", "-o", format)
		if strings.ContainsAny(out, "\u202e\u2066\u200e\x1b") {
			t.Errorf("-o %s carries hostile characters: %q", format, out)
		}
	}
	d := h.Document(h.OK("get", "types", "-o", "json"))
	var item struct{ Name string }
	if err := json.Unmarshal(d.Items[0], &item); err != nil || item.Name != apptest.Hostile {
		t.Errorf("the name in JSON means %q, want %q (%v)", item.Name, apptest.Hostile, err)
	}
	r := h.Run("describe", "replica", "crepl_\x1b[31mred")
	if r.Code != 3 || strings.Contains(r.Stderr, "\x1b") {
		t.Errorf("exit %d, stderr %q", r.Code, r.Stderr)
	}
}

// TestFormats_G06_TokensOfFencesAreNotShown keeps the secret between registry and host.
func TestFormats_G06_TokensOfFencesAreNotShown(t *testing.T) {
	h := populated(t)
	for _, line := range []string{"get routes -o json", "route inspect act_held -o json", "describe route act_held -o json"} {
		out := h.OK(strings.Fields(line)...)
		if !strings.Contains(out, `"token": ""`) || strings.Count(out, `"token":`) != strings.Count(out, `"token": ""`) {
			t.Errorf("%s shows the token of a fence", line)
		}
	}
}
