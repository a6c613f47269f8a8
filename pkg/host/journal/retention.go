package journal

import (
	"encoding/json"
	"slices"
	"time"
)

// Retention says how long what is known of an ended action is kept in full.
type Retention struct {
	// Keep counts from the last change of the record, for actions of which central
	// said that it has them. Zero means 30 days.
	Keep time.Duration
	// Unconfirmed is the same for actions of which central did not say so. Zero
	// keeps them for ever.
	Unconfirmed time.Duration
}

// DefaultKeep is the default of Retention.Keep.
const DefaultKeep = 30 * 24 * time.Hour

// Prunable reports whether a record may be reduced to its verdict. What runs, or is
// not known, never may (G38).
func (r *Record) Prunable(now time.Time, keep Retention) bool {
	if keep.Keep <= 0 {
		keep.Keep = DefaultKeep
	}
	if r.Pruned || r.State != Result && r.State != Cancelled && r.State != NotStarted {
		return false
	}
	age := now.Sub(r.ChangedAt)
	return r.Settled && age >= keep.Keep || keep.Unconfirmed > 0 && age >= keep.Unconfirmed
}

// Prune leaves of an ended action its id, fences, key and verdict. Document is the
// short result that stands for the full one from now on; nil for an action that was
// not started.
func (r *Record) Prune(document json.RawMessage) error {
	if r.Pruned || r.State != Result && r.State != Cancelled && r.State != NotStarted {
		return r.refuse("pruned")
	}
	r.Document, r.Pruned = slices.Clone(document), true
	r.Operation, r.Evidence, r.Plan, r.Decisions = nil, nil, nil, nil
	if r.Refusal != nil {
		r.Refusal = &Refusal{Check: r.Refusal.Check, Code: r.Refusal.Code}
	}
	return nil
}

// Settle notes that central has the outcome and keeps it.
func (r *Record) Settle() error {
	if r.State != Result && r.State != Cancelled && r.State != NotStarted {
		return r.refuse("settled")
	}
	r.Settled = true
	return nil
}
