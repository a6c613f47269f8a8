package dispatch_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/dispatch"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// dead is an owner that stored something and then was killed.
func (r *rig) dead(s action.Submission) action.Record {
	r.t.Helper()
	s.Owner = "dead"
	record, _, err := r.store.Submit(r.t.Context(), s)
	if err != nil {
		r.t.Fatal(err)
	}
	return record
}

// reserve resolves for a dead owner; noted says whether it had stored that it sends.
func (r *rig) reserve(record action.Record, noted bool) (fleet.Assignment, action.Record) {
	r.t.Helper()
	a, err := r.reg.Resolve(r.t.Context(), registry.RouteRequest{
		Action: record.ID, Capability: record.Capability, Tenant: record.Tenant, TimeToLive: time.Minute,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if noted {
		next, err := record.Dispatch(a.Attempt.Fence.Number)
		if err != nil {
			r.t.Fatal(err)
		}
		if record, err = r.store.Advance(r.t.Context(), next); err != nil {
			r.t.Fatal(err)
		}
	}
	return a, record
}

func TestTakeover_G39_WhatWasOnlyAcceptedRuns(t *testing.T) {
	r := newRig(t)
	s := submission(newAction())
	r.dead(s)
	e, _ := r.engine("successor")
	r.eventually("the successor runs it", func() bool { return r.wait(e, s.ID).State == action.Completed })
	r.wantCalls(s.ID, 1)
	r.audit()
}

// TestTakeover_G39_WhatWasReservedAndNotSentRuns: the dead owner had not noted that it
// sends, so nothing of that fence has left.
func TestTakeover_G39_WhatWasReservedAndNotSentRuns(t *testing.T) {
	r := newRig(t)
	s := submission(newAction())
	r.reserve(r.dead(s), false)
	e, _ := r.engine("successor")
	r.eventually("the successor runs it", func() bool { return r.wait(e, s.ID).State == action.Completed })
	r.wantCalls(s.ID, 1)
	r.audit()
}

// TestTakeover_G39_BeginsWithAStatusQuery: the dead owner's request ran; its successor
// asks first, takes the result from the journal, and runs nothing.
func TestTakeover_G39_BeginsWithAStatusQuery(t *testing.T) {
	r := newRig(t)
	s := submission(newAction())
	a, record := r.reserve(r.dead(s), true)
	if sent := r.courier().Dispatch(t.Context(), record, a, nil); sent.Answer == nil {
		t.Fatal(sent.Err)
	}
	var first atomic.Value
	r.setFront(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		first.CompareAndSwap(nil, messageType(req))
		next.ServeHTTP(w, req)
	})
	e, _ := r.engine("successor")
	r.eventually("the successor finds it completed", func() bool { return r.wait(e, s.ID).State == action.Completed })
	if first.Load() != protocol.TypeActionStatusRequest {
		t.Fatalf("the successor's first message is %v", first.Load())
	}
	r.wantCalls(s.ID, 1)
	r.eventually("it is settled", func() bool { return r.route(s.ID).Current().Settled() })
	r.audit()
}

// TestTakeover_G41_ALateSendOfTheDeadOwnerNeverRuns: the successor was promised that
// the fence has not started; the first owner, merely slow, sends afterwards.
func TestTakeover_G41_ALateSendOfTheDeadOwnerNeverRuns(t *testing.T) {
	r := newRig(t)
	s := submission(newAction())
	a, record := r.reserve(r.dead(s), true)
	e, _ := r.engine("successor")
	r.eventually("the successor runs it again", func() bool { return r.wait(e, s.ID).State == action.Completed })
	late := r.courier().Dispatch(t.Context(), record, a, nil)
	if v := dispatch.Classify(s.ID, late); v.State == action.Completed && r.product.called(s.ID) > 1 {
		t.Fatal("the late message ran")
	}
	r.wantCalls(s.ID, 1)
	if n := r.route(s.ID).Current().Fence.Number; n != 2 {
		t.Fatalf("the successor ran fence %d, want 2", n)
	}
	r.audit()
}

// TestTakeover_G39_AnUnreachableHostMakesItUncertain, never a second execution.
func TestTakeover_G39_AnUnreachableHostMakesItUncertain(t *testing.T) {
	r := newRig(t)
	s := submission(newAction())
	s.Timeout = time.Second
	r.reserve(r.dead(s), true)
	r.down()
	e, _ := r.engine("successor")
	r.eventually("it is uncertain", func() bool { return r.wait(e, s.ID).State == action.Uncertain })
	if ended := r.route(s.ID).Current().Settlement; ended.Outcome != fleet.OutcomeUnknown {
		t.Fatalf("settled %+v", ended)
	}
	r.audit()
}

// TestTakeover_G12_AStoredResultIsSettledByTheSuccessor: result first, then settlement.
func TestTakeover_G12_AStoredResultIsSettledByTheSuccessor(t *testing.T) {
	r := newRig(t)
	s := submission(newAction())
	a, record := r.reserve(r.dead(s), true)
	sent := r.courier().Dispatch(t.Context(), record, a, nil)
	v := dispatch.Classify(s.ID, sent)
	next, err := record.Finish(v.State, v.Result, v.Settlement.EvidenceDigest, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.Advance(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	r.engine("successor")
	r.eventually("it is settled", func() bool {
		got, err := r.store.Get(t.Context(), acme, s.ID)
		return err == nil && !got.Unsettled
	})
	ended := r.route(s.ID).Current().Settlement
	if ended == nil || ended.Outcome != fleet.OutcomeCompleted || ended.EvidenceDigest != v.Settlement.EvidenceDigest {
		t.Fatalf("settled %+v", ended)
	}
	r.audit()
}

// TestStop_G39_RunningWorkIsSettledAndTheRestIsLeft: a stopping engine finishes what
// runs; what waits goes to the next owner.
func TestStop_G39_RunningWorkIsSettledAndTheRestIsLeft(t *testing.T) {
	r := newRig(t)
	started, goOn := make(chan struct{}, 8), make(chan struct{})
	r.product.set(func(_ context.Context, c connector.Call) (connector.Result, error) {
		started <- struct{}{}
		<-goOn
		return r.product.happen(c), nil
	})
	e, stop := r.engine("first", oneAtATime)
	running, waiting := submission(newAction()), submission(newAction())
	for _, s := range []action.Submission{running, waiting} {
		if _, err := e.Submit(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	<-started
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	r.eventually("it takes nothing new", func() bool {
		_, err := e.Submit(t.Context(), submission(newAction()))
		return fleet.Is(err, fleet.Unavailable)
	})
	close(goOn)
	<-stopped
	if got, _ := r.store.Get(t.Context(), acme, running.ID); got.State != action.Completed || got.Unsettled {
		t.Fatalf("the running action is %s", got.State)
	}
	successor, _ := r.engine("second")
	r.eventually("the waiting action runs", func() bool { return r.wait(successor, waiting.ID).State == action.Completed })
	r.wantCalls(running.ID, 1)
	r.wantCalls(waiting.ID, 1)
	r.audit()
}

// TestEngines_G25_TwoOnOneStoreRunEachActionOnce under the same submissions.
func TestEngines_G25_TwoOnOneStoreRunEachActionOnce(t *testing.T) {
	r := newRig(t)
	one, _ := r.engine("one")
	two, _ := r.engine("two")
	var all []action.Submission
	for range 20 {
		s := submission(newAction())
		all = append(all, s)
		for _, e := range []*dispatch.Engine{one, two} {
			if _, err := e.Submit(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range all {
		a, b := r.wait(one, s.ID), r.wait(two, s.ID)
		r.want(a, action.Completed)
		if string(a.Result) != string(b.Result) {
			t.Fatal("two engines show different results")
		}
		r.wantCalls(s.ID, 1)
	}
}

var _ dispatch.Sender = (*peer.Client)(nil)
