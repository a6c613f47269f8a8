package showcase

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// stall makes the next ticket whose title begins with the prefix hold after its
// effect is durable and before it is answered.
func (s *show) stall(tenant, prefix string) error { return s.fault(tenant, prefix, desk.AfterEffect) }

// fault is stall at a chosen point.
func (s *show) fault(tenant, prefix, at string) error {
	return desk.WriteFaults(s.fleet.Place().Account(tenant), desk.Faults{Rules: []desk.Rule{{
		ID: prefix, Tool: desk.OpenTicketTool, TitlePrefix: prefix, At: at, Action: desk.ActionStall, StallMS: 60_000,
	}}})
}

// awaitStall waits until the provider holds the call of an action.
func (s *show) awaitStall(ctx context.Context, tenant string, id fleet.ActionID) error {
	return until(ctx, patience, "the provider has not held the call", func(context.Context) (bool, error) {
		fired, err := desk.ReadFired(s.fleet.Place().Account(tenant))
		for _, f := range fired {
			if f.ActionID == id.String() {
				return true, nil
			}
		}
		return false, err
	})
}

// begin submits a ticket without waiting for it.
func (s *show) begin(ctx context.Context, tenant, title string) (fleet.ActionID, error) {
	r, err := s.request(desk.OpenTicketTool, map[string]any{"title": title})
	if err != nil {
		return r.ID, err
	}
	_, err = s.clients[tenant].Submit(ctx, r, 0)
	return r.ID, err
}

// lostAnswer kills a host at the worst moment.
func (s *show) lostAnswer(ctx context.Context) error {
	const tenant, prefix = localfleet.Acme, "lost answer"
	if err := s.stall(tenant, prefix); err != nil {
		return err
	}
	id, err := s.begin(ctx, tenant, prefix+": the customer is charged, and nobody hears of it")
	if err != nil {
		return err
	}
	s.lost = id
	if err := s.awaitStall(ctx, tenant, id); err != nil {
		return err
	}
	route, err := s.clients[tenant].Route(ctx, id)
	if err != nil {
		return err
	}
	host := route.Route.Replica.String()
	s.Say("    the effect of %s is durable, its answer is held: kill -9 %d (%s)", id, s.fleet.Process(host).PID, host)
	if err := s.fleet.Kill(ctx, host); err != nil {
		return err
	}
	if err := s.awaitUncertain(ctx, tenant, id); err != nil {
		return err
	}
	listed, err := s.fleet.Aipctl(ctx, "reconcile", "list")
	if err != nil {
		return err
	}
	s.command(listed, 6)
	return s.comeBack(ctx, tenant, host, id)
}

// awaitUncertain waits until the action is known to be uncertain.
func (s *show) awaitUncertain(ctx context.Context, tenant string, id fleet.ActionID) error {
	return until(ctx, patience, "the action has not become uncertain", func(ctx context.Context) (bool, error) {
		v, err := s.clients[tenant].Get(ctx, id, 0)
		return err == nil && v.State == action.Uncertain, err
	})
}

// comeBack starts the host again and waits for the reconciliation.
func (s *show) comeBack(ctx context.Context, tenant, host string, id fleet.ActionID) error {
	if err := s.fleet.Start(ctx, host); err != nil {
		return err
	}
	s.Say("    %s runs again as process %d; nobody resends anything", host, s.fleet.Process(host).PID)
	v, err := s.awaitFinal(ctx, tenant, id)
	if err != nil {
		return err
	}
	s.check(v.State == action.Completed, "%s is %s, by evidence of its own host", id, v.State)
	n, err := s.effectsOf(tenant, id)
	s.check(n == 1, "the provider has %d effect of it: not none, not two", n)
	return err
}

// hostRestart submits while the only host of globex is down and its lease still
// lives.
func (s *show) hostRestart(ctx context.Context) error {
	const tenant = localfleet.Globex
	host, err := s.hostOf(tenant)
	if err != nil {
		return err
	}
	var r action.Request
	var down action.View
	for range 3 { // on a busy machine the lease may end before the action is routed
		if r, down, err = s.whileDown(ctx, tenant, host); err != nil {
			return err
		}
		if down.Fence > 0 {
			break
		}
	}
	s.check(down.State == action.Retryable && down.Fence == 1, "%s is %s: its route goes to the host, no byte of it reached it", r.ID, down.State)
	return s.tryAgain(ctx, tenant, r)
}

// whileDown kills the host, submits, and starts the host again.
func (s *show) whileDown(ctx context.Context, tenant, host string) (r action.Request, v action.View, err error) {
	if err := until(ctx, patience, host+" takes no work", func(ctx context.Context) (bool, error) { return s.isReady(ctx, host) }); err != nil {
		return r, v, err
	}
	if err := s.fleet.Kill(ctx, host); err != nil {
		return r, v, err
	}
	s.Say("    %s was killed; its lease lives on for a moment, so that a route still goes there", host)
	if r, err = s.request(desk.OpenTicketTool, map[string]any{"title": "while the host was down"}); err != nil {
		return r, v, err
	}
	if v, err = s.clients[tenant].Submit(ctx, r, patience); err != nil {
		return r, v, err
	}
	return r, v, s.fleet.Start(ctx, host)
}

// tryAgain submits the same action once more and compares its two attempts.
func (s *show) tryAgain(ctx context.Context, tenant string, r action.Request) error {
	var v action.View
	err := until(ctx, patience, "the retry was not served", func(ctx context.Context) (_ bool, err error) {
		v, err = s.clients[tenant].Submit(ctx, r, patience)
		return err == nil && v.State.Final(), err
	})
	if err != nil {
		return err
	}
	route, err := s.clients[tenant].Route(ctx, r.ID)
	if err != nil {
		return err
	}
	n := len(route.Attempts)
	s.check(v.State == action.Completed && n >= 2, "the host is back, the same action is submitted: %s, on %s under fence %d",
		v.State, route.Route.Replica, route.Current().Fence.Number)
	s.check(route.Attempts[0].Settlement != nil && route.Attempts[0].Settlement.Outcome == fleet.OutcomeCancelled,
		"its first attempt stands in the route as %s", outcomeOf(route.Attempts[0]))
	effects, err := s.effectsOf(tenant, r.ID)
	s.check(effects == 1, "the provider has %d effect of it", effects)
	return err
}

func outcomeOf(a fleet.Attempt) string {
	if a.Settlement == nil {
		return "not settled"
	}
	return string(a.Settlement.Outcome) + " (" + a.Settlement.Code + ")"
}

// hostOf is the first replica of a tenant.
func (s *show) hostOf(tenant string) (string, error) {
	for _, h := range s.fleet.Hosts() {
		if h.Tenant == tenant {
			return h.Replica, nil
		}
	}
	return "", fleet.Errorf(fleet.NotFound, "demo.host", "no host serves %s", tenant)
}

// drain drains the replica of a held action while another one takes new work.
func (s *show) drain(ctx context.Context) error {
	const tenant, prefix = localfleet.Acme, "long work"
	if err := s.stall(tenant, prefix); err != nil {
		return err
	}
	id, err := s.begin(ctx, tenant, prefix+" that must not be cut off")
	if err != nil {
		return err
	}
	if err := s.awaitStall(ctx, tenant, id); err != nil {
		return err
	}
	route, err := s.clients[tenant].Route(ctx, id)
	if err != nil {
		return err
	}
	replica := route.Route.Replica.String()
	draining := make(chan drained, 1)
	go func() {
		r, err := s.fleet.Aipctl(ctx, "drain", "replica", replica, "--deadline", "60s", "--yes", "--confirm", replica, "--reason", "maintenance of its machine")
		draining <- drained{r, err, s.Now()}
	}()
	held, werr := s.whileDraining(ctx, tenant, replica, id)
	if err := desk.Release(s.fleet.Place().Account(tenant)); err != nil && werr == nil {
		werr = err
	}
	done := <-draining // it has a deadline of its own
	if werr != nil || done.err != nil {
		return firstOf(werr, done.err)
	}
	s.command(withProgress(done.run), 8)
	return s.afterDrain(ctx, tenant, replica, id, held && done.run.Exit == 0)
}

// drained is the end of the command that drains.
type drained struct {
	run localfleet.Result
	err error
	at  time.Time
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// withProgress shows what a command said on the way before its result.
func withProgress(r localfleet.Result) localfleet.Result {
	r.Stdout = append(append([]byte{}, r.Stderr...), r.Stdout...)
	return r
}

// whileDraining shows that the drain waits and that new work goes elsewhere.
func (s *show) whileDraining(ctx context.Context, tenant, replica string, id fleet.ActionID) (bool, error) {
	var blockers []string
	// Attempts that the kills of the step before left to be settled may stand beside it for
	// a few seconds.
	err := until(ctx, patience, "the drain was not seen to wait for one action alone", func(ctx context.Context) (bool, error) {
		r, err := s.fleet.Aipctl(ctx, "drain", "replica", replica, "--dry-run", "-o", "json")
		if err != nil {
			return false, err
		}
		intent, names, err := blockersOf(r.Stdout)
		blockers = names
		return intent == string(fleet.IntentDrain) && len(blockers) == 1, err
	})
	if err != nil {
		return false, err
	}
	held := len(blockers) == 1 && blockers[0] == id.String()
	s.check(held, "while it drains, %s is held by %v", replica, blockers)
	other, err := s.mustComplete(ctx, tenant, desk.OpenTicketTool, map[string]any{"title": "new work during the drain"})
	if err != nil {
		return false, err
	}
	route, err := s.clients[tenant].Route(ctx, other.ID)
	if err != nil {
		return false, err
	}
	s.check(route.Route.Replica.String() != replica, "new work goes to %s meanwhile", route.Route.Replica)
	return held, nil
}

func blockersOf(doc []byte) (intent string, names []string, err error) {
	var list struct {
		Items []struct {
			Intent   string `json:"intent"`
			Blockers []struct {
				Action string `json:"action_id"`
			} `json:"blockers"`
		} `json:"items"`
	}
	if err := json.Unmarshal(doc, &list); err != nil || len(list.Items) != 1 {
		return "", nil, firstOf(err, fleet.Errorf(fleet.Internal, "demo.answer", "aipctl drain gave no list of one replica"))
	}
	for _, b := range list.Items[0].Blockers {
		names = append(names, b.Action)
	}
	return list.Items[0].Intent, names, nil
}

// afterDrain looks at the released action and lets the replica work again.
func (s *show) afterDrain(ctx context.Context, tenant, replica string, id fleet.ActionID, waited bool) error {
	v, err := s.clients[tenant].Get(ctx, id, patience)
	if err != nil {
		return err
	}
	s.check(waited && v.State == action.Completed, "the held action was let go: it is %s, and only then the replica counted as drained", v.State)
	undrain, err := s.fleet.Aipctl(ctx, "undrain", "replica", replica, "--reason", "maintenance is over")
	if err != nil {
		return err
	}
	if err := undrain.Failed(0); err != nil {
		return err
	}
	if err := desk.HoldAgain(s.fleet.Place().Account(tenant)); err != nil {
		return err
	}
	return until(ctx, patience, "the replica does not take work again", func(ctx context.Context) (bool, error) {
		return s.isReady(ctx, replica)
	})
}

func (s *show) isReady(ctx context.Context, replica string) (bool, error) {
	reg, err := s.Registry(ctx)
	if err != nil {
		return false, err
	}
	defer reg.Close()
	page, err := reg.List(ctx, registry.Selection{Noun: registry.Replicas, IDs: []string{replica}})
	return err == nil && len(page.Replicas) == 1 && page.Replicas[0].Live.Status == fleet.ReplicaReady && page.Replicas[0].Live.Healthy, err
}
