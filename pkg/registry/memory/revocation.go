package memory

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func (r *Registry) newestList() *registry.RevocationList {
	if len(r.revoked) == 0 {
		return nil
	}
	return &r.revoked[len(r.revoked)-1]
}

// checkRevocation judges a new list and says which versions it ends.
func (r *Registry) checkRevocation(set registry.ChangeSet) ([]registry.Change, error) {
	l := set.Revocation
	if l == nil {
		return nil, nil
	}
	if set.Admission != nil {
		return nil, fleet.Invalidf("publish.revocation_alone", "a revocation list comes without an admission")
	}
	changed, err := registry.CheckRevocation(*l, r.newestList())
	if err != nil || !changed {
		return nil, err
	}
	changes := []registry.Change{{Noun: registry.Revocations, ID: fmt.Sprint(l.Number), Op: "create"}}
	for _, m := range registry.RevokedBy(*l, slices.Collect(maps.Values(r.versions))) {
		changes = append(changes, registry.MoveChange(m.Before, m.After))
	}
	return changes, nil
}

// revoke writes an accepted list and ends what it names.
func (r *Registry) revoke(set registry.ChangeSet) {
	l := set.Revocation
	if l == nil {
		return
	}
	if newest := r.newestList(); newest != nil && newest.Number >= l.Number {
		return // the same list again, beside other changes
	}
	moves := registry.RevokedBy(*l, slices.Collect(maps.Values(r.versions)))
	kept := deepCopy(*l)
	kept.AppliedAt = r.now()
	r.revoked = append(r.revoked, kept)
	for _, m := range moves {
		r.versions[m.After.ID] = m.After
		r.recordMove(m.Before, m.After, registry.VersionTransition{Version: m.After.ID, Actor: set.Actor, Reason: m.Reason})
	}
}
