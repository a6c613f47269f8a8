package dispatch_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/dispatch"
	"github.com/aipfleet/aipfleet/pkg/fairness"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func TestEngine_G44_CompletesAndRepeatsByteEqual(t *testing.T) {
	r := newRig(t)
	e, stop := r.engine("one")
	s := submission(newAction())
	first := r.submit(e, s)
	r.want(first, action.Completed)
	var result protocol.ActionResult
	if err := json.Unmarshal(first.Result, &result); err != nil || result.ActionID != s.ID || result.Status != protocol.ResultCompleted {
		t.Fatalf("stored result %s: %v", first.Result, err)
	}
	again := r.submit(e, s)
	if string(again.Result) != string(first.Result) {
		t.Fatalf("a repeat got other bytes:\n%s\n%s", first.Result, again.Result)
	}
	r.wantCalls(s.ID, 1)
	attempt := r.route(s.ID).Current()
	if attempt.Fence.Number != 1 || attempt.Settlement == nil || attempt.Settlement.Outcome != fleet.OutcomeCompleted || attempt.Settlement.EvidenceDigest.IsZero() {
		t.Fatalf("attempt %+v", attempt)
	}
	stop()
	r.audit()
}

func TestEngine_G44_ADefiniteFailureIsFinal(t *testing.T) {
	r := newRig(t)
	r.product.set(func(context.Context, connector.Call) (connector.Result, error) {
		return connector.Result{Class: connector.Failed, Failure: &connector.Failure{Code: "provider.refused", Message: "no"}}, nil
	})
	e, _ := r.engine("one")
	s := submission(newAction())
	first := r.submit(e, s)
	r.want(first, action.Failed)
	r.product.set(nil)
	again := r.submit(e, s)
	if again.State != action.Failed || string(again.Result) != string(first.Result) {
		t.Fatalf("a failed action ran again: %s %s", again.State, again.Result)
	}
	r.wantCalls(s.ID, 1)
}

func TestEngine_G03_SameActionWithAnotherCapabilityConflicts(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	s := submission(newAction())
	r.want(r.submit(e, s), action.Completed)
	s.Capability = closeDesk
	if _, err := e.Submit(t.Context(), s); !fleet.Is(err, fleet.Conflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	s = submission(s.ID)
	s.Tenant = globex
	if _, err := e.Submit(t.Context(), s); !fleet.Is(err, fleet.Conflict) {
		t.Fatalf("another tenant got %v, want a conflict", err)
	}
	r.wantCalls(s.ID, 1)
}

// TestEngine_G09_ConnectRefusedIsRetriedOnTheSameReplica: no byte left, so the action
// is known not to have started; the same submission runs it on its own route, fence 2.
func TestEngine_G09_ConnectRefusedIsRetriedOnTheSameReplica(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	r.down()
	s := submission(newAction())
	got := r.submit(e, s)
	r.want(got, action.Retryable)
	first := r.route(s.ID)
	ended := first.Current().Settlement
	if ended.Outcome != fleet.OutcomeCancelled || ended.Verdict != fleet.VerdictNeverSent || !ended.PeerFault {
		t.Fatalf("settled %+v, want cancelled, never sent, the peer's fault", ended)
	}
	r.up()
	got = r.submit(e, s)
	r.want(got, action.Completed)
	second := r.route(s.ID)
	if second.Route.Replica != first.Route.Replica || second.Current().Fence.Number != 2 || got.Runs != 2 {
		t.Fatalf("the retry: route %+v, fence %d, runs %d", second.Route.Replica, second.Current().Fence.Number, got.Runs)
	}
	r.wantCalls(s.ID, 1)
	r.audit()
}

// TestEngine_G25_ALostAnswerIsResentAndRunsOnce: the same signed message again is
// answered from the host's journal.
func TestEngine_G25_ALostAnswerIsResentAndRunsOnce(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	lost := sync.OnceFunc(func() { r.setFront(nil) })
	r.setFront(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		lost()
		loseAnswer(w, req, next)
	})
	s := submission(newAction())
	r.want(r.submit(e, s), action.Completed)
	r.wantCalls(s.ID, 1)
	if n := len(r.route(s.ID).Attempts); n != 1 {
		t.Fatalf("%d attempts, want 1", n)
	}
}

// TestEngine_G42_NoAnswerIsUncertainAndNeverResent: when every answer is lost the
// action is uncertain, has an open record, and a repeat does not run it.
func TestEngine_G42_NoAnswerIsUncertainAndNeverResent(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	r.setFront(loseAnswer)
	s := submission(newAction())
	r.want(r.submit(e, s), action.Uncertain)
	again, err := e.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	r.want(again, action.Uncertain)
	r.wantCalls(s.ID, 1)
	records, err := r.reg.List(t.Context(), registry.Selection{Noun: registry.Reconciliations, IDs: []string{s.ID.String()}})
	if err != nil || len(records.Reconciliations) != 1 || records.Reconciliations[0].State != fleet.ReconcileOpen {
		t.Fatalf("records %+v, %v", records.Reconciliations, err)
	}
	r.audit()
}

// TestEngine_G25_AnUnsignedAnswerProvesNothing: a stranger's answer makes the action
// uncertain and counts against the peer.
func TestEngine_G25_AnUnsignedAnswerProvesNothing(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	r.setFront(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error":{"code":"host.not_ready","details":{"check":7,"code":"host.not_ready","class":"not_started"}}}`))
	})
	s := submission(newAction())
	r.want(r.submit(e, s), action.Uncertain)
	ended := r.route(s.ID).Current().Settlement
	if ended.Outcome != fleet.OutcomeUnknown || !ended.PeerFault || ended.Code != dispatch.CodeBadAnswer {
		t.Fatalf("settled %+v", ended)
	}
}

// TestEngine_G41_ASignedNotStartedIsRetryable: the host's promise releases the action.
func TestEngine_G41_ASignedNotStartedIsRetryable(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	s := submission(newAction())
	s.Input = json.RawMessage(`{"title":7}`) // the gateway would have refused it; the host does
	got := r.submit(e, s)
	r.want(got, action.Retryable)
	ended := r.route(s.ID).Current().Settlement
	if ended.Outcome != fleet.OutcomeCancelled || ended.Verdict != fleet.VerdictNotStarted || ended.Code != "host.contract" || ended.PeerFault {
		t.Fatalf("settled %+v", ended)
	}
	r.wantCalls(s.ID, 0)
	r.audit()
}

// TestEngine_G09_ADrainingHostIsAskedOnceMoreUnderTheNextFence: pinned work is taken
// by a draining host, and never moves to another.
func TestEngine_G09_ADrainingHostIsAskedOnceMoreUnderTheNextFence(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	r.host.Drain()
	s := submission(newAction())
	r.want(r.submit(e, s), action.Completed)
	record := r.route(s.ID)
	if len(record.Attempts) != 2 || record.Attempts[0].Settlement.Code != dispatch.CodeHostDraining {
		t.Fatalf("attempts %+v", record.Attempts)
	}
	r.wantCalls(s.ID, 1)
}

// TestEngine_G12_ADroppedCallerOrphansNothing: the caller hangs up while the provider
// works; the action completes and its capacity is released.
func TestEngine_G12_ADroppedCallerOrphansNothing(t *testing.T) {
	r := newRig(t)
	e, _ := r.engine("one")
	started, goOn := make(chan struct{}), make(chan struct{})
	r.product.set(func(_ context.Context, c connector.Call) (connector.Result, error) {
		close(started)
		<-goOn
		return r.product.happen(c), nil
	})
	ctx, hangUp := context.WithCancel(t.Context())
	s := submission(newAction())
	if _, err := e.Submit(ctx, s); err != nil {
		t.Fatal(err)
	}
	<-started
	hangUp()
	if got, err := e.Wait(ctx, acme, s.ID, time.Minute); err == nil && got.State.Final() {
		t.Fatal("it ended before the provider did")
	}
	close(goOn)
	r.want(r.wait(e, s.ID), action.Completed)
	r.eventually("the reservation is released", func() bool { return r.route(s.ID).Current().Settled() })
	r.audit()
}

func TestEngine_G31_OverloadIsRefusedBeforeAnActionExists(t *testing.T) {
	r := newRig(t)
	goOn := make(chan struct{})
	r.product.set(func(_ context.Context, c connector.Call) (connector.Result, error) {
		<-goOn
		return r.product.happen(c), nil
	})
	e, _ := r.engine("one", func(c *dispatch.Config) {
		c.Scheduler = fairness.New(fairness.Config{Bounds: fairness.Bounds{InFlight: 1, QueuedTenant: 1}, Now: time.Now})
	})
	running, waiting, refused := submission(newAction()), submission(newAction()), submission(newAction())
	for _, s := range []action.Submission{running, waiting} {
		if _, err := e.Submit(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Submit(t.Context(), refused); !fleet.Is(err, fleet.CapacityExceeded) {
		t.Fatalf("got %v, want capacity_exceeded", err)
	}
	if _, err := e.Get(t.Context(), acme, refused.ID); !fleet.Is(err, fleet.NotFound) {
		t.Fatalf("a refused submission left a record: %v", err)
	}
	if got, err := e.Submit(t.Context(), running); err != nil || got.ID != running.ID {
		t.Fatalf("a repeat is refused for load: %v", err)
	}
	close(goOn)
	r.want(r.wait(e, running.ID), action.Completed)
	r.want(r.wait(e, waiting.ID), action.Completed)
}

func TestCancel_G43_WhatHasNotLeftNeverRuns(t *testing.T) {
	r := newRig(t)
	goOn := make(chan struct{})
	r.product.set(func(_ context.Context, c connector.Call) (connector.Result, error) {
		<-goOn
		return r.product.happen(c), nil
	})
	e, stop := r.engine("one", func(c *dispatch.Config) {
		c.Scheduler = fairness.New(fairness.Config{Bounds: fairness.Bounds{InFlight: 1}, Now: time.Now})
	})
	running, waiting := submission(newAction()), submission(newAction())
	for _, s := range []action.Submission{running, waiting} {
		if _, err := e.Submit(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	got, err := e.Cancel(t.Context(), acme, waiting.ID, "no longer")
	if err != nil {
		t.Fatal(err)
	}
	r.want(got, action.Cancelled)
	close(goOn)
	r.want(r.wait(e, running.ID), action.Completed)
	if got := r.submit(e, waiting); got.State != action.Cancelled || len(got.Result) == 0 {
		t.Fatalf("a cancelled action is %s", got.State)
	}
	r.wantCalls(waiting.ID, 0)
	stop()
	if got, _ := r.store.Get(t.Context(), acme, waiting.ID); got.Unsettled {
		t.Fatal("the cancelled action is still to be settled")
	}
	r.audit()
}

// TestCancel_G43_WhatRunsIsAskedOfItsHost: the provider cannot be stopped, so the
// action goes on and its definite result counts.
func TestCancel_G43_WhatRunsIsAskedOfItsHost(t *testing.T) {
	r := newRig(t)
	started, goOn := make(chan struct{}), make(chan struct{})
	r.product.set(func(_ context.Context, c connector.Call) (connector.Result, error) {
		close(started)
		<-goOn
		return r.product.happen(c), nil
	})
	e, _ := r.engine("one")
	s := submission(newAction())
	if _, err := e.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	<-started
	got, err := e.Cancel(t.Context(), acme, s.ID, "no longer")
	if err != nil || !got.CancelRequested || got.State != action.Dispatched {
		t.Fatalf("cancel of a running action: %+v, %v", got, err)
	}
	close(goOn)
	r.want(r.wait(e, s.ID), action.Completed)
	r.wantCalls(s.ID, 1)
}
