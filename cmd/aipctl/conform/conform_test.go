package conform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/conform"
	"github.com/aipfleet/aipfleet/cmd/aipctl/release"
)

var desk string // the ticket desk's server, built once

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "conform")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	desk = filepath.Join(dir, "ticketdesk")
	if text, err := exec.Command("go", "build", "-o", desk, "../../../examples/ticketdesk/server").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, text)
		return 1
	}
	return m.Run()
}

const example = "../../../examples/ticketdesk"

// bench is a packed ticket desk with an account of its own.
type bench struct {
	t   *testing.T
	dir string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir()}
	must(t, os.Mkdir(b.path("account"), 0o700))
	must(t, os.WriteFile(b.path("token"), []byte("tok-27182\n"), 0o600))
	b.expect(0, "", "release", "pack", filepath.Join(example, "release"), "--artifact", desk, "--out", b.path("pkg"), "--discover")
	b.expect(0, "", "release", "keygen", b.path("runner.key"))
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// conform runs the scenarios with the desk's account.
func (b *bench) conform(code int, text string, more ...string) string {
	b.t.Helper()
	return b.expect(code, text, append([]string{
		"release", "conform", b.path("pkg"), "--env", "TICKETDESK_DIR=" + b.path("account"), "--env", "TICKETDESK_ACCOUNT=acme",
		"--secret-file", "TICKETDESK_TOKEN=" + b.path("token"),
	}, more...)...)
}

func (b *bench) expect(code int, text string, args ...string) string {
	b.t.Helper()
	var out, errs bytes.Buffer
	a := app.New(app.IO{In: strings.NewReader(""), Out: &out, Err: &errs, LookupEnv: os.LookupEnv}, time.Now, nil)
	releases := release.Command(a)
	releases.AddCommand(conform.Command(a))
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if got := a.Run(ctx, a.Root(releases), args); got != code || !strings.Contains(out.String()+errs.String(), text) {
		b.t.Fatalf("aipctl %v: exit %d, want %d and %q\n%s%s", args, got, code, text, &out, &errs)
	}
	if strings.Contains(out.String()+errs.String(), "tok-27182") {
		b.t.Error("the credential was printed")
	}
	return out.String()
}

// policy requires scenarios of one runner.
func (b *bench) policy(required ...string) string {
	b.t.Helper()
	pem, err := os.ReadFile(b.path("runner.key.pub"))
	must(b.t, err)
	doc, err := json.Marshal(map[string]any{
		"format": "aipfleet.trust/v1", "keys": []any{map[string]any{"id": "runner", "public_key": string(pem)}},
		"types": []any{map[string]any{"type": "ctype_ticketdesk", "owners": []any{"ticketdesk-team"}, "signers": []any{"runner"}}},
		"slots": map[string]any{
			"signature":   map[string]any{"signers": []any{"runner"}},
			"conformance": map[string]any{"signers": []any{"runner"}, "required": required, "max_age": "1h"},
		},
	})
	must(b.t, err)
	must(b.t, os.WriteFile(b.path("policy.json"), doc, 0o600))
	return b.path("policy.json")
}

func TestConform_G33_TheDeskConformsAndItsPackageSaysSo(t *testing.T) {
	b := newBench(t)
	out := b.conform(0, "", "--cases", filepath.Join(example, "conformance.yaml"), "--key", b.path("runner.key"), "-o", "json")
	var doc struct{ Item conform.Result }
	must(t, json.Unmarshal([]byte(out), &doc))
	want := []string{
		"starts", "tools", "stranger_refused", "input_refused", "case:opens a ticket", "case:lists tickets",
		"case:says that a ticket does not exist", "repeat", "other_input_refused", "reconcile", "restart", "drain", "stops",
	}
	if !slices.Equal(doc.Item.Passed, want) || len(doc.Item.Failed)+len(doc.Item.LeftOut) > 0 || doc.Item.Evidence == "" {
		t.Errorf("%+v", doc.Item)
	}
	b.expect(0, "", "release", "sign", b.path("pkg"), "--key", b.path("runner.key"))
	b.expect(0, "passes", "release", "verify", b.path("pkg"), "--policy", b.policy("starts", "reconcile", "case:opens a ticket"))
	b.expect(1, "evidence.conformance.scenario_missing", "release", "verify", b.path("pkg"), "--policy", b.policy("starts", "flies"))
}

func TestConform_G33_WithoutCasesLessIsShown(t *testing.T) {
	b := newBench(t)
	b.conform(0, "left out", "--key", b.path("runner.key"))
	b.expect(0, "", "release", "sign", b.path("pkg"), "--key", b.path("runner.key"))
	b.expect(1, "evidence.conformance.scenario_missing", "release", "verify", b.path("pkg"), "--policy", b.policy("starts", "repeat"))
}

// TestConform_G33_WhatDoesNotConformIsNotAttested breaks the package in ways that
// only running it shows.
func TestConform_G33_WhatDoesNotConformIsNotAttested(t *testing.T) {
	cases := map[string]struct {
		from, to string
		cases    string
		want     string
	}{
		"a tool that is not there":           {`"tool": "open_ticket"`, `"tool": "open_tickets"`, "", "open_tickets"},
		"reconciling by a tool that invents": {`"reconcile_tool": "find_operation"`, `"reconcile_tool": "list_tickets"`, "", "reconcile"},
		"a case that comes out otherwise":    {"", "", "cases: [{name: x, capability: 'ticketdesk:get_ticket', input: {ticket_id: T-1}}]", "case:x"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if c.from != "" {
				manifest, err := os.ReadFile(b.path("pkg/manifest.json"))
				must(t, err)
				changed := strings.ReplaceAll(string(manifest), c.from, c.to)
				if changed == string(manifest) {
					t.Fatalf("the manifest does not hold %s", c.from)
				}
				must(t, os.WriteFile(b.path("pkg/manifest.json"), []byte(changed), 0o600))
			}
			file := filepath.Join(example, "conformance.yaml")
			if c.cases != "" {
				file = b.path("cases.yaml")
				must(t, os.WriteFile(file, []byte(c.cases), 0o600))
			}
			b.conform(1, c.want, "--cases", file, "--key", b.path("runner.key"), "--timeout", "45s")
			if _, err := os.Stat(b.path("pkg/evidence/conformance.sigstore.json")); !os.IsNotExist(err) {
				t.Errorf("what failed was attested: %v", err)
			}
		})
	}
}

func TestConform_G40_CasesAreReadStrictly(t *testing.T) {
	b := newBench(t)
	for name, text := range map[string]string{
		"unknown member":     "cases: [{name: x, capability: 'ticketdesk:open_ticket', inputs: {}}]",
		"no name":            "cases: [{capability: 'ticketdesk:open_ticket'}]",
		"unknown capability": "cases: [{name: x, capability: 'ticketdesk:fly'}]",
		"other expectation":  "cases: [{name: x, capability: 'ticketdesk:open_ticket', expect: maybe}]",
	} {
		t.Run(name, func(t *testing.T) {
			must(t, os.WriteFile(b.path("cases.yaml"), []byte(text), 0o600))
			b.conform(2, "conform.cases", "--cases", b.path("cases.yaml"))
		})
	}
}
