package registry

import (
	"context"
	"fmt"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Custody is what an operator decides about a replica when its host cannot speak for
// its past any more (G25, G38). Both leave an event with actor and reason.
type Custody interface {
	// AcceptJournal lets the replica register with the journal that a host of it was
	// refused with (lease.journal_changed). What the old journal knew is lost: attempts
	// keep the journal that they were reserved for, so no host of the new one executes
	// them or speaks for them. Refused while a lease lives (lease.held), for a journal
	// that no host came with (lease.journal_not_offered), and for a retired replica.
	AcceptJournal(ctx context.Context, acceptance JournalAcceptance) (fleet.ReplicaLive, error)
	// Retire ends the replica's identity for ever: it never registers, renews or serves
	// again. It must be drained or offline, with nothing reserved (lease.not_drained).
	// In the same transaction its open reconciliation records become the operator's:
	// nobody asks a host that is gone, and none is forgotten. A retry of an action pinned
	// there is refused: resolve.route_lost once nothing of it is in question.
	Retire(ctx context.Context, retirement Retirement) (Retired, error)
}

// JournalAcceptance names the journal and who accepts it.
type JournalAcceptance struct {
	Replica fleet.ReplicaID
	Journal fleet.JournalID // as the operator saw it offered
	Actor   string
	Reason  string
}

// Retirement names the replica and who retires it.
type Retirement struct {
	Replica fleet.ReplicaID
	Actor   string
	Reason  string
}

// Retired is the replica afterwards.
type Retired struct {
	Live       fleet.ReplicaLive `json:"live"`
	HandedOver int               `json:"handed_over"` // records that became the operator's now
}

// Kinds of the events that an operator's word about a replica leaves.
const (
	EventJournal = "journal"
	EventRetired = "retired"
)

// JournalDetail is the detail of a journal event.
func JournalDetail(old, accepted fleet.JournalID) string {
	return fmt.Sprintf("%s accepted, %s is lost", accepted, old)
}

// RetiredDetail is the detail of a retirement.
func RetiredDetail(handedOver int) string {
	return fmt.Sprintf("%d records handed to the operator", handedOver)
}

// IsRetired reports whether an operator ended a replica's identity for ever.
func IsRetired(ctx context.Context, records interface {
	List(ctx context.Context, selection Selection) (Records, error)
}, id fleet.ReplicaID,
) (bool, error) {
	found, err := records.List(ctx, Selection{Noun: Replicas, IDs: []string{id.String()}})
	return err == nil && len(found.Replicas) == 1 && found.Replicas[0].Live.Status == fleet.ReplicaRetired, err
}

// CodeRouteLost refuses a retry for ever: the one replica of the route is retired, and
// an action never moves (G09).
const CodeRouteLost = "resolve.route_lost"

// RouteLost is the refusal of a retry whose replica is retired. It is definite: no
// attempt of the action can happen any more, and none is in question.
func RouteLost(action fleet.ActionID) *fleet.Error {
	return fleet.Errorf(fleet.Conflict, CodeRouteLost, "action %s can never run: its replica is retired", action).
		Because("an action keeps its route, and this one leads nowhere").
		Advise("submit it again under another action id")
}
