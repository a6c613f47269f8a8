package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Bucket and key names. The format number changes when they do.
const (
	formatNumber = "1"
	keyFormat    = "format"
	keyIdentity  = "journal_id"
	keyEpoch     = "last_epoch"
	keyAdmitted  = "admitted_artifact"

	nameMeta     = "meta"
	nameActions  = "actions"  // action id -> Record
	nameMessages = "messages" // message id -> Message
	nameAges     = "ages"     // time, message id -> nothing: the order of forgetting
	nameKeys     = "keys"     // capability, idempotency key -> action id
)

// maxForget bounds the messages that one transaction forgets.
const maxForget = 256

// Message is what is remembered of a signed message: its digest, so that other
// bytes under the same id are refused, and its answer, so that an exact repeat
// gets the same bytes.
type Message struct {
	ID     fleet.MessageID `json:"id"`
	Digest fleet.Digest    `json:"digest"`
	Action fleet.ActionID  `json:"action_id"`
	Status int             `json:"status,omitempty"` // HTTP status of the answer
	Answer []byte          `json:"answer,omitempty"` // signed; absent while the action runs
	At     time.Time       `json:"at"`
}

func makeBuckets(tx *bolt.Tx) error {
	for _, name := range []string{nameMeta, nameActions, nameMessages, nameAges, nameKeys} {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	return nil
}

func bucket(tx *bolt.Tx, name string) *bolt.Bucket { return tx.Bucket([]byte(name)) }

// identity reads the journal's identity, or makes it in a new file.
func identity(tx *bolt.Tx, now time.Time) (fleet.JournalID, error) {
	meta := bucket(tx, nameMeta)
	format, stored := meta.Get([]byte(keyFormat)), meta.Get([]byte(keyIdentity))
	if format != nil && string(format) != formatNumber {
		return fleet.JournalID{}, fmt.Errorf("its format is %q and this program writes %s", format, formatNumber)
	}
	if stored != nil {
		return fleet.ParseJournalID(string(stored))
	}
	id := fleet.NewJournalID(now)
	if err := meta.Put([]byte(keyFormat), []byte(formatNumber)); err != nil {
		return fleet.JournalID{}, err
	}
	return id, meta.Put([]byte(keyIdentity), []byte(id.String()))
}

// recoverAll applies what a restart means to every record.
func recoverAll(tx *bolt.Tx, now time.Time) error {
	var changed []Record
	err := bucket(tx, nameActions).ForEach(func(_, data []byte) error {
		var r Record
		if err := json.Unmarshal(data, &r); err != nil {
			return err
		}
		if r.recover() {
			r.ChangedAt = now
			changed = append(changed, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range changed {
		if err := putRecord(tx, &changed[i]); err != nil {
			return err
		}
	}
	return nil
}

// apply makes the change in the transaction. The first error refuses this change
// alone; the second one spoils the transaction.
func (p *pending) apply(tx *bolt.Tx, now time.Time) (refused, broken error) {
	c := p.change
	if c.Mutate != nil {
		r, _, err := readRecord(tx, c.Action)
		if err != nil {
			return nil, err
		}
		if err := c.Mutate(&r); err != nil {
			return err, nil
		}
		r.ChangedAt = now
		if err := putRecord(tx, &r); err != nil {
			return nil, err
		}
		p.record = r
	}
	if c.Message != nil {
		if err := putMessage(tx, *c.Message); err != nil {
			return nil, err
		}
	}
	if c.noteKey != "" {
		return nil, bucket(tx, nameMeta).Put([]byte(c.noteKey), []byte(c.noteText))
	}
	return nil, nil
}

func readRecord(tx *bolt.Tx, action fleet.ActionID) (Record, bool, error) {
	data := bucket(tx, nameActions).Get([]byte(action.String()))
	if data == nil {
		return Record{}, false, nil
	}
	var r Record
	err := json.Unmarshal(data, &r)
	return r, err == nil, err
}

// encode writes JSON without touching the bytes of raw members, which Marshal
// would escape for HTML: a stored result must stay what was signed.
func encode(doc any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(doc)
	return b.Bytes(), err
}

func putRecord(tx *bolt.Tx, r *Record) error {
	data, err := encode(r)
	if err != nil {
		return err
	}
	if r.IdempotencyKey != "" {
		if err := bucket(tx, nameKeys).Put(indexKey(r.Capability, r.IdempotencyKey), []byte(r.Action.String())); err != nil {
			return err
		}
	}
	return bucket(tx, nameActions).Put([]byte(r.Action.String()), data)
}

func listRecords(tx *bolt.Tx, after fleet.ActionID, limit int) ([]Record, error) {
	var all []Record
	c := bucket(tx, nameActions).Cursor()
	k, v := c.Seek([]byte(after.String()))
	if k != nil && string(k) == after.String() {
		k, v = c.Next()
	}
	for ; k != nil && len(all) < limit; k, v = c.Next() {
		var r Record
		if err := json.Unmarshal(v, &r); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// indexKey joins capability and key; a capability holds no zero byte.
func indexKey(capability fleet.CapabilityID, key string) []byte {
	return append(append([]byte(capability.String()), 0), key...)
}

func readMessage(tx *bolt.Tx, id fleet.MessageID) (Message, bool, error) {
	data := bucket(tx, nameMessages).Get([]byte(id.String()))
	if data == nil {
		return Message{}, false, nil
	}
	var m Message
	err := json.Unmarshal(data, &m)
	return m, err == nil, err
}

// putMessage remembers a message. A remembered answer is never replaced.
func putMessage(tx *bolt.Tx, m Message) error {
	old, found, err := readMessage(tx, m.ID)
	if err != nil || found && len(old.Answer) > 0 {
		return err
	}
	data, err := encode(m)
	if err != nil {
		return err
	}
	if err := bucket(tx, nameAges).Put(ageKey(m), nil); err != nil {
		return err
	}
	return bucket(tx, nameMessages).Put([]byte(m.ID.String()), data)
}

func ageKey(m Message) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(m.At.UnixNano())), m.ID.String()...)
}

// forget drops messages remembered before a time, oldest first.
func forget(tx *bolt.Tx, before time.Time) error {
	ages, messages := bucket(tx, nameAges), bucket(tx, nameMessages)
	end := binary.BigEndian.AppendUint64(nil, uint64(before.UnixNano()))
	var old [][]byte
	c := ages.Cursor()
	for k, _ := c.First(); k != nil && bytes.Compare(k[:8], end) < 0 && len(old) < maxForget; k, _ = c.Next() {
		old = append(old, bytes.Clone(k))
	}
	for _, k := range old {
		m, found, err := readMessageAt(messages, k[8:])
		if err != nil {
			return err
		}
		if found && m.At.Before(before) {
			if err := messages.Delete(k[8:]); err != nil {
				return err
			}
		}
		if err := ages.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

func readMessageAt(messages *bolt.Bucket, id []byte) (Message, bool, error) {
	data := messages.Get(id)
	if data == nil {
		return Message{}, false, nil
	}
	var m Message
	err := json.Unmarshal(data, &m)
	return m, err == nil, err
}
