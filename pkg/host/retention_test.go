package host_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

func (r *rig) settled(id fleet.ActionID) ask {
	return ask{route: r.route(id, 1), id: fleet.NewMessageID(time.Now()), doc: protocol.ActionSettled{ActionID: id}}
}

func (r *rig) prune(want int) {
	r.t.Helper()
	if n, err := r.host.Prune(context.Background()); err != nil || n != want {
		r.t.Fatalf("pruned %d, want %d: %v", n, want, err)
	}
}

// aged is a rig whose journal's past a test moves away.
func aged(t *testing.T, keep journal.Retention) (*rig, func(time.Duration)) {
	var ahead atomic.Int64
	r := newRig(t, func(c *host.Config) {
		c.Retention = keep
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	return r, func(d time.Duration) { ahead.Store(int64(d)) }
}

// TestRetention_G44_APrunedActionKeepsItsVerdict: what central confirmed is reduced
// after its time; the verdict stays final and nothing runs again.
func TestRetention_G44_APrunedActionKeepsItsVerdict(t *testing.T) {
	r, age := aged(t, journal.Retention{})
	confirmed, plain, failed := newAction(), newAction(), newAction()
	full := r.send(r.order(confirmed, 1))
	full.wantResult(t, protocol.ResultCompleted)
	r.send(r.order(plain, 1)).wantResult(t, protocol.ResultCompleted)
	r.product.set(func(c *counter) {
		c.act = func(context.Context, connector.Call) (connector.Result, error) {
			return connector.Result{Class: connector.Failed, Failure: &connector.Failure{Code: "x", Message: "refused for private reasons"}}, nil
		}
	})
	r.send(r.order(failed, 1)).wantResult(t, protocol.ResultFailed)
	r.send(r.settled(confirmed)).wantAck(t)
	r.send(r.settled(failed)).wantAck(t)
	age(29 * 24 * time.Hour)
	r.prune(0)
	age(31 * 24 * time.Hour)
	r.prune(2)
	r.prune(0)
	age(0) // messages are fresh again
	again := r.send(r.order(confirmed, 1))
	again.wantResult(t, protocol.ResultCompleted)
	if len(again.result.Output) > 0 || !bytes.Contains(again.raw, []byte(fleet.DigestBytes(full.raw).String())) {
		t.Errorf("the verdict must be short and name what it stands for: %s", again.raw)
	}
	r.restart()
	if repeat := r.send(r.order(confirmed, 2)); !bytes.Equal(repeat.raw, again.raw) {
		t.Errorf("the verdict changed:\n%s\n%s", again.raw, repeat.raw)
	}
	gone := r.send(r.question(failed, 1))
	gone.wantState(t, protocol.StateCompleted)
	if gone.status.Result.Status != protocol.ResultFailed || bytes.Contains(gone.bytes, []byte("private reasons")) {
		t.Errorf("the failure's verdict: %s", gone.bytes)
	}
	if kept := r.send(r.order(plain, 1)); len(kept.result.Output) == 0 {
		t.Error("a result that central did not confirm is gone")
	}
	other := r.order(confirmed, 1)
	other.input(`{"title":"another"}`)
	r.send(other).wantNo(t, host.CodeActionConflict, 409, protocol.ClassUnknown)
	r.wantCalls(confirmed, 1)
}

// TestRetention_G38_WhatIsUnknownIsNeverPruned, whatever the policy says; a promise
// and a tombstone outlive their pruning.
func TestRetention_G38_WhatIsUnknownIsNeverPruned(t *testing.T) {
	r, age := aged(t, journal.Retention{Unconfirmed: time.Hour})
	lost, cancelled, refused := newAction(), newAction(), newAction()
	r.product.set(func(c *counter) {
		c.act = func(context.Context, connector.Call) (connector.Result, error) {
			return connector.Result{Class: connector.Unknown}, nil
		}
	})
	r.send(r.order(lost, 1)).wantState(t, protocol.StateUnknown)
	r.send(r.settled(lost)).wantState(t, protocol.StateUnknown)
	r.send(r.cancel(cancelled, 1)).wantState(t, protocol.StateCancelled)
	r.send(r.question(refused, 1)).wantState(t, protocol.StateNotStarted)
	age(2 * time.Hour)
	r.prune(2)
	age(0)
	r.send(r.order(lost, 1)).wantState(t, protocol.StateUnknown)
	r.send(r.order(cancelled, 2)).wantResult(t, protocol.ResultCancelled)
	r.send(r.order(refused, 1)).wantNo(t, host.CodeNotReady, 503, protocol.ClassNotStarted)
	r.wantCalls(lost, 1)
	r.wantCalls(cancelled, 0)
	r.wantCalls(refused, 0)
}

// TestDecision_G25_AnOldDecisionIsNotTaken: a decision first seen long after it was
// made is refused, and one that the journal holds does not wear off.
func TestDecision_G25_AnOldDecisionIsNotTaken(t *testing.T) {
	r := newRig(t, func(c *host.Config) { c.DecisionAge = 48 * time.Hour })
	id := newAction()
	r.product.act = func(context.Context, connector.Call) (connector.Result, error) {
		return connector.Result{Class: connector.Unknown}, nil
	}
	r.send(r.order(id, 1)).wantState(t, protocol.StateUnknown)
	now := time.Now()
	try := func(decided, sent time.Time) said {
		a := r.order(id, 2)
		a.route.Decision = r.decisionOf(r.operator, id, 1, fleet.ResolvedDidNotHappen, decided, sent)
		return r.send(a)
	}
	r.product.set(func(c *counter) { c.act = nil })
	try(now.Add(-49*time.Hour), now.Add(-49*time.Hour)).wantNo(t, host.CodeJournalGap, 409, protocol.ClassUnknown)
	try(now.Add(-60*time.Hour), now.Add(-time.Hour)).wantNo(t, host.CodeJournalGap, 409, protocol.ClassUnknown)
	try(now.Add(time.Hour), now.Add(-time.Hour)).wantNo(t, host.CodeJournalGap, 409, protocol.ClassUnknown)
	r.wantCalls(id, 1)
	try(now.Add(-47*time.Hour), now.Add(-46*time.Hour)).wantResult(t, protocol.ResultCompleted)
	r.wantCalls(id, 2)
}
