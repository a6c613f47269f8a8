package reconcile

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// decisionAge bounds the age of an operator's decision: it does not go stale.
const decisionAge = 10 * 365 * 24 * time.Hour

// patience is how long an uncertain action may be without an open record before its
// host is asked for it: its record may be about to be opened, or its result to be stored.
const patience = 10 * time.Second

// Apply brings decided records to the actions that wait for them: those that an
// operator decided, and those whose decision outlived the process that made it.
func (r *Reconciler) Apply(ctx context.Context) (more bool, err error) {
	selection := action.Selection{States: []action.State{action.Uncertain}, Limit: action.MaxListItems}
	for {
		page, err := r.Actions.List(ctx, selection)
		if err != nil {
			return false, err
		}
		if err := r.applyPage(ctx, page.Records); err != nil || page.Next == "" {
			return false, err
		}
		selection.After = page.Next
	}
}

func (r *Reconciler) applyPage(ctx context.Context, uncertain []action.Record) error {
	if len(uncertain) == 0 {
		return nil
	}
	var ids []string
	for _, a := range uncertain {
		ids = append(ids, a.ID.String())
	}
	records, err := r.Records.List(ctx, registry.Selection{Noun: registry.Reconciliations, IDs: ids})
	if err != nil {
		return err
	}
	newest := map[fleet.ActionID]fleet.Reconciliation{}
	for _, rec := range records.Reconciliations {
		if rec.Fence >= newest[rec.Action].Fence {
			newest[rec.Action] = rec
		}
	}
	for _, a := range uncertain {
		err := r.apply(ctx, a, newest[a.ID])
		if err != nil && ctx.Err() == nil && r.warned.first(a.ID, err.Error()) {
			r.Log.WarnContext(ctx, "decision not applied", "action", a.ID.String(), "error", err)
		}
	}
	return nil
}

// apply acts on the newest record of an uncertain action. While it is open, or an
// operator's turn, there is nothing to do.
func (r *Reconciler) apply(ctx context.Context, a action.Record, rec fleet.Reconciliation) error {
	missing := rec.Action.IsZero()
	switch {
	case missing && r.Now().Sub(a.UpdatedAt) < patience, !missing && rec.State != fleet.ReconcileResolved:
		return nil
	case missing:
		return r.orphan(ctx, a)
	case rec.Resolution == fleet.ResolvedCompleted:
		return r.fetch(ctx, a)
	case rec.Resolution == fleet.ResolvedNotStarted:
		return r.store(ctx, a, func(a action.Record) (action.Record, bool, error) { return released(a, rec.Evidence) })
	}
	return r.decided(ctx, a, rec)
}

// orphan looks at an uncertain action that no record is open for. An attempt that
// settled as not started says so; otherwise its host is asked.
func (r *Reconciler) orphan(ctx context.Context, a action.Record) error {
	route, err := r.Routes.Lookup(ctx, a.Tenant, a.ID)
	if err != nil {
		return err
	}
	if s := route.Current().Settlement; s != nil && s.Outcome == fleet.OutcomeCancelled {
		return r.store(ctx, a, func(a action.Record) (action.Record, bool, error) { return released(a, s.EvidenceDigest) })
	}
	return r.fetch(ctx, a)
}

// fetch asks the host for the result of an action that is known, or bound, to have
// a definite answer there.
func (r *Reconciler) fetch(ctx context.Context, a action.Record) error {
	route, err := r.Routes.Lookup(ctx, a.Tenant, a.ID)
	if err != nil {
		return err
	}
	f, err := r.Host.Status(ctx, route)
	if err != nil {
		return err
	}
	return r.tell(ctx, fleet.Reconciliation{Action: a.ID, Tenant: a.Tenant}, f)
}

// decided applies an operator's decision after checking it: the registry's word for
// it is not enough (G38).
func (r *Reconciler) decided(ctx context.Context, a action.Record, rec fleet.Reconciliation) error {
	decision, err := r.open(ctx, a, rec)
	if err != nil {
		return err
	}
	lost, err := registry.IsRetired(ctx, r.Records, rec.Replica) // the one that the action could run on
	if err != nil {
		return err
	}
	err = r.store(ctx, a, func(a action.Record) (action.Record, bool, error) {
		switch {
		case decision.Outcome == fleet.ResolvedDidNotHappen && lost:
			next, err := a.Finish(action.Failed, action.FailedResult(a.ID, registry.RouteLost(a.ID)), decision.EvidenceDigest, true)
			return next, false, err
		case decision.Outcome == fleet.ResolvedDidNotHappen:
			return released(a, decision.EvidenceDigest)
		}
		next, err := a.Finish(action.Completed, action.DecidedResult(decision), decision.EvidenceDigest, true)
		return next, false, err
	})
	if err == nil {
		r.Observe(decision.Outcome)
		r.Log.InfoContext(ctx, "operator's decision applied", "action", a.ID.String(), "fence", rec.Fence, "outcome", string(decision.Outcome))
	}
	return err
}

// store changes an action that is still uncertain.
func (r *Reconciler) store(ctx context.Context, a action.Record, change func(action.Record) (action.Record, bool, error)) error {
	current, err := r.Actions.Get(ctx, a.Tenant, a.ID) // lists carry no input
	if err != nil {
		return err
	}
	_, err = action.Update(ctx, r.Actions, current, func(a action.Record) (action.Record, bool, error) {
		if a.State != action.Uncertain {
			return a, true, nil
		}
		return change(a)
	})
	return err
}

func (r *Reconciler) open(ctx context.Context, a action.Record, rec fleet.Reconciliation) (protocol.Decision, error) {
	refused := fleet.Errorf(fleet.Denied, "reconcile.decision", "the decision about action %s is not accepted", a.ID)
	route, err := r.Routes.Lookup(ctx, a.Tenant, a.ID)
	if err != nil {
		return protocol.Decision{}, err
	}
	host, err := envelope.ParseDID(route.Route.Peer.DID)
	if err != nil {
		return protocol.Decision{}, err
	}
	if len(r.Operators) == 0 {
		return protocol.Decision{}, refused.Because("this aipd knows no operator keys").Advise("set operators in its configuration")
	}
	opened, err := envelope.Open(rec.Decision, envelope.Expect{
		Purpose: envelope.Decision, Audience: host, Keys: r.Operators, Now: r.Now(), MaxAge: decisionAge,
		MessageTypes: []string{protocol.TypeDecision},
	})
	if err != nil {
		return protocol.Decision{}, refused.Caused(err)
	}
	decision, err := protocol.Read[protocol.Decision](opened)
	if err != nil {
		return decision, refused.Caused(err)
	}
	if decision.ActionID != a.ID || decision.Fence != rec.Fence || decision.Replica != rec.Replica ||
		decision.Outcome != rec.Resolution || decision.EvidenceDigest != rec.Evidence {
		return decision, refused.Because("it is about something else than its record")
	}
	return decision, nil
}
