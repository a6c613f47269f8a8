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
}

// Blocker is one action that keeps a replica from being drained.
type Blocker struct {
	Action     fleet.ActionID `json:"action_id"`
	Fence      uint64         `json:"fence"`
	ReservedAt time.Time      `json:"reserved_at"`
	Deadline   time.Time      `json:"deadline"`
}

// observe reads the replicas and the attempts that hold them.
func observe(ctx context.Context, a *app.App, reader registry.Reader, ids []fleet.ReplicaID) ([]State, error) {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	page, err := publish.ReadAll(ctx, reader, registry.Selection{Noun: registry.Replicas, IDs: names})
	if err != nil {
		return nil, err
	}
	states := make([]State, 0, len(page.Replicas))
	for _, r := range page.Replicas {
		s, err := observeOne(ctx, a, reader, r)
		if err != nil {
			return nil, err
		}
		states = append(states, s)
	}
	return states, nil
}

func observeOne(ctx context.Context, a *app.App, reader registry.Reader, r registry.ReplicaRecord) (State, error) {
	s := State{Replica: r.ID, Intent: r.Live.Intent, Status: r.Live.Status, Lease: r.Live.LeaseExpiresAt, Active: r.Live.Active, Blockers: []Blocker{}}
	held, err := publish.ReadAll(ctx, reader, registry.Selection{Noun: registry.Routes, Replica: r.ID, Reserved: true})
	if err != nil {
		return s, err
	}
	for _, route := range held.Routes {
		at := route.Current()
		s.Blockers = append(s.Blockers, Blocker{route.Route.Action, at.Fence.Number, at.ReservedAt, at.Deadline})
	}
	uncertain, err := publish.ReadAll(ctx, reader, registry.Selection{Noun: registry.Reconciliations, Replica: r.ID})
	if err != nil {
		return s, err
	}
	for _, u := range uncertain.Reconciliations {
		if u.State != fleet.ReconcileResolved {
			s.Uncertain++
		}
	}
	stopped := r.Live.Status != fleet.ReplicaReady || !r.Live.LeaseExpiresAt.After(a.Now())
	s.Drained = stopped && s.Active == 0 && len(s.Blockers) == 0
	return s, nil
}

// why says in words what a replica still waits for.
func (s State) why() string {
	switch {
	case s.Drained:
		return "drained"
	case len(s.Blockers) > 0:
		var ids []string
		for i, b := range s.Blockers {
			if i == 5 {
				ids = append(ids, fmt.Sprintf("and %d more", len(s.Blockers)-5))
				break
			}
			ids = append(ids, fmt.Sprintf("%s (fence %d)", b.Action, b.Fence))
		}
		return "waits for " + strings.Join(ids, ", ")
	case s.Active > 0:
		return fmt.Sprintf("%d assignments are active", s.Active)
	}
	return "its host has not said yet that it takes no work"
}

// wait looks until every replica is drained or the deadline is over.
func (o *Options) wait(ctx context.Context, reader registry.Reader, ids []fleet.ReplicaID) error {
	var until time.Time
	if o.Deadline > 0 {
		until = o.App.Now().Add(o.Deadline)
	}
	last := ""
	for {
		states, err := observe(ctx, o.App, reader, ids)
		if err != nil {
			return err
		}
		line, done := progress(states)
		if line != last {
			o.App.Progressf("%s", line)
			last = line
		}
		if done {
			return o.print(states)
		}
		if !until.IsZero() && !o.App.Now().Before(until) {
			return o.late(states)
		}
		if err := app.Pause(ctx, o.Interval); err != nil {
			return err
		}
	}
}

func progress(states []State) (string, bool) {
	drained, parts := 0, []string{}
	for _, s := range states {
		if s.Drained {
			drained++
			continue
		}
		parts = append(parts, s.Replica.String()+" "+s.why())
	}
	line := fmt.Sprintf("%d of %d drained", drained, len(states))
	if len(parts) > 0 {
		line += "; " + strings.Join(parts, "; ")
	}
	return line, drained == len(states)
}

// late prints what was reached and ends with exit code 6, naming what holds.
func (o *Options) late(states []State) error {
	if err := o.print(states); err != nil {
		return err
	}
	line, _ := progress(states)
	e := fleet.Errorf(fleet.Unavailable, "drain.timeout", "not drained within %s", app.Duration(o.Deadline)).
		Because("%s", line).Advise("the drain goes on; wait longer with the same command, or look with: aipctl get routes --reserved --replica %s", o.firstHeld(states))
	return app.WithExit(e, app.ExitTimeout)
}

func (o *Options) firstHeld(states []State) string {
	for _, s := range states {
		if !s.Drained {
			return s.Replica.String()
		}
	}
	return "ID"
}

func (o *Options) print(states []State) error {
	return o.App.Print(app.View{
		Kind: "Drain", Items: app.Items(states),
		Table: func(bool) app.Table {
			t := app.Table{Header: []string{"REPLICA", "INTENT", "STATUS", "ACTIVE", "UNSETTLED", "UNCERTAIN", "NOW"}}
			for _, s := range states {
				now := s.why()
				if o.Want == fleet.IntentRun || o.DryRun && s.Intent == fleet.IntentRun {
					now = ""
				}
				t.Rows = append(t.Rows, []string{s.Replica.String(), string(s.Intent), app.Status(string(s.Status)), fmt.Sprint(s.Active),
					fmt.Sprint(len(s.Blockers)), fmt.Sprint(s.Uncertain), now})
			}
			return t
		},
	})
}
