// Package actiontest holds the suite that every action.Store passes. Each case
// names the guarantee it defends.
package actiontest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Harness is a fresh store and the power to let its owner leases end.
type Harness struct {
	Store action.Store
	// Elapse lets d pass for the store's clock.
	Elapse func(t *testing.T, d time.Duration)
	// Routed gives the action a route, where the store looks for one.
	Routed func(t *testing.T, s action.Submission)
}

// Run runs the suite; open makes a fresh, empty store for each case.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	cases := []struct {
		name string
		run  func(t *testing.T, h Harness)
	}{
		{"G03_SameIDWithOtherContentConflicts", otherContent},
		{"G03_SameIDOfAnotherTenantConflicts", otherTenant},
		{"G44_TheSameSubmissionReturnsTheFirstRecord", sameSubmission},
		{"G44_AnIdempotencyKeyReturnsTheFirstAction", sameKey},
		{"G03_AnIdempotencyKeyWithOtherContentConflicts", otherKeyContent},
		{"G44_KeysOfOtherCapabilitiesAndTenantsAreApart", keysApart},
		{"G18_AnotherTenantSeesNothing", tenancy},
		{"G44_AResultIsFinalAndByteEqual", finalResult},
		{"G06_OnlyOneOfManyChangesOfARevisionWins", compareAndSet},
		{"G44_TheMachineIsEnforced", machine},
		{"G39_ASuccessorClaimsWhatADeadOwnerLeft", takeover},
		{"G12_AFinalUnsettledActionIsClaimed", claimUnsettled},
		{"G39_AnOwnerFindsWhatItHasToBringToRest", owned},
		{"G39_ALiveOwnerKeepsItsActions", liveOwner},
		{"G39_AnOwnerThatLeavesIsReplacedAtOnce", leave},
		{"G44_ARetryableActionIsNobodysUntilReopened", reopen},
		{"G18_ListPagesOneTenant", list},
		{"G44_WhatIsArchivedStaysTakenAndNeverRuns", archivedStays},
		{"G38_OnlyWhatEndedLongAgoIsArchived", archivedOnly},
		{"G39_HostsAreToldUntilTheyHeard", archivedTold},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

var (
	tenantA = mustTenant("tenant-a")
	tenantB = mustTenant("tenant-b")
	openCap = mustCapability("desk:open_ticket")
	readCap = mustCapability("desk:read_ticket")
)

func mustTenant(s string) fleet.TenantID {
	id, err := fleet.ParseTenantID(s)
	if err != nil {
		panic(err)
	}
	return id
}

func mustCapability(s string) fleet.CapabilityID {
	id, err := fleet.ParseCapabilityID(s)
	if err != nil {
		panic(err)
	}
	return id
}

func submission(id string) action.Submission {
	parsed, err := fleet.ParseActionID("act_" + id)
	if err != nil {
		panic(err)
	}
	return action.Submission{
		ID: parsed, Tenant: tenantA, Capability: openCap, Principal: "alice", Owner: "owner-1",
		Input: json.RawMessage(`{"title": "lamp", "amount": 12345678901234567890.50}`), Mode: "sync", Timeout: time.Minute,
	}
}

func submit(t *testing.T, h Harness, s action.Submission) action.Record {
	t.Helper()
	r, created, err := h.Store.Submit(t.Context(), s)
	if err != nil || !created {
		t.Fatalf("submit: created %v, %v", created, err)
	}
	return r
}

func advance(t *testing.T, h Harness, next action.Record, err error) action.Record {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.Store.Advance(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantKind(t *testing.T, err error, kind fleet.Kind, code string) {
	t.Helper()
	if !fleet.Is(err, kind) || fleet.CodeOf(err) != code {
		t.Fatalf("got %v (%s), want %s %s", err, fleet.CodeOf(err), kind, code)
	}
}

func otherContent(t *testing.T, h Harness) {
	first := submit(t, h, submission("1"))
	for name, change := range map[string]func(*action.Submission){
		"input":      func(s *action.Submission) { s.Input = json.RawMessage(`{"title":"chair"}`) },
		"capability": func(s *action.Submission) { s.Capability = readCap },
		"key":        func(s *action.Submission) { s.IdempotencyKey = "another" },
		"precision": func(s *action.Submission) {
			s.Input = json.RawMessage(`{"title": "lamp", "amount": 12345678901234567891.50}`)
		},
	} {
		s := submission("1")
		change(&s)
		_, _, err := h.Store.Submit(t.Context(), s)
		if !fleet.Is(err, fleet.Conflict) {
			t.Errorf("%s: got %v, want a conflict", name, err)
		}
	}
	got, err := h.Store.Get(t.Context(), tenantA, first.ID)
	if err != nil || got.Revision != first.Revision {
		t.Fatalf("a refused submission changed the record: %+v, %v", got, err)
	}
}

func otherTenant(t *testing.T, h Harness) {
	submit(t, h, submission("1"))
	s := submission("1")
	s.Tenant = tenantB
	_, _, err := h.Store.Submit(t.Context(), s)
	wantKind(t, err, fleet.Conflict, action.CodeConflict)
}

func sameSubmission(t *testing.T, h Harness) {
	first := submit(t, h, submission("1"))
	s := submission("1")
	s.Owner, s.Mode, s.Timeout = "owner-2", "async", time.Hour
	s.Input = json.RawMessage(` {"amount":12345678901234567890.50,"title":"lamp"} `) // the same value
	again, created, err := h.Store.Submit(t.Context(), s)
	if err != nil || created {
		t.Fatalf("created %v, %v", created, err)
	}
	if again.Owner != first.Owner || again.Revision != first.Revision || string(again.Input) != string(first.Input) {
		t.Fatalf("a repeat changed the record:\n%+v\n%+v", first, again)
	}
}

func sameKey(t *testing.T, h Harness) {
	s := submission("1")
	s.IdempotencyKey = "invoice-7"
	first := submit(t, h, s)
	again := submission("2")
	again.IdempotencyKey = "invoice-7"
	got, created, err := h.Store.Submit(t.Context(), again)
	if err != nil || created || got.ID != first.ID {
		t.Fatalf("got %s created %v, %v; want the first action", got.ID, created, err)
	}
	_, err = h.Store.Get(t.Context(), tenantA, again.ID)
	wantKind(t, err, fleet.NotFound, action.CodeUnknown)
}

func otherKeyContent(t *testing.T, h Harness) {
	s := submission("1")
	s.IdempotencyKey = "invoice-7"
	submit(t, h, s)
	other := submission("2")
	other.IdempotencyKey, other.Input = "invoice-7", json.RawMessage(`{}`)
	_, _, err := h.Store.Submit(t.Context(), other)
	wantKind(t, err, fleet.Conflict, action.CodeConflict)
}

func keysApart(t *testing.T, h Harness) {
	for i, change := range []func(*action.Submission){
		func(*action.Submission) {},
		func(s *action.Submission) { s.Capability = readCap },
		func(s *action.Submission) { s.Tenant = tenantB },
	} {
		s := submission(fmt.Sprint(i))
		s.IdempotencyKey = "k"
		change(&s)
		submit(t, h, s)
	}
}

func tenancy(t *testing.T, h Harness) {
	r := submit(t, h, submission("1"))
	_, err := h.Store.Get(t.Context(), tenantB, r.ID)
	wantKind(t, err, fleet.NotFound, action.CodeUnknown)
	r.Tenant = tenantB
	_, err = h.Store.Advance(t.Context(), r)
	wantKind(t, err, fleet.NotFound, action.CodeUnknown)
	page, err := h.Store.List(t.Context(), action.Selection{Tenant: tenantB})
	if err != nil || len(page.Records) != 0 {
		t.Fatalf("another tenant lists %d records, %v", len(page.Records), err)
	}
}

func finalResult(t *testing.T, h Harness) {
	r := submit(t, h, submission("1"))
	next, err := r.Dispatch(1)
	r = advance(t, h, next, err)
	result := []byte("{\"action_id\":\"act_1\",\"status\":\"completed\",\"output\":{\"n\":1.10,\"t\":\"<&>\u2028\"}}")
	evidence := fleet.DigestBytes([]byte("answer"))
	next, err = r.Finish(action.Completed, result, evidence, false)
	r = advance(t, h, next, err)
	got, err := h.Store.Get(t.Context(), tenantA, r.ID)
	if err != nil || string(got.Result) != string(result) || got.Evidence != evidence || got.State != action.Completed || !got.Unsettled {
		t.Fatalf("stored %+v, %v", got, err)
	}
	for name, change := range map[string]func(*action.Record){
		"state":  func(r *action.Record) { r.State = action.Failed },
		"result": func(r *action.Record) { r.Result = []byte(`{}`) },
		"reopen": func(r *action.Record) { r.State, r.Result = action.Accepted, nil },
	} {
		bad := got
		change(&bad)
		if _, err := h.Store.Advance(t.Context(), bad); !fleet.Is(err, fleet.Conflict) {
			t.Errorf("%s: got %v, want a conflict", name, err)
		}
	}
	r = advance(t, h, got.Settle(), nil)
	if r.Unsettled || string(r.Result) != string(result) {
		t.Fatalf("settling changed the result: %+v", r)
	}
}

func compareAndSet(t *testing.T, h Harness) {
	r := submit(t, h, submission("1"))
	const callers = 8
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			next, _ := r.Dispatch(uint64(i + 1))
			_, errs[i] = h.Store.Advance(context.Background(), next)
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		wantKind(t, err, fleet.Conflict, action.CodeMoved)
	}
	if won != 1 {
		t.Fatalf("%d changes of one revision won", won)
	}
}

func machine(t *testing.T, h Harness) {
	r := submit(t, h, submission("1"))
	next, err := r.Dispatch(3)
	r = advance(t, h, next, err)
	back := r
	back.State = action.Queued
	_, err = h.Store.Advance(t.Context(), back)
	wantKind(t, err, fleet.Conflict, action.CodeTransition)
	older := r
	older.Fence = 2
	_, err = h.Store.Advance(t.Context(), older)
	wantKind(t, err, fleet.FenceLost, action.CodeTransition)
}
