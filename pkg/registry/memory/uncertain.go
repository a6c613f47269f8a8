package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Due implements registry.Uncertain.
func (r *Registry) Due(ctx context.Context, limit int, hold time.Duration) ([]fleet.Reconciliation, error) {
	if limit < 1 || hold <= 0 {
		return nil, fleet.Invalidf("reconcile.due", "due needs a limit of at least 1 and a hold above 0")
	}
	end, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	now := r.now()
	var due []*fleet.Reconciliation
	for _, u := range r.uncertain {
		if u.State == fleet.ReconcileOpen && !u.NextProbeAt.After(now) {
			due = append(due, u)
		}
	}
	slices.SortFunc(due, func(a, b *fleet.Reconciliation) int {
		return cmp.Or(a.NextProbeAt.Compare(b.NextProbeAt), cmp.Compare(a.Action.String(), b.Action.String()), cmp.Compare(a.Fence, b.Fence))
	})
	out := []fleet.Reconciliation{}
	for _, u := range due[:min(len(due), limit)] {
		u.NextProbeAt = now.Add(hold)
		out = append(out, deepCopy(*u))
	}
	return out, nil
}

func (r *Registry) question(key registry.ReconciliationKey) (*fleet.Reconciliation, error) {
	u, ok := r.uncertain[key]
	if !ok {
		return nil, fleet.Errorf(fleet.NotFound, "reconcile.record", "attempt %d of action %s is not uncertain", key.Fence, key.Action)
	}
	return u, nil
}

// Note implements registry.Uncertain.
func (r *Registry) Note(ctx context.Context, key registry.ReconciliationKey, probe fleet.Probe, next time.Time, state fleet.ReconciliationState) error {
	if state != fleet.ReconcileOpen && state != fleet.ReconcileOperator {
		return fleet.Invalidf("reconcile.state", "a probe leaves a record open or for an operator, not %q", fleet.Printable(string(state), 32))
	}
	end, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	u, err := r.question(key)
	if err != nil {
		return err
	}
	probe.At = probe.At.UTC().Truncate(time.Microsecond)
	u.Probes = append(u.Probes, probe)
	u.Probes = u.Probes[max(0, len(u.Probes)-registry.MaxProbes):]
	u.ProbeCount++
	if u.State != fleet.ReconcileResolved { // a late answer is evidence, not another decision (G06)
		if r.retired(u.Replica) { // nobody is there to be asked
			state = fleet.ReconcileOperator
		}
		u.State, u.NextProbeAt = state, next.UTC().Truncate(time.Microsecond)
	}
	return nil
}

// Decide implements registry.Uncertain.
func (r *Registry) Decide(ctx context.Context, key registry.ReconciliationKey, d registry.Decision) (fleet.Reconciliation, error) {
	if err := d.Wrong(); err != nil {
		return fleet.Reconciliation{}, err
	}
	end, err := r.begin(ctx)
	if err != nil {
		return fleet.Reconciliation{}, err
	}
	defer end()
	u, err := r.question(key)
	if err != nil {
		return fleet.Reconciliation{}, err
	}
	if u.State == fleet.ReconcileResolved {
		if u.Resolution != d.Resolution || u.Evidence != d.Evidence {
			return fleet.Reconciliation{}, fleet.Errorf(fleet.Conflict, "reconcile.decided", "attempt %d of action %s was decided as %s", key.Fence, key.Action, u.Resolution)
		}
		return deepCopy(*u), nil
	}
	now := r.now()
	u.State, u.Resolution, u.ResolvedAt, u.ResolvedBy = fleet.ReconcileResolved, d.Resolution, now, d.By
	u.Evidence, u.Decision = d.Evidence, slices.Clone(d.Document)
	r.record(registry.Event{
		At: now, Kind: "decision", Subject: key.Action.String(), Actor: d.By,
		Reason: string(d.Resolution), Detail: d.Evidence.String(),
	})
	return deepCopy(*u), nil
}
