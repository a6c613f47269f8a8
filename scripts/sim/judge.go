package sim

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// quiet reports whether every action has its result, nothing is reserved and nothing
// is in question.
func (w *world) quiet() bool {
	for _, c := range w.clients {
		if !c.done() {
			return false
		}
	}
	snapshot, err := w.registry.Snapshot(w.ctx)
	return err == nil && len(unrest(snapshot)) == 0
}

// unrest lists what is reserved or in question.
func unrest(s registry.Snapshot) []string {
	var all []string
	for _, c := range s.Counters {
		if c.Current != 0 {
			all = append(all, fmt.Sprintf("counter %s %s is %d", c.Kind, c.Key, c.Current))
		}
	}
	for _, r := range s.Replicas {
		if r.Live.Active != 0 {
			all = append(all, fmt.Sprintf("replica %s has %d active", r.ID, r.Live.Active))
		}
	}
	for _, u := range s.Reconciliations {
		if u.State != fleet.ReconcileResolved {
			all = append(all, fmt.Sprintf("%s#%d is %s", u.Action, u.Fence, u.State))
		}
	}
	return all
}

// judgeCall looks at a call at the moment it is made: it must be the action's own
// replica, under an attempt that exists and was not said not to have started.
func (w *world) judgeCall(at attempt, replica fleet.ReplicaID) {
	name := at.action.String()
	record, err := w.registry.Lookup(w.ctx, w.tenantOf(at.action), at.action)
	if err != nil {
		if w.ctx.Err() == nil {
			w.broken("G01", name, "the provider is called for an action without a route")
		}
		return
	}
	if record.Route.Replica != replica {
		w.broken("G09", name, fmt.Sprintf("the provider is called by %s, its route is %s", replica, record.Route.Replica))
		return
	}
	if at.fence == 0 || int(at.fence) > len(record.Attempts) {
		w.broken("G06", name, fmt.Sprintf("the provider is called under fence %d of %d", at.fence, len(record.Attempts)))
		return
	}
	if end := registry.End(record.Attempts[at.fence-1]); end.Verdict == fleet.VerdictNotStarted || end.Verdict == fleet.VerdictNeverSent {
		w.broken("G41", name, fmt.Sprintf("the provider is called under fence %d, which was %s", at.fence, end.Verdict))
	}
}

func (w *world) tenantOf(id fleet.ActionID) fleet.TenantID {
	for _, c := range w.clients {
		if c.submission.ID == id {
			return c.submission.Tenant
		}
	}
	return fleet.TenantID{}
}

// judge looks at everything once it is quiet.
func (w *world) judge() {
	snapshot, err := w.registry.Snapshot(w.ctx)
	if err != nil {
		w.broken("G39", "registry", err.Error())
		return
	}
	for _, u := range unrest(snapshot) {
		w.broken("G38", "registry", "not quiet at the end: "+u)
	}
	for _, v := range registry.Audit(snapshot) {
		w.broken(v.Guarantee, v.Subject, "audit: "+v.What)
	}
	w.countOutcomes(snapshot)
	for _, c := range w.clients {
		w.judgeAction(c, snapshot)
	}
	w.report.Actions = len(w.clients)
}

// ends lists how the attempts of a route ended.
func ends(r registry.RouteRecord) []string {
	var all []string
	for _, a := range r.Attempts {
		end := "open"
		if a.Settlement != nil {
			end = a.Settlement.Code
		}
		all = append(all, end)
	}
	return all
}

func (w *world) countOutcomes(s registry.Snapshot) {
	for _, r := range s.Routes {
		for _, a := range r.Attempts {
			if a.Settlement != nil {
				w.total("settled " + string(a.Settlement.Outcome) + " " + a.Settlement.Code)
			}
		}
	}
	for _, u := range s.Reconciliations {
		w.total("resolved " + string(u.Resolution))
	}
}

// judgeAction compares what was told of an action with what happened.
func (w *world) judgeAction(c *client, snapshot registry.Snapshot) {
	r, err := w.store.Get(w.ctx, c.submission.Tenant, c.submission.ID)
	if err != nil {
		w.broken("G38", c.name(), "it is not there: "+err.Error())
		return
	}
	if !r.State.Final() {
		w.broken("G38", c.name(), fmt.Sprintf("it stays %s (%+v); %s", r.State, r.Problem, w.placeOf(c.submission.ID, snapshot)))
		return
	}
	c.saw(r)
	w.outcome("ended "+string(r.State), c.name())
	effects := w.provider.effects[c.submission.ID]
	w.report.Effects += len(effects)
	allowed := w.allowed[c.submission.ID]
	switch {
	case len(effects) > 1+allowed:
		w.broken("G25", c.name(), fmt.Sprintf("it had %d effects", len(effects)))
	case r.State == action.Completed && len(effects) == 0:
		w.broken("G25", c.name(), "it is completed and nothing happened")
	case r.State != action.Completed && len(effects) > allowed:
		w.broken("G25", c.name(), fmt.Sprintf("it is %s and it happened", r.State))
	}
	w.judgeEffects(c, effects, snapshot)
	w.judgeResult(c, r, snapshot)
}

// placeOf describes an action's replica, for those who look for the reason.
func (w *world) placeOf(id fleet.ActionID, s registry.Snapshot) string {
	for _, route := range s.Routes {
		for _, r := range s.Replicas {
			if route.Route.Action == id && r.ID == route.Route.Replica {
				return fmt.Sprintf("attempts %v, its replica is %+v", ends(route), r.Live)
			}
		}
	}
	return "it has no route"
}

// judgeEffects: no effect under an attempt that counts as not started (G41).
func (w *world) judgeEffects(c *client, effects []effect, s registry.Snapshot) {
	at := slices.IndexFunc(s.Routes, func(r registry.RouteRecord) bool { return r.Route.Action == c.submission.ID })
	for _, e := range effects {
		if at < 0 || int(e.fence) > len(s.Routes[at].Attempts) {
			continue // said at the call
		}
		attempt := s.Routes[at].Attempts[e.fence-1]
		if attempt.Settlement != nil && attempt.Settlement.Outcome == fleet.OutcomeCancelled {
			w.broken("G41", c.name(), fmt.Sprintf("fence %d had its effect and settled as %s", e.fence, attempt.Settlement.Code))
		}
		for _, u := range s.Reconciliations {
			if u.Action == c.submission.ID && u.Fence == e.fence && u.Resolution == fleet.ResolvedNotStarted {
				w.broken("G41", c.name(), fmt.Sprintf("fence %d had its effect and was resolved as not started", e.fence))
			}
		}
	}
}

// judgeResult: the stored result is the host's own, byte for byte (G27, G44).
func (w *world) judgeResult(c *client, r action.Record, s registry.Snapshot) {
	if r.State == action.Cancelled {
		return
	}
	for _, u := range s.Reconciliations {
		if u.Action == r.ID && u.Resolution == fleet.ResolvedHappened {
			return // an operator's decision is the result
		}
	}
	at := slices.IndexFunc(s.Routes, func(route registry.RouteRecord) bool { return route.Route.Action == r.ID })
	if at < 0 {
		return
	}
	p := w.machineOf(s.Routes[at].Route.Replica).now.Load()
	if p == nil {
		return
	}
	kept, found, err := p.journal.Get(r.ID)
	switch {
	case err != nil:
		w.broken("G39", c.name(), err.Error())
	case p.m.wiped && kept.State != journal.Result: // the journal that knew it is lost
	case !found || kept.State != journal.Result:
		w.broken("G27", c.name(), fmt.Sprintf("aipd says %s, its host's journal %q", r.State, kept.State))
	case !bytes.Equal(kept.Document, r.Result):
		w.broken("G27", c.name(), "the result at aipd is not the host's, byte for byte")
	}
}
