package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fairness"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Lister reads records by id; registry.Reader has it.
type Lister interface {
	List(ctx context.Context, selection registry.Selection) (registry.Records, error)
}

// Config makes an Engine. Every field but Observe and the durations is required.
type Config struct {
	Owner     string // unique to this process's run
	Store     action.Store
	Router    registry.Router
	Uncertain registry.Uncertain
	Records   Lister // for operators' decisions
	Scheduler *fairness.Scheduler
	Courier   *Courier
	Topology  fleet.TopologyPreference
	Hold      time.Duration // how long this owner may be silent; 0 means 15 s
	Grace     time.Duration // how long Run waits for running actions at the end; 0 means 20 s
	Patience  time.Duration // how long a full or absent fleet is asked again; 0 means 3 s
	Now       func() time.Time
	Log       *slog.Logger
	// Observe is told how each attempt settled and how long it took; nil is nobody.
	Observe func(outcome fleet.Outcome, took time.Duration)
}

// claimLimit bounds how much one engine takes over at a time.
const claimLimit = 64

// Engine runs actions. Run owns every goroutine.
type Engine struct {
	Config
	jobs    chan *job
	stopped chan struct{} // closed when Run takes no more jobs
	flights flights
	news    news

	lease    atomic.Int64 // when the owner's lease was last asked for and given, Unix nanoseconds
	doubtful atomic.Int64 // until when a lost write may still be under way, Unix nanoseconds
}

// job is one action to run.
type job struct {
	record   action.Record
	latest   action.Record // newest that was stored since; guarded by flights.mu
	ticket   *fairness.Ticket
	takeover bool // another owner may have begun it
}

// New makes an engine; nothing happens until Run.
func New(c Config) *Engine {
	if c.Hold <= 0 {
		c.Hold = 15 * time.Second
	}
	if c.Grace <= 0 {
		c.Grace = 20 * time.Second
	}
	if c.Patience <= 0 {
		c.Patience = 3 * time.Second
	}
	if c.Observe == nil {
		c.Observe = func(fleet.Outcome, time.Duration) {}
	}
	return &Engine{Config: c, jobs: make(chan *job, claimLimit), stopped: make(chan struct{})}
}

// Run works until ctx ends. Then it takes nothing new, waits up to Grace for what
// runs, leaves the rest to a successor, and returns when every goroutine has ended.
// The work is not bound to ctx: it is cut off only when Grace is over (G12).
func (e *Engine) Run(ctx context.Context) error {
	if err := e.claim(ctx, 0); err != nil { // no submission before the lease lives
		return err
	}
	work, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	lease, endLease := context.WithCancel(work)
	var running, keeper sync.WaitGroup
	keeper.Go(func() { e.keepLease(lease, ctx.Done()) })
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case j := <-e.jobs:
			running.Go(func() { e.run(work, j) })
		}
	}
	e.stopIntake()
	timer := time.AfterFunc(e.Grace, abort)
	defer timer.Stop()
	running.Wait()
	endLease()
	keeper.Wait()
	return e.leave(work)
}

// stopIntake leaves everything that has not begun to a successor.
func (e *Engine) stopIntake() {
	close(e.stopped)
	e.Scheduler.Close()
	e.flights.cancelWaiting()
	for {
		select {
		case j := <-e.jobs:
			e.drop(j)
		default:
			return
		}
	}
}

func (e *Engine) drop(j *job) {
	e.flights.remove(j)
	giveBack(j.ticket)
}

// leave gives up the owner's lease, so that a successor need not wait for it.
func (e *Engine) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := e.Store.Claim(ctx, action.Claim{Owner: e.Owner})
	return err
}

// keepLease renews the owner's lease and takes over what dead owners left. After
// stop it only renews.
func (e *Engine) keepLease(ctx context.Context, stop <-chan struct{}) {
	ticker := time.NewTicker(e.Hold / 3)
	defer ticker.Stop()
	for beat := 1; ; beat++ {
		limit := claimLimit
		if closed(stop) {
			limit = 0
		}
		err := e.claim(ctx, limit)
		if err == nil && limit > 0 {
			err = e.sweep(ctx, beat)
		}
		if err != nil && ctx.Err() == nil {
			e.Log.WarnContext(ctx, "owner lease not renewed", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Alive is nil while this engine holds its owner's lease; otherwise its actions may
// be taken over by others.
func (e *Engine) Alive(context.Context) error {
	if since := e.Now().Sub(time.Unix(0, e.lease.Load())); since >= e.Hold {
		return fleet.Errorf(fleet.Unavailable, "dispatch.lease", "the action store has not been reached for too long")
	}
	return nil
}

// claim renews the lease and takes over at most limit actions.
func (e *Engine) claim(ctx context.Context, limit int) error {
	asked := e.Now()
	claimed, err := e.Store.Claim(ctx, action.Claim{Owner: e.Owner, Hold: e.Hold, Limit: limit})
	if err != nil {
		e.doubt(err)
		return err
	}
	e.lease.Store(asked.UnixNano())
	for _, r := range claimed {
		e.Log.InfoContext(ctx, "taking over an action", "action", r.ID.String(), "state", string(r.State))
		e.adopt(ctx, r)
	}
	return nil
}

// submitTimeout bounds storing a submission. It is the engine's and not the
// caller's: a caller that hangs up must not leave a record that nobody runs.
const submitTimeout = 15 * time.Second

// Submit makes the action durable and runs it; the same submission again returns
// its present record, and runs it again if it is retryable (G44). Refusals:
// CapacityExceeded from the scheduler's bounds, Conflict, code action.conflict.
func (e *Engine) Submit(ctx context.Context, s action.Submission) (action.Record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), submitTimeout)
	defer cancel()
	s.Owner = e.Owner
	if s.Timeout <= 0 {
		s.Timeout = registry.DefaultTimeToLive
	}
	ticket, err := e.Scheduler.Enqueue(fairness.Request{
		Tenant: s.Tenant, Capability: s.Capability, Bytes: int64(len(s.Input)), Deadline: e.Now().Add(s.Timeout),
	})
	if err != nil {
		return e.known(ctx, s, err)
	}
	record, run, err := e.admit(ctx, s)
	// A record of ours that nobody runs was stored by a submission whose answer was
	// lost between the store and us.
	lost := err == nil && !run && e.stray(record)
	if err != nil || !run && !lost {
		giveBack(ticket)
		return record, err
	}
	e.hand(ctx, &job{record: record, ticket: ticket, takeover: lost})
	return record, nil
}

// known answers a submission that there is no room for: an action that exists
// already is shown all the same.
func (e *Engine) known(ctx context.Context, s action.Submission, overload error) (action.Record, error) {
	r, err := e.Store.Get(ctx, s.Tenant, s.ID)
	if err != nil {
		return action.Record{}, overload
	}
	content, err := s.ContentDigest()
	if err != nil {
		return action.Record{}, err
	}
	if content != r.Content {
		return action.Record{}, action.ConflictError("the action id")
	}
	if r.State == action.Retryable {
		return action.Record{}, overload
	}
	return r, nil
}

// admit stores the submission; run tells whether it is this engine's to run.
func (e *Engine) admit(ctx context.Context, s action.Submission) (record action.Record, run bool, err error) {
	defer func() { e.doubt(err) }()
	record, created, err := e.Store.Submit(ctx, s)
	if fleet.Is(err, fleet.Unknown) { // asking again tells whether it was stored
		record, created, err = e.Store.Submit(ctx, s)
	}
	if err != nil || created || record.State != action.Retryable {
		return record, created, err
	}
	record, err = action.Update(ctx, e.Store, record, func(r action.Record) (action.Record, bool, error) {
		run = r.State == action.Retryable
		if !run { // somebody else took it up meanwhile
			return r, true, nil
		}
		next, err := r.Reopen(e.Owner, s.Timeout, e.Now())
		return next, false, err
	})
	return record, run && err == nil, err
}

func giveBack(t *fairness.Ticket) {
	if t != nil && !t.Cancel() {
		t.Release(0)
	}
}

// hand gives a durable action to Run. If that has ended, the action stays as it is,
// and the successor of this owner takes it up. An action that runs here already is
// not run twice.
func (e *Engine) hand(ctx context.Context, j *job) {
	if !e.flights.add(j) {
		giveBack(j.ticket)
		return
	}
	select {
	case e.jobs <- j:
	case <-e.stopped:
		e.drop(j)
		e.Log.WarnContext(ctx, "action left to a successor", "action", j.record.ID.String())
	}
}

// Get reads an action of the tenant.
func (e *Engine) Get(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID) (action.Record, error) {
	return e.Store.Get(ctx, tenant, id)
}

// tell says that an action in hand was stored anew.
func (e *Engine) tell(r action.Record) {
	e.flights.note(r)
	e.news.tell(r)
}

// Bounds between which Wait polls for changes made by other processes. What this
// engine has in hand is changed by others only when it is cancelled elsewhere or taken
// over: the longest poll does for that.
const (
	pollFirst = 50 * time.Millisecond
	pollLast  = time.Second
)

// Wait reads an action as soon as it does not run any more, or as it is when the
// time is over or ctx ends. What this engine has in hand is known here as it was last
// stored, and is read from the store only when somebody else may have changed it:
// callers that wait cost the store nothing.
func (e *Engine) Wait(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID, most time.Duration) (action.Record, error) {
	limit := time.NewTimer(most)
	defer limit.Stop()
	read := most <= 0
	for poll := pollFirst; ; poll = min(2*poll, pollLast) {
		news, done := e.news.of(id)
		r, here := e.flights.latest(tenant, id)
		var err error
		if read || !here {
			r, err = e.Store.Get(ctx, tenant, id)
		}
		if err != nil || !r.State.Running() || most <= 0 {
			done()
			return r, err
		}
		if here {
			poll = pollLast
		}
		again := time.NewTimer(poll)
		read = false
		select {
		case <-news.changed:
			if told := news.stored; told.Tenant == tenant && !told.State.Running() {
				done()
				return told, nil
			}
		case <-again.C:
			read = true
		case <-limit.C:
			most, read = 0, true
		case <-ctx.Done():
			done()
			return r, nil
		}
		again.Stop()
		done()
	}
}
