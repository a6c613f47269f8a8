package memory

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
	"github.com/aipfleet/aipfleet/pkg/settlement"
)

// Resolve implements registry.Router.
func (r *Registry) Resolve(ctx context.Context, req registry.RouteRequest) (fleet.Assignment, error) {
	req, err := req.Checked()
	if err != nil {
		return fleet.Assignment{}, err
	}
	end, err := r.begin(ctx)
	if err != nil {
		return fleet.Assignment{}, err
	}
	defer end()
	return r.resolve(req)
}

// ResolveBatch implements registry.Router.
func (r *Registry) ResolveBatch(ctx context.Context, requests []registry.RouteRequest) []registry.RouteResult {
	results := make([]registry.RouteResult, len(requests))
	for i, req := range requests {
		results[i].Assignment, results[i].Err = r.Resolve(ctx, req)
	}
	return results
}

func (r *Registry) resolve(req registry.RouteRequest) (fleet.Assignment, error) {
	now := r.now()
	if grave, ok := r.archived[req.Action]; ok {
		return fleet.Assignment{}, taken(req, grave.record.Route.Tenant, grave.record.Route.Capability, true)
	}
	if record, ok := r.routes[req.Action]; ok {
		if err := taken(req, record.Route.Tenant, record.Route.Capability, false); err != nil {
			return fleet.Assignment{}, err
		}
		return r.again(record, req, now)
	}
	c, err := r.decide(r.gather(req, now))
	if err != nil {
		return fleet.Assignment{}, err
	}
	record := &registry.RouteRecord{Route: r.routeOf(req, c, now)}
	r.routes[req.Action] = record
	r.reserve(record, req, c, now)
	return r.assignment(record), nil
}

// taken refuses an action id that means something else already (G03), in the same
// words whoever took it (G18), or whose own route was archived (G01).
func taken(req registry.RouteRequest, tenant fleet.TenantID, capability fleet.CapabilityID, archived bool) error {
	if req.Tenant != tenant || req.Capability != capability {
		return fleet.Errorf(fleet.Conflict, "route.conflict", "action %s is taken", req.Action).
			Advise("use another action id")
	}
	if archived {
		return fleet.Errorf(fleet.Conflict, "route.archived", "action %s ended and is archived", req.Action).
			Advise("use another action id")
	}
	return nil
}

func (r *Registry) routeOf(req registry.RouteRequest, c choice, now time.Time) fleet.RouteAssignment {
	replica, binding := c.candidate.Replica, c.candidate.Chain.Binding
	version := r.versions[replica.Version]
	return fleet.RouteAssignment{
		Action: req.Action, Capability: req.Capability, Tenant: req.Tenant,
		Instance: replica.Instance, Replica: replica.ID, Endpoint: replica.Endpoint,
		Topology: replica.Topology, Peer: replica.Peer,
		Version: version.ID, ManifestDigest: version.ManifestDigest, ArtifactDigest: version.ArtifactDigest,
		CatalogRevision: r.revision, BindingPolicyRevision: binding.PolicyRevision,
		CredentialRevisionRef: binding.CredentialRevisionRef, QuotaPolicyRef: binding.QuotaPolicyRef,
		QuotaPolicyRevision: c.policies.Binding.Revision, OrderingKeys: c.keys, AssignedAt: now,
	}
}

// reserve appends an attempt and counts it (G04, G05).
func (r *Registry) reserve(record *registry.RouteRecord, req registry.RouteRequest, c choice, now time.Time) {
	live := r.live[record.Route.Replica]
	var probe bool
	live.Circuit, probe = settlement.Reserve(live.Circuit, now)
	live.Active++
	r.live[live.ID] = live
	for _, s := range c.scopes {
		r.counters[scopeKey{s.Kind, s.Key}]++
	}
	record.Attempts = append(record.Attempts, fleet.Attempt{
		Action:     req.Action,
		Fence:      fleet.Fence{Number: uint64(len(record.Attempts) + 1), Token: newToken()},
		LeaseEpoch: live.LeaseEpoch, Journal: live.Journal, Scopes: c.scopes,
		CircuitUsed: c.policies.Circuit(), Probe: probe, ReservedAt: now,
		Deadline: now.Add(req.TimeToLive + registry.SettleGrace),
	})
	r.reserved[req.Action] = true
}

func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand does not fail
	return hex.EncodeToString(b[:])
}

// again answers for an action that has its route: the living reservation as it is, or
// a new one on the same replica (G09).
func (r *Registry) again(record *registry.RouteRecord, req registry.RouteRequest, now time.Time) (fleet.Assignment, error) {
	current := record.Current()
	if !current.Settled() {
		if lease.Current(r.live[record.Route.Replica], current.LeaseEpoch, now) {
			if r.versions[record.Route.Version].Status == fleet.VersionRevoked {
				return fleet.Assignment{}, pinnedRefusal(routing.VersionStatus)
			}
			return r.assignment(record), nil
		}
		r.settle(record, leaseExpired(), now)
	}
	c, err := r.repin(record, now)
	if err != nil {
		return fleet.Assignment{}, err
	}
	r.reserve(record, req, c, now)
	return r.assignment(record), nil
}

// repin judges whether a released route may be reserved again, and with what. It
// writes nothing.
func (r *Registry) repin(record *registry.RouteRecord, now time.Time) (choice, error) {
	for _, end := range r.ends(record.Attempts) {
		if end.Verdict == fleet.VerdictCompleted {
			return choice{}, fleet.Errorf(fleet.Conflict, "route.completed", "action %s has its definite result", record.Route.Action).
				Advise("read the stored result")
		}
	}
	c := r.pinned(record)
	if why := routing.Repin(now, c); why != routing.Eligible {
		if why == routing.Retired && !r.inQuestion(record.Route.Action) {
			return choice{}, registry.RouteLost(record.Route.Action)
		}
		return choice{}, pinnedRefusal(why)
	}
	policies := r.policies(c.Chain.Binding.QuotaPolicyRef)
	scopes := settlement.Scopes(c.Chain.Binding.BindingKey, c.Chain.Type, policies, true)
	if err := r.room(scopes); err != nil {
		return choice{}, err
	}
	return choice{candidate: c, policies: policies, scopes: scopes}, nil
}

// pinned is the route's own replica, as a candidate.
func (r *Registry) pinned(record *registry.RouteRecord) routing.Candidate {
	route := record.Route
	c := r.chain(r.bindings[fleet.BindingKey{Tenant: route.Tenant, Capability: route.Capability, Instance: route.Instance}])
	version := r.versions[route.Version]
	c.Version, c.Status = version.ID, version.Status
	return routing.Candidate{Chain: c, Replica: r.replicas[route.Replica], Live: r.live[route.Replica]}
}

func pinnedRefusal(why routing.Reason) error {
	e := fleet.Errorf(fleet.ReplicaUnavailable, "resolve.pinned_unavailable", "the replica that the action is pinned to may not take it now").
		Because("%s", why).Advise("an action never moves: wait for the replica, or reconcile the action")
	e.RetryAfter = retryAfter
	return e
}

// assignment is what leaves the registry: a copy, with the verdicts on older attempts.
func (r *Registry) assignment(record *registry.RouteRecord) fleet.Assignment {
	last := len(record.Attempts) - 1
	return fleet.Assignment{
		Route:   record.Route,
		Attempt: deepCopy(record.Attempts[last]),
		Earlier: r.ends(record.Attempts[:last]),
	}
}

// ends tells what is known about settled attempts, decisions included (G25).
func (r *Registry) ends(attempts []fleet.Attempt) []fleet.AttemptEnd {
	var ends []fleet.AttemptEnd
	for _, a := range attempts {
		end := registry.End(a)
		if u, ok := r.uncertain[registry.ReconciliationKey{Action: a.Action, Fence: a.Fence.Number}]; ok {
			if v := registry.VerdictOf(u.Resolution); v != "" {
				end.Verdict = v
			}
		}
		ends = append(ends, end)
	}
	return ends
}
