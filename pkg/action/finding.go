package action

import (
	"encoding/json"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// Finding is what a host's verified answer says about an action.
type Finding struct {
	State    protocol.ActionState
	Fence    uint64          // newest fence the answer speaks for
	Journal  fleet.JournalID // of the answering host
	Result   []byte          // exact bytes of the action_result, when completed
	Status   protocol.ResultStatus
	Evidence fleet.Digest // of the signed answer
	By       string       // the answering host's identity
	Detail   string       // printable
}

// FinalState is the state that a definite result gives an action.
func FinalState(status protocol.ResultStatus) (State, bool) {
	switch status {
	case protocol.ResultCompleted:
		return Completed, true
	case protocol.ResultFailed:
		return Failed, true
	case protocol.ResultCancelled:
		return Cancelled, true
	}
	return "", false
}

// Conclude applies a finding to a record. changed is false when the finding says
// nothing new, and for a final record, whatever it says. The result of a
// concluded action is stored before its reservation is settled; that of an
// uncertain one is settled already.
func (f Finding) Conclude(r Record) (next Record, changed bool, err error) {
	if r.State.Final() {
		return r, false, nil
	}
	settled := r.State == Uncertain
	switch f.State {
	case protocol.StateCompleted:
		state, ok := FinalState(f.Status)
		if !ok {
			return r, false, nil
		}
		next, err = r.Finish(state, f.Result, f.Evidence, settled)
	case protocol.StateCancelled:
		next, err = r.Finish(Cancelled, CancelledResult(r.ID), f.Evidence, settled)
	default:
		return r, false, nil
	}
	return next, err == nil, err
}

// CancelledResult is the result document of an action that never ran.
func CancelledResult(id fleet.ActionID) []byte {
	return resultBytes(protocol.ActionResult{ActionID: id, Status: protocol.ResultCancelled})
}

// FailedResult is the result document of an action that aipd itself refused for good.
func FailedResult(id fleet.ActionID, cause *fleet.Error) []byte {
	problem := protocol.ErrorOf(cause, "gateway")
	return resultBytes(protocol.ActionResult{ActionID: id, Status: protocol.ResultFailed, Error: &problem})
}

// DecidedResult is the result document of an action that an operator decided to
// have happened: the decision is its receipt.
func DecidedResult(d protocol.Decision) []byte {
	receipt, _ := json.Marshal(map[string]protocol.Decision{"decision": d}) // plain strings and numbers
	return resultBytes(protocol.ActionResult{ActionID: d.ActionID, Status: protocol.ResultCompleted, Receipt: receipt})
}

func resultBytes(result protocol.ActionResult) []byte {
	// The documents above hold only identities and printable text, which always
	// have a canonical form.
	canonical, _ := envelope.CanonicalOf(result)
	return canonical
}
