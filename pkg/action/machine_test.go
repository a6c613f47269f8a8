package action_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func record(t *testing.T) action.Record {
	t.Helper()
	r, err := action.NewRecord(action.Submission{
		ID: must(fleet.ParseActionID("act_1")), Tenant: must(fleet.ParseTenantID("acme")), Capability: must(fleet.ParseCapabilityID("desk:open")),
		Input: json.RawMessage(`{}`), Owner: "one", Timeout: time.Minute,
	}, time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMachine_G44_FinalStatesHaveNoStep, and every other state has a way to one.
func TestMachine_G44_FinalStatesHaveNoStep(t *testing.T) {
	for _, from := range action.States() {
		for _, to := range action.States() {
			if from.Final() && from != to && action.CanMove(from, to) {
				t.Errorf("%s can become %s", from, to)
			}
		}
		if !from.Final() && !action.CanMove(from, action.Completed) {
			t.Errorf("%s cannot complete", from)
		}
	}
	if action.CanMove(action.Uncertain, action.Accepted) || action.CanMove(action.Uncertain, action.Dispatched) {
		t.Error("an uncertain action can run without a decision")
	}
}

// TestConclude_G44_AFinalActionKeepsItsResult whatever a host says later.
func TestConclude_G44_AFinalActionKeepsItsResult(t *testing.T) {
	r := must(record(t).Finish(action.Cancelled, action.CancelledResult(record(t).ID), fleet.Digest{}, true))
	f := action.Finding{State: protocol.StateCompleted, Status: protocol.ResultCompleted, Result: []byte(`{"late":true}`)}
	next, changed, err := f.Conclude(r)
	if err != nil || changed || string(next.Result) != string(r.Result) {
		t.Fatalf("changed %v, %v", changed, err)
	}
}

func TestConclude_G38_OnlyDefiniteFindingsConclude(t *testing.T) {
	uncertain := must(record(t).Doubt(nil, fleet.Digest{}))
	for state, want := range map[protocol.ActionState]action.State{
		protocol.StateRunning: action.Uncertain, protocol.StateUnknown: action.Uncertain, protocol.StateNotStarted: action.Uncertain,
		protocol.StateCompleted: action.Failed, protocol.StateCancelled: action.Cancelled,
	} {
		f := action.Finding{State: state, Status: protocol.ResultFailed, Result: []byte(`{}`)}
		next, changed, err := f.Conclude(uncertain)
		if err != nil || next.State != want || changed != (want != action.Uncertain) || next.Unsettled {
			t.Errorf("%s: %s changed %v unsettled %v, %v", state, next.State, changed, next.Unsettled, err)
		}
	}
}

// TestContent_G03_EqualValuesAreEqualContent and rounding never makes two numbers one.
func TestContent_G03_EqualValuesAreEqualContent(t *testing.T) {
	digest := func(input string) fleet.Digest {
		s := record(t).Submission
		s.Input = json.RawMessage(input)
		return must(s.ContentDigest())
	}
	if digest(`{"a":1,"b":"x"}`) != digest("{ \"b\" : \"\\u0078\", \"a\":1 }") {
		t.Error("the same value is other content")
	}
	if digest(`{"a":9007199254740993}`) == digest(`{"a":9007199254740992}`) {
		t.Error("two numbers are one content")
	}
}

func TestPlace_G18_ForgedPlacesAreRefused(t *testing.T) {
	for _, text := range []string{"x", "!.act_1", "1.inst_1", "zzzzzzzzzzzzzzzzzzzz.act_1"} {
		if _, err := action.ParsePlace(text); !fleet.Is(err, fleet.Invalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
	r := record(t)
	if got := must(action.ParsePlace(action.PlaceOf(r).String())); got.ID != r.ID || !got.At.Equal(r.CreatedAt) {
		t.Errorf("place %+v", got)
	}
}
