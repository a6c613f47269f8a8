package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Sharing says how changes of many actions share transactions when many are under way,
// as resolves and settlements do in the registry. The zero value shares none.
//
// Up to Direct changes go to the database alone. What comes beyond waits without a
// connection and without a timer: Workers goroutines each send all that waits, at most
// Batch changes, as one transaction, and answer after its commit. A change that finds
// its record moved, or its id taken, changes nothing and touches no other; when a
// transaction fails as a whole and was certainly not committed, each of its changes is
// made alone, so that one that cannot be stored takes none with it.
type Sharing struct {
	Direct  int // changes under way that go alone
	Workers int // transactions at a time; 0 turns sharing off
	Batch   int // changes of one transaction
}

// enough is how many changes have to wait for another transaction to be worth its own
// commit: while one is under way, fewer gather for the next.
const enough = 8

// sharedPatience bounds a shared transaction with the wait for its connection.
const sharedPatience = 15 * time.Second

// write is one change: a statement that gives one row, or none when it changes nothing.
type write struct {
	action    string // actions are locked in their order
	statement string
	args      []any
	into      []any
	answer    chan answer // has room for the one answer
}

// answer is what became of a write: err as its statement alone would have given it; or
// it is not made, and goes alone.
type answer struct {
	err   error
	alone bool
}

// sharer is the queue and its workers.
type sharer struct {
	limits Sharing
	db     patient

	mu       sync.Mutex
	queue    []*write
	underWay int
	workers  int
	closed   bool
	running  sync.WaitGroup
}

// change makes a write, alone or with others. It ends with ctx only while nobody has
// taken it: what is in a transaction is answered.
func (s *sharer) change(ctx context.Context, w *write) error {
	alone := s.enter()
	defer s.leave()
	if !alone && s.add(w) {
		if a := s.await(ctx, w); !a.alone {
			return a.err
		}
	}
	return s.db.row(ctx, w.statement, w.args, w.into...)
}

func (s *sharer) enter() (alone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay++
	return s.limits.Workers <= 0 || s.underWay <= s.limits.Direct
}

func (s *sharer) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
}

func (s *sharer) add(w *write) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	w.answer = make(chan answer, 1)
	s.queue = append(s.queue, w)
	if s.workers == 0 || s.workers < s.limits.Workers && len(s.queue) >= enough {
		s.workers++
		s.running.Go(s.work)
	}
	return true
}

func (s *sharer) await(ctx context.Context, w *write) answer {
	select {
	case a := <-w.answer:
		return a
	case <-ctx.Done():
	}
	if s.withdraw(w) {
		return answer{alone: true} // which fails by ctx, and is known not to have been sent
	}
	return <-w.answer
}

func (s *sharer) withdraw(w *write) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.queue, w)
	if i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
	}
	return i >= 0
}

// work sends what waits until nothing does.
func (s *sharer) work() {
	for {
		taken := s.take()
		if len(taken) == 0 {
			return
		}
		s.send(taken)
	}
}

func (s *sharer) take() []*write {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), s.limits.Batch)
	taken := slices.Clone(s.queue[:n])
	s.queue = slices.Delete(s.queue, 0, n)
	if n == 0 {
		s.workers--
	}
	return taken
}

// send makes the writes in one transaction, in the order of their actions, so that no
// two transactions of this kind wait for each other.
func (s *sharer) send(taken []*write) {
	slices.SortStableFunc(taken, func(a, b *write) int { return cmp.Compare(a.action, b.action) })
	ctx, cancel := context.WithTimeout(context.Background(), sharedPatience)
	defer cancel()
	var found []error
	err := s.db.use(ctx, func(conn *pgxpool.Conn) (err error) {
		found, err = attempt(ctx, conn.Conn(), taken)
		return err
	})
	switch {
	case err == nil:
		for i, w := range taken {
			w.answer <- answer{err: found[i]}
		}
	case notDone(err):
		tell(taken, answer{alone: true})
	default: // it may have been committed
		tell(taken, answer{err: err})
	}
}

// attempt makes every write in one round trip, which the server takes as one
// transaction. found says for each whether it gave a row; without an error it is
// committed.
func attempt(ctx context.Context, conn *pgx.Conn, taken []*write) (found []error, err error) {
	batch := &pgx.Batch{}
	for _, w := range taken {
		batch.Queue(w.statement, w.args...)
	}
	results := conn.SendBatch(ctx, batch)
	defer func() { err = cmp.Or(err, results.Close()) }() // the commit is answered last
	for _, w := range taken {
		one := results.QueryRow().Scan(w.into...)
		if one != nil && !errors.Is(one, pgx.ErrNoRows) {
			return nil, one
		}
		found = append(found, one)
	}
	return found, nil
}

func tell(all []*write, a answer) {
	for _, w := range all {
		w.answer <- a
	}
}

// close lets what waits go alone, and returns when no transaction is under way.
func (s *sharer) close() {
	s.mu.Lock()
	s.closed = true
	tell(s.queue, answer{alone: true})
	s.queue = nil
	s.mu.Unlock()
	s.running.Wait()
}
