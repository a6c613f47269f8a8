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

// The tools that have an effect.
const (
	OpenTicketTool    = "open_ticket"
	CommentTicketTool = "comment_ticket"
	CloseTicketTool   = "close_ticket"
)

const effectsName = "effects.jsonl"

// Effect is the record of one change, as it stands in the store.
type Effect struct {
	// Sequence is 1, 2, … without a gap.
	Sequence    int64  `json:"sequence"`
	OperationID string `json:"operation_id"`
	Tool        string `json:"tool"`
	Account     string `json:"account"`
	TicketID    string `json:"ticket_id"`
	// ActionID and IdempotencyKey come from the caller; both may be empty.
	ActionID       string `json:"action_id,omitempty"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// InputDigest is what tells a repeat from another request.
	InputDigest string    `json:"input_digest"`
	Input       Input     `json:"input"`
	At          time.Time `json:"at"`
	// Result is the answer to the call, byte for byte.
	Result json.RawMessage `json:"result"`
}

// Input is what a call asked for; which fields are set depends on the tool.
type Input struct {
	TicketID   string `json:"ticket_id,omitempty"`
	Title      string `json:"title,omitempty"`
	Body       string `json:"body,omitempty"`
	Priority   string `json:"priority,omitempty"`
	Comment    string `json:"comment,omitempty"`
	Resolution string `json:"resolution,omitempty"`
}

// ReadEffects reads every effect in a store directory, oldest first, without
// taking a lock: it may be called while servers run. A record that is just being
// written is not there yet. A store without effects has none.
func ReadEffects(dir string) ([]Effect, error) {
	text, err := os.ReadFile(filepath.Join(dir, effectsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	effects, _, err := decodeEffects(text)
	return effects, err
}

// decodeEffects reads whole lines, and reports how many bytes they take.
func decodeEffects(text []byte) ([]Effect, int64, error) {
	var effects []Effect
	var taken int64
	for {
		end := bytes.IndexByte(text[taken:], '\n')
		if end < 0 {
			return effects, taken, nil
		}
		var effect Effect
		if err := json.Unmarshal(text[taken:taken+int64(end)], &effect); err != nil {
			return nil, 0, fmt.Errorf("%s: record after byte %d: %w", effectsName, taken, err)
		}
		effects = append(effects, effect)
		taken += int64(end) + 1
	}
}

// Tally is a recount of a store.
type Tally struct {
	Effects int `json:"effects"`
	// Keys is how many different idempotency keys were used.
	Keys int `json:"keys"`
	// Duplicates is how many effects repeat a key that already had one.
	Duplicates int `json:"duplicates"`
	// Keyless is how many effects came without a key.
	Keyless int `json:"keyless"`
}

// Count recounts effects. Keys are counted per account, so that the effects of
// several stores may be counted together.
func Count(effects []Effect) Tally {
	tally := Tally{Effects: len(effects)}
	seen := map[[2]string]bool{}
	for _, effect := range effects {
		key := [2]string{effect.Account, effect.IdempotencyKey}
		switch {
		case effect.IdempotencyKey == "":
			tally.Keyless++
		case seen[key]:
			tally.Duplicates++
		default:
			seen[key] = true
			tally.Keys++
		}
	}
	return tally
}
