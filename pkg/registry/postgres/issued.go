package postgres

import (
	"slices"
	"sync"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// issued remembers the assignments that this process was given and has not settled yet,
// by the token of their fence. Routes and attempts never change, so an assignment that
// equals the remembered one in every field equals the stored one: the database need not
// be sent the rows to compare them. What is not remembered, or was altered, is compared
// there.
type issued struct {
	mu         sync.Mutex
	young, old map[string]fleet.Assignment
}

// generation is when the young become old; the old before them are forgotten. What is
// held is at most twice as much.
const generation = 8192

func newIssued() *issued { return &issued{young: map[string]fleet.Assignment{}} }

func (i *issued) keep(a fleet.Assignment) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.young) >= generation {
		i.young, i.old = map[string]fleet.Assignment{}, i.young
	}
	a.Attempt.Scopes = slices.Clone(a.Attempt.Scopes) // the caller may change its own
	i.young[a.Attempt.Fence.Token] = a
}

// holds reports whether this is, field by field, what was given out.
func (i *issued) holds(a fleet.Assignment) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	token := a.Attempt.Fence.Token
	given, found := i.young[token]
	if !found {
		given, found = i.old[token]
	}
	return found && given.Route == a.Route && sameAttempt(given.Attempt, a.Attempt)
}

func (i *issued) forget(a fleet.Assignment) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.young, a.Attempt.Fence.Token)
	delete(i.old, a.Attempt.Fence.Token)
}

// sameAttempt compares what an attempt was reserved with; a settlement is never part of
// what is remembered.
func sameAttempt(a, b fleet.Attempt) bool {
	return a.Action == b.Action && a.Fence == b.Fence && a.LeaseEpoch == b.LeaseEpoch && a.Journal == b.Journal &&
		slices.Equal(a.Scopes, b.Scopes) && a.CircuitUsed == b.CircuitUsed && a.Probe == b.Probe &&
		a.ReservedAt.Equal(b.ReservedAt) && a.Deadline.Equal(b.Deadline) && a.Settlement == nil && b.Settlement == nil
}

// issue remembers what is about to be given to a caller.
func (r *Registry) issue(a fleet.Assignment, err error) (fleet.Assignment, error) {
	if err == nil {
		r.issued.keep(a)
	}
	return a, err
}
