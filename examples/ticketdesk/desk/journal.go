package desk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// ErrUncertain says that an effect may or may not be durable. Whoever gets it
// must not answer the call: the process should end, and the effect is looked for
// after a restart.
var ErrUncertain = errors.New("the store could not confirm a write")

// journal is the append-only file of a store, shared with other processes. The
// file lock covers every read and write; the mutex does the same inside this
// process, where a file lock does not.
type journal struct {
	mu     sync.Mutex
	lock   *os.File
	file   *os.File
	offset int64 // how far the file has been folded into the state
	broken error
}

func openJournal(dir string) (*journal, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, effectsName), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	j := &journal{lock: lock, file: file}
	if err := syncDir(dir); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

func (j *journal) close() error { return errors.Join(j.file.Close(), j.lock.Close()) }

// locked runs fn while no other call and no other process reads or writes.
func (j *journal) locked(fn func() error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return j.broken
	}
	if err := flock(j.lock, syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock the store: %w", err)
	}
	defer flock(j.lock, syscall.LOCK_UN)
	return fn()
}

func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// catchUp reads what other processes appended since the last call. A torn last
// record belongs to a process that died before it answered: it is cut off.
func (j *journal) catchUp() ([]Effect, error) {
	text, err := io.ReadAll(io.NewSectionReader(j.file, j.offset, 1<<62))
	if err != nil {
		return nil, err
	}
	effects, taken, err := decodeEffects(text)
	if err != nil {
		return nil, err
	}
	if taken < int64(len(text)) {
		if err := j.file.Truncate(j.offset + taken); err != nil {
			return nil, fmt.Errorf("cut off a torn record: %w", err)
		}
	}
	j.offset += taken
	return effects, nil
}

// append makes one effect durable. After an error that leaves the outcome open
// the journal refuses everything.
func (j *journal) append(effect Effect) error {
	line, err := json.Marshal(effect)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := j.file.Write(line); err != nil {
		if undo := j.file.Truncate(j.offset); undo == nil {
			return fmt.Errorf("the effect was not written: %w", err)
		}
		return j.breakDown(err)
	}
	if err := j.file.Sync(); err != nil {
		return j.breakDown(err)
	}
	j.offset += int64(len(line))
	return nil
}

func (j *journal) breakDown(cause error) error {
	j.broken = fmt.Errorf("%w: %w", ErrUncertain, cause)
	return j.broken
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	handle, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer handle.Close()
	return handle.Sync()
}
