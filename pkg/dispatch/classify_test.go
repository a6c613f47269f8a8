package dispatch_test

import (
	"context"
	"errors"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/dispatch"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// TestClassify_G25_EveryCombination is the table of what an attempt's sends prove.
func TestClassify_G25_EveryCombination(t *testing.T) {
	id := newAction()
	evidence := fleet.DigestBytes([]byte("answer"))
	unreachable := fleet.Errorf(fleet.Unavailable, peer.CodeUnreachable, "no connection")
	refusal := func(class protocol.RefusalClass) *dispatch.Answer {
		return &dispatch.Answer{Refusal: &protocol.HostRefusal{Check: 7, Code: "host.not_ready", Class: class}, Evidence: evidence}
	}
	status := func(state protocol.ActionState) *dispatch.Answer {
		s := &protocol.ActionStatus{ActionID: id, State: state}
		if state == protocol.StateCompleted {
			s.Result = &protocol.ActionResult{ActionID: id, Status: protocol.ResultCompleted}
		}
		return &dispatch.Answer{Status: s, Raw: []byte(`{"r":1}`), Evidence: evidence}
	}
	result := func(s protocol.ResultStatus) *dispatch.Answer {
		return &dispatch.Answer{Result: &protocol.ActionResult{ActionID: id, Status: s}, Raw: []byte(`{"r":1}`), Evidence: evidence}
	}
	for _, c := range []struct {
		name    string
		sent    dispatch.Sent
		state   action.State
		outcome fleet.Outcome
		verdict fleet.Verdict
		fault   bool
	}{
		{"connect refused", dispatch.Sent{Sends: 3, Err: unreachable}, action.Retryable, fleet.OutcomeCancelled, fleet.VerdictNeverSent, true},
		{"own deadline before connecting", dispatch.Sent{Sends: 1, Err: errors.Join(unreachable, context.DeadlineExceeded)}, action.Retryable, fleet.OutcomeCancelled, fleet.VerdictNeverSent, false},
		{"address refused by policy", dispatch.Sent{Sends: 1, Err: fleet.Errorf(fleet.Denied, peer.CodeAddress, "no")}, action.Retryable, fleet.OutcomeCancelled, fleet.VerdictNeverSent, false},
		{"written once, then refused", dispatch.Sent{Sends: 2, Written: true, Err: unreachable}, action.Uncertain, fleet.OutcomeUnknown, "", false},
		{"answer not acceptable", dispatch.Sent{Sends: 1, Written: true, Fault: true, Err: errors.New("unsigned")}, action.Uncertain, fleet.OutcomeUnknown, "", true},
		{"promise of not started", dispatch.Sent{Sends: 2, Written: true, Answer: refusal(protocol.ClassNotStarted)}, action.Retryable, fleet.OutcomeCancelled, fleet.VerdictNotStarted, false},
		{"refused, the only send", dispatch.Sent{Sends: 1, Written: true, Answer: refusal(protocol.ClassRefused)}, action.Retryable, fleet.OutcomeCancelled, fleet.VerdictNotStarted, false},
		{"refused, another send open", dispatch.Sent{Sends: 2, Written: true, Answer: refusal(protocol.ClassRefused)}, action.Uncertain, fleet.OutcomeUnknown, "", false},
		{"host cannot tell", dispatch.Sent{Sends: 1, Written: true, Answer: refusal(protocol.ClassUnknown)}, action.Uncertain, fleet.OutcomeUnknown, "", false},
		{"success", dispatch.Sent{Sends: 1, Written: true, Answer: result(protocol.ResultCompleted)}, action.Completed, fleet.OutcomeCompleted, "", false},
		{"definite failure", dispatch.Sent{Sends: 1, Written: true, Answer: result(protocol.ResultFailed)}, action.Failed, fleet.OutcomeCompleted, "", false},
		{"status completed", dispatch.Sent{Sends: 1, Written: true, Answer: status(protocol.StateCompleted)}, action.Completed, fleet.OutcomeCompleted, "", false},
		{"status not started", dispatch.Sent{Sends: 1, Written: true, Answer: status(protocol.StateNotStarted)}, action.Retryable, fleet.OutcomeCancelled, fleet.VerdictNotStarted, false},
		{"status cancelled", dispatch.Sent{Sends: 1, Written: true, Answer: status(protocol.StateCancelled)}, action.Cancelled, fleet.OutcomeCancelled, fleet.VerdictNotStarted, false},
		{"status unknown", dispatch.Sent{Sends: 1, Written: true, Answer: status(protocol.StateUnknown)}, action.Uncertain, fleet.OutcomeUnknown, "", false},
		{"status running", dispatch.Sent{Sends: 1, Written: true, Answer: status(protocol.StateRunning)}, action.Dispatched, "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := dispatch.Classify(id, c.sent)
			s := v.Settlement
			if v.State != c.state || s.Outcome != c.outcome || s.Verdict != c.verdict || s.PeerFault != c.fault {
				t.Fatalf("got %s, settled %+v", v.State, s)
			}
			if v.State.Final() != (len(v.Result) > 0) {
				t.Fatalf("%s with result %q", v.State, v.Result)
			}
			if c.sent.Answer != nil && s.Outcome != "" && s.EvidenceDigest != evidence {
				t.Fatal("the signed answer is not the settlement's evidence")
			}
		})
	}
}
