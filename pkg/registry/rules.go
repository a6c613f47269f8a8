package registry

import (
	"github.com/aipfleet/aipfleet/pkg/catalog"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/settlement"
)

// The rule packages know nothing of this contract; here its values become theirs.
// Both registries use these, so that a rule cannot be asked differently by each.

// Filter is the query as package catalog sees it.
func (q CatalogQuery) Filter(tenant fleet.TenantID) catalog.Filter {
	return catalog.Filter{Tenant: tenant, Search: q.Search, Exact: q.Exact, Profile: q.Profile, Unbound: q.Unbound}
}

// Checked returns the query with its default limit, or the first bound it breaks.
func (q CatalogQuery) Checked() (CatalogQuery, error) {
	if q.Limit == 0 {
		q.Limit = DefaultPageItems
	}
	switch {
	case q.Limit < 0 || q.Limit > MaxPageItems:
		return q, fleet.Invalidf("catalog.limit", "a page has 1..%d items, not %d", MaxPageItems, q.Limit)
	case len(q.Search) > MaxSearchBytes:
		return q, fleet.Invalidf("catalog.search", "search text has at most %d bytes", MaxSearchBytes)
	case len(q.Profile) > MaxSearchBytes:
		return q, fleet.Invalidf("catalog.profile", "a profile has at most %d bytes", MaxSearchBytes)
	}
	return q, nil
}

// Checked returns the request with its default time to live, or what is wrong with it.
func (r RouteRequest) Checked() (RouteRequest, error) {
	if r.TimeToLive == 0 {
		r.TimeToLive = DefaultTimeToLive
	}
	switch {
	case r.Action.IsZero(), r.Capability.IsZero(), r.Tenant.IsZero():
		return r, fleet.Invalidf("resolve.request", "a route request needs action, capability and tenant")
	case r.TimeToLive < 0 || r.TimeToLive > MaxTimeToLive:
		return r, fleet.Invalidf("resolve.time_to_live", "a time to live of %s is outside 0..%s", r.TimeToLive, MaxTimeToLive)
	}
	return r, r.Topology.Validate()
}

// Set is the change set's records as package catalog sees them.
func (s ChangeSet) Set() catalog.Set {
	return catalog.Set{
		Quotas: s.Quotas, Types: s.Types, Versions: s.Versions,
		Instances: s.Instances, Replicas: s.Replicas, Bindings: s.Bindings,
	}
}

// ChangesOf writes catalog's differences as this contract does.
func ChangesOf(differences []catalog.Difference) []Change {
	changes := make([]Change, 0, len(differences))
	for _, d := range differences {
		c := Change{Noun: Noun(d.Noun), ID: d.ID, Op: "update"}
		if d.Create {
			c.Op = "create"
		}
		for _, f := range d.Fields {
			c.Fields = append(c.Fields, FieldChange(f))
		}
		changes = append(changes, c)
	}
	return changes
}

// Said is what the host says of itself, as package lease sees it.
func (r Registration) Said() lease.Registration {
	return lease.Registration{
		PeerDID: r.PeerDID, ManifestDigest: r.ManifestDigest, ArtifactDigest: r.ArtifactDigest,
		Tenant: r.Tenant, ConfigRevision: r.ConfigRevision, SecretProviderRef: r.SecretProviderRef,
		CapabilityCount: r.CapabilityCount, Capacity: r.Capacity, Journal: r.Journal,
		LastEpoch: r.LastEpoch, Starting: r.Starting, TTL: r.TTL,
	}
}

// Said is the beat as package lease sees it.
func (b Beat) Said() lease.Beat {
	return lease.Beat{Epoch: b.Epoch, Sequence: b.Sequence, InFlight: b.InFlight, Ready: b.Ready, Draining: b.Draining, TTL: b.TTL}
}

// Claimed refuses a request without an identity to recognise its repeat by.
func (c RequestClaim) Claimed() error {
	if c.ID == "" || len(c.ID) > 256 || c.Digest.IsZero() {
		return fleet.Invalidf("lease.claim", "the request carries no id, or no digest of its bytes")
	}
	return nil
}

// LeaseOf is the answer that a replica's live state gives.
func LeaseOf(d lease.Declared, live fleet.ReplicaLive) Lease {
	return Lease{
		Replica: live.ID, Epoch: live.LeaseEpoch, Sequence: live.LeaseSequence,
		ExpiresAt: live.LeaseExpiresAt, TTL: live.LeaseExpiresAt.Sub(live.LastBeatAt),
		Intent: lease.Intent(d, live), Status: live.Status,
	}
}

// Wrong says what a settlement lacks; only a registry itself writes overdue ones.
func Wrong(s fleet.Settlement) error {
	switch {
	case !s.Outcome.Valid():
		return fleet.Invalidf("settle.outcome", "outcome %q is not one of the four", fleet.Printable(string(s.Outcome), 32))
	case len(s.Code) > 128:
		return fleet.Invalidf("settle.code", "a settlement code has at most 128 bytes")
	case s.Code == settlement.CodeOverdue:
		return fleet.Invalidf("settle.code", "only the registry settles as %s", settlement.CodeOverdue)
	}
	return nil
}

// Wrong says what a decision lacks.
func (d Decision) Wrong() error {
	switch d.Resolution {
	case fleet.ResolvedHappened, fleet.ResolvedDidNotHappen:
		if len(d.Document) == 0 {
			return fleet.Invalidf("reconcile.document", "an operator's decision needs its signed document")
		}
	case fleet.ResolvedCompleted, fleet.ResolvedNotStarted:
	default:
		return fleet.Invalidf("reconcile.resolution", "resolution %q is not known", fleet.Printable(string(d.Resolution), 32))
	}
	if d.By == "" || len(d.By) > 256 || d.Evidence.IsZero() {
		return fleet.Invalidf("reconcile.evidence", "a decision names who decided, and the digest of the evidence")
	}
	return nil
}

// Verdict is what a decided attempt tells a later one (G25): a decision that it did
// not happen excludes an effect, one that it did makes it definite.
func (d Decision) Verdict() fleet.Verdict { return VerdictOf(d.Resolution) }

// VerdictOf maps a resolution to the verdict that later attempts see; "" for none.
func VerdictOf(r fleet.Resolution) fleet.Verdict {
	switch r {
	case fleet.ResolvedCompleted, fleet.ResolvedHappened:
		return fleet.VerdictCompleted
	case fleet.ResolvedNotStarted, fleet.ResolvedDidNotHappen:
		return fleet.VerdictNotStarted
	}
	return ""
}

// MaxProbes is how many probes a reconciliation record keeps; older ones are counted.
const MaxProbes = 20
