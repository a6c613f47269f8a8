package drain

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/publish"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// State is what is observed of one replica.
type State struct {
	Replica   fleet.ReplicaID      `json:"id"`
	Intent    fleet.OperatorIntent `json:"intent"`
	Status    fleet.ReplicaStatus  `json:"status"`
	Lease     time.Time            `json:"lease_expires_at,omitzero"`
	Active    uint32               `json:"active_assignments"`
	Blockers  []Blocker            `json:"blockers"`
	Uncertain int                  `json:"uncertain"`
	Drained   bool                 `json:"drained"`
	Batch     int                  `json:"batch,omitempty"`  // from 1; 0 when there is one
	Result    Result               `json:"result,omitempty"` // of this command; "" when it only looked
	Error     *Failure             `json:"error,omitempty"`  // why it failed
}

// Result is what came of one replica.
type Result string

// The results.
const (
	Drained    Result = "drained"
	Draining   Result = "draining" // its intent is set; waiting for it ended, or was not asked for
	Undrained  Result = "undrained"
	Failed     Result = "failed"      // its intent could not be set
	NotStarted Result = "not_started" // nothing was done about it
)

// Failure is the error of one replica.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Next    string `json:"next,omitempty"`
}

// Blocker is one action that keeps a replica from being drained.
type Blocker struct {
	Action     fleet.ActionID `json:"action_id"`
	Fence      uint64         `json:"fence"`
	ReservedAt time.Time      `json:"reserved_at"`
	Deadline   time.Time      `json:"deadline"`
}

// observe reads the replicas, in the order of their ids, and what holds each.
func observe(ctx context.Context, a *app.App, reader registry.Reader, ids []fleet.ReplicaID) ([]State, error) {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	page, err := publish.ReadAll(ctx, reader, registry.Selection{Noun: registry.Replicas, IDs: names})
	if err != nil {
		return nil, err
	}
	held, err := readHeld(ctx, reader, ids)
	if err != nil {
		return nil, err
	}
	states := make([]State, 0, len(page.Replicas))
	for _, r := range page.Replicas {
		states = append(states, held.state(r, a.Now()))
	}
	return states, nil
}

// held is what is unsettled and uncertain, by replica.
type held struct {
	blockers  map[fleet.ReplicaID][]Blocker
	uncertain map[fleet.ReplicaID]int
}

// askEach is up to how many replicas are asked about one by one; of more, everything that
// is unsettled is read once.
const askEach = 20

func readHeld(ctx context.Context, reader registry.Reader, ids []fleet.ReplicaID) (held, error) {
	h := held{blockers: map[fleet.ReplicaID][]Blocker{}, uncertain: map[fleet.ReplicaID]int{}}
	if len(ids) > askEach {
		ids = []fleet.ReplicaID{{}} // the zero filter is all
	}
	for _, id := range ids {
		routes, err := publish.ReadAll(ctx, reader, registry.Selection{Noun: registry.Routes, Replica: id, Reserved: true})
		if err != nil {
			return h, err
		}
		for _, route := range routes.Routes {
			at, on := route.Current(), route.Route.Replica
			h.blockers[on] = append(h.blockers[on], Blocker{route.Route.Action, at.Fence.Number, at.ReservedAt, at.Deadline})
		}
		for _, state := range []fleet.ReconciliationState{fleet.ReconcileOpen, fleet.ReconcileOperator} {
			open, err := publish.ReadAll(ctx, reader, registry.Selection{Noun: registry.Reconciliations, Replica: id, State: string(state)})
			if err != nil {
				return h, err
			}
			for _, u := range open.Reconciliations {
				h.uncertain[u.Replica]++
			}
		}
	}
	return h, nil
}

func (h held) state(r registry.ReplicaRecord, now time.Time) State {
	s := State{
		Replica: r.ID, Intent: r.Live.Intent, Status: r.Live.Status, Lease: r.Live.LeaseExpiresAt, Active: r.Live.Active,
		Blockers: append([]Blocker{}, h.blockers[r.ID]...), Uncertain: h.uncertain[r.ID],
	}
	stopped := r.Live.Status != fleet.ReplicaReady || !r.Live.LeaseExpiresAt.After(now)
	s.Drained = stopped && s.Active == 0 && len(s.Blockers) == 0
	return s
}

// why says in words what a replica still waits for.
func (s State) why() string {
	switch {
	case s.Error != nil:
		return s.Error.Code + ": " + s.Error.Message
	case s.Result == NotStarted:
		return "not started"
	case s.Drained:
		return "drained"
	case len(s.Blockers) > 0:
		return "waits for " + s.holders()
	case s.Active > 0:
		return fmt.Sprintf("%d assignments are active", s.Active)
	}
	return "its host has not said yet that it takes no work"
}

// holders names the first actions that hold a replica.
func (s State) holders() string {
	var ids []string
	for i, b := range s.Blockers {
		if i == shownOfMany {
			ids = append(ids, fmt.Sprintf("and %d more", len(s.Blockers)-shownOfMany))
			break
		}
		ids = append(ids, fmt.Sprintf("%s (fence %d)", b.Action, b.Fence))
	}
	return strings.Join(ids, ", ")
}
