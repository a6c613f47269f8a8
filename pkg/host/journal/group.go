package journal

import (
	"context"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// maxGroup bounds the changes of one transaction.
const maxGroup = 256

// Change is one atomic step: a transition of an action's record, a message to
// remember, or both.
type Change struct {
	// Action names the record that Mutate gets. A record that the journal does not
	// know is handed over empty.
	Action fleet.ActionID
	// Mutate runs in the writer, alone. Its error discards the whole change and is
	// returned as it is. It must only call methods of the record.
	Mutate func(*Record) error
	// Message, when set, is remembered in the same transaction.
	Message *Message

	noteKey, noteText string
}

type pending struct {
	change Change
	record Record
	err    error
	done   chan struct{}
}

// Apply makes one change durable and returns the record as it then is. When it
// returns without an error, the change is on the disk. ctx bounds the wait for the
// writer only; a change that the writer took is waited for.
func (j *Journal) Apply(ctx context.Context, change Change) (Record, error) {
	if err := j.Err(); err != nil {
		return Record{}, err
	}
	p := &pending{change: change, done: make(chan struct{})}
	select {
	case j.waiting <- p:
	case <-j.quit:
		return Record{}, fleet.Errorf(fleet.Unavailable, CodeClosed, "the journal is closed")
	case <-j.failed:
		return Record{}, j.Err()
	case <-ctx.Done():
		return Record{}, fleet.Errorf(fleet.Unavailable, "journal.busy", "the journal did not take the change").Caused(ctx.Err())
	}
	<-p.done
	return p.record, p.err
}

// write is the one goroutine that writes. It ends on Close or after a failed write.
func (j *Journal) write() {
	defer close(j.idle)
	for {
		select {
		case p := <-j.waiting:
			if !j.writeGroup(j.gather(p)) {
				return
			}
		case <-j.quit:
			return
		}
	}
}

// gather takes every change that waits already.
func (j *Journal) gather(first *pending) []*pending {
	group := []*pending{first}
	for len(group) < maxGroup {
		select {
		case p := <-j.waiting:
			group = append(group, p)
		default:
			return group
		}
	}
	return group
}

// writeGroup writes a group in one transaction. A change that is refused does not
// touch the others; a transaction that fails fails them all, for ever.
func (j *Journal) writeGroup(group []*pending) bool {
	err := j.transact(group)
	if err != nil {
		err = j.fail(err)
	}
	for _, p := range group {
		if err != nil {
			p.record, p.err = Record{}, err
		}
		close(p.done)
	}
	return err == nil
}

func (j *Journal) transact(group []*pending) error {
	tx, err := j.db.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	now := j.opts.Now()
	for _, p := range group {
		refused, err := p.apply(tx, now)
		if err != nil {
			return err
		}
		p.err = refused
	}
	if err := forget(tx, now.Add(-j.opts.KeepMessages)); err != nil {
		return err
	}
	return j.commit(tx)
}
