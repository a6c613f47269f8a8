package showcase

import (
	"bytes"
	"context"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// killCentral kills aipd serve while a host works for it, and then PostgreSQL.
func (s *show) killCentral(ctx context.Context) error {
	const tenant, prefix = localfleet.Acme, "orphan"
	if err := s.stall(tenant, prefix); err != nil {
		return err
	}
	id, err := s.begin(ctx, tenant, prefix+": its dispatcher dies")
	if err != nil {
		return err
	}
	if err := s.awaitStall(ctx, tenant, id); err != nil {
		return err
	}
	if err := s.restart(ctx, localfleet.ProcessServe); err != nil {
		return err
	}
	if err := desk.Release(s.fleet.Place().Account(tenant)); err != nil {
		return err
	}
	v, err := s.awaitFinal(ctx, tenant, id)
	if err != nil {
		return err
	}
	n, err := s.effectsOf(tenant, id)
	if err != nil {
		return err
	}
	s.check(v.State == action.Completed && n == 1, "its successor asked the host: %s is %s, with %d effect", id, v.State, n)
	if err := desk.HoldAgain(s.fleet.Place().Account(tenant)); err != nil {
		return err
	}
	return s.killDatabase(ctx, tenant, id)
}

func (s *show) restart(ctx context.Context, name string) error {
	if pid := s.fleet.Process(name).PID; pid != 0 {
		s.Say("    kill -9 %d (%s), then it is started again", pid, name)
	} else {
		s.Say("    every process of %s is killed, then it is started again", name)
	}
	if err := s.fleet.Kill(ctx, name); err != nil {
		return err
	}
	return s.fleet.Start(ctx, name)
}

// awaitFinal waits until an action has a definite result.
func (s *show) awaitFinal(ctx context.Context, tenant string, id fleet.ActionID) (v action.View, err error) {
	err = until(ctx, patience, "the action did not end", func(ctx context.Context) (bool, error) {
		v, err = s.clients[tenant].Get(ctx, id, 0)
		return err == nil && v.State.Final(), err
	})
	return v, err
}

// killDatabase compares what is known of an action before and after the database
// server was killed, and goes on working.
func (s *show) killDatabase(ctx context.Context, tenant string, id fleet.ActionID) error {
	before, err := s.clients[tenant].Result(ctx, id)
	if err != nil {
		return err
	}
	if err := s.restart(ctx, localfleet.ProcessPostgres); err != nil {
		return err
	}
	var after []byte
	err = until(ctx, patience, "the result did not come back", func(ctx context.Context) (bool, error) {
		after, err = s.clients[tenant].Result(ctx, id)
		return err == nil, err
	})
	if err != nil {
		return err
	}
	s.check(bytes.Equal(before, after), "after the database server was killed the result is there, the same %d bytes", len(after))
	return until(ctx, patience, "no action was completed", func(ctx context.Context) (bool, error) {
		v, err := s.call(ctx, tenant, desk.OpenTicketTool, map[string]any{"title": "after the crash"})
		done := err == nil && v.State == action.Completed
		if done {
			s.check(true, "and work goes on: %s is %s", v.ID, v.State)
		}
		return done, err
	})
}
