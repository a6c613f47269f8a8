package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// archived is what stays of an action for ever.
type archived struct {
	id      fleet.ActionID
	tenant  fleet.TenantID
	content fleet.Digest
	state   action.State
	tells   int
	tellAt  time.Time
	told    bool
}

// again answers a submission that means what is archived, or something else under its name.
func (a *archived) again(r action.Record, what string) error {
	if a.tenant != r.Tenant || a.content != r.Content {
		return action.ConflictError(what)
	}
	return action.ArchivedError(a.id, a.state)
}

var _ action.Archive = (*Store)(nil)

// Archive implements action.Archive. This store knows nothing of the registry: what is
// in question is what its own record says.
func (s *Store) Archive(ctx context.Context, keep time.Duration, limit int) (int, bool, error) {
	if err := action.CheckKeep(keep, limit); err != nil {
		return 0, false, err
	}
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var over []action.Record
	for _, r := range s.records {
		if r.Ended() && r.UpdatedAt.Before(now.Add(-keep)) {
			over = append(over, r)
		}
	}
	slices.SortFunc(over, func(a, b action.Record) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.ID.String(), b.ID.String()))
	})
	over = over[:min(len(over), limit)]
	for _, r := range over {
		s.gone[r.ID] = &archived{id: r.ID, tenant: r.Tenant, content: r.Content, state: r.State, tellAt: now}
		delete(s.records, r.ID)
	}
	return len(over), true, nil
}

// Untold implements action.Archive.
func (s *Store) Untold(ctx context.Context, limit int, hold time.Duration) ([]action.Ended, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var due []*archived
	for _, a := range s.gone {
		if !a.told && a.tells < action.MaxTells && !a.tellAt.After(now) {
			due = append(due, a)
		}
	}
	slices.SortFunc(due, func(a, b *archived) int {
		return cmp.Or(a.tellAt.Compare(b.tellAt), cmp.Compare(a.id.String(), b.id.String()))
	})
	var claimed []action.Ended
	for _, a := range due[:min(len(due), limit)] {
		a.tellAt = now.Add(min(hold<<min(a.tells, 20), action.MaxTellPause))
		a.tells++
		claimed = append(claimed, action.Ended{ID: a.id, Tenant: a.tenant})
	}
	return claimed, nil
}

// Told implements action.Archive.
func (s *Store) Told(ctx context.Context, ids ...fleet.ActionID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if a, ok := s.gone[id]; ok {
			a.told = true
		}
	}
	return nil
}
