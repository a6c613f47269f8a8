// Package memory keeps action records in the process, for embedding, trials and
// tests. It keeps every promise of action.Store (G03, G18, G44) except that
// nothing outlives the process.
package memory

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Store is an action.Store in memory. Use New.
type Store struct {
	now func() time.Time

	mu      sync.Mutex
	records map[fleet.ActionID]action.Record
	keys    map[key]fleet.ActionID
	owners  map[string]time.Time // until when an owner may be silent
	gone    map[fleet.ActionID]*archived
}

type key struct {
	tenant     fleet.TenantID
	capability fleet.CapabilityID
	text       string
}

// New makes an empty store with the given clock.
func New(now func() time.Time) *Store {
	return &Store{
		now: now, records: map[fleet.ActionID]action.Record{},
		keys: map[key]fleet.ActionID{}, owners: map[string]time.Time{}, gone: map[fleet.ActionID]*archived{},
	}
}

var _ action.Store = (*Store)(nil)

func clone(r action.Record) action.Record {
	r.Input, r.Result = slices.Clone(r.Input), slices.Clone(r.Result)
	if r.Problem != nil {
		p := *r.Problem
		r.Problem = &p
	}
	return r
}

// Submit implements action.Store.
func (s *Store) Submit(ctx context.Context, submission action.Submission) (action.Record, bool, error) {
	if err := ctx.Err(); err != nil {
		return action.Record{}, false, err
	}
	r, err := action.NewRecord(submission, s.now())
	if err != nil {
		return action.Record{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, taken := s.records[r.ID]; taken {
		if old.Tenant != r.Tenant || old.Content != r.Content {
			return action.Record{}, false, action.ConflictError("the action id")
		}
		return clone(old), false, nil
	}
	if old, taken := s.gone[r.ID]; taken {
		return action.Record{}, false, old.again(r, "the action id")
	}
	k := key{r.Tenant, r.Capability, r.IdempotencyKey}
	if first, taken := s.keys[k]; taken && k.text != "" {
		if old, over := s.gone[first]; over {
			return action.Record{}, false, old.again(r, "the idempotency key")
		}
		old := s.records[first]
		if old.Content != r.Content {
			return action.Record{}, false, action.ConflictError("the idempotency key")
		}
		return clone(old), false, nil
	}
	if k.text != "" {
		s.keys[k] = r.ID
	}
	s.records[r.ID] = clone(r)
	return clone(r), true, nil
}

// Get implements action.Store.
func (s *Store) Get(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID) (action.Record, error) {
	if err := ctx.Err(); err != nil {
		return action.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[id]
	if old, over := s.gone[id]; over && old.tenant == tenant {
		return action.Record{}, action.GoneError(id, old.state)
	}
	if !ok || r.Tenant != tenant {
		return action.Record{}, action.NotFoundError(id)
	}
	return clone(r), nil
}

// Advance implements action.Store.
func (s *Store) Advance(ctx context.Context, next action.Record) (action.Record, error) {
	if err := ctx.Err(); err != nil {
		return action.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.records[next.ID]
	if !ok || old.Tenant != next.Tenant {
		return action.Record{}, action.NotFoundError(next.ID)
	}
	if old.Revision != next.Revision {
		return action.Record{}, action.MovedError(next.ID)
	}
	if err := action.CheckAdvance(old, next); err != nil {
		return action.Record{}, err
	}
	kept := clone(next)
	kept.Submission, kept.Content, kept.CreatedAt = old.Submission, old.Content, old.CreatedAt
	kept.Owner, kept.Timeout = next.Owner, next.Timeout
	kept.Revision, kept.UpdatedAt = old.Revision+1, s.now()
	s.records[next.ID] = kept
	return clone(kept), nil
}

// Claim implements action.Store.
func (s *Store) Claim(ctx context.Context, claim action.Claim) ([]action.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if claim.Hold <= 0 {
		delete(s.owners, claim.Owner)
		return nil, nil
	}
	s.owners[claim.Owner] = now.Add(claim.Hold)
	var claimed []action.Record
	for _, id := range s.orphans(now) {
		if len(claimed) >= claim.Limit {
			break
		}
		r := s.records[id]
		r.Owner, r.Revision, r.UpdatedAt = claim.Owner, r.Revision+1, now
		s.records[id] = r
		claimed = append(claimed, clone(r))
	}
	return claimed, nil
}

// orphans lists what dead owners left, in the order of their ids.
func (s *Store) orphans(now time.Time) []fleet.ActionID {
	var ids []fleet.ActionID
	for id, r := range s.records {
		if r.Orphaned() && !s.owners[r.Owner].After(now) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b fleet.ActionID) int { return cmp.Compare(a.String(), b.String()) })
	return ids
}

// List implements action.Store.
func (s *Store) List(ctx context.Context, selection action.Selection) (action.Page, error) {
	if err := ctx.Err(); err != nil {
		return action.Page{}, err
	}
	after, err := action.ParsePlace(selection.After)
	if err != nil {
		return action.Page{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []action.Record
	for _, r := range s.records {
		if selection.Matches(r) && (selection.After == "" || after.Before(r)) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b action.Record) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return cmp.Compare(b.ID.String(), a.ID.String())
	})
	return action.NewPage(all, selection.PageLimit()), nil
}
