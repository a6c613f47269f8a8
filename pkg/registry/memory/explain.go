package memory

import (
	"context"
	"errors"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
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
		return taken(req, grave.tenant, grave.capability, true)
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
	if !current.Settled() { // resolve would release it first
		c.Live.Active--
		if current.Probe && c.Live.Circuit.ProbesOut > 0 {
			c.Live.Circuit.ProbesOut--
		}
	}
	if p.Removed = routing.Repin(now, c); p.Removed != routing.Eligible {
		return pinnedRefusal(p.Removed)
	}
	if current.Settled() {
		_, err := r.repin(record, now)
		return err
	}
	return nil
}
