package showcase

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// patience bounds the wait for one action.
const patience = 30 * time.Second

// capability is one tool of the desk.
func capability(tool string) fleet.CapabilityID {
	id, err := fleet.ParseCapabilityID(localfleet.Connector + ":" + tool)
	if err != nil { // the tools' names are constants
		return fleet.CapabilityID{}
	}
	return id
}

func (s *show) request(tool string, input map[string]any) (action.Request, error) {
	data, err := json.Marshal(input)
	return action.Request{ID: fleet.NewActionID(s.Now()), Capability: capability(tool), Input: data, TimeoutMS: uint64(patience.Milliseconds())}, err
}

// call submits an action and waits until it rests.
func (s *show) call(ctx context.Context, tenant, tool string, input map[string]any) (action.View, error) {
	r, err := s.request(tool, input)
	if err != nil {
		return action.View{}, err
	}
	return s.clients[tenant].Submit(ctx, r, patience)
}

// mustComplete is call for an action that has to succeed.
func (s *show) mustComplete(ctx context.Context, tenant, tool string, input map[string]any) (action.View, error) {
	v, err := s.call(ctx, tenant, tool, input)
	if err == nil && v.State != action.Completed {
		err = fleet.Errorf(fleet.Internal, "demo.action", "action %s of %s is %s", v.ID, tenant, v.State).Because("%s", problemText(v))
	}
	return v, err
}

func problemText(v action.View) string {
	text, err := json.Marshal(v.Problem)
	if err != nil || v.Problem == nil {
		return string(v.Result)
	}
	return string(text)
}

// output reads the output out of a result document.
func output[T any](v action.View) (T, error) {
	var doc struct {
		Output T `json:"output"`
	}
	err := json.Unmarshal(v.Result, &doc)
	return doc.Output, err
}

// start makes the fleet.
func (s *show) start(ctx context.Context) error {
	f, err := localfleet.Up(ctx, s.Options.Fleet)
	s.fleet = f
	if err != nil {
		return err
	}
	for _, tenant := range localfleet.Tenants() {
		if s.clients[tenant], err = f.Client(tenant); err != nil {
			return err
		}
	}
	shown, err := f.Aipctl(ctx, "get", "replicas")
	if err != nil {
		return err
	}
	s.command(shown, 8)
	verified, err := f.Aipctl(ctx, "registry", "verify", "-o", "json")
	if err != nil {
		return err
	}
	s.check(verified.Exit == 0, "migrations and the privileges of every database role are exactly those of the matrix")
	admissions, err := f.Aipctl(ctx, "get", "admissions")
	if err != nil {
		return err
	}
	s.command(admissions, 4)
	return nil
}

// What each tenant does in manyActions: 4 customers who each do several things.
const (
	customers = 6
	perTenant = customers * 5
)

// manyActions lets both tenants work at once.
func (s *show) manyActions(ctx context.Context) error {
	group, working := errgroup.WithContext(ctx)
	for _, tenant := range localfleet.Tenants() {
		for n := range customers {
			group.Go(func() error { return s.customer(working, tenant, n) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, tenant := range localfleet.Tenants() {
		effects, err := desk.ReadEffects(s.fleet.Place().Account(tenant))
		if err != nil {
			return err
		}
		strangers := 0
		for _, e := range effects {
			if e.Account != tenant {
				strangers++
			}
		}
		s.check(strangers == 0 && len(effects) == customers*4, "%s: %d effects in its own account, %d of anybody else", tenant, len(effects), strangers)
	}
	return s.lookAcross(ctx)
}

// customer opens two tickets, comments on one, closes it, and lists.
func (s *show) customer(ctx context.Context, tenant string, n int) error {
	var ticket string
	for i := range 2 {
		v, err := s.mustComplete(ctx, tenant, desk.OpenTicketTool, map[string]any{"title": fmt.Sprintf("customer %d, case %d", n, i)})
		if err != nil {
			return err
		}
		opened, err := output[desk.Opened](v)
		if err != nil {
			return err
		}
		ticket = opened.TicketID
		if tenant == localfleet.Acme && n == 0 && i == 0 {
			s.finished = v.ID
		}
	}
	for _, call := range []struct {
		tool  string
		input map[string]any
	}{
		{desk.CommentTicketTool, map[string]any{"ticket_id": ticket, "comment": "looked into it"}},
		{desk.CloseTicketTool, map[string]any{"ticket_id": ticket, "resolution": "done"}},
		{"list_tickets", map[string]any{"limit": 5}},
	} {
		if _, err := s.mustComplete(ctx, tenant, call.tool, call.input); err != nil {
			return err
		}
	}
	return nil
}

// lookAcross shows that a ticket of one tenant is nothing to the other, through the
// same capability.
func (s *show) lookAcross(ctx context.Context) error {
	own, err := s.mustComplete(ctx, localfleet.Acme, desk.OpenTicketTool, map[string]any{"title": "only for acme"})
	if err != nil {
		return err
	}
	opened, err := output[desk.Opened](own)
	if err != nil {
		return err
	}
	foreign, err := s.call(ctx, localfleet.Globex, "get_ticket", map[string]any{"ticket_id": opened.TicketID})
	if err != nil {
		return err
	}
	sees := foreign.State == action.Completed && bytes.Contains(foreign.Result, []byte("only for acme"))
	s.check(!sees && foreign.State.Final(), "globex asks for acme's ticket %s through the same capability: %s, it is not in its account", opened.TicketID, foreign.State)
	_, err = s.clients[localfleet.Globex].Get(ctx, own.ID, 0)
	s.check(fleet.KindOf(err) == fleet.NotFound, "globex asks aipd for acme's action: %s, as if it did not exist", fleet.KindOf(err))
	return nil
}

// repeat asks for a finished action again.
func (s *show) repeat(ctx context.Context) error {
	c := s.clients[localfleet.Acme]
	first, err := c.Result(ctx, s.finished)
	if err != nil {
		return err
	}
	before, err := c.Get(ctx, s.finished, 0)
	if err != nil {
		return err
	}
	input := map[string]any{"title": "customer 0, case 0"}
	r, err := s.request(desk.OpenTicketTool, input)
	if err != nil {
		return err
	}
	r.ID = s.finished
	again, err := c.Submit(ctx, r, patience)
	if err != nil {
		return err
	}
	second, err := c.Result(ctx, s.finished)
	if err != nil {
		return err
	}
	s.check(bytes.Equal(first, second) && again.Runs == before.Runs, "%s submitted again: %s, the same %d bytes, not run again", s.finished, again.State, len(second))
	n, err := s.effectsOf(localfleet.Acme, s.finished)
	s.check(n == 1, "the provider has %d effect of it", n)
	return err
}

// effectsOf counts the effects of one action in an account's own store.
func (s *show) effectsOf(tenant string, id fleet.ActionID) (int, error) {
	effects, err := desk.ReadEffects(s.fleet.Place().Account(tenant))
	n := 0
	for _, e := range effects {
		if e.ActionID == id.String() {
			n++
		}
	}
	return n, err
}

// refusals shows two refusals through the real aipctl.
func (s *show) refusals(ctx context.Context) error {
	conflict, err := s.fleet.Aipctl(ctx, "action", "submit", capability(desk.CloseTicketTool).String(), "--id", s.finished.String(),
		"--input", `{"ticket_id":"x","resolution":"y"}`)
	if err != nil {
		return err
	}
	s.command(conflict, 4)
	s.check(conflict.Exit == 5, "another capability under a used action id: exit code %d, a conflict", conflict.Exit)
	missing, err := s.fleet.Aipctl(ctx, "action", "status", fleet.NewActionID(s.Now()).String())
	if err != nil {
		return err
	}
	s.command(missing, 4)
	s.check(missing.Exit == 3, "an unknown action: exit code %d, not found", missing.Exit)
	return nil
}
