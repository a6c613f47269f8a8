package journal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Stable codes of this package.
const (
	CodeOpen   = "journal.open"   // the file cannot be used
	CodeLocked = "journal.locked" // another process owns it
	CodeFailed = "journal.failed" // a write failed; the process must stop
	CodeClosed = "journal.closed" // the journal was closed

	CodeTransition = "journal.transition" // the record does not allow the step
	CodeFence      = "journal.fence"      // a newer attempt has been seen
)

// Options of a journal. Now is required.
type Options struct {
	Now func() time.Time
	// KeepMessages is how long an answered message is remembered; it must be above
	// the time in which a copy still counts as fresh. Zero means 15 minutes.
	KeepMessages time.Duration
	// LockWait bounds the wait for the owner lock. Zero means one second.
	LockWait time.Duration
}

// Journal is one open file with its one owner.
type Journal struct {
	db      *bolt.DB
	id      fleet.JournalID
	opts    Options
	commit  func(*bolt.Tx) error // the seam at which tests break the disk
	waiting chan *pending
	quit    chan struct{} // closed by Close
	idle    chan struct{} // closed by the writer when it ends
	once    sync.Once

	mu      sync.Mutex
	failure error         // first failed write; sticky
	failed  chan struct{} // closed with it
}

// Open opens or makes the journal at path and recovers what an earlier owner left
// (G26). It refuses a file that another process holds.
func Open(path string, opts Options) (*Journal, error) { return OpenUnsafe(path, opts, Seams{}) }

// Seams are where tests break the disk. No configuration sets them.
type Seams struct {
	// NoSync leaves out every sync: what is written outlives the journal and not the
	// machine.
	NoSync bool
	// Commit stands around the durable write of every group: it may fail before it,
	// after it, or take its time. Nil is the plain write.
	Commit func(write func() error) error
}

// OpenUnsafe is Open with seams.
func OpenUnsafe(path string, opts Options, seams Seams) (*Journal, error) {
	if opts.KeepMessages <= 0 {
		opts.KeepMessages = 15 * time.Minute
	}
	if opts.LockWait <= 0 {
		opts.LockWait = time.Second
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		Timeout: opts.LockWait, FreelistType: bolt.FreelistMapType, NoSync: seams.NoSync, NoGrowSync: seams.NoSync,
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		e := fleet.Errorf(fleet.Conflict, CodeLocked, "the journal %s is in use", path)
		return nil, e.Because("another process owns it").Advise("stop the other host, or use another state directory")
	}
	if err != nil {
		return nil, openError(path, err)
	}
	j := &Journal{
		db: db, opts: opts, commit: (*bolt.Tx).Commit,
		waiting: make(chan *pending), quit: make(chan struct{}), idle: make(chan struct{}), failed: make(chan struct{}),
	}
	if seams.Commit != nil {
		j.commit = func(tx *bolt.Tx) error { return seams.Commit(tx.Commit) }
	}
	if err := j.prepare(path); err != nil {
		_ = db.Close()
		return nil, openError(path, err)
	}
	go j.write()
	return j, nil
}

func openError(path string, err error) error {
	return fleet.Errorf(fleet.Unavailable, CodeOpen, "the journal %s cannot be used", path).Caused(err)
}

// prepare makes the buckets and the identity, and recovers.
func (j *Journal) prepare(path string) error {
	err := j.db.Update(func(tx *bolt.Tx) error {
		if err := makeBuckets(tx); err != nil {
			return err
		}
		id, err := identity(tx, j.opts.Now())
		if err != nil {
			return err
		}
		j.id = id
		return recoverAll(tx, j.opts.Now())
	})
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the file's own entry durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// ID is the journal's identity, made with the file. A host registers with it.
func (j *Journal) ID() fleet.JournalID { return j.id }

// Failed is closed when a write failed.
func (j *Journal) Failed() <-chan struct{} { return j.failed }

// Err is the failed write, or nil.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failure
}

func (j *Journal) fail(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failure == nil {
		j.failure = fleet.Errorf(fleet.Internal, CodeFailed, "the journal cannot be written").Caused(err).
			Advise("stop the host, check the disk, start it again: it recovers from the file")
		close(j.failed)
	}
	return j.failure
}

// Close waits for the writer and releases the file. Changes that wait are written
// first.
func (j *Journal) Close() error {
	var err error
	j.once.Do(func() {
		close(j.quit)
		<-j.idle
		err = j.db.Close()
	})
	return err
}

// Get reads one record; false when the journal does not know the action.
func (j *Journal) Get(action fleet.ActionID) (Record, bool, error) {
	var r Record
	var found bool
	err := j.db.View(func(tx *bolt.Tx) error {
		var err error
		r, found, err = readRecord(tx, action)
		return err
	})
	return r, found, readError(err)
}

// List reads up to limit records after an action, by action id.
func (j *Journal) List(after fleet.ActionID, limit int) ([]Record, error) {
	var all []Record
	err := j.db.View(func(tx *bolt.Tx) error {
		var err error
		all, err = listRecords(tx, after, limit)
		return err
	})
	return all, readError(err)
}

// Recall reads what is remembered of a message; false when nothing is.
func (j *Journal) Recall(id fleet.MessageID) (Message, bool, error) {
	var m Message
	var found bool
	err := j.db.View(func(tx *bolt.Tx) error {
		var err error
		m, found, err = readMessage(tx, id)
		return err
	})
	return m, found, readError(err)
}

// Holder is the action that uses an idempotency key of a capability; zero when none does.
func (j *Journal) Holder(capability fleet.CapabilityID, key string) (fleet.ActionID, error) {
	var holder fleet.ActionID
	err := j.db.View(func(tx *bolt.Tx) error {
		return holder.UnmarshalText(bucket(tx, nameKeys).Get(indexKey(capability, key)))
	})
	return holder, readError(err)
}

// LastEpoch is the lease epoch that was last saved; 0 when none was.
func (j *Journal) LastEpoch() (uint64, error) {
	text, err := j.note(keyEpoch)
	if err != nil || text == "" {
		return 0, err
	}
	epoch, err := strconv.ParseUint(text, 10, 64)
	return epoch, readError(err)
}

// SaveEpoch keeps the epoch of the newest lease.
func (j *Journal) SaveEpoch(ctx context.Context, epoch uint64) error {
	return j.keep(ctx, keyEpoch, strconv.FormatUint(epoch, 10))
}

// Admitted is the digest of the artifact for which a lease was last granted; zero
// when none was.
func (j *Journal) Admitted() (fleet.Digest, error) {
	text, err := j.note(keyAdmitted)
	if err != nil || text == "" {
		return fleet.Digest{}, err
	}
	digest, err := fleet.ParseDigest(text)
	return digest, readError(err)
}

// SaveAdmitted keeps the digest of the artifact for which a lease was granted.
func (j *Journal) SaveAdmitted(ctx context.Context, digest fleet.Digest) error {
	return j.keep(ctx, keyAdmitted, digest.String())
}

func (j *Journal) keep(ctx context.Context, key, text string) error {
	_, err := j.Apply(ctx, Change{noteKey: key, noteText: text})
	return err
}

func (j *Journal) note(key string) (string, error) {
	var text string
	err := j.db.View(func(tx *bolt.Tx) error {
		text = string(bucket(tx, nameMeta).Get([]byte(key)))
		return nil
	})
	return text, readError(err)
}

func readError(err error) error {
	if err == nil {
		return nil
	}
	return fleet.Errorf(fleet.Internal, "journal.read", "the journal cannot be read").Caused(err)
}

// CopyTo writes a consistent copy of the file, as it would be found after a crash now.
func (j *Journal) CopyTo(path string) error {
	return readError(j.db.View(func(tx *bolt.Tx) error { return tx.CopyFile(path, 0o600) }))
}
