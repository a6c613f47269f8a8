package desk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Refusals of a call. Each means that the call had no effect.
var (
	ErrInvalid     = errors.New("invalid request")
	ErrNotFound    = errors.New("no such ticket")
	ErrClosed      = errors.New("the ticket is closed")
	ErrKeyConflict = errors.New("the idempotency key was used for another request")
)

// ErrAfterEffect says that a call failed although its effect is recorded. It must
// not be answered as a refusal.
var ErrAfterEffect = errors.New("the call failed after its effect")

// Options says which desk to open.
type Options struct {
	// Dir is the store of one account; made when it does not exist.
	Dir string
	// Account is whose desk it is; empty takes what the store says.
	Account string
	// Token is the account's API token. A new store remembers its digest.
	Token string
	// Now is the desk's clock.
	Now func() time.Time
	// Crash ends the process at once; it is what the fault action "crash" does.
	Crash func()
}

// Desk is one account's open ticket desk. Its methods may be called from any
// goroutine.
type Desk struct {
	dir     string
	account string
	now     func() time.Time
	faults  faults
	journal *journal
	state   *state // guarded by the journal's lock

	mu      sync.Mutex
	running map[string]int // calls under way, by idempotency key
}

// Open opens the desk in a directory. It fails with ErrNoToken, ErrWrongToken or
// ErrWrongAccount when the caller may not have it.
func Open(options Options) (*Desk, error) {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	j, err := openJournal(dir)
	if err != nil {
		return nil, err
	}
	d := &Desk{dir: dir, now: options.Now, journal: j, state: newState(), running: map[string]int{}}
	d.faults = faults{dir: dir, crash: options.Crash, now: options.Now, locked: j.locked}
	err = j.locked(func() error {
		d.account, err = claimAccount(dir, options.Account, options.Token)
		if err != nil {
			return err
		}
		return d.refresh()
	})
	if err != nil {
		return nil, errors.Join(err, j.close())
	}
	return d, nil
}

// Close releases the files. Effects need no closing: each is durable already.
func (d *Desk) Close() error { return d.journal.close() }

// Account is whose desk it is.
func (d *Desk) Account() string { return d.account }

// Call is what travels with a request besides its arguments.
type Call struct {
	ActionID       string
	IdempotencyKey string
}

// request is one call that may have an effect.
type request struct {
	tool  string
	call  Call
	input Input
	// title is what a fault rule matches: the ticket's title.
	title string
	// decide says what the effect would do to the state, or why not. It fills
	// in ticket, and gives the result.
	decide func(s *state, next Effect) (ticket string, result any, err error)
}

// perform runs a request: at most one effect for each idempotency key.
func (d *Desk) perform(ctx context.Context, r request) (Effect, error) {
	defer d.track(r.call.IdempotencyKey)()
	if err := d.called(r); err != nil {
		return Effect{}, err
	}
	rules, err := d.faults.read()
	if err != nil {
		return Effect{}, err
	}
	at := occasion{tool: r.tool, title: r.title, call: r.call}
	if err := d.faults.hit(ctx, rules, BeforeEffect, at); err != nil {
		return Effect{}, err
	}
	var effect Effect
	err = d.journal.locked(func() error {
		effect, err = d.commit(r)
		return err
	})
	if err != nil {
		return Effect{}, err
	}
	at.operationID = effect.OperationID
	if err := d.faults.hit(ctx, rules, AfterEffect, at); err != nil {
		return Effect{}, fmt.Errorf("%w: %w", ErrAfterEffect, err)
	}
	return effect, nil
}

// commit decides and records, under the lock.
func (d *Desk) commit(r request) (Effect, error) {
	if err := d.refresh(); err != nil {
		return Effect{}, err
	}
	effect, err := d.draft(r)
	if err != nil {
		return Effect{}, err
	}
	if first, used := d.state.byKey[r.call.IdempotencyKey]; used {
		if first.Tool != r.tool || first.InputDigest != effect.InputDigest {
			return Effect{}, ErrKeyConflict
		}
		return first, nil
	}
	ticket, result, err := r.decide(d.state, effect)
	if err != nil {
		return Effect{}, err
	}
	effect.TicketID = ticket
	if effect.Result, err = json.Marshal(result); err != nil {
		return Effect{}, err
	}
	if err := d.journal.append(effect); err != nil {
		return Effect{}, err
	}
	if err := d.state.apply(effect); err != nil {
		return Effect{}, fmt.Errorf("%w: %w", ErrAfterEffect, err)
	}
	return effect, nil
}

// draft is the next record, without what the decision adds.
func (d *Desk) draft(r request) (Effect, error) {
	input, err := json.Marshal(r.input)
	if err != nil {
		return Effect{}, err
	}
	sequence := d.state.last + 1
	return Effect{
		Sequence: sequence, OperationID: fmt.Sprintf("op_%s_%06d", d.account, sequence),
		Tool: r.tool, Account: d.account, ActionID: r.call.ActionID, IdempotencyKey: r.call.IdempotencyKey,
		InputDigest: digest(input), Input: r.input, At: d.now().UTC(),
	}, nil
}

// refresh folds what other processes recorded. The caller holds the lock.
func (d *Desk) refresh() error {
	effects, err := d.journal.catchUp()
	if err != nil {
		return err
	}
	for _, effect := range effects {
		if err := d.state.apply(effect); err != nil {
			return err
		}
	}
	return nil
}

// look reads the current state under the lock.
func (d *Desk) look(fn func(*state) error) error {
	return d.journal.locked(func() error {
		if err := d.refresh(); err != nil {
			return err
		}
		return fn(d.state)
	})
}

// track notes that a call with the key is under way; the result ends it.
func (d *Desk) track(key string) func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running[key]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.running[key]--; d.running[key] == 0 {
			delete(d.running, key)
		}
	}
}

func (d *Desk) underWay(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running[key] > 0
}
