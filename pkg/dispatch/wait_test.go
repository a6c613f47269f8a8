package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/dispatch"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// counted is a store that counts what is asked of it.
type counted struct {
	action.Store
	reads, writes *atomic.Int64
}

func (s counted) Get(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID) (action.Record, error) {
	s.reads.Add(1)
	return s.Store.Get(ctx, tenant, id)
}

func (s counted) Advance(ctx context.Context, next action.Record) (action.Record, error) {
	s.writes.Add(1)
	return s.Store.Advance(ctx, next)
}

// TestEngine_G39_EveryStepIsWrittenOnceAndWaitingReadsNothing: an action costs its
// store three changes (it leaves, its result, its settlement) and no read but, at most,
// one of a caller who asks when it is over already.
func TestEngine_G39_EveryStepIsWrittenOnceAndWaitingReadsNothing(t *testing.T) {
	r := newRig(t)
	var reads, writes atomic.Int64
	goOn := make(chan struct{})
	r.product.set(func(_ context.Context, c connector.Call) (connector.Result, error) {
		<-goOn
		return r.product.happen(c), nil
	})
	e, stop := r.engine("one", func(c *dispatch.Config) { c.Store = counted{c.Store, &reads, &writes} })
	s := submission(newAction())
	if _, err := e.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	told := make(chan action.Record)
	go func() { told <- r.wait(e, s.ID) }()
	close(goOn)
	got := <-told
	r.want(got, action.Completed)
	stop()
	stored, err := r.store.Get(t.Context(), acme, s.ID)
	if err != nil || stored.Unsettled || string(stored.Result) != string(got.Result) || len(got.Result) == 0 {
		t.Fatalf("told %s, stored %+v, %v", got.Result, stored, err)
	}
	if reads.Load() > 1 || writes.Load() != 3 {
		t.Errorf("it was read %d times and written %d times, want at most 1 and exactly 3", reads.Load(), writes.Load())
	}
	r.audit()
}

// inHand is an engine with an action whose call does not return before the test ends.
func (r *rig) inHand() (*dispatch.Engine, action.Submission) {
	r.t.Helper()
	started, goOn := make(chan struct{}), make(chan struct{})
	r.product.set(func(_ context.Context, c connector.Call) (connector.Result, error) {
		close(started)
		<-goOn
		return r.product.happen(c), nil
	})
	e, _ := r.engine("one")
	r.t.Cleanup(func() { close(goOn) })
	s := submission(newAction())
	if _, err := e.Submit(r.t.Context(), s); err != nil {
		r.t.Fatal(err)
	}
	<-started
	return e, s
}

// TestWait_G39_HearsOfWhatOthersDid: an action that this engine has in hand was ended
// by another process; a caller that waits here is told so all the same.
func TestWait_G39_HearsOfWhatOthersDid(t *testing.T) {
	r := newRig(t)
	e, s := r.inHand()
	record := must(r.store.Get(t.Context(), acme, s.ID))
	ended := must(record.Finish(action.Cancelled, action.CancelledResult(s.ID), fleet.Digest{}, false))
	if _, err := r.store.Advance(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	r.want(r.wait(e, s.ID), action.Cancelled)
}

// TestWait_G18_WhatIsInHandIsShownToItsTenantOnly.
func TestWait_G18_WhatIsInHandIsShownToItsTenantOnly(t *testing.T) {
	r := newRig(t)
	e, s := r.inHand()
	if got, err := e.Wait(t.Context(), globex, s.ID, time.Minute); !fleet.Is(err, fleet.NotFound) {
		t.Fatalf("another tenant got %+v, %v", got, err)
	}
}
