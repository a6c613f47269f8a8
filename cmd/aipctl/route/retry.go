package route

import (
	"context"
	"fmt"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Retry says what submitting the action again would do now.
type Retry struct {
	Verdict string `json:"verdict"` // stored_result, reserved, reconcile, reserve, refused, unknown
	Why     string `json:"why"`
}

// retry judges by what the attempts tell (G25, G44) and, where another attempt is
// possible, by what the router would say of the one pinned replica (G09).
func retry(ctx context.Context, router registry.Router, i Inspection) (Retry, error) {
	if len(i.Attempts) == 0 {
		return Retry{"unknown", "no attempt is recorded"}, nil
	}
	last := i.Attempts[len(i.Attempts)-1]
	if !last.Settled() {
		return Retry{"reserved", fmt.Sprintf("attempt %d holds its reservation: a retry joins it", last.Fence.Number)}, nil
	}
	if last.Settlement.Outcome == fleet.OutcomeCompleted {
		return Retry{"stored_result", "the outcome is definite: a retry gets the stored result"}, nil
	}
	if r, open := i.openRecord(); open {
		return Retry{"reconcile", fmt.Sprintf("attempt %d is uncertain (%s): nothing runs until evidence or an operator decides", r.Fence, r.Cause)}, nil
	}
	if i.decided(fleet.ResolvedHappened) || i.decided(fleet.ResolvedCompleted) {
		return Retry{"stored_result", "it is decided that the effect happened: it never runs again"}, nil
	}
	return i.ask(ctx, router)
}

// ask explains a reservation without making one.
func (i Inspection) ask(ctx context.Context, router registry.Router) (Retry, error) {
	e, err := router.Explain(ctx, i.request())
	switch {
	case fleet.Is(err, fleet.Denied), fleet.Is(err, fleet.Unavailable):
		return Retry{"unknown", "this role may not ask the router"}, nil
	case err != nil:
		return Retry{}, err
	case e.Pinned == nil:
		return Retry{"unknown", "the router does not know the route"}, nil
	case e.Pinned.Removed != "":
		return Retry{"refused", fmt.Sprintf("replica %s cannot be reserved now: %s; a retry never moves to another", e.Pinned.Replica, e.Pinned.Removed)}, nil
	}
	return Retry{"reserve", fmt.Sprintf("replica %s would be reserved again under the next fence", e.Pinned.Replica)}, nil
}

func (i Inspection) openRecord() (fleet.Reconciliation, bool) {
	for _, r := range i.Reconciliations {
		if r.State != fleet.ReconcileResolved {
			return r, true
		}
	}
	return fleet.Reconciliation{}, false
}

func (i Inspection) decided(as fleet.Resolution) bool {
	for _, r := range i.Reconciliations {
		if r.Resolution == as {
			return true
		}
	}
	return false
}

// page lays the inspection out by the groups of a route.
func (i Inspection) page(a *app.App) app.Page {
	r := i.Route
	p := app.Page{
		{Title: "Work", Fields: fields("action", r.Action, "capability", r.Capability, "tenant", r.Tenant)},
		{Title: "Target", Fields: fields("instance", r.Instance, "replica", r.Replica, "endpoint", r.Endpoint,
			"topology", r.Topology.Region+"/"+r.Topology.Zone+"/"+r.Topology.CapacityClass)},
		{Title: "Peer", Fields: fields("principal", r.Peer.PrincipalID+" ("+r.Peer.PrincipalKind+")", "did", r.Peer.DID,
			"trust domain", r.Peer.TrustDomain, "transport", r.Peer.TransportProfile)},
		{Title: "Artifact", Fields: fields("version", r.Version, "status now", app.Status(string(i.VersionStatus)),
			"manifest", r.ManifestDigest, "artifact", r.ArtifactDigest)},
		{Title: "Decision", Fields: fields("catalog revision", r.CatalogRevision, "policy revision", r.BindingPolicyRevision,
			"credential", r.CredentialRevisionRef, "quota", quota(r), "priority", r.OrderingKeys.Priority,
			"region match", r.OrderingKeys.RegionMatch, "zone match", r.OrderingKeys.ZoneMatch, "active before", r.OrderingKeys.ActiveBefore)},
		{Title: "Time", Fields: fields("assigned", app.Stamp(r.AssignedAt)+" ("+a.Since(r.AssignedAt)+")")},
	}
	if i.Replica != nil {
		p = append(p, replicaSection(a, *i.Replica))
	}
	p = append(p, i.attemptSection(a))
	if len(i.Reconciliations) > 0 {
		p = append(p, i.uncertainSection(a))
	}
	return append(p, app.Section{Title: "On retry", Lines: []string{i.Retry.Verdict + ": " + i.Retry.Why}})
}

func quota(r fleet.RouteAssignment) string {
	ref := r.QuotaPolicyRef
	if ref == "" {
		ref = fleet.QuotaFleet
	}
	return fmt.Sprintf("%s revision %d", ref, r.QuotaPolicyRevision)
}

func fields(pairs ...any) []app.Field {
	var out []app.Field
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, app.Field{Label: fmt.Sprint(pairs[i]), Value: fmt.Sprint(pairs[i+1])})
	}
	return out
}

func replicaSection(a *app.App, r registry.ReplicaRecord) app.Section {
	l := r.Live
	return app.Section{Title: "Replica now", Fields: fields(
		"status", app.Status(string(l.Status)), "intent", l.Intent,
		"lease", fmt.Sprintf("epoch %d, %s", l.LeaseEpoch, a.Until(l.LeaseExpiresAt)),
		"capacity", fmt.Sprintf("%d of %d in use", l.Active, r.Capacity),
		"circuit", app.Status(string(l.Circuit.State)))}
}

func (i Inspection) attemptSection(a *app.App) app.Section {
	t := app.Table{Header: []string{"FENCE", "STATE", "CODE", "EPOCH", "RESERVED", "DEADLINE", "SETTLED", "SCOPES"}}
	for _, at := range i.Attempts {
		state, code, settled := "reserved", "", ""
		if s := at.Settlement; s != nil {
			state, code, settled = string(s.Outcome), s.Code, a.Since(s.SettledAt)
		}
		scopes := ""
		for n, s := range at.Scopes {
			if n > 0 {
				scopes += ","
			}
			scopes += fmt.Sprintf("%s<=%d", s.Kind, s.Limit)
		}
		t.Rows = append(t.Rows, []string{fmt.Sprint(at.Fence.Number), app.Status(state), code, fmt.Sprint(at.LeaseEpoch),
			a.Since(at.ReservedAt), a.Until(at.Deadline), settled, scopes})
	}
	return app.Section{Title: "Attempts", Table: &t}
}

func (i Inspection) uncertainSection(a *app.App) app.Section {
	t := app.Table{Header: []string{"FENCE", "STATE", "CAUSE", "OPENED", "PROBES", "RESOLUTION", "BY"}}
	for _, r := range i.Reconciliations {
		t.Rows = append(t.Rows, []string{fmt.Sprint(r.Fence), app.Status(string(r.State)), r.Cause, a.Since(r.OpenedAt),
			fmt.Sprint(r.ProbeCount), string(r.Resolution), r.ResolvedBy})
	}
	return app.Section{Title: "Uncertain", Table: &t}
}
