package dev_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// document is the envelope of every JSON result.
type document struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   json.RawMessage   `json:"metadata"`
	Items      []json.RawMessage `json:"items"`
	Item       json.RawMessage   `json:"item"`
}

// oneDocument fails unless stdout is exactly one JSON document with the envelope.
func oneDocument(t *testing.T, r localfleet.Result) document {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(r.Stdout))
	var doc document
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("%s: stdout is no JSON: %v\n%s", r.Line(), err, r.Stdout)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		t.Errorf("%s: something follows the document", r.Line())
	}
	if doc.APIVersion == "" || doc.Kind == "" || doc.Metadata == nil || (doc.Items == nil) == (doc.Item == nil) {
		t.Errorf("%s: no envelope: %.200s", r.Line(), r.Stdout)
	}
	return doc
}

// Every command that looks, against the fleet as it is: stdout is one document, and
// nothing else.
func TestAipctl_G40_EveryReadCommandPrintsOneDocument(t *testing.T) {
	done := submit(t, acme, ticket(t, "to look at"), limit)
	id := done.ID.String()
	dir := live.Place().Dir()
	for _, line := range []string{
		"get types", "get versions", "get instances", "get replicas", "get bindings", "get quotas", "get capabilities", "get tenants",
		"get routes", "get admissions", "get reconciliations", "get trust", "get events", "get actions",
		"get replicas --where status=ready --sort-by -id", "get routes --replica " + only,
		"describe replica " + only, "describe version cver_ticketdesk_1.0.0", "describe instance cinst_acme_desk",
		"describe tenant acme", "describe route " + id, "describe capability ticketdesk:open_ticket",
		"route inspect " + id, "route list", "route explain --tenant acme --capability ticketdesk:open_ticket",
		"route explain --tenant acme --capability ticketdesk:open_ticket --action " + id,
		"action status " + id, "action list", "action watch " + id, "reconcile list", "events", "audit log",
		"registry status", "registry verify", "registry roles", "registry audit", "doctor", "version",
		"context list", "context show", "trust show", "trust history", "release inspect " + live.Place().Release(),
		"release verify " + live.Place().Release() + " --policy " + live.TrustPolicy(),
		"plan -f " + live.Place().FleetFile(), "apply -f " + live.Place().FleetFile(), "admit release " + live.Place().Release() + " --plan",
		"drain replica " + only + " --dry-run", "explain host.draining", "dash --once", "dev status --dir " + dir,
		"wait replica " + only + " --for status=ready --timeout 5s", "action result " + id,
	} {
		t.Run(line, func(t *testing.T) {
			r := exits(t, 0, append(strings.Fields(line), "-o", "json")...)
			oneDocument(t, r)
		})
	}
}

// An error in JSON mode is one document on stderr, and stdout stays empty.
func TestAipctl_G40_ARefusalSaysRuleAndExitCode(t *testing.T) {
	used := submit(t, acme, ticket(t, "used id"), limit)
	for _, row := range []struct {
		line, code string
		exit       int
	}{
		{"action status " + fleet.NewActionID(time.Now()).String(), "action.unknown", 3},
		{"action submit ticketdesk:close_ticket --input {\"ticket_id\":\"x\",\"resolution\":\"y\"} --id " + used.ID.String(), "action.conflict", 5},
		{"action submit ticketdesk:open_ticket --input {}", "action.input", 2},
		{"action submit ticketdesk:none --input {}", "catalog.capability", 3},
		{"route inspect " + fleet.NewActionID(time.Now()).String(), "route.action", 3},
		{"get replicas crepl_none", "replica.not_found", 3},
		{"get replcas", "usage.noun", 2},
		{"drain replica crepl_none", "replica.not_found", 3},
		{"drain replica " + only, "confirm.reason", 11},
		{"wait replica " + only + " --for status=offline --timeout 1s", "wait.timeout", 6},
		{"no-such-command", "usage.command", 2},
		{"dev up --hosts 5 --dir " + live.Place().Dir(), "dev.hosts", 5},
		{"context show --context nobody", "context.unknown", 2},
	} {
		t.Run(row.line, func(t *testing.T) {
			r := exits(t, row.exit, append(strings.Fields(row.line), "-o", "json")...)
			var doc struct {
				Error struct {
					Code string `json:"code"`
					Exit int    `json:"exit_code"`
				} `json:"error"`
			}
			lines := bytes.Split(bytes.TrimSpace(r.Stderr), []byte("\n"))
			if err := json.Unmarshal(lines[len(lines)-1], &doc); err != nil || doc.Error.Code != row.code || doc.Error.Exit != row.exit {
				t.Errorf("stderr is %s (%v), want code %s and exit code %d", r.Stderr, err, row.code, row.exit)
			}
		})
	}
}

// The release of a private fleet is admitted by all six slots, two people's approvals
// among them.
func TestAdmit_G33_EverySlotOfTheReleaseWasEvaluated(t *testing.T) {
	var doc struct {
		Item struct {
			Report struct {
				Documents []struct{ Slot, Signer string }
			}
		}
	}
	shown := exits(t, 0, "release", "verify", live.Place().Release(), "--policy", live.TrustPolicy(), "-o", "json")
	if err := json.Unmarshal(shown.Stdout, &doc); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range doc.Item.Report.Documents {
		got = append(got, d.Slot+" by "+d.Signer)
	}
	want := []string{
		"signature by publisher", "provenance by builder", "sbom by builder", "vulnerability by scanner", "conformance by runner",
		"approval by ann", "approval by bob",
	}
	if !slices.Equal(got, want) {
		t.Errorf("evidence %q, want %q", got, want)
	}
}

// A wrong package is refused with coded findings, and nothing is written.
func TestAdmit_G33_AWrongPackageIsRefusedAndNothingIsWritten(t *testing.T) {
	good := filepath.Join(t.TempDir(), "next")
	if err := live.PackNext(bounded(t), good); err != nil {
		t.Fatal(err)
	}
	exits(t, 0, "admit", "release", good, "--dry-run", "-o", "json")
	before := revision(t)
	for name, row := range map[string]struct {
		spoil func(dir string) error
		code  string
	}{
		"tampered artifact": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "artifact", "desk", "ticketdesk"), []byte("#!/bin/sh\n"), 0o755)
		}, "evidence.signature.subject_mismatch"},
		"missing slot": {func(dir string) error { return os.Remove(filepath.Join(dir, "evidence", "sbom.sigstore.json")) }, "evidence.sbom.missing"},
		"unknown signer": {func(dir string) error {
			key := filepath.Join(t.TempDir(), "stranger.pem")
			exits(t, 0, "release", "keygen", key)
			exits(t, 0, "release", "sign", dir, "--key", key, "--replace")
			return nil
		}, "evidence.signature.unknown_signer"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "wrong")
			if err := errors.Join(os.CopyFS(dir, os.DirFS(good)), row.spoil(dir)); err != nil {
				t.Fatal(err)
			}
			r := exits(t, 1, "admit", "release", dir, "--yes", "--reason", "x", "-o", "json")
			if out := string(r.Stdout) + string(r.Stderr); !strings.Contains(out, `"`+row.code+`"`) {
				t.Errorf("no finding %s in %s", row.code, out)
			}
		})
	}
	if after := revision(t); after != before {
		t.Errorf("the catalog moved from revision %d to %d", before, after)
	}
}

func revision(t *testing.T) uint64 {
	t.Helper()
	var head struct {
		Revision uint64 `json:"revision"`
	}
	doc := oneDocument(t, exits(t, 0, "get", "versions", "-o", "json"))
	if err := json.Unmarshal(doc.Metadata, &head); err != nil {
		t.Fatal(err)
	}
	return head.Revision
}

// aipctl dev up on a fleet that runs starts nothing and changes nothing.
func TestDev_G39_UpAgainKeepsEveryProcess(t *testing.T) {
	before, at := live.Status(), revision(t)
	r := exits(t, 0, "dev", "up", "--dir", live.Place().Dir(), "--lease-ttl", "5s", "-o", "json")
	oneDocument(t, r)
	if after := live.Status(); !slices.Equal(before, after) || revision(t) != at {
		t.Errorf("the processes were %v and are %v; revision %d, then %d", before, after, at, revision(t))
	}
}

// What is needed is said: the programs beside aipctl, and a directory of one's own.
func TestDev_G40_UpSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	alone := filepath.Join(dir, "aipctl")
	if err := os.Link(filepath.Join(bin, "aipctl"), alone); err != nil {
		t.Fatal(err)
	}
	code, text := run(t, exec.Command(alone, "dev", "up", "--dir", filepath.Join(dir, "fleet")))
	if code != 3 || !strings.Contains(text, "error[dev.programs]") || !strings.Contains(text, "make build") {
		t.Errorf("without the other programs: exit code %d, %s", code, text)
	}
	if r := exits(t, 5, "dev", "up", "--dir", dir); !strings.Contains(string(r.Stderr), "error[dev.directory]") {
		t.Errorf("in a directory with other files: %s", r.Stderr)
	}
	if _, err := os.Stat(alone); err != nil {
		t.Errorf("the other file is gone: %v", err)
	}
	exits(t, 0, "dev", "down", "--dir", filepath.Join(dir, "nothing"))
	exits(t, 3, "dev", "status", "--dir", filepath.Join(dir, "nothing"))
}

// run runs a command and returns its exit code and everything that it printed.
func run(t *testing.T, cmd *exec.Cmd) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}
