package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/apptest"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

const movedBinding = `bindings:
- tenant_id: acme
  capability_id: desk:open
  instance_id: cinst_acme
  priority: 7
  credential_revision_ref: cred-1
  enabled: true
`

// expect runs a line and checks how it ends and what stderr says.
func expect(t *testing.T, h *apptest.Harness, code int, says string, args ...string) apptest.Result {
	t.Helper()
	r := h.Run(args...)
	if r.Code != code || !strings.Contains(r.Stderr+r.Stdout, says) {
		t.Errorf("aipctl %s: exit %d, want %d with %q\n%s%s", strings.Join(args, " "), r.Code, code, says, r.Stdout, r.Stderr)
	}
	return r
}

// TestPlan_G13_ShowsTheFieldsAndChangesNothing shows plan before apply.
func TestPlan_G13_ShowsTheFieldsAndChangesNothing(t *testing.T) {
	h := populated(t)
	file := h.File("fleet.yaml", movedBinding)
	golden(t, "plan", h.OK("plan", "-f", file))
	expect(t, h, 10, "", "plan", "-f", file, "--exit-code")
	if out := h.OK("get", "bindings", "--tenant", "acme", "-l", "priority=10"); strings.Count(out, "desk:") != 2 {
		t.Errorf("plan changed something:\n%s", out)
	}
	golden(t, "apply", h.OK("apply", "-f", file))
	golden(t, "apply-again", h.OK("apply", "-f", file))
	expect(t, h, 0, "nothing to change", "plan", "-f", file, "--exit-code")
}

// TestApply_G13_RefusesWhenTheRevisionMoved shows a plan that is no longer true.
func TestApply_G13_RefusesWhenTheRevisionMoved(t *testing.T) {
	h := populated(t)
	file := h.File("fleet.yaml", movedBinding)
	h.OK("bind", "acme", "desk:read", "cinst_acme", "--priority", "3")
	expect(t, h, 5, "publish.revision_moved", "apply", "-f", file, "--revision", "1")
	h.OK("apply", "-f", file, "--revision", "2")
}

// TestApply_G40_WrongFilesAreRefusedByName shows that the grammar is strict.
func TestApply_G40_WrongFilesAreRefusedByName(t *testing.T) {
	h := populated(t)
	for text, says := range map[string]string{
		"instance:\n- {id: cinst_x}\n":                         "did you mean",
		"instances:\n- {id: cinst_x, tennant_id: acme}\n":      "did you mean tenant_id",
		"instances:\n- {id: wrong}\n":                          "it must start with cinst_",
		"bindings: []\n---\nbindings: []\n":                    "a second document follows",
		"bindings: [\n":                                        "fleet_file",
		"- a\n":                                                "fleet_file",
		"bindings:\n- {priority: low}\n":                       "fleet_file",
		"replicas:\n- {id: crepl_x, id: crepl_y}\n":            "fleet_file",
		"versions:\n- {id: cver_x}\n":                          "unknown field versions",
		strings.Replace(movedBinding, "acme\n", "nobody\n", 1): "error[",
	} {
		r := h.Run("plan", "-f", h.File("wrong.yaml", text))
		if r.Code == 0 || !strings.Contains(r.Stderr, says) || r.Stdout != "" {
			t.Errorf("%q: exit %d, want %q in\n%s", text, r.Code, says, r.Stderr)
		}
	}
}

// TestConfirm_G40_LadderNamesTheFlags shows each step without anybody to ask.
func TestConfirm_G40_LadderNamesTheFlags(t *testing.T) {
	h := populated(t)
	drain := []string{"drain", "replica", "crepl_acme_a", "--detach"}
	expect(t, h, 11, "--reason", drain...)
	expect(t, h, 11, "--confirm crepl_acme_a", append(drain, "--reason", "test")...)
	expect(t, h, 11, "--confirm crepl_acme_a", append(drain, "--reason", "test", "--yes")...)
	expect(t, h, 11, "--confirm crepl_acme_a", append(drain, "--reason", "test", "--yes", "--confirm", "crepl_acme_b")...)
	if out := h.OK("get", "replica", "crepl_acme_a"); strings.Contains(out, "drain") {
		t.Fatalf("a refused confirmation changed something:\n%s", out)
	}
	h.OK(append(drain, "--reason", "test", "--yes", "--confirm", "crepl_acme_a")...)
}

// TestConfirm_G40_TerminalIsAsked shows the questions and that a no changes nothing.
func TestConfirm_G40_TerminalIsAsked(t *testing.T) {
	h := populated(t)
	h.TTY = true
	h.Stdin = "no\n"
	line := []string{"drain", "replica", "crepl_acme_a", "--detach", "--reason", "test"}
	r := expect(t, h, 11, "confirm.refused", line...)
	if !strings.Contains(r.Stderr, "tenant acme loses 50% of its ready capacity") || !strings.Contains(r.Stderr, "Type crepl_acme_a") {
		t.Errorf("the question does not say what happens:\n%s", r.Stderr)
	}
	h.Stdin = "crepl_acme_a\n"
	expect(t, h, 0, "", line...)
	expect(t, h, 11, "--yes", append(line, "-o", "json")...)
}

// TestConfirm_G40_ProductionAsksForTheName shows that a marked target lifts every step.
func TestConfirm_G40_ProductionAsksForTheName(t *testing.T) {
	h := populated(t)
	bind := []string{"bind", "acme", "desk:read", "cinst_acme", "--priority", "3"}
	h.Configure("    production: true\n")
	expect(t, h, 11, "--reason", bind...)
	expect(t, h, 11, "--confirm desk:read", append(bind, "--reason", "test", "--yes")...)
	h.OK(append(bind, "--reason", "test", "--yes", "--confirm", "desk:read")...)
}

// TestDrain_G37_IntentIsNotEnough shows that drained means observed, and that what
// holds a replica is named.
func TestDrain_G37_IntentIsNotEnough(t *testing.T) {
	h := populated(t)
	line := []string{"drain", "replica", "crepl_acme_b", "--yes", "--confirm", "crepl_acme_b", "--reason", "test", "--deadline", "3s", "--interval", "1ms"}
	h.Tick = 100 * time.Millisecond
	r := expect(t, h, 6, "drain.timeout", line...)
	if !strings.Contains(r.Stderr, "waits for act_held (fence 1)") {
		t.Errorf("the blocker is not named:\n%s", r.Stderr)
	}
	h.Settle("act_held", fleet.Settlement{Outcome: fleet.OutcomeCompleted, Code: "dispatch.completed"})
	expect(t, h, 6, "its host has not said yet", line...)
	h.Offline("crepl_acme_b")
	d := h.Document(h.OK(append(line, "-o", "json")...))
	var state struct {
		Drained  bool
		Blockers []any
	}
	if err := json.Unmarshal(d.Items[0], &state); err != nil || !state.Drained || len(state.Blockers) != 0 {
		t.Errorf("not drained: %s (%v)", d.Items[0], err)
	}
	expect(t, h, 3, "did you mean crepl_acme_a", "drain", "replica", "crepl_acme_c", "--yes")
}

// TestResolve_G38_DecisionIsSignedForTheHost shows that a decision can be verified by
// the pinned host, that the first one stands, and that a repeat of it is harmless.
func TestResolve_G38_DecisionIsSignedForTheHost(t *testing.T) {
	h := populated(t)
	evidence := h.File("evidence.txt", "the desk's log has no such ticket\n")
	line := []string{"reconcile", "resolve", "act_lost", "--outcome", "did-not-happen", "--evidence", evidence, "--reason", "not in the log", "--yes", "-o", "json"}
	var record fleet.Reconciliation
	if err := json.Unmarshal(h.Document(h.OK(line...)).Item, &record); err != nil {
		t.Fatal(err)
	}
	if record.Resolution != fleet.ResolvedDidNotHappen || record.ResolvedBy != apptest.Signer("operator").DID().String() {
		t.Errorf("decided %s by %s", record.Resolution, record.ResolvedBy)
	}
	opened, err := envelope.Open(record.Decision, envelope.Expect{
		Purpose: envelope.Decision, Audience: apptest.Signer("crepl_acme_b").DID(),
		Keys: envelope.KeySet{{DID: apptest.Signer("operator").DID()}}, Now: h.Now(),
	})
	if err != nil {
		t.Fatalf("the host would not accept the decision: %v", err)
	}
	doc, err := protocol.Read[protocol.Decision](opened)
	if err != nil || doc.EvidenceDigest != fleet.DigestBytes([]byte("the desk's log has no such ticket\n")) || doc.Fence != 1 {
		t.Errorf("the decision says %+v (%v)", doc, err)
	}
	line[4] = "happened"
	expect(t, h, 5, "reconcile.decided", line...)
	expect(t, h, 0, "nothing is uncertain", "reconcile", "list")
	golden(t, "route-inspect-decided", h.OK("route", "inspect", "act_lost"))
}

// TestResolve_G38_NeedsEvidenceAndReason shows what a decision cannot do without.
func TestResolve_G38_NeedsEvidenceAndReason(t *testing.T) {
	h := populated(t)
	base := []string{"reconcile", "resolve", "act_lost", "--yes"}
	expect(t, h, 2, "--outcome", base...)
	expect(t, h, 2, "did you mean happened", append(base, "--outcome", "hapened")...)
	expect(t, h, 2, "--evidence", append(base, "--outcome", "happened")...)
	expect(t, h, 2, "--reason", append(base, "--outcome", "happened", "--evidence", h.File("e", "x"))...)
	expect(t, h, 2, "it is empty", append(base, "--outcome", "happened", "--reason", "r", "--evidence", h.File("empty", ""))...)
	expect(t, h, 3, "reconciliation.not_found", "reconcile", "resolve", "act_done", "--yes", "--outcome", "happened", "--reason", "r", "--evidence", h.File("e", "x"))
}

// TestAction_G38_UncertainIsExitSeven shows the exit code of every end of an action.
func TestAction_G38_UncertainIsExitSeven(t *testing.T) {
	h := apptest.New(t, root)
	for state, code := range map[action.State]int{
		action.Completed: 0, action.Failed: 1, action.Cancelled: 1, action.Uncertain: 7, action.Retryable: 9, action.Queued: 6,
	} {
		h.Tick = time.Second
		h.Aipd.Next = state
		id := "act_" + string(state)
		expect(t, h, code, string(state), "action", "submit", "desk:open", "--id", id, "--wait", "3s")
		expect(t, h, code, string(state), "action", "watch", id, "--timeout", "3s")
	}
	expect(t, h, 7, "uncertain", "action", "status", "act_uncertain")
	expect(t, h, 0, "failed", "action", "status", "act_failed")
	expect(t, h, 3, "action.unknown", "action", "status", "act_none")
	expect(t, h, 5, "action.conflict", "action", "submit", "desk:read", "--id", "act_failed")
	expect(t, h, 5, "action.not_final", "action", "result", "act_queued")
}

// TestAction_G44_ResultIsTheStoredBytes shows that a result reads the same every time.
func TestAction_G44_ResultIsTheStoredBytes(t *testing.T) {
	h := apptest.New(t, root)
	h.OK("action", "submit", "desk:open", "--id", "act_one", "--input", `{"title":"x"}`)
	first, second := h.OK("action", "result", "act_one"), h.OK("action", "result", "act_one")
	want := `{"action_id":"act_one","output":{"id":"T-1"},"status":"completed"}` + "\n"
	if first != want || second != want {
		t.Errorf("got %q and %q, want %q", first, second, want)
	}
}

// TestWait_G37_ConditionsEndWaiting shows reached, failed, and not reached in time.
func TestWait_G37_ConditionsEndWaiting(t *testing.T) {
	h := populated(t)
	h.Tick = 200 * time.Millisecond
	fast := []string{"--interval", "1ms", "--timeout", "2s"}
	h.OK(append([]string{"wait", "replica", "crepl_acme_a", "--for", "status=ready && active=0"}, fast...)...)
	expect(t, h, 6, "wait.timeout", append([]string{"wait", "replica", "crepl_acme_a", "--for", "status=offline"}, fast...)...)
	expect(t, h, 1, "wait.failed", append([]string{"wait", "replica", "crepl_acme_a", "--for", "status=offline", "--fail-on", "status=ready"}, fast...)...)
	expect(t, h, 3, "replica.not_found", append([]string{"wait", "replica", "crepl_none", "--for", "status=ready"}, fast...)...)
	h.OK("action", "submit", "desk:open", "--id", "act_w")
	h.OK(append([]string{"wait", "action", "act_w", "--for", "state=completed"}, fast...)...)
}

// TestVersions_G08_MovesNeedAReason shows the life of a version.
func TestVersions_G08_MovesNeedAReason(t *testing.T) {
	h := populated(t)
	expect(t, h, 2, "--reason", "quarantine", "version", "cver_desk1")
	expect(t, h, 11, "--confirm cver_desk1", "quarantine", "version", "cver_desk1", "--reason", "bad")
	h.OK("quarantine", "version", "cver_desk1", "--reason", "bad", "--yes", "--confirm", "cver_desk1")
	expect(t, h, 0, "quarantined", "get", "version", "cver_desk1")
	h.OK("promote", "version", "cver_desk1", "--reason", "it was not")
	expect(t, h, 0, "● active", "get", "version", "cver_desk1")
	expect(t, h, 3, "version.not_found", "promote", "version", "cver_none", "--reason", "x")
	h.OK("revoke", "version", "cver_desk1", "--reason", "bad", "--yes", "--confirm", "cver_desk1")
	expect(t, h, 5, "publish.transition", "promote", "version", "cver_desk1", "--reason", "x")
}

// TestAudit_G40_BrokenIsExitOne shows the audit of a sound registry.
func TestAudit_G40_SoundRegistryHasNoViolations(t *testing.T) {
	h := populated(t)
	expect(t, h, 0, "no invariant is broken", "registry", "audit")
	if got := registry.Nouns(); len(got) != 15 {
		t.Errorf("%d nouns: give each a test here", len(got))
	}
}
