package connector

import (
	"context"
	"encoding/json"
)

// Planner is a connector whose capabilities can be prepared before their effect.
//
// Whatever a plan holds at the product (a reservation, a draft) is not the effect
// and counts as none: it ends with the commit, or with Release.
type Planner interface {
	// Plan prepares a call. Of a success, Output is the plan, which is kept durably
	// and handed to Commit or Release as it is. A plan that Failed, or was
	// NotStarted, holds nothing.
	Plan(ctx context.Context, call Call) (Result, error)
}

// Committer is a connector that carries out what it planned.
type Committer interface {
	// Commit makes the effect of a planned call. It is Invoke in every other way.
	// One that Failed holds nothing of the plan any more.
	Commit(ctx context.Context, call Call, plan json.RawMessage) (Result, error)
}

// Compensator is a connector that can take back.
type Compensator interface {
	// Release gives back what a plan holds that is never committed; plan is nil when
	// it is not known whether one was made. It may be called again for the same
	// plan. Succeeded says that nothing is held now.
	Release(ctx context.Context, q Query, plan json.RawMessage) (Result, error)
	// Compensate undoes the effect of an earlier call, as a call of its own: it has
	// an action, a fence and a key of its own. A nil error and a definite Result end
	// it, as they end Invoke.
	Compensate(ctx context.Context, call Call, done Done) (Result, error)
}

// Done is an earlier call whose effect is to be undone.
type Done struct {
	Query
	Output json.RawMessage // what it answered; nil when that is not kept any more
}

// Transacts reports whether a connector can plan, commit and take back.
func Transacts(c Connector) bool {
	_, plans := c.(Planner)
	_, commits := c.(Committer)
	_, compensates := c.(Compensator)
	return plans && commits && compensates
}
