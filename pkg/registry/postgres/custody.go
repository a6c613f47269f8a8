package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// word is what an operator says about one replica: judged under its row's lock.
type word struct {
	replica       fleet.ReplicaID
	actor, reason string
	judge         func(s standing) (fleet.ReplicaLive, *fleet.Error)
	write         func(tx pgx.Tx, before, after fleet.ReplicaLive) (event, error)
}

// say runs a word in one transaction. One that changes nothing writes nothing.
func (r *Registry) say(ctx context.Context, w word) (fleet.ReplicaLive, error) {
	if err := registry.Named(w.actor, w.reason); err != nil {
		return fleet.ReplicaLive{}, err
	}
	p, err := r.intentPool()
	if err != nil {
		return fleet.ReplicaLive{}, err
	}
	var live fleet.ReplicaLive
	err = r.transact(ctx, p, "lease.unavailable", func(tx pgx.Tx) error {
		s, err := stand(ctx, tx, w.replica, true)
		if err != nil {
			return err
		}
		next, refusal := w.judge(s)
		if refusal != nil {
			return refusal
		}
		if live = next; live == s.live {
			return nil
		}
		e, err := w.write(tx, s.live, next)
		if err != nil {
			return err
		}
		e.subject, e.actor, e.reason = live.ID.String(), w.actor, w.reason
		return insertEvent(ctx, tx, e)
	})
	return live, err
}

// AcceptJournal implements registry.Custody.
func (r *Registry) AcceptJournal(ctx context.Context, a registry.JournalAcceptance) (fleet.ReplicaLive, error) {
	return r.say(ctx, word{
		replica: a.Replica, actor: a.Actor, reason: a.Reason,
		judge: func(s standing) (fleet.ReplicaLive, *fleet.Error) {
			return lease.AcceptJournal(s.live, a.Journal, s.now)
		},
		write: func(tx pgx.Tx, before, after fleet.ReplicaLive) (event, error) {
			_, err := tx.Exec(ctx, "SELECT aip.accept_journal($1::text, $2::text)", after.ID.String(), after.Journal.String())
			return event{kind: registry.EventJournal, detail: registry.JournalDetail(before.Journal, after.Journal)}, err
		},
	})
}

// Retire implements registry.Custody.
func (r *Registry) Retire(ctx context.Context, t registry.Retirement) (registry.Retired, error) {
	var done registry.Retired
	live, err := r.say(ctx, word{
		replica: t.Replica, actor: t.Actor, reason: t.Reason,
		judge: func(s standing) (fleet.ReplicaLive, *fleet.Error) { return lease.Retire(s.live, s.now) },
		write: func(tx pgx.Tx, _, after fleet.ReplicaLive) (event, error) {
			err := tx.QueryRow(ctx, "SELECT aip.retire_replica($1::text)", after.ID.String()).Scan(&done.HandedOver)
			return event{kind: registry.EventRetired, detail: registry.RetiredDetail(done.HandedOver)}, err
		},
	})
	if err != nil {
		return registry.Retired{}, err
	}
	done.Live = live
	return done, nil
}
