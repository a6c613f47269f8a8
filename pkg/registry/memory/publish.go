package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/catalog"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Apply implements registry.Publisher.
func (r *Registry) Apply(ctx context.Context, set registry.ChangeSet, expected uint64) (registry.Publication, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return registry.Publication{}, err
	}
	defer end()
	if expected != r.revision {
		return registry.Publication{}, fleet.Errorf(fleet.Conflict, "publish.revision_moved", "the catalog is at revision %d, not %d", r.revision, expected).
			Advise("plan again against the present revision")
	}
	p, result, err := r.prepare(deepCopy(set))
	if err != nil || !p.Changed {
		return p, err
	}
	r.revision = p.After
	r.write(result)
	r.writeEvidence(set, r.now())
	r.revoke(set)
	r.record(registry.Event{
		At: r.now(), Kind: "publication", Subject: fmt.Sprintf("revision %d", p.After),
		Actor: set.Actor, Reason: set.Reason, Detail: fmt.Sprintf("%d changes", len(p.Changes)),
	})
	return p, nil
}

// Preview implements registry.Publisher.
func (r *Registry) Preview(ctx context.Context, set registry.ChangeSet) (registry.Publication, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return registry.Publication{}, err
	}
	defer end()
	p, _, err := r.prepare(deepCopy(set))
	return p, err
}

// prepare validates a change set and says what it would write. It writes nothing, so
// that a refusal leaves no trace (G13).
func (r *Registry) prepare(set registry.ChangeSet) (registry.Publication, catalog.Result, error) {
	p := registry.Publication{Before: r.revision, After: r.revision, Changes: []registry.Change{}}
	if strings.TrimSpace(set.Actor) == "" {
		return p, catalog.Result{}, fleet.Invalidf("publish.actor", "a publication names its actor")
	}
	result, err := catalog.Check(r.world(set), set.Set())
	if err != nil {
		return p, result, err
	}
	evidence, err := r.checkEvidence(set, result)
	if err != nil {
		return p, result, err
	}
	p.Changes = append(registry.ChangesOf(result.Differences), evidence...)
	if p.Changed = len(p.Changes) > 0; p.Changed {
		p.After++
	}
	return p, result, nil
}

func (r *Registry) world(set registry.ChangeSet) catalog.World {
	active := map[fleet.ReplicaID]uint32{}
	for _, replica := range set.Replicas {
		active[replica.ID] = r.live[replica.ID].Active
	}
	return catalog.World{
		Quotas: r.quotas, Types: r.types, Versions: r.versions, Instances: r.instances,
		Replicas: r.replicas, Bindings: r.bindings, Active: active,
	}
}

// checkEvidence judges what comes beside the records: a trust revision grows by one,
// and a new version comes with exactly one admission under the newest one (G33).
func (r *Registry) checkEvidence(set registry.ChangeSet, result catalog.Result) ([]registry.Change, error) {
	trust := uint64(len(r.trust))
	var changes []registry.Change
	if t := set.Trust; t != nil {
		if err := registry.CheckTrust(*t, trust); err != nil {
			return nil, err
		}
		trust = t.Number
		changes = append(changes, registry.Change{Noun: registry.TrustRevisions, ID: fmt.Sprint(t.Number), Op: "create"})
	}
	revoked, err := r.checkRevocation(set)
	if err != nil {
		return nil, err
	}
	changes = append(changes, revoked...)
	if err := registry.CheckAdmission(set.Admission, result.Versions, registry.InForce{Trust: trust, Revocations: r.newestList()}); err != nil {
		return nil, err
	}
	if a := set.Admission; a != nil && !r.admitted(*a) {
		changes = append(changes, registry.Change{Noun: registry.Admissions, ID: a.Version.String(), Op: "create"})
	}
	return changes, nil
}

func (r *Registry) admitted(a registry.Admission) bool {
	return slices.ContainsFunc(r.admissions, func(b registry.Admission) bool {
		return b.Version == a.Version && b.PackageDigest == a.PackageDigest
	})
}

func (r *Registry) write(result catalog.Result) {
	for _, q := range result.Quotas {
		r.quotas[q.Ref] = q
	}
	for _, t := range result.Types {
		r.types[t.ID] = t
	}
	for _, v := range result.Versions {
		r.versions[v.ID] = v
	}
	for _, i := range result.Instances {
		r.instances[i.ID] = i
	}
	for _, replica := range result.Replicas {
		if _, known := r.replicas[replica.ID]; !known {
			r.live[replica.ID] = lease.Fresh(replica.ID)
			r.members[replica.Instance] = insert(r.members[replica.Instance], replica.ID)
			r.places[replica.ID] = r.ring.Replica(replica.ID)
		}
		r.replicas[replica.ID] = replica
	}
	for _, b := range result.Bindings {
		if _, known := r.bindings[b.BindingKey]; !known {
			r.offer(b.BindingKey)
		}
		r.bindings[b.BindingKey] = b
	}
}

func (r *Registry) offer(k fleet.BindingKey) {
	if r.offered[k.Tenant] == nil {
		r.offered[k.Tenant] = map[fleet.CapabilityID][]fleet.InstanceID{}
	}
	r.offered[k.Tenant][k.Capability] = insert(r.offered[k.Tenant][k.Capability], k.Instance)
}

// insert keeps a list of identities sorted bytewise.
func insert[I interface{ String() string }](list []I, id I) []I {
	at, _ := slices.BinarySearchFunc(list, id, func(a, b I) int { return strings.Compare(a.String(), b.String()) })
	return slices.Insert(list, at, id)
}

func (r *Registry) writeEvidence(set registry.ChangeSet, now time.Time) {
	if set.Trust != nil {
		t := deepCopy(*set.Trust)
		t.AppliedAt = now
		r.trust = append(r.trust, t)
	}
	if set.Admission != nil && !r.admitted(*set.Admission) {
		a := deepCopy(*set.Admission)
		if a.Package != nil {
			r.packages[a.PackageDigest] = a.Package
		}
		a.Package, a.State, a.CatalogRevision, a.AppliedAt = nil, "applied", r.revision, now
		r.supersede(a.Version)
		r.admissions = append(r.admissions, a)
	}
}

// supersede marks the earlier admissions of a new version's type.
func (r *Registry) supersede(by fleet.VersionID) {
	for i := range r.admissions {
		a := &r.admissions[i]
		if a.State == "applied" && r.versions[a.Version].Type == r.versions[by].Type {
			a.State = "superseded"
		}
	}
}

// Transition implements registry.Publisher.
func (r *Registry) Transition(ctx context.Context, move registry.VersionTransition) (registry.Publication, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return registry.Publication{}, err
	}
	defer end()
	p := registry.Publication{Before: r.revision, After: r.revision, Changes: []registry.Change{}}
	if err := registry.Named(move.Actor, move.Reason); err != nil {
		return p, err
	}
	old, ok := r.versions[move.Version]
	if !ok {
		return p, fleet.Errorf(fleet.NotFound, "publish.version", "version %s is not published", move.Version)
	}
	moved, changed, err := catalog.Move(old, move.To)
	if err != nil || !changed {
		return p, err
	}
	r.revision++
	r.versions[moved.ID] = moved
	r.recordMove(old, moved, move)
	p.After, p.Changed = r.revision, true
	p.Changes = append(p.Changes, registry.MoveChange(old, moved))
	return p, nil
}

func (r *Registry) recordMove(old, moved fleet.ConnectorVersion, move registry.VersionTransition) {
	if moved.Status == fleet.VersionRevoked {
		for i := range r.admissions {
			if r.admissions[i].Version == moved.ID {
				r.admissions[i].State = "revoked"
			}
		}
	}
	r.record(registry.Event{
		At: r.now(), Kind: "transition", Subject: moved.ID.String(), Actor: move.Actor, Reason: move.Reason,
		Detail: string(old.Status) + " to " + string(moved.Status),
	})
}
