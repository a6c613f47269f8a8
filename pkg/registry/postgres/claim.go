package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

type claimRequest struct {
	replica fleet.ReplicaID
	did     string
	claim   registry.RequestClaim
}

// claimed runs a signed request once: the claim of its id and its effect are one
// transaction, an exact repeat gets the first answer. A refusal commits its events,
// and the journal that it was about, and nothing else.
func (r *Registry) claimed(ctx context.Context, c claimRequest, effect func(standing) (fleet.ReplicaLive, []event, error)) (registry.Lease, error) {
	p, err := r.lifecyclePool()
	if err != nil {
		return registry.Lease{}, err
	}
	if err := c.claim.Claimed(); err != nil {
		return registry.Lease{}, err
	}
	var answer registry.Lease
	var refusal error
	err = r.transact(ctx, p, "lease.unavailable", func(tx pgx.Tx) error {
		answer, refusal = registry.Lease{}, nil
		s, err := stand(ctx, tx, c.replica, true)
		if err != nil {
			return err
		}
		if err := lease.Peer(s.declared, c.did); err != nil {
			return err
		}
		earlier, found, err := readClaim(ctx, tx, c)
		if err != nil || found {
			answer = earlier
			return err
		}
		live, events, err := effect(s)
		for _, e := range events {
			if err := insertEvent(ctx, tx, e); err != nil {
				return err
			}
		}
		if live.OfferedJournal != s.live.OfferedJournal {
			if err := offer(ctx, tx, live); err != nil {
				return err
			}
		}
		if refusal = err; refusal != nil {
			return nil
		}
		answer = registry.LeaseOf(s.declared, live)
		return writeLease(ctx, tx, c, live, answer)
	})
	if err == nil {
		err = refusal
	}
	return answer, err
}

func readClaim(ctx context.Context, tx pgx.Tx, c claimRequest) (registry.Lease, bool, error) {
	answer := registry.Lease{Replica: c.replica}
	var digest, intent, status string
	var ttl int64
	err := tx.QueryRow(ctx, `SELECT digest, epoch, sequence, expires_at, ttl_micros, intent, status FROM aip.lifecycle_replay
		WHERE replica_id = $1::text AND claim_id = $2::text`, c.replica.String(), c.claim.ID).
		Scan(&digest, &answer.Epoch, &answer.Sequence, &answer.ExpiresAt, &ttl, &intent, &status)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return registry.Lease{}, false, nil
	case err != nil:
		return registry.Lease{}, false, err
	case digest != c.claim.Digest.String():
		return registry.Lease{}, false, fleet.Errorf(fleet.Conflict, "lease.replay", "request %s was made with other content", fleet.Printable(c.claim.ID, 128))
	}
	answer.ExpiresAt, answer.TTL = answer.ExpiresAt.UTC(), time.Duration(ttl)*time.Microsecond
	answer.Intent, answer.Status = fleet.OperatorIntent(intent), fleet.ReplicaStatus(status)
	return answer, true, nil
}

func writeLease(ctx context.Context, tx pgx.Tx, c claimRequest, live fleet.ReplicaLive, answer registry.Lease) error {
	_, err := tx.Exec(ctx, `UPDATE aip.replica_live SET status = $2::text, healthy = $3::boolean, not_ready_beats = $4::bigint,
		lease_epoch = $5::bigint, lease_sequence = $6::bigint, lease_expires_at = $7::timestamptz, last_beat_at = $8::timestamptz,
		in_flight = $9::bigint, journal_id = $10::text WHERE replica_id = $1::text`,
		live.ID.String(), string(live.Status), live.Healthy, live.NotReadyBeats, live.LeaseEpoch, live.LeaseSequence,
		live.LeaseExpiresAt, live.LastBeatAt, live.InFlight, live.Journal.String())
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO aip.lifecycle_replay (replica_id, claim_id, digest, epoch, sequence, expires_at, ttl_micros,
		intent, status, claimed_at) VALUES ($1::text, $2::text, $3::text, $4::bigint, $5::bigint, $6::timestamptz, $7::bigint,
		$8::text, $9::text, aip.clock())`,
		c.replica.String(), c.claim.ID, c.claim.Digest.String(), answer.Epoch, answer.Sequence, answer.ExpiresAt, answer.TTL.Microseconds(),
		string(answer.Intent), string(answer.Status))
	return err
}

// offer keeps the journal that a host came with and was refused, or forgets it once
// the replica is registered.
func offer(ctx context.Context, tx pgx.Tx, live fleet.ReplicaLive) error {
	if live.OfferedJournal.IsZero() {
		_, err := tx.Exec(ctx, "DELETE FROM aip.journal_offer WHERE replica_id = $1::text", live.ID.String())
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO aip.journal_offer (replica_id, journal_id, offered_at) VALUES ($1::text, $2::text, aip.clock())
		ON CONFLICT (replica_id) DO UPDATE SET journal_id = EXCLUDED.journal_id, offered_at = EXCLUDED.offered_at`,
		live.ID.String(), live.OfferedJournal.String())
	return err
}
