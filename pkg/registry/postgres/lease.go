package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// declaredSQL reads what was published about a replica beside its live state.
const declaredSQL = `SELECT r.peer_did, r.tenant_id, v.manifest_digest, v.artifact_digest, v.capability_count,
	i.config_revision, i.secret_provider_ref, s.status, i.enabled, t.enabled, to_json(l), COALESCE(o.journal_id, ''), aip.clock()
	FROM aip.replica r
	JOIN aip.replica_live l ON l.replica_id = r.id
	JOIN aip.connector_instance i ON i.id = r.instance_id
	JOIN aip.connector_type t ON t.id = i.type_id
	JOIN aip.connector_version v ON v.id = r.version_id
	JOIN aip.version_status s ON s.version_id = v.id
	LEFT JOIN aip.journal_offer o ON o.replica_id = r.id
	WHERE r.id = $1::text`

// standing is a replica as one statement read it.
type standing struct {
	declared lease.Declared
	live     fleet.ReplicaLive
	now      time.Time // read after the row's lock, when it was locked
}

// stand reads a replica. It locks the live row when lock is set; then the clock is
// read in a later statement.
func stand(ctx context.Context, db Querier, id fleet.ReplicaID, lock bool) (standing, error) {
	if lock {
		var found bool
		err := db.QueryRow(ctx, "SELECT true FROM aip.replica_live WHERE replica_id = $1::text FOR NO KEY UPDATE", id.String()).Scan(&found)
		if errors.Is(err, pgx.ErrNoRows) {
			return standing{}, undeclared(id)
		}
		if err != nil {
			return standing{}, err
		}
	}
	s := standing{declared: lease.Declared{Replica: fleet.Replica{ID: id}}}
	d := &s.declared
	var tenant, manifest, artifact, status, offered string
	var live []byte
	err := db.QueryRow(ctx, declaredSQL, id.String()).Scan(&d.Replica.Peer.DID, &tenant, &manifest, &artifact, &d.Capabilities,
		&d.ConfigRevision, &d.SecretProviderRef, &status, &d.InstanceEnabled, &d.TypeEnabled, &live, &offered, &s.now)
	if errors.Is(err, pgx.ErrNoRows) {
		return standing{}, undeclared(id)
	}
	if err != nil {
		return standing{}, err
	}
	var p reading
	d.Tenant, d.VersionStatus = read(&p, fleet.ParseTenantID, tenant), fleet.VersionStatus(status)
	d.ManifestDigest, d.ArtifactDigest = read(&p, fleet.ParseDigest, manifest), read(&p, fleet.ParseDigest, artifact)
	s.now = s.now.UTC()
	if p.err != nil {
		return standing{}, malformed(p.err)
	}
	var row liveRow
	if err := json.Unmarshal(live, &row); err != nil {
		return standing{}, malformed(err)
	}
	if s.live, err = row.live(); err != nil {
		return standing{}, malformed(err)
	}
	s.live.OfferedJournal = optional(&p, fleet.ParseJournalID, offered)
	return s, p.err
}

func undeclared(id fleet.ReplicaID) *fleet.Error {
	return fleet.Errorf(fleet.NotFound, "lease.replica", "replica %s is not declared", id)
}

// Register implements registry.Fleet.
func (r *Registry) Register(ctx context.Context, reg registry.Registration) (registry.Lease, error) {
	return r.claimed(ctx, claimRequest{reg.Replica, reg.PeerDID, reg.Claim}, func(s standing) (fleet.ReplicaLive, []event, error) {
		live, refusal := lease.Register(s.declared, s.live, reg.Said(), s.now)
		switch {
		case refusal != nil && refusal.Code == "lease.held":
			return live, []event{leaseEvent(reg.Replica, "refused", "another host asked while the lease lives")}, refusal
		case refusal != nil && refusal.Code == lease.CodeJournalChanged && s.live.OfferedJournal != reg.Journal:
			live.OfferedJournal = reg.Journal
			return live, []event{leaseEvent(reg.Replica, "refused", "it came with journal "+reg.Journal.String())}, refusal
		case refusal != nil:
			return live, nil, refusal
		}
		return live, []event{leaseEvent(reg.Replica, "registered", "")}, nil
	})
}

// Leave implements registry.Fleet.
func (r *Registry) Leave(ctx context.Context, dep registry.Departure) (registry.Lease, error) {
	return r.claimed(ctx, claimRequest{dep.Replica, dep.PeerDID, dep.Claim}, func(s standing) (fleet.ReplicaLive, []event, error) {
		live, refusal := lease.Leave(s.live, dep.Epoch, dep.Offline, s.now)
		if refusal != nil {
			return live, nil, refusal
		}
		return live, []event{leaseEvent(dep.Replica, string(live.Status), "")}, nil
	})
}

// Renew implements registry.Fleet: one conditional update. A refused beat reads the
// state once more, to say why.
func (r *Registry) Renew(ctx context.Context, b registry.Beat) (registry.Lease, error) {
	p, err := r.lifecyclePool()
	if err != nil {
		return registry.Lease{}, err
	}
	ttl, refusal := lease.TTL(b.TTL)
	if refusal != nil || b.Epoch > maxBigint || b.Sequence > maxBigint {
		return r.refusedBeat(ctx, p, b)
	}
	out := registry.Lease{Replica: b.Replica, Epoch: b.Epoch, Sequence: b.Sequence, TTL: ttl}
	var status, intent string
	for try := range maxTries {
		err = p.row(ctx, `SELECT o_expires_at, o_status, o_intent FROM aip.renew($1::text, $2::text, $3::bigint, $4::bigint,
			$5::bigint, $6::boolean, $7::boolean, $8::bigint)`,
			[]any{b.Replica.String(), b.PeerDID, b.Epoch, b.Sequence, b.InFlight, b.Ready, b.Draining, ttl.Microseconds()},
			&out.ExpiresAt, &status, &intent)
		if err == nil || !r.retryable(err) || !pause(ctx, try) {
			break
		}
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return r.refusedBeat(ctx, p, b)
	case err != nil && fateUnknown(err):
		return registry.Lease{}, fleet.Errorf(fleet.Unknown, "lease.unknown", "it is not known whether the beat counted").
			Advise("beat again with a higher sequence")
	case err != nil:
		return registry.Lease{}, refused("lease.unavailable", "the lease could not be renewed", err)
	}
	out.ExpiresAt, out.Status, out.Intent = out.ExpiresAt.UTC(), fleet.ReplicaStatus(status), fleet.OperatorIntent(intent)
	return out, nil
}

func (r *Registry) refusedBeat(ctx context.Context, p *pool, b registry.Beat) (registry.Lease, error) {
	var s standing
	err := p.use(ctx, func(conn *pgxpool.Conn) (err error) {
		s, err = stand(ctx, conn, b.Replica, false)
		return err
	})
	if err != nil {
		return registry.Lease{}, refused("lease.unavailable", "the lease could not be renewed", err)
	}
	if refusal := lease.Peer(s.declared, b.PeerDID); refusal != nil {
		return registry.Lease{}, refusal
	}
	if _, refusal := lease.Renew(s.live, b.Said(), s.now); refusal != nil {
		return registry.Lease{}, refusal
	}
	return registry.Lease{}, fleet.Errorf(fleet.Contended, "lease.contended", "the lease of replica %s changed while it was renewed", b.Replica).
		Advise("beat again with a higher sequence")
}

// Intend implements registry.Fleet.
func (r *Registry) Intend(ctx context.Context, intent registry.Intent) (fleet.ReplicaLive, error) {
	return r.say(ctx, word{
		replica: intent.Replica, actor: intent.Actor, reason: intent.Reason,
		judge: func(s standing) (fleet.ReplicaLive, *fleet.Error) { return lease.Intend(s.live, intent.Want) },
		write: func(tx pgx.Tx, before, after fleet.ReplicaLive) (event, error) {
			_, err := tx.Exec(ctx, "SELECT aip.set_intent($1::text, $2::text, $3::boolean)", after.ID.String(), string(after.Intent), after.Status != before.Status)
			return event{kind: "intent", detail: string(intent.Want)}, err
		},
	})
}
