package registry

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

// Router turns an action into its one durable target and settles attempts
// (G01-G12, G17, G42).
type Router interface {
	// Resolve returns the action's route with a live reservation, making the route
	// if there is none. Kinds: Invalid, Conflict (other tenant or capability, or
	// archived), BindingUnavailable, ReplicaUnavailable, CapacityExceeded, Contended,
	// Unavailable. When the commit's fate is not known it reads again by key before
	// it answers, so an error other than Unknown means nothing was reserved by this call.
	Resolve(ctx context.Context, request RouteRequest) (fleet.Assignment, error)
	// ResolveBatch resolves each request on its own; one refusal never affects
	// another. The results are in the order of the requests.
	ResolveBatch(ctx context.Context, requests []RouteRequest) []RouteResult
	// Lookup returns the route with every attempt, whatever the state of its target
	// (G43). Another tenant's action is NotFound, code route.action.
	Lookup(ctx context.Context, tenant fleet.TenantID, action fleet.ActionID) (RouteRecord, error)
	// Settle ends the reservation of exactly this assignment. A second settlement
	// changes nothing and reports the first (G07); anything not equal to the stored
	// assignment is FenceLost (G06).
	Settle(ctx context.Context, assignment fleet.Assignment, settlement fleet.Settlement) (Receipt, error)
	// Explain says what Resolve would decide now, and why. It reserves nothing.
	Explain(ctx context.Context, request RouteRequest) (routing.Explanation, error)
}

// RouteRequest asks for a route. There is deliberately no instance, replica,
// endpoint or key in it (G19). The tenant is verified by the caller.
type RouteRequest struct {
	Action     fleet.ActionID
	Capability fleet.CapabilityID
	Tenant     fleet.TenantID
	Topology   fleet.TopologyPreference // of the deployment
	TimeToLive time.Duration            // until the action's own deadline; 0 means DefaultTimeToLive
}

// Bounds of a reservation's life (G12).
const (
	DefaultTimeToLive = time.Minute
	MaxTimeToLive     = 24 * time.Hour
	SettleGrace       = 30 * time.Second // added to the action's deadline
)

// RouteResult is one answer of a batch.
type RouteResult struct {
	Assignment fleet.Assignment
	Err        error
}

// RouteRecord is a route with all that is known of its attempts.
type RouteRecord struct {
	Route    fleet.RouteAssignment `json:"route"`
	Attempts []fleet.Attempt       `json:"attempts"` // oldest first
}

// Current returns the newest attempt.
func (r RouteRecord) Current() fleet.Attempt { return r.Attempts[len(r.Attempts)-1] }

// Assignment returns the route with its newest attempt and the ends of the older ones.
func (r RouteRecord) Assignment() fleet.Assignment {
	a := fleet.Assignment{Route: r.Route, Attempt: r.Current()}
	for _, old := range r.Attempts[:len(r.Attempts)-1] {
		a.Earlier = append(a.Earlier, End(old))
	}
	return a
}

// End says what a settled attempt tells a later one (G25): only a cancelled
// settlement excludes an effect, and only a completed one is definite.
func End(a fleet.Attempt) fleet.AttemptEnd {
	end := fleet.AttemptEnd{Fence: a.Fence.Number, Verdict: fleet.VerdictUnknown, Journal: a.Journal}
	if s := a.Settlement; s != nil {
		switch s.Outcome {
		case fleet.OutcomeCompleted:
			end.Verdict = fleet.VerdictCompleted
		case fleet.OutcomeCancelled:
			end.Verdict = fleet.VerdictNotStarted
			if s.Verdict == fleet.VerdictNeverSent {
				end.Verdict = fleet.VerdictNeverSent
			}
		}
	}
	return end
}

// Receipt reports a settlement.
type Receipt struct {
	Settlement fleet.Settlement `json:"settlement"` // the one that counts: the first
	First      bool             `json:"first"`      // whether this call made it
	Circuit    fleet.Circuit    `json:"circuit"`    // of the replica, afterwards
}
