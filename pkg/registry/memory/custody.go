package memory

import (
	"context"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// AcceptJournal implements registry.Custody.
func (r *Registry) AcceptJournal(ctx context.Context, a registry.JournalAcceptance) (fleet.ReplicaLive, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return fleet.ReplicaLive{}, err
	}
	defer end()
	if err := registry.Named(a.Actor, a.Reason); err != nil {
		return fleet.ReplicaLive{}, err
	}
	before, ok := r.live[a.Replica]
	if !ok {
		return fleet.ReplicaLive{}, fleet.Errorf(fleet.NotFound, "lease.replica", "replica %s is not declared", a.Replica)
	}
	live, refusal := lease.AcceptJournal(before, a.Journal, r.now())
	if refusal != nil {
		return fleet.ReplicaLive{}, refusal
	}
	r.live[live.ID] = live
	if live != before {
		r.record(registry.Event{
			At: r.now(), Kind: registry.EventJournal, Subject: live.ID.String(), Actor: a.Actor, Reason: a.Reason,
			Detail: registry.JournalDetail(before.Journal, live.Journal),
		})
	}
	return live, nil
}

// Retire implements registry.Custody.
func (r *Registry) Retire(ctx context.Context, t registry.Retirement) (registry.Retired, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return registry.Retired{}, err
	}
	defer end()
	if err := registry.Named(t.Actor, t.Reason); err != nil {
		return registry.Retired{}, err
	}
	before, ok := r.live[t.Replica]
	if !ok {
		return registry.Retired{}, fleet.Errorf(fleet.NotFound, "lease.replica", "replica %s is not declared", t.Replica)
	}
	now := r.now()
	live, refusal := lease.Retire(before, now)
	if refusal != nil || live == before {
		return registry.Retired{Live: before}, orNil(refusal)
	}
	r.live[live.ID] = live
	done := registry.Retired{Live: live}
	for _, u := range r.uncertain {
		if u.Replica == t.Replica && u.State == fleet.ReconcileOpen {
			u.State = fleet.ReconcileOperator
			done.HandedOver++
		}
	}
	r.record(registry.Event{
		At: now, Kind: registry.EventRetired, Subject: live.ID.String(), Actor: t.Actor, Reason: t.Reason,
		Detail: registry.RetiredDetail(done.HandedOver),
	})
	return done, nil
}

// orNil keeps a nil *fleet.Error from becoming an error.
func orNil(e *fleet.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// retired reports whether an operator ended the replica for ever.
func (r *Registry) retired(id fleet.ReplicaID) bool { return r.live[id].Status == fleet.ReplicaRetired }

// inQuestion reports whether an attempt of the action still waits for its answer.
func (r *Registry) inQuestion(action fleet.ActionID) bool {
	for key, u := range r.uncertain {
		if key.Action == action && u.State != fleet.ReconcileResolved {
			return true
		}
	}
	return false
}
