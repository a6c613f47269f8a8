package dev_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/action"
)

// runbook runs scripts/runbooks/drain-replica.sh against the fleet.
func runbook(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", append([]string{filepath.Join("..", "..", "..", "scripts", "runbooks", "drain-replica.sh")}, args...)...)
	cmd.Env = append(live.Environment(), "AIPCTL="+filepath.Join(bin, "aipctl"))
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = out, &text
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	said, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(said), text.String()
}

// drained reads the result of the runbook: one document about one replica.
func drained(t *testing.T, stdout string) (intent string, done bool) {
	t.Helper()
	var doc struct {
		Items []struct {
			Intent  string `json:"intent"`
			Drained bool   `json:"drained"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || len(doc.Items) != 1 {
		t.Fatalf("stdout is %q (%v), want one document about one replica", stdout, err)
	}
	return doc.Items[0].Intent, doc.Items[0].Drained
}

const acmeA = "crepl_acme_desk_a"

func TestRunbookDrainReplica_G37_DrainsAndIsTakenBack(t *testing.T) {
	code, stdout, stderr := runbook(t, acmeA, "--reason", "maintenance", "--dry-run")
	if intent, done := drained(t, stdout); code != 0 || intent != "run" || done {
		t.Fatalf("dry run: exit code %d, intent %s, drained %v: %s", code, intent, done, stderr)
	}
	ready(t, acmeA)
	t.Cleanup(func() { exits(t, 0, "undrain", "replica", acmeA, "--reason", "test"); ready(t, acmeA) })
	code, stdout, stderr = runbook(t, acmeA, "--reason", "maintenance", "--deadline", "30s")
	if intent, done := drained(t, stdout); code != 0 || intent != "drain" || !done {
		t.Fatalf("exit code %d, intent %s, drained %v: %s", code, intent, done, stderr)
	}
}

// The failure branch: pinned work does not end in time. The script says what holds
// the replica, ends with 6, and with --rollback lets the replica work again.
func TestRunbookDrainReplica_G37_ATimeoutNamesWhatHoldsItAndRollsBack(t *testing.T) {
	r, replica, release := held(t, acme, desk.AfterEffect)
	code, stdout, stderr := runbook(t, replica, "--reason", "maintenance", "--deadline", "1s", "--rollback")
	if _, done := drained(t, stdout); code != 6 || done || !strings.Contains(stderr, r.ID.String()) || !strings.Contains(stderr, "rolling back") {
		t.Errorf("exit code %d, drained %v, want 6 and %s named: %s", code, done, r.ID, stderr)
	}
	ready(t, replica)
	release()
	becomes(t, acme, r.ID, action.Completed)
}

func TestRunbookDrainReplica_G40_RefusesWhatItMustNotDo(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"unknown replica", []string{"crepl_none", "--reason", "x"}, 3, "error[replica.not_found]"},
		{"last ready replica", []string{only, "--reason", "x"}, 5, "error[runbook.last_replica]"},
		{"no reason", []string{acmeA}, 2, "error[runbook.usage]"},
		{"unknown flag", []string{acmeA, "--force"}, 2, "error[runbook.usage]"},
		{"two replicas", []string{acmeA, only, "--reason", "x"}, 2, "error[runbook.usage]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			code, stdout, stderr := runbook(t, row.args...)
			if code != row.code || !strings.Contains(stderr, row.says) || stdout != "" {
				t.Errorf("exit code %d, want %d and %s: %s%s", code, row.code, row.says, stdout, stderr)
			}
		})
	}
	ready(t, acmeA)
	ready(t, only)
}
