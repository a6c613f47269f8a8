package journal

import (
	"encoding/json"
	"slices"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// StartPlan must be durable before the provider is asked to prepare anything: from
// here on it may hold a plan.
func (r *Record) StartPlan() error { return r.move(Planning, Intent) }

// KeepPlan writes down what the provider prepared.
func (r *Record) KeepPlan(plan json.RawMessage) error {
	if err := r.move(Planned, Planning); err != nil {
		return err
	}
	r.Plan = slices.Clone(plan)
	return nil
}

// StartRelease decides that what was planned is never committed: after it no call can
// start. A call of which it is proved that nothing was written may be decided so too.
func (r *Record) StartRelease(evidence json.RawMessage) error {
	if err := r.move(Releasing, Planning, Planned, CallStarted); err != nil {
		return err
	}
	r.Evidence = slices.Clone(evidence)
	return nil
}

// ClaimCompensation notes that an action is to undo this one. One action at a time
// may: instead is the one whose claim it takes over, which the caller knows to have
// ended without an effect.
func (r *Record) ClaimCompensation(by, instead fleet.ActionID) error {
	if r.State != Result || !r.CompensatedBy.IsZero() && r.CompensatedBy != by && r.CompensatedBy != instead {
		return r.refuse("compensated")
	}
	r.CompensatedBy = by
	return nil
}
