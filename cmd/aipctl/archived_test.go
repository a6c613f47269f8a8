package main

import (
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/apptest"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// archived is the test fleet with two archived routes, ten seconds apart.
func archived(t *testing.T) *apptest.Harness {
	t.Helper()
	h := populated(t)
	h.Archive("act_done")
	h.Advance(10 * time.Second)
	h.Settle("act_held", fleet.Settlement{Outcome: fleet.OutcomeCompleted, Code: "dispatch.completed"})
	h.Archive("act_held")
	return h
}

// TestArchived_G01_WhatIsArchivedIsListed shows archived actions in every form, by tenant
// and by time, and what route inspect says of one.
func TestArchived_G01_WhatIsArchivedIsListed(t *testing.T) {
	h := archived(t)
	golden(t, "get-archived", h.OK("get", "archived"))
	golden(t, "get-archived-wide", h.OK("get", "archived", "-o", "wide"))
	golden(t, "get-archived-json", h.OK("get", "archived", "act_done", "-o", "json"))
	golden(t, "describe-archived", h.OK("describe", "archived-action", "act_done"))
	for line, want := range map[string]string{
		"get archived -o name":                                         "act_held act_done",
		"get archived --tenant acme -o name":                           "act_held act_done",
		"get archived --tenant globex -o name":                         "",
		"get archived --since 5s -o name":                              "act_held",
		"get archived --until 5s -o name":                              "act_done",
		"get archived --since 1h --until 2030-01-01T12:00:15Z -o name": "act_done",
		"get archived --limit 1 --all -o name":                         "act_held act_done",
		"get archived --where replica=crepl_acme_b -o name":            "act_held",
		"get routes --since 1h --until 1s -o name":                     "act_lost",
		"get reconciliations --since 1h -o name":                       "act_lost/1",
		"get events --since 2s -o name":                                "",
	} {
		if got := strings.Join(strings.Fields(h.OK(strings.Fields(line)...)), " "); got != want {
			t.Errorf("aipctl %s: %q, want %q", line, got, want)
		}
	}
	first := h.Document(h.OK("get", "archived", "--limit", "1", "-o", "json"))
	second := h.Document(h.OK("get", "archived", "--limit", "1", "--page", first.Metadata.NextPage, "-o", "json"))
	if first.Metadata.NextPage == "" || second.Metadata.NextPage != "" || !strings.Contains(string(second.Items[0]), "act_done") {
		t.Errorf("the pages are %s and %s", first.Items, second.Items)
	}
	expect(t, h, 3, "route.archived", "route", "inspect", "act_done")
	expect(t, h, 3, "next: aipctl get archived act_done -o yaml", "route", "inspect", "act_done")
	expect(t, h, 3, "route.action", "route", "inspect", "act_none")
}

// TestArchived_G40_WrongFiltersAreRefused names what cannot be asked.
func TestArchived_G40_WrongFiltersAreRefused(t *testing.T) {
	h := archived(t)
	for line, says := range map[string]string{
		"get archived --replica crepl_acme_a": "archived cannot be filtered by --replica",
		"get archived --reserved":             "--reserved is only for routes",
		"get archived --since yesterday":      "--since yesterday is no time",
		"get archived --until -5m":            "--until -5m is no time",
		"get archived --since 1h --until 2h":  "--since 1h is not before --until 2h",
		"get replicas --since 1h":             "replicas have no time by which the registry finds them",
		"get actions --since 1h":              "actions are those of the token's tenant",
		"get archive":                         "did you mean archived or",
	} {
		expect(t, h, 2, says, strings.Fields(line)...)
	}
	expect(t, h, 3, "archived-action.not_found", "get", "archived", "act_don")
	expect(t, h, 0, "no archived match", "get", "archived", "--state", "completed")
	expect(t, h, 0, "taken for ever", "explain", "archived-action")
}

// TestArchived_G06_TokensOfFencesAreNotShown keeps the secret of an archived attempt too.
func TestArchived_G06_TokensOfFencesAreNotShown(t *testing.T) {
	h := archived(t)
	for _, line := range []string{"get archived -o json", "get archived -o yaml", "describe archived-action act_done -o json"} {
		out := strings.ReplaceAll(h.OK(strings.Fields(line)...), `"token"`, "token")
		if !strings.Contains(out, `token: ""`) || strings.Count(out, "token:") != strings.Count(out, `token: ""`) {
			t.Errorf("%s shows the token of a fence:\n%s", line, out)
		}
	}
}

// TestPostgres_G20_ArchivedUnderTheRestrictedRoles lists, as aip_readonly and aip_control,
// what the owner archived.
func TestPostgres_G20_ArchivedUnderTheRestrictedRoles(t *testing.T) {
	h := filled(t)
	execAsAdmin(t, h, "SELECT aip.archive_action('act_done')")
	if out := h.OK("get", "archived", "--tenant", "acme", "--since", "1h", "-o", "name"); strings.TrimSpace(out) != "act_done" {
		t.Errorf("listed are %q", out)
	}
	expect(t, h, 0, "crepl_acme_", "get", "archived")
	expect(t, h, 0, "no archived match", "get", "archived", "--tenant", "globex")
	expect(t, h, 3, "route.archived", "route", "inspect", "act_done")
}
