package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// ledger is a product that plans: it holds reservations by key, and commits them.
type ledger struct {
	*counter
	mu       sync.Mutex
	held     map[string]bool // plans that were made and neither committed nor given back
	undone   map[string]int
	released int
	plan     func(ctx context.Context, c connector.Call) (connector.Result, error) // after the reservation
	commit   func(c connector.Call) connector.Result                               // in place of the effect
	give     func() connector.Result                                               // in place of giving back
}

func (l *ledger) Plan(ctx context.Context, c connector.Call) (connector.Result, error) {
	l.mu.Lock()
	l.held[c.IdempotencyKey] = true
	plan := l.plan
	l.mu.Unlock()
	if plan != nil {
		return plan(ctx, c)
	}
	return connector.Result{Class: connector.Succeeded, Output: json.RawMessage(`{"hold":"` + c.IdempotencyKey + `"}`)}, nil
}

func (l *ledger) Commit(_ context.Context, c connector.Call, plan json.RawMessage) (connector.Result, error) {
	if string(plan) != `{"hold":"`+c.IdempotencyKey+`"}` {
		return connector.Result{}, fmt.Errorf("a foreign plan: %s", plan)
	}
	l.counter.mu.Lock()
	l.calls[c.Action]++
	l.counter.mu.Unlock()
	l.mu.Lock()
	commit := l.commit
	l.mu.Unlock()
	if commit != nil {
		return commit(c), nil
	}
	l.mu.Lock()
	delete(l.held, c.IdempotencyKey)
	l.mu.Unlock()
	return l.happen(c), nil
}

func (l *ledger) Release(_ context.Context, q connector.Query, _ json.RawMessage) (connector.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.give != nil {
		if r := l.give(); r.Class != connector.Succeeded {
			return r, nil
		}
	}
	l.released++
	delete(l.held, q.IdempotencyKey)
	return connector.Result{Class: connector.Succeeded}, nil
}

func (l *ledger) Compensate(_ context.Context, c connector.Call, done connector.Done) (connector.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(done.Output) == 0 || done.Action == c.Action {
		return connector.Result{}, fmt.Errorf("nothing to undo: %+v", done)
	}
	l.undone[done.IdempotencyKey]++
	return connector.Result{Class: connector.Succeeded, Output: json.RawMessage(`{"undone":true}`)}, nil
}

func (l *ledger) set(change func(*ledger)) { l.mu.Lock(); defer l.mu.Unlock(); change(l) }

func (l *ledger) counts() (held, released int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held), l.released
}

// newLedger is a rig whose capability desk:open is transactional and compensable.
func newLedger(t *testing.T) (*rig, *ledger) {
	l := &ledger{held: map[string]bool{}, undone: map[string]int{}}
	r := newRig(t, func(c *host.Config) {
		l.counter = c.Connector.(*counter)
		c.Connector = l
		contract := &c.Manifest.Capabilities[0].Contract
		contract.Transaction, contract.Compensation = json.RawMessage(`{"mode":"plan_commit"}`), json.RawMessage(`{"supported":true}`)
	})
	return r, l
}

func (r *rig) stateOf(id fleet.ActionID) journal.State {
	r.t.Helper()
	record, _, err := r.cfg.Journal.Get(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return record.State
}

func TestTransaction_G25_PlannedThenCommittedOnce(t *testing.T) {
	r, l := newLedger(t)
	id := newAction()
	a := r.order(id, 1)
	data := r.seal(a)
	r.post(data, a.id).wantResult(t, protocol.ResultCompleted)
	r.post(data, a.id).wantResult(t, protocol.ResultCompleted)
	r.wantCalls(id, 1)
	if held, released := l.counts(); held != 0 || released != 0 {
		t.Errorf("%d plans held, %d given back", held, released)
	}
}

// TestTransaction_G41_AnUncommittedPlanIsGivenBackBeforeThePromise walks through the
// ways in which a plan does not come to a commit.
func TestTransaction_G41_AnUncommittedPlanIsGivenBackBeforeThePromise(t *testing.T) {
	for name, arrange := range map[string]func(*ledger){
		"the plan is lost": func(l *ledger) {
			l.plan = func(context.Context, connector.Call) (connector.Result, error) {
				return connector.Result{}, fmt.Errorf("broken pipe")
			}
		},
		"the plan is not JSON": func(l *ledger) {
			l.plan = func(context.Context, connector.Call) (connector.Result, error) {
				return connector.Result{Class: connector.Succeeded, Output: json.RawMessage(`{"a":1,"a":2}`)}, nil
			}
		},
		"the commit was not written": func(l *ledger) {
			l.commit = func(connector.Call) connector.Result {
				return connector.Result{Class: connector.NotStarted, Why: "no connection"}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, l := newLedger(t)
			arrange(l)
			id := newAction()
			r.send(r.order(id, 1)).wantNo(t, host.CodeNotReady, 503, protocol.ClassNotStarted)
			if held, released := l.counts(); held != 0 || released != 1 {
				t.Errorf("%d plans held, %d given back", held, released)
			}
			l.set(func(l *ledger) { l.plan, l.commit = nil, nil })
			r.send(r.order(id, 1)).wantNo(t, host.CodeNotReady, 503, protocol.ClassNotStarted)
			r.send(r.order(id, 2)).wantResult(t, protocol.ResultCompleted)
		})
	}
}

// TestTransaction_G26_APlanThatMayBeHeldIsUnknownUntilGivenBack: nothing is promised
// while a plan may be held; a later question tries again.
func TestTransaction_G26_APlanThatMayBeHeldIsUnknownUntilGivenBack(t *testing.T) {
	r, l := newLedger(t)
	l.plan = func(context.Context, connector.Call) (connector.Result, error) {
		return connector.Result{}, fmt.Errorf("broken pipe")
	}
	l.give = func() connector.Result { return connector.Result{Class: connector.Unknown, Why: "no answer"} }
	id := newAction()
	r.send(r.order(id, 1)).wantState(t, protocol.StateUnknown)
	r.send(r.question(id, 1)).wantState(t, protocol.StateUnknown)
	r.send(r.order(id, 2)).wantState(t, protocol.StateUnknown)
	r.send(r.cancel(id, 2)).wantState(t, protocol.StateUnknown)
	l.set(func(l *ledger) { l.plan, l.give = nil, nil })
	r.restart()
	if settled, open, err := r.host.Recover(context.Background()); err != nil || settled != 1 || open != 0 {
		t.Fatalf("recovered %d, open %d, %v", settled, open, err)
	}
	r.send(r.question(id, 1)).wantState(t, protocol.StateNotStarted)
	r.send(r.order(id, 3)).wantResult(t, protocol.ResultCompleted)
	r.wantCalls(id, 1)
}

// TestTransaction_G26_ACrashWhilePlanningNeverCommits restarts from the journal as it
// is between the plan and the commit.
func TestTransaction_G26_ACrashWhilePlanningNeverCommits(t *testing.T) {
	r, l := newLedger(t)
	entered, hold := make(chan struct{}, 1), make(chan struct{})
	l.plan = func(context.Context, connector.Call) (connector.Result, error) {
		entered <- struct{}{}
		<-hold
		return connector.Result{}, fmt.Errorf("killed")
	}
	id := newAction()
	lost := r.later(r.order(id, 1))
	<-entered
	r.send(r.question(id, 1)).wantState(t, protocol.StateRunning)
	r.crash(func() { close(hold); <-lost })
	l.set(func(l *ledger) { l.held["left"], l.plan = true, nil })
	if got := r.stateOf(id); got != journal.Releasing {
		t.Fatalf("after the crash the journal says %s", got)
	}
	r.send(r.question(id, 1)).wantState(t, protocol.StateNotStarted)
	r.wantCalls(id, 0)
	r.send(r.order(id, 2)).wantResult(t, protocol.ResultCompleted)
	r.wantCalls(id, 1)
}

func TestTransaction_G44_ACancelBeforeTheCommitGivesThePlanBack(t *testing.T) {
	r, l := newLedger(t)
	entered := make(chan struct{}, 1)
	l.plan = func(ctx context.Context, c connector.Call) (connector.Result, error) {
		entered <- struct{}{}
		<-ctx.Done() // the cancel, since the deadline is far away
		return connector.Result{Class: connector.Succeeded, Output: json.RawMessage(`{"hold":"` + c.IdempotencyKey + `"}`)}, nil
	}
	id := newAction()
	running := r.later(r.order(id, 1))
	<-entered
	r.send(r.cancel(id, 1)).wantState(t, protocol.StateCancelled)
	<-running
	r.send(r.order(id, 1)).wantResult(t, protocol.ResultCancelled)
	r.wantCalls(id, 0)
	if held, released := l.counts(); held != 0 || released != 1 {
		t.Errorf("%d plans held, %d given back", held, released)
	}
}

func TestTransaction_G44_APlanThatIsRefusedIsADefiniteFailure(t *testing.T) {
	r, l := newLedger(t)
	l.plan = func(context.Context, connector.Call) (connector.Result, error) {
		return connector.Result{Class: connector.Failed, Failure: &connector.Failure{Code: "provider.full", Message: "no seat is free"}}, nil
	}
	id := newAction()
	r.send(r.order(id, 1)).wantResult(t, protocol.ResultFailed)
	r.send(r.order(id, 2)).wantResult(t, protocol.ResultFailed)
	r.wantCalls(id, 0)
}

// undo is an order that compensates a completed action.
func (r *rig) undo(id, target fleet.ActionID) ask {
	a := r.order(id, 1)
	doc := a.doc.(protocol.Action)
	doc.Transaction = json.RawMessage(`{"compensates":"` + target.String() + `"}`)
	a.doc = doc
	return a
}

func TestTransaction_G25_AnEffectIsUndoneOnceByOneAction(t *testing.T) {
	r, l := newLedger(t)
	done, undo := newAction(), newAction()
	r.send(r.order(done, 1)).wantResult(t, protocol.ResultCompleted)
	first := r.send(r.undo(undo, done))
	first.wantResult(t, protocol.ResultCompleted)
	r.send(r.undo(undo, done)).wantResult(t, protocol.ResultCompleted)
	r.send(r.undo(newAction(), done)).wantNo(t, host.CodeContract, 422, protocol.ClassNotStarted)
	r.send(r.undo(newAction(), undo)).wantNo(t, host.CodeContract, 422, protocol.ClassNotStarted)
	r.send(r.undo(newAction(), newAction())).wantNo(t, host.CodeContract, 422, protocol.ClassNotStarted)
	other := r.undo(newAction(), done)
	other.input(`{"title":"another"}`)
	r.send(other).wantNo(t, host.CodeContract, 422, protocol.ClassNotStarted)
	if n := l.undone[done.String()]; n != 1 {
		t.Errorf("undone %d times", n)
	}
	wild := r.order(newAction(), 1)
	doc := wild.doc.(protocol.Action)
	doc.Transaction = json.RawMessage(`{"compensates":"` + done.String() + `","force":true}`)
	wild.doc = doc
	r.send(wild).wantNo(t, host.CodeContract, 422, protocol.ClassNotStarted)
}

// TestTransaction_G40_AConnectorThatCannotPlanIsNotAsked: the contract is kept or
// refused, never served halfway.
func TestTransaction_G40_AConnectorThatCannotPlanIsNotAsked(t *testing.T) {
	r := newRig(t, func(c *host.Config) {
		c.Manifest.Capabilities[0].Contract.Transaction = json.RawMessage(`{"mode":"plan_commit"}`)
	})
	id := newAction()
	r.send(r.order(id, 1)).wantNo(t, host.CodeContract, 422, protocol.ClassNotStarted)
	r.wantCalls(id, 0)
}
