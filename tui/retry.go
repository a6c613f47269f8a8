package tui

import (
	"context"
	"fmt"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// retry says what submitting the action again would do now.
type retry struct {
	Verdict string `json:"verdict"` // stored_result, reserved, reconcile, reserve, refused, unknown
	Why     string `json:"why"`
}

// retryOf judges by what the attempts tell (G25, G44) and, where another attempt is
// possible, by what the router says of the one pinned replica (G09).
func (c Config) retryOf(ctx context.Context, f routeFacts) retry {
	if len(f.Route.Attempts) == 0 {
		return retry{"unknown", "no attempt is recorded"}
	}
	last := f.Route.Current()
	if !last.Settled() {
		return retry{"reserved", fmt.Sprintf("attempt %d holds its reservation, a retry joins it", last.Fence.Number)}
	}
	if last.Settlement.Outcome == fleet.OutcomeCompleted {
		return retry{"stored_result", "the outcome is definite, a retry gets the stored result"}
	}
	for _, u := range f.Uncertain {
		switch {
		case u.State != fleet.ReconcileResolved:
			return retry{"reconcile", fmt.Sprintf("attempt %d is uncertain, nothing runs until evidence or an operator decides", u.Fence)}
		case u.Resolution == fleet.ResolvedHappened || u.Resolution == fleet.ResolvedCompleted:
			return retry{"stored_result", "it is decided that the effect happened, it never runs again"}
		}
	}
	return c.askRetry(ctx, f.Route.Route)
}

// askRetry asks the router, which reserves nothing for it.
func (c Config) askRetry(ctx context.Context, r fleet.RouteAssignment) retry {
	e, err := c.explain(ctx, r)
	switch {
	case err != nil:
		return retry{"unknown", sayError(err)}
	case e.Pinned == nil:
		return retry{"unknown", "the router does not know the route"}
	case e.Pinned.Removed != "":
		return retry{"refused", fmt.Sprintf("its replica cannot be reserved now: %s; a retry never moves to another", e.Pinned.Removed)}
	}
	return retry{"reserve", "its replica would be reserved again under the next fence"}
}

func requestOf(r fleet.RouteAssignment) registry.RouteRequest {
	return registry.RouteRequest{Action: r.Action, Capability: r.Capability, Tenant: r.Tenant}
}
