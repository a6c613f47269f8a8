package dispatch

import (
	"context"
	"errors"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// Verdict is what an attempt came to: how it settles, and what becomes of the action.
type Verdict struct {
	Settlement fleet.Settlement
	State      action.State // Completed, Failed, Cancelled, Uncertain, Retryable; Dispatched while it runs
	Result     []byte       // with a final state
	Problem    *action.Problem
	Draining   bool // refused because the host drains: worth one more reservation
}

// CodeHostDraining is the host's code for "no new work here".
const CodeHostDraining = "host.draining"

// Classify is the one place that says what an attempt's sends prove. It is pure.
//
//   - no byte of any send was written: not started, the peer is at fault
//   - a signed promise of not started: not started
//   - a signed refusal before the action was looked at: not started only if no
//     other send of this fence can be open, otherwise unknown
//   - a signed definite result: completed, success and failure alike
//   - everything else: unknown; an unsigned or invalid answer is the peer's fault
func Classify(id fleet.ActionID, s Sent) Verdict {
	switch {
	case s.Answer == nil && !s.Written:
		return neverSent(s)
	case s.Answer == nil:
		code := CodeNoAnswer
		if s.Fault {
			code = CodeBadAnswer
		}
		return unknown(code, s.Fault, s.Err)
	case s.Answer.Result != nil:
		return completed(s.Answer.Result.Status, s.Answer.Raw, s.Answer.Evidence)
	case s.Answer.Status != nil:
		return byStatus(id, s.Answer)
	}
	return byRefusal(s)
}

func neverSent(s Sent) Verdict {
	// An action whose own time ran out before it was connected blames nobody.
	late := errors.Is(s.Err, context.DeadlineExceeded) || errors.Is(s.Err, context.Canceled)
	fault := fleet.CodeOf(s.Err) == peer.CodeUnreachable && !late
	e := fleet.Errorf(fleet.ReplicaUnavailable, CodeNeverSent, "the host of this action was not reached").
		Caused(s.Err).Advise("submit the same action again: it goes to the same replica")
	return Verdict{
		State: action.Retryable, Problem: action.ProblemOf(e),
		Settlement: fleet.Settlement{
			Outcome: fleet.OutcomeCancelled, Verdict: fleet.VerdictNeverSent, Code: CodeNeverSent, PeerFault: fault,
		},
	}
}

func unknown(code string, peerFault bool, cause error) Verdict {
	e := fleet.Errorf(fleet.Unknown, code, "the action may have happened").Caused(cause).
		Advise("wait for reconciliation, or see: aipctl reconcile list")
	return Verdict{
		State: action.Uncertain, Problem: action.ProblemOf(e),
		Settlement: fleet.Settlement{Outcome: fleet.OutcomeUnknown, Code: code, PeerFault: peerFault},
	}
}

func completed(status protocol.ResultStatus, raw []byte, evidence fleet.Digest) Verdict {
	state, _ := action.FinalState(status) // only definite results open
	return Verdict{
		State: state, Result: raw,
		Settlement: fleet.Settlement{Outcome: fleet.OutcomeCompleted, Code: "host." + string(status), EvidenceDigest: evidence},
	}
}

func notStarted(code, text string, evidence fleet.Digest) Verdict {
	e := fleet.Errorf(fleet.ReplicaUnavailable, code, "the host did not start the action").Because("%s", text).
		Advise("submit the same action again: it goes to the same replica")
	return Verdict{
		State: action.Retryable, Problem: action.ProblemOf(e), Draining: code == CodeHostDraining,
		Settlement: fleet.Settlement{
			Outcome: fleet.OutcomeCancelled, Verdict: fleet.VerdictNotStarted, Code: code, EvidenceDigest: evidence,
		},
	}
}

func byRefusal(s Sent) Verdict {
	refusal := s.Answer.Refusal
	promised := refusal.Class == protocol.ClassNotStarted
	alone := refusal.Class == protocol.ClassRefused && s.Sends == 1
	if promised || alone {
		return notStarted(refusal.Code, s.Answer.Text, s.Answer.Evidence)
	}
	v := unknown(refusal.Code, false, fleet.Errorf(fleet.Unknown, refusal.Code, "%s", s.Answer.Text))
	v.Settlement.EvidenceDigest = s.Answer.Evidence
	return v
}

func byStatus(id fleet.ActionID, a *Answer) Verdict {
	switch a.Status.State {
	case protocol.StateCompleted:
		return completed(a.Status.Result.Status, a.Raw, a.Evidence)
	case protocol.StateNotStarted:
		return notStarted("host.not_started", "its journal holds no start", a.Evidence)
	case protocol.StateCancelled:
		v := notStarted("host.cancelled", "it was cancelled before it started", a.Evidence)
		v.State, v.Result, v.Problem = action.Cancelled, action.CancelledResult(id), nil
		return v
	case protocol.StateRunning:
		return Verdict{State: action.Dispatched}
	}
	v := unknown("host.unknown", false, fleet.Errorf(fleet.Unknown, "host.unknown", "the host cannot tell either"))
	v.Settlement.EvidenceDigest = a.Evidence
	return v
}

// verdictOf classifies a status query's finding like the answer to a dispatch.
func verdictOf(id fleet.ActionID, f action.Finding) Verdict {
	if f.State == protocol.StateCompleted {
		return completed(f.Status, f.Result, f.Evidence)
	}
	status := &protocol.ActionStatus{ActionID: id, State: f.State}
	return byStatus(id, &Answer{Status: status, Evidence: f.Evidence})
}
