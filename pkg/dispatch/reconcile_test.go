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
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/reconcile"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// reconciler makes one that is driven pass by pass, and never pauses.
func (r *rig) reconciler(adjust ...func(*reconcile.Config)) *reconcile.Reconciler {
	c := reconcile.Config{
		Uncertain: r.reg, Routes: r.reg, Records: r.reg, Expirer: r.reg, Actions: r.store, Host: r.courier(),
		Operators: envelope.KeySet{{DID: r.operator.DID()}}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		FirstPause: time.Nanosecond, LastPause: time.Nanosecond,
	}
	for _, a := range adjust {
		a(&c)
	}
	return reconcile.New(c)
}

func (r *rig) probe(c *reconcile.Reconciler) {
	r.t.Helper()
	if _, err := c.Probe(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) get(id fleet.ActionID) action.Record {
	r.t.Helper()
	got, err := r.store.Get(r.t.Context(), acme, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

func (r *rig) question(id fleet.ActionID) fleet.Reconciliation {
	r.t.Helper()
	records, err := r.reg.List(r.t.Context(), registry.Selection{Noun: registry.Reconciliations, IDs: []string{id.String()}})
	if err != nil || len(records.Reconciliations) == 0 {
		r.t.Fatalf("no reconciliation record of %s: %v", id, err)
	}
	return records.Reconciliations[0]
}

// uncertain makes an action whose every answer was lost.
func (r *rig) uncertain(e *dispatch.Engine) action.Submission {
	r.t.Helper()
	r.setFront(loseAnswer)
	s := submission(newAction())
	r.want(r.submit(e, s), action.Uncertain)
	r.setFront(nil)
	return s
}

func TestReconcile_G38_ALostResultIsFoundAtTheHost(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	s := r.uncertain(e)
	r.probe(r.reconciler())
	got := r.get(s.ID)
	r.want(got, action.Completed)
	if again := r.submit(e, s); string(again.Result) != string(got.Result) {
		t.Fatal("a repeat got other bytes")
	}
	if q := r.question(s.ID); q.State != fleet.ReconcileResolved || q.Resolution != fleet.ResolvedCompleted || q.ResolvedBy != signerOf(2).DID().String() {
		t.Fatalf("record %+v", q)
	}
	r.wantCalls(s.ID, 1)
	r.audit()
}

// TestReconcile_G38_TheResultIsTheOneAnAnswerWouldHaveBrought: byte for byte, whichever
// way it came.
func TestReconcile_G38_TheResultIsTheOneAnAnswerWouldHaveBrought(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	direct := submission(newAction())
	r.want(r.submit(e, direct), action.Completed)
	found := r.uncertain(e)
	r.probe(r.reconciler())
	var a, b protocol.ActionResult
	if json.Unmarshal(r.get(direct.ID).Result, &a) != nil || json.Unmarshal(r.get(found.ID).Result, &b) != nil {
		t.Fatal("a stored result is not JSON")
	}
	if string(a.Output) != string(b.Output) {
		t.Fatalf("outputs differ:\n%s\n%s", a.Output, b.Output)
	}
}

// TestReconcile_G43_NeitherLeaseNorDrainStopsTheQuestion: the host is asked although
// its lease is over and the operator drains it.
func TestReconcile_G43_NeitherLeaseNorDrainStopsTheQuestion(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	s := r.uncertain(e)
	if _, err := r.reg.Intend(t.Context(), registry.Intent{Replica: theReplica, Want: fleet.IntentDrain, Actor: "op", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	lease := r.route(s.ID).Current().LeaseEpoch
	if _, err := r.reg.Leave(t.Context(), registry.Departure{
		Claim:   registry.RequestClaim{ID: "msg_off", Digest: fleet.DigestBytes([]byte("off"))},
		Replica: theReplica, PeerDID: signerOf(2).DID().String(), Epoch: lease, Offline: true,
	}); err != nil {
		t.Fatal(err)
	}
	r.host.Drain()
	r.probe(r.reconciler())
	r.want(r.get(s.ID), action.Completed)
}

// TestReconcile_G41_NotStartedMakesItRetryable: the message got lost before the host
// saw it, and the host now promises that the fence never runs.
func TestReconcile_G41_NotStartedMakesItRetryable(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	r.setFront(hangUpAtOnce)
	s := submission(newAction())
	r.want(r.submit(e, s), action.Uncertain)
	r.setFront(nil)
	r.probe(r.reconciler())
	r.want(r.get(s.ID), action.Retryable)
	if q := r.question(s.ID); q.Resolution != fleet.ResolvedNotStarted {
		t.Fatalf("record %+v", q)
	}
	r.want(r.submit(e, s), action.Completed)
	if n := r.route(s.ID).Current().Fence.Number; n != 2 {
		t.Fatalf("it ran under fence %d, want 2", n)
	}
	r.wantCalls(s.ID, 1)
	r.audit()
}

// TestReconcile_G38_AgePassesTheQuestionToAnOperator, and asking stops.
func TestReconcile_G38_AgePassesTheQuestionToAnOperator(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	s := r.uncertain(e)
	r.down()
	c := r.reconciler(func(c *reconcile.Config) { c.Age = time.Hour })
	r.probe(c)
	q := r.question(s.ID)
	if q.State != fleet.ReconcileOpen || q.ProbeCount != 1 || q.Probes[0].Answer != "unreachable" {
		t.Fatalf("after a young fruitless probe: %+v", q)
	}
	r.probe(r.reconciler(func(c *reconcile.Config) { c.Age = time.Nanosecond }))
	if q = r.question(s.ID); q.State != fleet.ReconcileOperator {
		t.Fatalf("after the policy's age: %+v", q)
	}
	r.up()
	r.probe(r.reconciler())
	r.want(r.get(s.ID), action.Uncertain)
	r.want(r.submit(e, s), action.Uncertain)
	r.wantCalls(s.ID, 1)
}

// stuck makes an action of which the host itself cannot tell what happened.
func (r *rig) stuck(e *dispatch.Engine) action.Submission {
	r.t.Helper()
	r.product.set(func(context.Context, connector.Call) (connector.Result, error) {
		return connector.Result{Class: connector.Unknown, Why: "the product hung up"}, nil
	})
	s := submission(newAction())
	r.want(r.submit(e, s), action.Uncertain)
	r.product.set(nil)
	return s
}

// decide closes the record as aipctl does, with a document signed by an operator.
func (r *rig) decide(id fleet.ActionID, outcome fleet.Resolution, by envelope.Signer) {
	r.t.Helper()
	evidence := fleet.DigestBytes([]byte("what the product's support said"))
	doc := protocol.Decision{
		ActionID: id, Fence: 1, Replica: theReplica, Outcome: outcome, EvidenceDigest: evidence,
		Reason: "checked with the product", DecidedBy: "olga", DecidedAt: time.Now().UTC(),
	}
	message := must(protocol.NewMessage(doc, fleet.NewMessageID(time.Now()), time.Now()))
	sealed := must(envelope.Seal(message, envelope.Decision, by, signerOf(2).DID()))
	_, err := r.reg.Decide(r.t.Context(), registry.ReconciliationKey{Action: id, Fence: 1}, registry.Decision{
		Resolution: outcome, By: by.DID().String(), Evidence: evidence, Document: sealed,
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) apply(c *reconcile.Reconciler) {
	r.t.Helper()
	if _, err := c.Apply(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func TestApply_G44_HappenedCompletesWithTheDecisionAsReceipt(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	s := r.stuck(e)
	r.decide(s.ID, fleet.ResolvedHappened, r.operator)
	r.apply(r.reconciler())
	got := r.get(s.ID)
	r.want(got, action.Completed)
	var result struct {
		Receipt struct {
			Decision protocol.Decision `json:"decision"`
		} `json:"receipt"`
	}
	if err := json.Unmarshal(got.Result, &result); err != nil || result.Receipt.Decision.DecidedBy != "olga" {
		t.Fatalf("result %s: %v", got.Result, err)
	}
	r.wantCalls(s.ID, 1)
}

// TestApply_G25_DidNotHappenRunsAgainWithTheDecisionAtTheHost: only the operator's
// signed word lets the host run what it does not know about.
func TestApply_G25_DidNotHappenRunsAgainWithTheDecisionAtTheHost(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	s := r.stuck(e)
	r.decide(s.ID, fleet.ResolvedDidNotHappen, r.operator)
	r.apply(r.reconciler())
	r.want(r.get(s.ID), action.Retryable)
	r.want(r.submit(e, s), action.Completed)
	r.wantCalls(s.ID, 2)
	r.audit()
}

// TestApply_G38_AForgedDecisionChangesNothing: what the registry says an operator
// decided must carry an operator's signature.
func TestApply_G38_AForgedDecisionChangesNothing(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	s := r.stuck(e)
	r.decide(s.ID, fleet.ResolvedHappened, r.gateway) // aipd's own key
	r.apply(r.reconciler())
	r.want(r.get(s.ID), action.Uncertain)
}

// TestExpire_G06_ALateAnswerOfAnExpiredAttemptCounts: the lease ends while the provider
// works; the late answer still counts (G06).
func TestExpire_G06_ALateAnswerOfAnExpiredAttemptCounts(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	started, goOn := make(chan struct{}), make(chan struct{})
	r.product.set(func(_ context.Context, c connector.Call) (connector.Result, error) {
		close(started)
		<-goOn
		return r.product.happen(c), nil
	})
	s := submission(newAction())
	if _, err := e.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	<-started
	if _, err := r.reg.Leave(t.Context(), registry.Departure{
		Claim:   registry.RequestClaim{ID: "msg_off", Digest: fleet.DigestBytes([]byte("off"))},
		Replica: theReplica, PeerDID: signerOf(2).DID().String(), Epoch: r.route(s.ID).Current().LeaseEpoch, Offline: true,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.reconciler().Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ended := r.route(s.ID).Current().Settlement; ended == nil || ended.Outcome != fleet.OutcomeLeaseExpired {
		t.Fatalf("the attempt of an offline host: %+v", ended)
	}
	close(goOn)
	r.want(r.wait(e, s.ID), action.Completed)
	r.eventually("the late answer closes the record", func() bool { return r.question(s.ID).Resolution == fleet.ResolvedCompleted })
	r.wantCalls(s.ID, 1)
	r.audit()
}
