package memory

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// word is what an operator says about one replica.
type word struct {
	replica       fleet.ReplicaID
	actor, reason string
	judge         func(before fleet.ReplicaLive, now time.Time) (fleet.ReplicaLive, *fleet.Error)
	event         func(before, after fleet.ReplicaLive) registry.Event // kind and detail; may change what goes with it
}

// say judges a word and leaves its event. One that changes nothing leaves none.
func (r *Registry) say(ctx context.Context, w word) (fleet.ReplicaLive, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return fleet.ReplicaLive{}, err
	}
	defer end()
	if err := registry.Named(w.actor, w.reason); err != nil {
		return fleet.ReplicaLive{}, err
	}
	before, ok := r.live[w.replica]
	if !ok {
		return fleet.ReplicaLive{}, fleet.Errorf(fleet.NotFound, "lease.replica", "replica %s is not declared", w.replica)
	}
	now := r.now()
	live, refusal := w.judge(before, now)
	if refusal != nil {
		return fleet.ReplicaLive{}, refusal
	}
	r.live[live.ID] = live
	if live != before {
		e := w.event(before, live)
		e.At, e.Subject, e.Actor, e.Reason = now, live.ID.String(), w.actor, w.reason
		r.record(e)
	}
	return live, nil
}

// AcceptJournal implements registry.Custody.
func (r *Registry) AcceptJournal(ctx context.Context, a registry.JournalAcceptance) (fleet.ReplicaLive, error) {
	return r.say(ctx, word{
		replica: a.Replica, actor: a.Actor, reason: a.Reason,
		judge: func(before fleet.ReplicaLive, now time.Time) (fleet.ReplicaLive, *fleet.Error) {
			return lease.AcceptJournal(before, a.Journal, now)
		},
		event: func(before, after fleet.ReplicaLive) registry.Event {
			return registry.Event{Kind: registry.EventJournal, Detail: registry.JournalDetail(before.Journal, after.Journal)}
		},
	})
}

// Retire implements registry.Custody.
func (r *Registry) Retire(ctx context.Context, t registry.Retirement) (registry.Retired, error) {
	var done registry.Retired
	live, err := r.say(ctx, word{
		replica: t.Replica, actor: t.Actor, reason: t.Reason, judge: lease.Retire,
		event: func(fleet.ReplicaLive, fleet.ReplicaLive) registry.Event {
			for _, u := range r.uncertain {
				if u.Replica == t.Replica && u.State == fleet.ReconcileOpen {
					u.State = fleet.ReconcileOperator
					done.HandedOver++
				}
			}
			return registry.Event{Kind: registry.EventRetired, Detail: registry.RetiredDetail(done.HandedOver)}
		},
	})
	if err != nil {
		return registry.Retired{}, err
	}
	done.Live = live
	return done, nil
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
