package dispatch_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/dispatch"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/envelope/mutationtest"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/reconcile"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// bender answers with what the host answered first, signed with the host's key for the
// message that asks, and changed: the n-th answer gets its n-th change.
type bender struct {
	inner   dispatch.Sender
	t       *testing.T
	first   *envelope.Envelope
	n       int
	what    string
	changes int
}

func (b *bender) Post(ctx context.Context, e peer.Endpoint, path string, body []byte) (peer.Reply, error) {
	asked := must(envelope.Open(body, envelope.Expect{
		Purpose: envelope.Dispatch, Peer: signerOf(1).DID(), Audience: signerOf(2).DID(), Now: time.Now(),
	}))
	if b.first == nil {
		reply, err := b.inner.Post(ctx, e, path, body)
		if err != nil {
			return reply, err
		}
		env := must(envelope.Open(reply.Body, envelope.Expect{
			Purpose: envelope.Response, Peer: signerOf(2).DID(), Audience: signerOf(1).DID(), Now: time.Now(),
		})).Envelope()
		b.first = &env
	}
	answer := *b.first
	answer.InResponseTo = asked.Envelope().MessageID
	sealed := must(envelope.Seal(answer, envelope.Response, signerOf(2), signerOf(1).DID()))
	if b.changes == 0 { // once unchanged, to show that only the changes are refused
		b.changes = len(mutationtest.Changes(b.t, sealed, 11))
		return peer.Reply{Status: 200, Body: sealed}, nil
	}
	changes := mutationtest.Changes(b.t, sealed, 11)
	m := changes[b.n%len(changes)]()
	b.n, b.what = b.n+1, m.What
	return peer.Reply{Status: 200, Body: m.Text}, nil
}

// known is an action that a real host was asked about, and what it answers.
type known struct {
	name   string
	id     fleet.ActionID
	answer func(*dispatch.Answer) bool // the kind of the unchanged answer
}

// answers makes one action for each kind of answer to a dispatch.
func (r *rig) answers(e *dispatch.Engine) []known {
	completed, failed, refused := submission(newAction()), submission(newAction()), submission(newAction())
	r.want(r.submit(e, completed), action.Completed)
	r.product.set(func(context.Context, connector.Call) (connector.Result, error) {
		return connector.Result{Class: connector.Failed, Failure: &connector.Failure{Code: "desk.closed", Message: "closed"}}, nil
	})
	r.want(r.submit(e, failed), action.Failed)
	r.product.set(nil)
	refused.Input = json.RawMessage(`{"title":7}`)
	r.want(r.submit(e, refused), action.Retryable)
	unknown := r.stuck(e)
	return []known{
		{"completed result", completed.ID, func(a *dispatch.Answer) bool { return a.Result != nil && a.Result.Error == nil }},
		{"failed result", failed.ID, func(a *dispatch.Answer) bool { return a.Result != nil && a.Result.Error != nil }},
		{"refusal", refused.ID, func(a *dispatch.Answer) bool { return a.Refusal != nil }},
		{"unknown", unknown.ID, func(a *dispatch.Answer) bool { return a.Status != nil }},
	}
}

// TestMutation_G19_EveryPartOfEveryAnswerOfAHost changes any one part of each kind of
// answer that a real host gives: the dispatcher takes no result, no promise and no
// refusal from it, calls the attempt unknown and blames the peer. The unchanged answer
// is believed.
func TestMutation_G19_EveryPartOfEveryAnswerOfAHost(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	for _, k := range r.answers(e) {
		t.Run("dispatch/"+k.name, func(t *testing.T) {
			record, route := r.get(k.id), r.route(k.id)
			record.Deadline = route.Assignment().Attempt.Deadline
			b := &bender{inner: r.peers, t: t}
			bent := r.courier()
			bent.Sender = b
			if sent := bent.Dispatch(t.Context(), record, route.Assignment(), nil); sent.Answer == nil || !k.answer(sent.Answer) {
				t.Fatalf("the unchanged answer: %+v", sent)
			}
			for b.n < b.changes {
				sent := bent.Dispatch(t.Context(), record, route.Assignment(), nil)
				v := dispatch.Classify(k.id, sent)
				if sent.Answer != nil || fleet.CodeOf(sent.Err) != dispatch.CodeBadAnswer || v.State != action.Uncertain ||
					v.Settlement.Outcome != fleet.OutcomeUnknown || !v.Settlement.PeerFault || v.Result != nil {
					t.Errorf("%s: believed, or not blamed: %+v, %v", b.what, v, sent.Err)
				}
			}
			wantTried(t, b)
		})
		t.Run("status/"+k.name, func(t *testing.T) {
			route, b := r.route(k.id), &bender{inner: r.peers, t: t}
			bent := r.courier()
			bent.Sender = b
			if f, err := bent.Status(t.Context(), route); err != nil || f.State == "" {
				t.Fatalf("the unchanged answer: %+v, %v", f, err)
			}
			for b.n < b.changes {
				if f, err := bent.Status(t.Context(), route); fleet.CodeOf(err) != dispatch.CodeBadAnswer || f.State != "" {
					t.Errorf("%s: believed: %+v, %v", b.what, f, err)
				}
			}
			wantTried(t, b)
		})
	}
	r.bendOthers(e)
}

func wantTried(t *testing.T, b *bender) {
	t.Helper()
	if b.n < 200 {
		t.Errorf("only %d changes were tried", b.n)
	}
}

// bendOthers changes the answers to a cancel and to the word that an outcome is kept.
func (r *rig) bendOthers(e *dispatch.Engine) {
	s := submission(newAction())
	r.want(r.submit(e, s), action.Completed)
	route := r.route(s.ID)
	for name, ask := range map[string]func(*dispatch.Courier) error{
		"cancel":  func(c *dispatch.Courier) error { _, err := c.Cancel(r.t.Context(), route, "no longer"); return err },
		"settled": func(c *dispatch.Courier) error { return c.Settled(r.t.Context(), route) },
	} {
		b := &bender{inner: r.peers, t: r.t}
		bent := r.courier()
		bent.Sender = b
		if err := ask(bent); err != nil {
			r.t.Fatalf("%s, the unchanged answer: %v", name, err)
		}
		for b.n < b.changes {
			if err := ask(bent); fleet.CodeOf(err) != dispatch.CodeBadAnswer {
				r.t.Errorf("%s, %s: believed: %v", name, b.what, err)
			}
		}
		wantTried(r.t, b)
	}
}

// rewritten is a registry whose word about a decision was changed.
type rewritten struct {
	reconcile.Records
	document []byte
}

func (r rewritten) List(ctx context.Context, s registry.Selection) (registry.Records, error) {
	got, err := r.Records.List(ctx, s)
	for i := range got.Reconciliations {
		got.Reconciliations[i].Decision = r.document
	}
	return got, err
}

// refusals keeps the codes of the errors that were logged.
type refusals struct {
	slog.Handler
	codes *[]string
}

func (h refusals) Enabled(context.Context, slog.Level) bool { return true }

func (h refusals) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			*h.codes = append(*h.codes, fleet.CodeOf(err))
		}
		return true
	})
	return nil
}

// TestMutation_G38_EveryPartOfADecisionInTheRegistry: whoever writes the registry cannot
// change a word of what an operator decided.
func TestMutation_G38_EveryPartOfADecisionInTheRegistry(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	s, another := r.stuck(e), r.stuck(e)
	r.decide(s.ID, fleet.ResolvedHappened, r.operator)
	r.decide(another.ID, fleet.ResolvedDidNotHappen, r.operator)
	good, other := r.question(s.ID).Decision, r.question(another.ID).Decision
	mutants := append(mutationtest.Of(t, good, 7), mutationtest.Grafts(t, good, other)...)
	mutants = append(mutants, mutationtest.Mutant{What: "the decision about another action", Text: other}, mutationtest.Mutant{What: "none"})
	for _, m := range mutants {
		var codes []string
		r.apply(r.reconciler(func(c *reconcile.Config) {
			c.Records, c.Actions, c.Log = rewritten{r.reg, m.Text}, onlyOne{r.store, s.ID}, slog.New(refusals{codes: &codes})
		}))
		if len(codes) != 1 || codes[0] != "reconcile.decision" || r.get(s.ID).State != action.Uncertain {
			t.Fatalf("%s: refusals %v, the action is %s", m.What, codes, r.get(s.ID).State)
		}
	}
	if len(mutants) < 300 {
		t.Errorf("only %d changes were tried", len(mutants))
	}
	r.apply(r.reconciler())
	r.want(r.get(s.ID), action.Completed)
	r.want(r.get(another.ID), action.Retryable)
}

// onlyOne lists one action alone.
type onlyOne struct {
	action.Store
	id fleet.ActionID
}

func (o onlyOne) List(ctx context.Context, s action.Selection) (action.Page, error) {
	page, err := o.Store.List(ctx, s)
	var kept []action.Record
	for _, a := range page.Records {
		if a.ID == o.id {
			kept = append(kept, a)
		}
	}
	page.Records = kept
	return page, err
}
