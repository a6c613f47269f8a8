package desk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const calledName = "calls.jsonl"

// Called is one call that arrived, whether it had an effect or not. A desk that knows
// its key answers it with the first effect: the effects alone do not show that
// somebody called twice.
type Called struct {
	Tool           string    `json:"tool"`
	ActionID       string    `json:"action_id,omitempty"`
	IdempotencyKey string    `json:"idempotency_key,omitempty"`
	Process        int       `json:"process"`
	At             time.Time `json:"at"`
}

// RecordCalls makes a store write down every call from now on.
func RecordCalls(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, calledName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// ReadCalls lists the calls that arrived since RecordCalls, oldest first.
func ReadCalls(dir string) ([]Called, error) {
	text, err := os.ReadFile(filepath.Join(dir, calledName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var calls []Called
	for line := range bytes.Lines(text) {
		var one Called
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // being written
		}
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, fmt.Errorf("%s: %w", calledName, err)
		}
		calls = append(calls, one)
	}
	return calls, nil
}

// called writes a call down, where somebody asked for it. One write of one line is
// whole, also beside those of other processes.
func (d *Desk) called(r request) error {
	f, err := os.OpenFile(filepath.Join(d.dir, calledName), os.O_WRONLY|os.O_APPEND, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	line, err := json.Marshal(Called{
		Tool: r.tool, ActionID: r.call.ActionID, IdempotencyKey: r.call.IdempotencyKey, Process: os.Getpid(), At: d.now().UTC(),
	})
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	return errors.Join(err, f.Close())
}
