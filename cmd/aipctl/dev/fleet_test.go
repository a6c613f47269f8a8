package dev_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

const (
	acme   = localfleet.Acme
	globex = localfleet.Globex
	only   = "crepl_globex_desk_a" // the one replica of globex
)

// The same capability, two tenants, both at work: every effect is in the account of
// the tenant whose credential was shown, whatever the client asks for.
func TestFleet_G18_EffectsLandInTheTenantsOwnAccount(t *testing.T) {
	var group errgroup.Group
	for i := range 24 {
		tenant := localfleet.Tenants()[i%2]
		r := ticket(t, "for "+tenant)
		c := agent(t, tenant)
		ctx := bounded(t)
		group.Go(func() error {
			_, err := c.Submit(ctx, r, limit)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range localfleet.Tenants() {
		all, err := desk.ReadEffects(live.Place().Account(tenant))
		if err != nil {
			t.Fatal(err)
		}
		mine := 0
		for _, e := range all {
			if e.Account != tenant || strings.HasPrefix(e.Input.Title, "for ") && e.Input.Title != "for "+tenant {
				t.Errorf("the store of %s holds %+v", tenant, e)
			}
			if e.Input.Title == "for "+tenant {
				mine++
			}
		}
		if mine != 12 {
			t.Errorf("%s has %d tickets of its own, want 12", tenant, mine)
		}
	}
}

// Another tenant's action, ticket and route are the same as ones that never existed.
func TestFleet_G18_AnotherTenantsActionIsNotFound(t *testing.T) {
	own := submit(t, acme, ticket(t, "secret of acme"), limit)
	for name, ask := range map[string]func(context.Context) error{
		"get":    func(ctx context.Context) error { _, err := agent(t, globex).Get(ctx, own.ID, 0); return err },
		"result": func(ctx context.Context) error { _, err := agent(t, globex).Result(ctx, own.ID); return err },
		"route":  func(ctx context.Context) error { _, err := agent(t, globex).Route(ctx, own.ID); return err },
		"cancel": func(ctx context.Context) error { _, err := agent(t, globex).Cancel(ctx, own.ID, "x"); return err },
	} {
		if err := ask(bounded(t)); fleet.KindOf(err) != fleet.NotFound {
			t.Errorf("%s: %v, want not found", name, err)
		}
	}
	other := submit(t, globex, call(t, "get_ticket", map[string]any{"ticket_id": "acme-1"}), limit)
	if other.State != action.Failed || bytes.Contains(other.Result, []byte("acme")) && bytes.Contains(other.Result, []byte("title")) {
		t.Errorf("globex asks for a ticket of acme: %s %s", other.State, other.Result)
	}
}

func TestFleet_G44_ARepeatGetsTheStoredResultByteForByte(t *testing.T) {
	r := ticket(t, "once")
	first := submit(t, acme, r, limit)
	stored, err := agent(t, acme).Result(bounded(t), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	again := submit(t, acme, r, limit)
	after, err := agent(t, acme).Result(bounded(t), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stored, after) || again.Runs != first.Runs || again.State != action.Completed {
		t.Errorf("a repeat: %s, %d runs, %s; the first %d runs, %s", again.State, again.Runs, after, first.Runs, stored)
	}
	if n := effects(t, acme, r.ID); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// The worst moment: the provider has done it, the host dies before it can say so.
func TestFleet_G39_HostKilledAfterEffectCompletesByReconciliation(t *testing.T) {
	r, replica, _ := held(t, acme, desk.AfterEffect)
	kill(t, replica)
	v := becomes(t, acme, r.ID, action.Uncertain)
	if v.Problem == nil {
		t.Error("an uncertain action does not say why")
	}
	shown := exits(t, 7, "action", "status", r.ID.String())
	if !strings.Contains(string(shown.Stdout)+string(shown.Stderr), "uncertain") {
		t.Errorf("aipctl action status says: %s%s", shown.Stdout, shown.Stderr)
	}
	start(t, replica)
	becomes(t, acme, r.ID, action.Completed)
	if n := effects(t, acme, r.ID); n != 1 {
		t.Errorf("%d effects, want exactly 1", n)
	}
	attempts := attemptsOf(t, acme, r.ID)
	if len(attempts) != 1 || attempts[0].Settlement == nil || attempts[0].Settlement.Outcome != fleet.OutcomeUnknown {
		t.Errorf("attempts = %+v, want one, unknown", attempts)
	}
}

func attemptsOf(t *testing.T, tenant string, id fleet.ActionID) []fleet.Attempt {
	t.Helper()
	route, err := agent(t, tenant).Route(bounded(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return route.Attempts
}

// A host that is down while its lease lives: nothing was sent, and the same action
// works on the same replica when it is back.
func TestFleet_G09_AHostThatWasDownServesThePinnedRetry(t *testing.T) {
	var r action.Request
	var down action.View
	for range 3 { // on a busy machine the lease may end before the action is routed
		ready(t, only)
		kill(t, only)
		r = ticket(t, "while it was down")
		down = submit(t, globex, r, limit)
		start(t, only)
		if down.Fence > 0 {
			break
		}
	}
	if down.State != action.Retryable || down.Fence != 1 {
		t.Fatalf("with its host down the action is %s under fence %d, want retryable under 1: %+v", down.State, down.Fence, down.Problem)
	}
	until(t, "the retry is served", func(ctx context.Context) (bool, error) {
		v, err := agent(t, globex).Submit(ctx, r, limit)
		return err == nil && v.State == action.Completed, err
	})
	route, err := agent(t, globex).Route(bounded(t), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if route.Route.Replica.String() != only || route.Current().Fence.Number < 2 || effects(t, globex, r.ID) != 1 {
		t.Errorf("retried on %s under fence %d with %d effects", route.Route.Replica, route.Current().Fence.Number, effects(t, globex, r.ID))
	}
}

// aipd is killed while a host works for it: its successor asks, and does not resend.
func TestFleet_G39_AipdKilledInTheMiddleIsSucceeded(t *testing.T) {
	r, _, release := held(t, acme, desk.AfterEffect)
	kill(t, localfleet.ProcessServe)
	start(t, localfleet.ProcessServe)
	release()
	becomes(t, acme, r.ID, action.Completed)
	if n, attempts := effects(t, acme, r.ID), attemptsOf(t, acme, r.ID); n != 1 || len(attempts) != 1 {
		t.Errorf("%d effects, %d attempts; want one of each", n, len(attempts))
	}
}

// The database server is killed, with work under way.
func TestFleet_G39_ADatabaseCrashLosesNothing(t *testing.T) {
	done := submit(t, acme, ticket(t, "before the crash"), limit)
	r, _, release := held(t, acme, desk.AfterEffect)
	kill(t, localfleet.ProcessPostgres)
	release()
	start(t, localfleet.ProcessPostgres)
	becomes(t, acme, r.ID, action.Completed)
	if v := becomes(t, acme, done.ID, action.Completed); !bytes.Equal(v.Result, done.Result) {
		t.Errorf("the result was %s and is %s", done.Result, v.Result)
	}
	if n := effects(t, acme, r.ID); n != 1 {
		t.Errorf("%d effects, want exactly 1", n)
	}
	for _, h := range live.Hosts() {
		ready(t, h.Replica)
	}
}

// Nobody can tell while the host is gone; an operator with evidence can.
func TestFleet_G38_AnOperatorDecidesWhatNobodyCanTell(t *testing.T) {
	r, replica, _ := held(t, acme, desk.AfterEffect)
	kill(t, replica)
	becomes(t, acme, r.ID, action.Uncertain)
	evidence := filepath.Join(t.TempDir(), "provider.txt")
	if err := os.WriteFile(evidence, []byte("the provider shows the ticket"), 0o600); err != nil {
		t.Fatal(err)
	}
	resolve := []string{"reconcile", "resolve", r.ID.String(), "--outcome", "happened", "--evidence", evidence}
	exits(t, 11, append(resolve, "--reason", "seen at the provider", "-o", "json")...)
	exits(t, 0, append(resolve, "--reason", "seen at the provider", "--yes")...)
	becomes(t, acme, r.ID, action.Completed)
	if n := effects(t, acme, r.ID); n != 1 {
		t.Errorf("%d effects, want exactly 1", n)
	}
}

// The host was killed before the provider did anything, and cannot know that. The
// operator can: the action runs again, on its own route, and the host is shown the
// signed decision.
func TestFleet_G25_DidNotHappenLetsItRunAgainOnItsRoute(t *testing.T) {
	r, replica, _ := held(t, acme, desk.BeforeEffect)
	kill(t, replica)
	becomes(t, acme, r.ID, action.Uncertain)
	start(t, replica)
	until(t, "the host says that it cannot tell", func(context.Context) (bool, error) { return hostCannotTell(t, r.ID), nil })
	if v := submit(t, acme, r, 0); v.State != action.Uncertain || effects(t, acme, r.ID) != 0 {
		t.Fatalf("without a decision a repeat makes it %s, with %d effects", v.State, effects(t, acme, r.ID))
	}
	decide(t, r.ID)
	becomes(t, acme, r.ID, action.Retryable)
	if v := submit(t, acme, r, limit); v.State != action.Completed || effects(t, acme, r.ID) != 1 {
		t.Fatalf("after the decision it is %s with %d effects: %+v", v.State, effects(t, acme, r.ID), v.Problem)
	}
	route, err := agent(t, acme).Route(bounded(t), r.ID)
	if err != nil || route.Route.Replica.String() != replica || route.Current().Fence.Number != 2 {
		t.Errorf("it ran on %s under fence %d, %v; want %s under 2", route.Route.Replica, route.Current().Fence.Number, err, replica)
	}
}

// A host that ends when asked gives its lease back, and its replica is offline at once.
func TestFleet_G23_AStoppedHostGoesOffline(t *testing.T) {
	t.Cleanup(func() { start(t, only); ready(t, only) })
	if err := live.Stop(bounded(t), only); err != nil {
		t.Fatal(err)
	}
	exits(t, 0, "wait", "replica", only, "--for", "status=offline", "--timeout", "2s")
	v := submit(t, globex, ticket(t, "nobody is there"), limit)
	if v.State != action.Retryable || v.Fence != 0 {
		t.Errorf("without a host the action is %s under fence %d, want retryable under none", v.State, v.Fence)
	}
	start(t, only)
	ready(t, only)
	again := submit(t, globex, action.Request{ID: v.ID, Capability: v.Capability, Input: json.RawMessage(`{"title":"nobody is there"}`)}, limit)
	if again.State != action.Completed {
		t.Errorf("with the host back it is %s", again.State)
	}
}

// After everything that the other tests did, the registry's own audit finds nothing.
func TestFleet_G04_TheAuditFindsNothing(t *testing.T) {
	r := exits(t, 0, "registry", "audit", "-o", "json")
	var doc struct {
		Items []registry.Violation `json:"items"`
	}
	if err := json.Unmarshal(r.Stdout, &doc); err != nil || len(doc.Items) != 0 {
		t.Errorf("%v, %v", doc.Items, err)
	}
}
