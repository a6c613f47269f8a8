package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// blocking announces that a call came in, then holds it before its effect.
func blocking(c *counter, entered, hold chan struct{}) func(context.Context, connector.Call) (connector.Result, error) {
	return func(_ context.Context, call connector.Call) (connector.Result, error) {
		entered <- struct{}{}
		<-hold
		return c.happen(call), nil
	}
}

// later sends in the background.
func (r *rig) later(a ask) <-chan said {
	out := make(chan said, 1)
	go func() { out <- r.send(a) }()
	return out
}

func TestExecute_G27_ExactRepeatGetsTheSameBytes(t *testing.T) {
	r := newRig(t)
	id := newAction()
	a := r.order(id, 1)
	data := r.seal(a)
	first := r.post(data, a.id)
	first.wantResult(t, protocol.ResultCompleted)
	if again := r.post(data, a.id); !bytes.Equal(again.bytes, first.bytes) {
		t.Errorf("the repeat differs:\n%s\n%s", first.bytes, again.bytes)
	}
	r.restart()
	if again := r.post(data, a.id); !bytes.Equal(again.bytes, first.bytes) {
		t.Errorf("the repeat after a restart differs:\n%s\n%s", first.bytes, again.bytes)
	}
	fresh := r.send(r.order(id, 1))
	fresh.wantResult(t, protocol.ResultCompleted)
	if !bytes.Equal(fresh.raw, first.raw) || bytes.Equal(fresh.bytes, first.bytes) {
		t.Errorf("another message must get the same document, signed anew:\n%s\n%s", first.raw, fresh.raw)
	}
	if !bytes.Contains(first.raw, []byte(`"big":9007199254740993`)) || !bytes.Contains(first.raw, []byte(`<b>&</b>`)) {
		t.Errorf("the output was changed on its way: %s", first.raw)
	}
	asked := r.send(r.question(id, 1))
	asked.wantState(t, protocol.StateCompleted)
	if doc, err := envelope.CanonicalOf(asked.status.Result); err != nil || !bytes.Equal(doc, first.raw) {
		t.Errorf("the status query gives another document: %s", doc)
	}
	r.wantCalls(id, 1)
}

func TestExecute_G27_OtherInputOrOtherBytesAreRefused(t *testing.T) {
	r := newRig(t)
	id := newAction()
	a := r.order(id, 1)
	r.send(a).wantResult(t, protocol.ResultCompleted)
	other := r.order(id, 2)
	other.input(`{"title":"y"}`)
	r.send(other).wantNo(t, host.CodeActionConflict, 409, protocol.ClassUnknown)
	reused := r.order(newAction(), 1)
	reused.id = a.id
	r.send(reused).wantNo(t, host.CodeReplay, 409, protocol.ClassRefused)
	r.wantCalls(id, 1)
	r.wantCalls(reused.route.Action, 0)
}

func TestExecute_G25_ConcurrentMessagesCallOnce(t *testing.T) {
	r := newRig(t, func(c *host.Config) { c.Capacity = 100 })
	id := newAction()
	entered, hold := make(chan struct{}, 100), make(chan struct{})
	r.product.act = blocking(r.product, entered, hold)
	same := r.order(id, 1)
	data := r.seal(same)
	var wg sync.WaitGroup
	answers := make(chan said, 40)
	for i := range 40 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if i%2 == 0 {
				answers <- r.post(data, same.id)
				return
			}
			answers <- r.send(r.order(id, uint64(1+i%3)))
		}()
	}
	<-entered
	close(hold)
	wg.Wait()
	close(answers)
	results := 0
	for a := range answers {
		if a.result != nil {
			a.wantResult(t, protocol.ResultCompleted)
			results++
		} else if a.no == nil || a.no.Code != host.CodeFenceLost {
			t.Errorf("neither the result nor a lost fence: %s", a.bytes)
		}
	}
	if results == 0 {
		t.Error("nobody got the result")
	}
	r.wantCalls(id, 1)
}

func TestExecute_G06_OlderFenceAndOtherTokenAreLost(t *testing.T) {
	r := newRig(t)
	id := newAction()
	r.product.act = func(context.Context, connector.Call) (connector.Result, error) {
		return connector.Result{Class: connector.NotStarted, Why: "pipe closed"}, nil
	}
	r.send(r.order(id, 3)).wantNo(t, host.CodeNotReady, 503, protocol.ClassNotStarted)
	r.product.set(func(c *counter) { c.act = nil })
	r.send(r.order(id, 2)).wantNo(t, host.CodeFenceLost, 409, protocol.ClassRefused)
	forged := r.order(id, 3)
	forged.route.Fence.Token = fence(9).Token
	r.send(forged).wantNo(t, host.CodeFenceLost, 409, protocol.ClassRefused)
	r.wantCalls(id, 1)
	r.send(r.order(id, 3)).wantNo(t, host.CodeNotReady, 503, protocol.ClassNotStarted)
	r.send(r.order(id, 4)).wantResult(t, protocol.ResultCompleted)
	r.wantCalls(id, 2)
}

func TestExecute_G39_GoesOnWhenTheAskerLeaves(t *testing.T) {
	r := newRig(t)
	id := newAction()
	entered, hold := make(chan struct{}), make(chan struct{})
	r.product.act = blocking(r.product, entered, hold)
	a := r.order(id, 1)
	data := r.seal(a)
	ctx, leave := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		postAndIgnore(ctx, r.server.URL+protocol.PathMessages, data)
	}()
	<-entered
	leave()
	<-gone
	r.send(r.question(id, 1)).wantState(t, protocol.StateRunning)
	close(hold)
	waiting, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	if err := r.host.Idle(waiting); err != nil {
		t.Fatal(err)
	}
	r.post(data, a.id).wantResult(t, protocol.ResultCompleted)
	r.wantCalls(id, 1)
}

func TestExecute_G26_LostCallIsUnknownUntilFound(t *testing.T) {
	r := newRig(t)
	id := newAction()
	// The effect happens, the answer is lost, and the product cannot be asked yet.
	r.product.act = func(_ context.Context, c connector.Call) (connector.Result, error) {
		return connector.Result{Class: connector.Unknown, Why: "pipe broke"}, nil
	}
	r.send(r.order(id, 1)).wantState(t, protocol.StateUnknown)
	r.product.set(func(c *counter) { c.act = nil })
	r.send(r.order(id, 2)).wantState(t, protocol.StateUnknown)
	r.send(r.question(id, 2)).wantState(t, protocol.StateUnknown)
	r.wantCalls(id, 1)
	r.product.happen(connector.Call{IdempotencyKey: id.String()})
	r.send(r.question(id, 2)).wantState(t, protocol.StateCompleted)
	got := r.send(r.order(id, 2))
	got.wantResult(t, protocol.ResultCompleted)
	if !bytes.Contains(got.raw, []byte(`"source":"reconcile"`)) {
		t.Errorf("the receipt does not say how the outcome was found: %s", got.raw)
	}
	r.wantCalls(id, 1)
}

func TestExecute_G26_FoundProvesNothingWithoutAProviderKey(t *testing.T) {
	r := newRig(t)
	id := newAction()
	r.product.act = func(_ context.Context, c connector.Call) (connector.Result, error) {
		r.product.happen(c)
		return connector.Result{}, fmt.Errorf("no answer")
	}
	a := r.order(id, 1)
	a.capability("desk:wild")
	r.send(a).wantState(t, protocol.StateUnknown)
	asked := r.question(id, 1)
	asked.route.Capability = a.route.Capability
	r.send(asked).wantState(t, protocol.StateUnknown)
}

func TestExecute_G26_CrashAfterCallStarted(t *testing.T) {
	r := newRig(t)
	happened, lost := newAction(), newAction()
	entered, hold := make(chan struct{}, 2), make(chan struct{})
	r.product.act = func(_ context.Context, c connector.Call) (connector.Result, error) {
		if c.Action == happened {
			r.product.happen(c)
		}
		entered <- struct{}{}
		<-hold
		return connector.Result{Class: connector.Unknown}, nil
	}
	a, b := r.later(r.order(happened, 1)), r.later(r.order(lost, 1))
	<-entered
	<-entered
	r.crash(func() { close(hold); <-a; <-b })
	r.product.set(func(c *counter) { c.act = nil })
	if settled, open, err := r.host.Recover(context.Background()); err != nil || settled != 1 || open != 1 {
		t.Fatalf("recovered %d, open %d, %v", settled, open, err)
	}
	r.send(r.order(happened, 1)).wantResult(t, protocol.ResultCompleted)
	r.send(r.order(lost, 1)).wantState(t, protocol.StateUnknown)
	r.send(r.order(lost, 2)).wantState(t, protocol.StateUnknown)
	r.wantCalls(happened, 1)
	r.wantCalls(lost, 1)
}

func TestExecute_G25_OnlyASignedDecisionLetsAnUnknownRunAgain(t *testing.T) {
	r := newRig(t)
	id := newAction()
	r.product.act = func(context.Context, connector.Call) (connector.Result, error) {
		return connector.Result{Class: connector.Unknown}, nil
	}
	r.send(r.order(id, 1)).wantState(t, protocol.StateUnknown)
	r.product.set(func(c *counter) { c.act = nil })
	for name, d := range map[string]json.RawMessage{
		"stranger's key": r.decision(signerOf(8), id, 1, fleet.ResolvedDidNotHappen),
		"gateway's key":  r.decision(r.gateway, id, 1, fleet.ResolvedDidNotHappen),
		"other action":   r.decision(r.operator, newAction(), 1, fleet.ResolvedDidNotHappen),
		"it happened":    r.decision(r.operator, id, 1, fleet.ResolvedHappened),
		"own attempt":    r.decision(r.operator, id, 2, fleet.ResolvedDidNotHappen),
	} {
		a := r.order(id, 2)
		a.route.Decision = d
		if got := r.send(a); got.no == nil || got.no.Code != host.CodeJournalGap || got.no.Class != protocol.ClassUnknown {
			t.Errorf("%s: %s", name, got.bytes)
		}
	}
	r.wantCalls(id, 1)
	a := r.order(id, 2)
	a.route.Decision = r.decision(r.operator, id, 1, fleet.ResolvedDidNotHappen)
	r.send(a).wantResult(t, protocol.ResultCompleted)
	r.wantCalls(id, 2)
	record, _, err := r.cfg.Journal.Get(id)
	if err != nil || len(record.Decisions) != 1 || record.State != journal.Result {
		t.Errorf("the decision is not in the journal: %+v %v", record, err)
	}
}

func (r *rig) decision(by envelope.Signer, id fleet.ActionID, n uint64, outcome fleet.Resolution) json.RawMessage {
	r.t.Helper()
	yesterday := time.Now().Add(-24 * time.Hour)
	return r.decisionOf(by, id, n, outcome, yesterday, yesterday)
}

func (r *rig) decisionOf(by envelope.Signer, id fleet.ActionID, n uint64, outcome fleet.Resolution, decided, sent time.Time) json.RawMessage {
	r.t.Helper()
	doc := protocol.Decision{
		ActionID: id, Fence: n, Replica: r.cfg.Identity.Replica, Outcome: outcome, EvidenceDigest: fleet.DigestBytes(nil),
		Reason: "looked it up", DecidedBy: "op", DecidedAt: decided,
	}
	env, err := protocol.NewMessage(doc, fleet.NewMessageID(time.Now()), sent)
	if err != nil {
		r.t.Fatal(err)
	}
	data, err := envelope.Seal(env, envelope.Decision, by, r.cfg.Signer.DID())
	if err != nil {
		r.t.Fatal(err)
	}
	return data
}

func TestExecute_G25_ForeignJournalDoesNotExecuteButDecidedMay(t *testing.T) {
	r := newRig(t)
	id := newAction()
	old := fleet.NewJournalID(time.Now())
	a := r.order(id, 2)
	a.route.EarlierVerdicts = []fleet.AttemptEnd{{Fence: 1, Verdict: fleet.VerdictUnknown, Journal: old}}
	r.send(a).wantNo(t, host.CodeJournalGap, 409, protocol.ClassUnknown)
	asked := r.question(id, 1)
	asked.route.RegisteredJournal = old
	r.send(asked).wantState(t, protocol.StateUnknown)
	r.wantCalls(id, 0)
	b := r.order(id, 2)
	b.route.EarlierVerdicts = a.route.EarlierVerdicts
	b.route.Decision = r.decision(r.operator, id, 1, fleet.ResolvedDidNotHappen)
	r.send(b).wantResult(t, protocol.ResultCompleted)
	r.wantCalls(id, 1)
}

func TestStatus_G41_NotStartedClosesTheAttempt(t *testing.T) {
	r := newRig(t)
	id := newAction()
	delayed := r.order(id, 1)
	got := r.send(r.question(id, 1))
	got.wantState(t, protocol.StateNotStarted)
	if got.status.Fence != 1 {
		t.Errorf("the promise is about fence %d", got.status.Fence)
	}
	r.send(delayed).wantNo(t, host.CodeNotReady, 503, protocol.ClassNotStarted)
	r.restart()
	r.send(r.order(id, 1)).wantNo(t, host.CodeNotReady, 503, protocol.ClassNotStarted)
	r.wantCalls(id, 0)
	r.send(r.order(id, 2)).wantResult(t, protocol.ResultCompleted)
}

func TestStatus_G41_JoinedAttemptIsClosedToo(t *testing.T) {
	r := newRig(t)
	id := newAction()
	entered, hold := make(chan struct{}, 2), make(chan struct{}) // the second may come too late to join
	r.product.act = func(context.Context, connector.Call) (connector.Result, error) {
		entered <- struct{}{}
		<-hold
		return connector.Result{Class: connector.NotStarted, Why: "pipe closed"}, nil
	}
	first := r.later(r.order(id, 1))
	<-entered
	joined := r.later(r.order(id, 2))
	for { // until the second message waits
		if got := r.send(r.question(id, 2)); got.status != nil && got.status.State == protocol.StateRunning {
			break
		}
	}
	close(hold)
	(<-first).wantNo(t, host.CodeNotReady, 503, protocol.ClassNotStarted)
	got := <-joined
	r.product.set(func(c *counter) { c.act = nil })
	if got.no != nil {
		// It joined and was promised that it does not run.
		got.wantNo(t, host.CodeNotReady, 503, protocol.ClassNotStarted)
		r.send(r.order(id, 2)).wantNo(t, host.CodeNotReady, 503, protocol.ClassNotStarted)
	}
}

func TestCancel_G41_EarlyCancelLeavesATombstone(t *testing.T) {
	r := newRig(t)
	id := newAction()
	r.send(r.cancel(id, 1)).wantState(t, protocol.StateCancelled)
	r.restart()
	r.send(r.order(id, 1)).wantResult(t, protocol.ResultCancelled)
	r.send(r.order(id, 2)).wantResult(t, protocol.ResultCancelled)
	r.wantCalls(id, 0)
}

func TestCancel_G44_EvidenceDecides(t *testing.T) {
	r := newRig(t)
	entered := make(chan struct{}, 1)
	for name, c := range map[string]struct {
		stop func(q connector.Query) connector.Result
		want protocol.ActionState
	}{
		"goes on": {nil, protocol.StateRunning},
		"stopped": {func(connector.Query) connector.Result { return connector.Result{Class: connector.NotStarted} }, protocol.StateCompleted},
		"too late": {func(connector.Query) connector.Result {
			return connector.Result{Class: connector.Succeeded, Output: json.RawMessage(`{}`)}
		}, protocol.StateCompleted},
	} {
		id := newAction()
		hold := make(chan struct{})
		r.product.set(func(p *counter) { p.act, p.stop = blocking(r.product, entered, hold), c.stop })
		answer := r.later(r.order(id, 1))
		<-entered
		got := r.send(r.cancel(id, 1))
		close(hold)
		if got.status == nil || got.status.State != c.want {
			t.Errorf("%s: %s", name, got.bytes)
		}
		want := protocol.ResultCompleted
		if name == "stopped" {
			want = protocol.ResultCancelled
		}
		(<-answer).wantResult(t, want)
		r.send(r.order(id, 1)).wantResult(t, want)
		r.wantCalls(id, 1)
	}
}

func TestClose_G26_CutsCallsOffAndJournalsThem(t *testing.T) {
	r := newRig(t)
	id := newAction()
	entered := make(chan struct{}, 1)
	r.product.act = func(ctx context.Context, _ connector.Call) (connector.Result, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return connector.Result{Class: connector.Unknown, Why: "cut off"}, nil
	}
	answer := r.later(r.order(id, 1))
	<-entered
	r.host.Close()
	(<-answer).wantState(t, protocol.StateUnknown)
	r.send(r.order(newAction(), 1)).wantNo(t, host.CodeNotReady, 503, protocol.ClassNotStarted)
	record, _, err := r.cfg.Journal.Get(id)
	if err != nil || record.State != journal.Unknown || record.Calls != 1 {
		t.Errorf("journal: %+v %v", record, err)
	}
}

func TestContract_G25_OneActionPerIdempotencyKey(t *testing.T) {
	r := newRig(t)
	keyed := func(id fleet.ActionID) ask {
		a := r.order(id, 1)
		doc := a.doc.(protocol.Action)
		doc.IdempotencyKey = "invoice-17"
		a.doc = doc
		return a
	}
	first, second := newAction(), newAction()
	r.send(keyed(first)).wantResult(t, protocol.ResultCompleted)
	r.send(keyed(second)).wantNo(t, host.CodeContract, 422, protocol.ClassNotStarted)
	r.wantCalls(second, 0)
}

func postAndIgnore(ctx context.Context, url string, data []byte) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", protocol.ContentType)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}

func TestExecute_G27_ARepeatOfAnOlderEpochGetsTheOutcome(t *testing.T) {
	r := newRig(t)
	id := newAction()
	r.send(r.order(id, 1)).wantResult(t, protocol.ResultCompleted)
	promised := newAction()
	r.send(r.question(promised, 1)).wantState(t, protocol.StateNotStarted)
	r.lease.set(func(s *lifecycle.Standing) { s.Epoch = 8 })
	r.send(r.order(promised, 1)).wantNo(t, host.CodeNotReady, 503, protocol.ClassNotStarted)
	r.send(r.order(id, 1)).wantResult(t, protocol.ResultCompleted)
	r.send(r.order(newAction(), 1)).wantNo(t, host.CodeFenceLost, 409, protocol.ClassRefused)
	r.wantCalls(id, 1)
}

func TestExecute_G44_ADefiniteFailureIsFinal(t *testing.T) {
	r := newRig(t)
	id := newAction()
	r.product.act = func(context.Context, connector.Call) (connector.Result, error) {
		return connector.Result{Class: connector.Failed, Failure: &connector.Failure{Code: "provider.tool_error", Message: "no such ticket"}}, nil
	}
	first := r.send(r.order(id, 1))
	first.wantResult(t, protocol.ResultFailed)
	r.product.set(func(c *counter) { c.act = nil })
	again := r.send(r.order(id, 2))
	again.wantResult(t, protocol.ResultFailed)
	if !bytes.Equal(first.raw, again.raw) || !bytes.Contains(first.raw, []byte("provider.tool_error")) {
		t.Errorf("%s\n%s", first.raw, again.raw)
	}
	r.wantCalls(id, 1)
}

func TestExecute_G39_NothingIsAnsweredFromAFailedJournal(t *testing.T) {
	r := newRig(t)
	id := newAction()
	a := r.order(id, 1)
	data := r.seal(a)
	if err := r.cfg.Journal.Close(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(r.server.URL+protocol.PathMessages, protocol.ContentType, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("status %d", resp.StatusCode)
	}
	r.wantCalls(id, 0)
}
