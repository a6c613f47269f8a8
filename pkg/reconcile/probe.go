package reconcile

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// probe asks the pinned host about one record and acts on the answer.
func (r *Reconciler) probe(ctx context.Context, rec fleet.Reconciliation) error {
	route, err := r.Routes.Lookup(ctx, rec.Tenant, rec.Action)
	if err != nil {
		return err
	}
	f, err := r.Host.Status(ctx, route)
	if err != nil {
		answer := "unreachable"
		if fleet.Is(err, fleet.Denied) || fleet.CodeOf(err) == "dispatch.bad_answer" {
			answer = "refused"
		}
		return r.note(ctx, rec, fleet.Probe{Answer: answer, Detail: fleet.Printable(err.Error(), 256)})
	}
	probe := fleet.Probe{Answer: string(f.State), Detail: f.Detail, Evidence: f.Evidence}
	switch f.State {
	case protocol.StateCompleted:
		return r.definite(ctx, rec, f, fleet.ResolvedCompleted, probe)
	case protocol.StateNotStarted, protocol.StateCancelled:
		if f.Fence != 0 && f.Fence < rec.Fence { // the promise does not cover this attempt
			return r.note(ctx, rec, probe)
		}
		return r.definite(ctx, rec, f, fleet.ResolvedNotStarted, probe)
	}
	return r.note(ctx, rec, probe)
}

// definite brings what the host's signed answer means to the action and closes the
// record. A result is stored first, so that no crash in between loses it. A promise that
// nothing started closes the record first, so that the next attempt knows of it; Apply
// makes up for a crash in between.
func (r *Reconciler) definite(ctx context.Context, rec fleet.Reconciliation, f action.Finding, as fleet.Resolution, probe fleet.Probe) error {
	if as == fleet.ResolvedNotStarted {
		if err := r.close(ctx, rec, f, as, probe); err != nil {
			return err
		}
		return r.tell(ctx, rec, f)
	}
	if err := r.tell(ctx, rec, f); err != nil {
		return err
	}
	return r.close(ctx, rec, f, as, probe)
}

func (r *Reconciler) close(ctx context.Context, rec fleet.Reconciliation, f action.Finding, as fleet.Resolution, probe fleet.Probe) error {
	key := registry.ReconciliationKey{Action: rec.Action, Fence: rec.Fence}
	probe.At = r.Now()
	if err := r.Uncertain.Note(ctx, key, probe, r.Now().Add(claimHold), fleet.ReconcileOpen); err != nil {
		return err
	}
	_, err := r.Uncertain.Decide(ctx, key, registry.Decision{Resolution: as, By: f.By, Evidence: f.Evidence})
	switch {
	case err == nil:
		r.Observe(as)
		r.Log.InfoContext(ctx, "uncertain attempt decided", "action", rec.Action.String(), "fence", rec.Fence, "as", string(as))
	case fleet.Is(err, fleet.Conflict): // decided meanwhile; this answer is in its probes (G06)
		return nil
	}
	return err
}

// tell brings the host's answer to the action. An action that this store does not
// hold has nothing to be told.
func (r *Reconciler) tell(ctx context.Context, rec fleet.Reconciliation, f action.Finding) error {
	current, err := r.Actions.Get(ctx, rec.Tenant, rec.Action)
	if fleet.Is(err, fleet.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = action.Update(ctx, r.Actions, current, func(a action.Record) (action.Record, bool, error) {
		if f.State == protocol.StateNotStarted {
			return released(a, f.Evidence)
		}
		next, changed, err := f.Conclude(a)
		return next, !changed, err
	})
	return err
}

// released makes an uncertain action retryable. One that is not uncertain is in
// somebody's hands, or final.
func released(a action.Record, evidence fleet.Digest) (next action.Record, keep bool, err error) {
	if a.State != action.Uncertain {
		return a, true, nil
	}
	e := fleet.Errorf(fleet.Unavailable, "reconcile.not_started", "the action did not happen").
		Advise("submit the same action again: it goes to the same replica")
	next, err = a.Release(action.ProblemOf(e), evidence)
	return next, false, err
}

// note records a fruitless probe. Past the policy's age an operator must decide; an
// action that still runs is waited for.
func (r *Reconciler) note(ctx context.Context, rec fleet.Reconciliation, probe fleet.Probe) error {
	now := r.Now()
	probe.At = now
	state := fleet.ReconcileOpen
	if now.Sub(rec.OpenedAt) >= r.Age && probe.Answer != string(protocol.StateRunning) {
		state = fleet.ReconcileOperator
		r.Log.WarnContext(ctx, "uncertain attempt needs an operator", "action", rec.Action.String(), "fence", rec.Fence)
	}
	key := registry.ReconciliationKey{Action: rec.Action, Fence: rec.Fence}
	return r.Uncertain.Note(ctx, key, probe, now.Add(r.pause(rec.ProbeCount)), state)
}

// pause doubles with every fruitless probe.
func (r *Reconciler) pause(probes uint32) time.Duration {
	pause := r.FirstPause
	for range min(probes, 16) {
		if pause *= 2; pause >= r.LastPause {
			return r.LastPause
		}
	}
	return min(pause, r.LastPause)
}
