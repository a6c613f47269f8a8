package memory

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/settlement"
)

// Settle implements registry.Router.
func (r *Registry) Settle(ctx context.Context, given fleet.Assignment, s fleet.Settlement) (registry.Receipt, error) {
	if err := registry.Wrong(s); err != nil {
		return registry.Receipt{}, err
	}
	end, err := r.begin(ctx)
	if err != nil {
		return registry.Receipt{}, err
	}
	defer end()
	record, ok := r.routes[given.Route.Action]
	if !ok {
		return registry.Receipt{}, lost(given, "action")
	}
	stored := fleet.Assignment{Route: record.Route, Attempt: record.Current()}
	if field, same := settlement.Same(stored, given); !same {
		return registry.Receipt{}, lost(given, field)
	}
	first := !stored.Attempt.Settled()
	if first {
		r.settle(record, s, r.now())
	}
	return registry.Receipt{
		Settlement: *record.Current().Settlement, First: first,
		Circuit: r.live[record.Route.Replica].Circuit,
	}, nil
}

func lost(given fleet.Assignment, field string) error {
	return fleet.Errorf(fleet.FenceLost, "settle.fence_lost", "this is not the current assignment of action %s", given.Route.Action).
		Because("%s differs", field).
		Advise("look the action up; keep the answer as evidence")
}

func leaseExpired() fleet.Settlement {
	return fleet.Settlement{Outcome: fleet.OutcomeLeaseExpired, Code: settlement.CodeLeaseExpired}
}

// settle ends the newest attempt of a route: counters, capacity, circuit, and the
// reconciliation record when the outcome leaves a question (G04, G07, G42).
func (r *Registry) settle(record *registry.RouteRecord, s fleet.Settlement, now time.Time) {
	s.SettledAt = now
	attempt := &record.Attempts[len(record.Attempts)-1]
	for _, scope := range attempt.Scopes {
		key := scopeKey{scope.Kind, scope.Key}
		if r.counters[key]--; r.counters[key] == 0 {
			delete(r.counters, key)
		}
	}
	live := r.live[record.Route.Replica]
	live.Active--
	before := live.Circuit.State
	live.Circuit = settlement.Circuit(attempt.CircuitUsed, live.Circuit, *attempt, s, now)
	r.live[live.ID] = live
	if live.Circuit.State != before {
		r.record(registry.Event{
			At: now, Kind: "circuit", Subject: live.ID.String(), Actor: "registry",
			Reason: s.Code, Detail: string(before) + " to " + string(live.Circuit.State),
		})
	}
	attempt.Settlement = &s
	delete(r.reserved, record.Route.Action)
	if settlement.NeedsRecord(s.Outcome) {
		r.open(record, *attempt, now)
	}
}

func (r *Registry) open(record *registry.RouteRecord, a fleet.Attempt, now time.Time) {
	cause := a.Settlement.Code
	if cause == "" {
		cause = string(a.Settlement.Outcome)
	}
	route := record.Route
	r.uncertain[registry.ReconciliationKey{Action: route.Action, Fence: a.Fence.Number}] = &fleet.Reconciliation{
		Action: route.Action, Fence: a.Fence.Number, Tenant: route.Tenant, Capability: route.Capability,
		Instance: route.Instance, Replica: route.Replica, State: fleet.ReconcileOpen,
		Cause: cause, OpenedAt: now, NextProbeAt: now, Evidence: a.Settlement.EvidenceDigest,
	}
}

// Lookup implements registry.Router.
func (r *Registry) Lookup(ctx context.Context, tenant fleet.TenantID, action fleet.ActionID) (registry.RouteRecord, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return registry.RouteRecord{}, err
	}
	defer end()
	record, ok := r.routes[action]
	if !ok || record.Route.Tenant != tenant {
		return registry.RouteRecord{}, fleet.Errorf(fleet.NotFound, "route.action", "action %s has no route", action)
	}
	return deepCopy(*record), nil
}

// Archive moves a settled route away and leaves its tombstone: the action id stays
// taken for ever (G01). A reserved or uncertain one is refused.
func (r *Registry) Archive(ctx context.Context, action fleet.ActionID) error {
	end, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	record, ok := r.routes[action]
	if !ok {
		return fleet.Errorf(fleet.NotFound, "route.action", "action %s has no route", action)
	}
	if r.reserved[action] {
		return fleet.Errorf(fleet.Conflict, "archive.reserved", "action %s is reserved", action)
	}
	for _, a := range record.Attempts {
		u, ok := r.uncertain[registry.ReconciliationKey{Action: action, Fence: a.Fence.Number}]
		if ok && u.State != fleet.ReconcileResolved {
			return fleet.Errorf(fleet.Conflict, "archive.uncertain", "action %s has an open question", action)
		}
	}
	r.archived[action] = tombstone{r.now(), *record}
	delete(r.routes, action)
	return nil
}
