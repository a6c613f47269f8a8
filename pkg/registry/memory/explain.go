package memory

import (
	"context"
	"errors"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
	"github.com/aipfleet/aipfleet/pkg/settlement"
)

// Explain implements registry.Router.
func (r *Registry) Explain(ctx context.Context, req registry.RouteRequest) (routing.Explanation, error) {
	req, err := req.Checked()
	if err != nil {
		return routing.Explanation{}, err
	}
	end, err := r.begin(ctx)
	if err != nil {
		return routing.Explanation{}, err
	}
	defer end()
	now := r.now()
	f := r.gather(req, now)
	e := routing.Explain(f.question, f.candidates)
	e.Action, e.Capability, e.Revision = req.Action, req.Capability, r.revision
	err = r.explainOutcome(&e, f, req, now)
	var refusal *fleet.Error
	if errors.As(err, &refusal) {
		e.Winner = fleet.ReplicaID{}
		e.Refusal = &routing.Refusal{Kind: refusal.Kind, Code: refusal.Code, What: refusal.Error()}
	}
	return e, nil
}

// explainOutcome finds what resolve would answer, without its effects.
func (r *Registry) explainOutcome(e *routing.Explanation, f field, req registry.RouteRequest, now time.Time) error {
	if grave, ok := r.archived[req.Action]; ok {
		return taken(req, grave.record.Route.Tenant, grave.record.Route.Capability, true)
	}
	record, ok := r.routes[req.Action]
	if !ok {
		_, err := r.decide(f)
		return err
	}
	if err := taken(req, record.Route.Tenant, record.Route.Capability, false); err != nil {
		return err
	}
	return r.explainPinned(e, record, now)
}

func (r *Registry) explainPinned(e *routing.Explanation, record *registry.RouteRecord, now time.Time) error {
	c := r.pinned(record)
	current := record.Current()
	living := !current.Settled() && lease.Current(c.Live, current.LeaseEpoch, now)
	p := &routing.PinnedExplanation{Replica: c.Replica.ID, Reserved: !current.Settled()}
	e.Pinned, e.Winner = p, c.Replica.ID
	if living {
		if c.Chain.Status == fleet.VersionRevoked {
			p.Removed = routing.VersionStatus
			return pinnedRefusal(p.Removed)
		}
		return nil
	}
	if current.Settled() {
		return r.foresee(p, record, now)
	}
	var err error
	r.without(current, c.Replica.ID, func() { err = r.foresee(p, record, now) }) // resolve would release it first
	return err
}

// foresee is what a new reservation of the route would meet.
func (r *Registry) foresee(p *routing.PinnedExplanation, record *registry.RouteRecord, now time.Time) error {
	p.Removed = routing.Repin(now, r.pinned(record))
	_, err := r.repin(record, now)
	return err
}

// without shows f the registry as it would be with the attempt released.
func (r *Registry) without(a fleet.Attempt, id fleet.ReplicaID, f func()) {
	live := r.live[id]
	released := live
	released.Active--
	released.Circuit = settlement.Circuit(a.CircuitUsed, live.Circuit, a, leaseExpired(), a.ReservedAt)
	r.live[id] = released
	for _, s := range a.Scopes {
		r.counters[scopeKey{s.Kind, s.Key}]--
	}
	defer func() {
		r.live[id] = live
		for _, s := range a.Scopes {
			r.counters[scopeKey{s.Kind, s.Key}]++
		}
	}()
	f()
}
