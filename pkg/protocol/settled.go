package protocol

import (
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// TypeActionSettled is the type of the message that says an outcome is kept centrally.
const TypeActionSettled = "aipfleet.host.v1.action_settled"

// ActionSettled tells a host that the outcome of an action is settled and kept
// centrally: the host need not keep the result beyond its retention. It is answered
// with an Ack.
type ActionSettled struct {
	ActionID fleet.ActionID `json:"action_id"`
}

// BodyKey implements Document.
func (ActionSettled) BodyKey() string { return "action_settled" }

// MessageType implements Document.
func (ActionSettled) MessageType() string { return TypeActionSettled }

// Validate implements Document.
func (s ActionSettled) Validate() error {
	return refuse(s.ActionID.IsZero(), "action_settled", "action_id", missing)
}

// Transaction is what an action says of its part in a transaction.
type Transaction struct {
	ID fleet.TransactionID `json:"transaction_id,omitzero"`
	// Compensates names the completed action whose effect this action undoes. The
	// capability and the input are those of that action.
	Compensates fleet.ActionID `json:"compensates,omitzero"`
}

// ReadTransaction reads the member transaction of an action strictly: what a host
// does not understand it must not ignore. Without the member it is zero.
func (a Action) ReadTransaction() (Transaction, error) {
	var t Transaction
	if len(a.Transaction) == 0 {
		return t, nil
	}
	if err := envelope.DecodeClosed(a.Transaction, envelope.Limits{SafeIntegers: true}, &t); err != nil {
		return t, err
	}
	return t, refuse(t.Compensates == a.ID && !a.ID.IsZero(), "action", "transaction.compensates", "an action cannot undo itself")
}
