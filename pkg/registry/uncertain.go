package registry

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Uncertain keeps the records of attempts without a definite answer (G38, G42).
// Records are opened only by settlement and expiry, inside their transaction.
type Uncertain interface {
	// Due claims up to limit open records whose next probe has come, and moves that
	// time on by hold, so that two reconcilers do not ask the same host at once.
	Due(ctx context.Context, limit int, hold time.Duration) ([]fleet.Reconciliation, error)
	// Note appends a probe's answer and sets the next one; state operator stops
	// automatic asking. A record of a retired replica stays the operator's.
	Note(ctx context.Context, key ReconciliationKey, probe fleet.Probe, next time.Time, state fleet.ReconciliationState) error
	// Decide closes a record. The first decision stands: the same again is a no-op,
	// another is Conflict, code reconcile.decided. The attempt's settlement is not
	// rewritten; the verdict that later attempts see is (G25).
	Decide(ctx context.Context, key ReconciliationKey, decision Decision) (fleet.Reconciliation, error)
}

// ReconciliationKey names a record.
type ReconciliationKey struct {
	Action fleet.ActionID
	Fence  uint64
}

// Decision closes an uncertain attempt.
type Decision struct {
	Resolution fleet.Resolution
	By         string       // host DID or operator
	Evidence   fleet.Digest // of the signed answer or of the evidence file
	Document   []byte       // operator decisions: the signed document
}
