package action

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Archive ends the keeping of actions that are long over. Package action/actiontest
// holds the suite that every implementation passes.
type Archive interface {
	// Archive gives up the input, state and result of at most limit actions that ended
	// more than keep ago: final, settled, and nothing of them in question (G38). The id,
	// the idempotency key, what they stood for and the verdict stay for ever: submitting
	// any of it again is Conflict, code action.archived, and runs nothing (G44); reading
	// is NotFound with the same code. One process at a time does it; led is false for the
	// others. keep is at least MinKeep.
	Archive(ctx context.Context, keep time.Duration, limit int) (count int, led bool, err error)
	// Untold claims at most limit archived actions whose hosts have not heard of it, and
	// moves their next turn on by hold, doubling with each try to MaxTellPause. After
	// MaxTells tries an action is left alone.
	Untold(ctx context.Context, limit int, hold time.Duration) ([]Ended, error)
	// Told notes that a host heard, or that nobody is left who could.
	Told(ctx context.Context, ids ...fleet.ActionID) error
}

// Bounds of archiving.
const (
	MinKeep      = time.Minute
	MaxTells     = 60
	MaxTellPause = 24 * time.Hour
)

// CheckKeep refuses a retention below the least one.
func CheckKeep(keep time.Duration, limit int) error {
	if keep < MinKeep || limit < 1 {
		return fleet.Invalidf("action.keep", "ended actions are kept for at least %s, and archived at least one at a time", MinKeep)
	}
	return nil
}

// Ended names an archived action.
type Ended struct {
	ID     fleet.ActionID
	Tenant fleet.TenantID
}

// CodeArchived is the code of what is said about an archived action to its tenant.
const CodeArchived = "action.archived"

// Ended reports whether nothing more can happen to the action.
func (r Record) Ended() bool { return r.State.Final() && !r.Unsettled }

// ArchivedError is the answer to a repeat of what is archived: it ran, and never runs
// again (G44).
func ArchivedError(id fleet.ActionID, state State) *fleet.Error {
	return fleet.Errorf(fleet.Conflict, CodeArchived, "action %s ended as %s and is archived", id, state).
		Because("its result is not kept any more, and it never runs again").
		Advise("for new work use another action id and idempotency key")
}

// GoneError is the answer to a read of what is archived.
func GoneError(id fleet.ActionID, state State) *fleet.Error {
	return fleet.Errorf(fleet.NotFound, CodeArchived, "action %s ended as %s and is archived", id, state).
		Because("its result is not kept any more").
		Advise("aipctl route inspect %s shows where it went", id)
}
