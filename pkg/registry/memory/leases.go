package memory

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// declared is what was published about a replica, as package lease judges it.
func (r *Registry) declared(id fleet.ReplicaID) (lease.Declared, error) {
	replica, ok := r.replicas[id]
	if !ok {
		return lease.Declared{}, fleet.Errorf(fleet.NotFound, "lease.replica", "replica %s is not declared", id)
	}
	i := r.instances[replica.Instance]
	v := r.versions[replica.Version]
	return lease.Declared{
		Replica: replica, Tenant: i.Tenant, ManifestDigest: v.ManifestDigest, ArtifactDigest: v.ArtifactDigest,
		Capabilities: len(v.Manifest.Capabilities), ConfigRevision: i.ConfigRevision,
		SecretProviderRef: i.SecretProviderRef, VersionStatus: v.Status,
		InstanceEnabled: i.Enabled, TypeEnabled: r.types[i.Type].Enabled,
	}, nil
}

// claimed runs a signed request once: the claim of its id and its effect are one
// step, an exact repeat gets the first answer, other bytes under the id are refused.
func (r *Registry) claimed(d lease.Declared, did string, c registry.RequestClaim, effect func(now time.Time) (fleet.ReplicaLive, *fleet.Error)) (registry.Lease, error) {
	if err := c.Claimed(); err != nil {
		return registry.Lease{}, err
	}
	if err := lease.Peer(d, did); err != nil {
		return registry.Lease{}, err
	}
	key := claimKey{d.Replica.ID, c.ID}
	if earlier, ok := r.claims[key]; ok {
		if earlier.digest != c.Digest {
			return registry.Lease{}, fleet.Errorf(fleet.Conflict, "lease.replay", "request %s was made with other content", fleet.Printable(c.ID, 128))
		}
		return earlier.answer, nil
	}
	now := r.now()
	live, refusal := effect(now)
	if refusal != nil {
		return registry.Lease{}, refusal
	}
	r.live[live.ID] = live
	answer := registry.LeaseOf(d, live)
	r.claims[key] = claim{digest: c.Digest, answer: answer, at: now}
	return answer, nil
}

// Register implements registry.Fleet.
func (r *Registry) Register(ctx context.Context, reg registry.Registration) (registry.Lease, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return registry.Lease{}, err
	}
	defer end()
	d, err := r.declared(reg.Replica)
	if err != nil {
		return registry.Lease{}, err
	}
	return r.claimed(d, reg.PeerDID, reg.Claim, func(now time.Time) (fleet.ReplicaLive, *fleet.Error) {
		before := r.live[reg.Replica]
		live, refusal := lease.Register(d, before, reg.Said(), now)
		switch {
		case refusal != nil && refusal.Code == "lease.held":
			r.leaseEvent(now, reg.Replica, "refused", "another host asked while the lease lives")
		case refusal != nil && refusal.Code == lease.CodeJournalChanged && before.OfferedJournal != reg.Journal:
			before.OfferedJournal = reg.Journal
			r.live[reg.Replica] = before
			r.leaseEvent(now, reg.Replica, "refused", "it came with journal "+reg.Journal.String())
		case refusal == nil:
			r.leaseEvent(now, reg.Replica, "registered", "")
		}
		return live, refusal
	})
}

func (r *Registry) leaseEvent(now time.Time, id fleet.ReplicaID, what, detail string) {
	r.record(registry.Event{At: now, Kind: "lease", Subject: id.String(), Actor: id.String(), Reason: what, Detail: detail})
}

// Renew implements registry.Fleet.
func (r *Registry) Renew(ctx context.Context, b registry.Beat) (registry.Lease, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return registry.Lease{}, err
	}
	defer end()
	d, err := r.declared(b.Replica)
	if err != nil {
		return registry.Lease{}, err
	}
	if err := lease.Peer(d, b.PeerDID); err != nil {
		return registry.Lease{}, err
	}
	live, refusal := lease.Renew(r.live[b.Replica], b.Said(), r.now())
	if refusal != nil {
		return registry.Lease{}, refusal
	}
	r.live[live.ID] = live
	return registry.LeaseOf(d, live), nil
}

// Leave implements registry.Fleet.
func (r *Registry) Leave(ctx context.Context, dep registry.Departure) (registry.Lease, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return registry.Lease{}, err
	}
	defer end()
	d, err := r.declared(dep.Replica)
	if err != nil {
		return registry.Lease{}, err
	}
	return r.claimed(d, dep.PeerDID, dep.Claim, func(now time.Time) (fleet.ReplicaLive, *fleet.Error) {
		live, refusal := lease.Leave(r.live[dep.Replica], dep.Epoch, dep.Offline, now)
		if refusal == nil {
			r.leaseEvent(now, dep.Replica, string(live.Status), "")
		}
		return live, refusal
	})
}

// Intend implements registry.Fleet.
func (r *Registry) Intend(ctx context.Context, intent registry.Intent) (fleet.ReplicaLive, error) {
	return r.say(ctx, word{
		replica: intent.Replica, actor: intent.Actor, reason: intent.Reason,
		judge: func(before fleet.ReplicaLive, _ time.Time) (fleet.ReplicaLive, *fleet.Error) {
			return lease.Intend(before, intent.Want)
		},
		event: func(fleet.ReplicaLive, fleet.ReplicaLive) registry.Event {
			return registry.Event{Kind: "intent", Detail: string(intent.Want)}
		},
	})
}
