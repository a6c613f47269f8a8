package action

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Store keeps the records durably. Package action/actiontest holds the suite that
// every implementation passes.
type Store interface {
	// Submit inserts the record of a new action, or returns the one that is there:
	// the same id, or the same idempotency key of the tenant and capability, with
	// the same content. created tells which. Other content, another capability or
	// another tenant is Conflict, code action.conflict, and nothing is written (G03).
	Submit(ctx context.Context, submission Submission) (record Record, created bool, err error)
	// Get reads one action of the tenant. Another tenant's is NotFound (G18).
	Get(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID) (Record, error)
	// Advance replaces the record if its stored revision equals next.Revision and
	// CheckAdvance allows the change; the answer carries the new revision. A moved
	// record is Conflict, code action.moved. The submission's own fields, except
	// owner and timeout, are not written.
	Advance(ctx context.Context, next Record) (Record, error)
	// Claim renews the lease of an owner, and gives it at most limit records that
	// are Orphaned and whose owner has no live lease. A Hold of zero ends the
	// owner's lease at once and claims nothing.
	Claim(ctx context.Context, claim Claim) ([]Record, error)
	// List reads one page, newest first, without input and result.
	List(ctx context.Context, selection Selection) (Page, error)
}

// Claim asks for what dead owners left.
type Claim struct {
	Owner string
	Hold  time.Duration // how long the owner may be silent
	Limit int           // 0 only renews
}

// MaxListItems bounds one page of List.
const MaxListItems = 200

// Selection picks records. Zero fields match all; a zero tenant matches every
// tenant and is for the platform's own loops only.
type Selection struct {
	Tenant fleet.TenantID
	States []State
	Owner  string // only what this owner still has to bring to rest; with no other filter
	After  string // Page.Next of the page before
	Limit  int    // 1..MaxListItems; 0 means 50
}

// PageLimit is the effective page size.
func (s Selection) PageLimit() int {
	if s.Limit <= 0 {
		return 50
	}
	return min(s.Limit, MaxListItems)
}

// Page is one page of records.
type Page struct {
	Records []Record
	Next    string // "" at the end
}

// updateTries bounds how often Update reads again. Each loss means that somebody
// else made progress.
const updateTries = 16

// Update applies a pure change to the current record until it is stored, or until
// the change itself refuses. A change that returns the record as it was, with
// keep true, stores nothing.
func Update(ctx context.Context, store Store, r Record, change func(Record) (next Record, keep bool, err error)) (Record, error) {
	for range updateTries {
		next, keep, err := change(r)
		if err != nil || keep {
			return r, err
		}
		stored, err := store.Advance(ctx, next)
		if fleet.CodeOf(err) != CodeMoved {
			return stored, err
		}
		if r, err = store.Get(ctx, r.Tenant, r.ID); err != nil {
			return r, err
		}
	}
	return r, fleet.Errorf(fleet.Contended, CodeMoved, "action %s is being changed all the time", r.ID)
}
