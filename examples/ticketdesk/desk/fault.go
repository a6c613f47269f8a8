package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Where a fault strikes.
const (
	BeforeEffect = "before_effect"
	AfterEffect  = "after_effect"
)

// What a fault does.
const (
	ActionCrash = "crash" // ends the process at once
	ActionStall = "stall" // holds the call until it is released, or a time passed
	ActionError = "error" // before the effect: a refusal; after it: an internal error
)

// Names in the store directory, and how long an unlimited stall lasts.
const (
	faultsName   = "faults.json"
	firedName    = "faults.fired.jsonl"
	releaseName  = "release"
	defaultStall = 10 * time.Minute
	releasePoll  = 20 * time.Millisecond
)

// ErrFault is the refusal that the fault action "error" makes before an effect.
var ErrFault = errors.New("refused by a fault rule; nothing happened")

// errFaultAfterEffect is what the action "error" makes after an effect.
var errFaultAfterEffect = errors.New("a fault rule said so")

// Faults is the content of faults.json, which every call with an effect reads.
type Faults struct {
	Rules []Rule `json:"rules"`
}

// Rule makes matching calls fail on purpose.
type Rule struct {
	// ID names the rule in the list of what fired; unique in the file.
	ID string `json:"id"`
	// Tool it applies to; empty is every tool with an effect.
	Tool string `json:"tool,omitempty"`
	// TitlePrefix of the ticket; empty is every ticket.
	TitlePrefix string `json:"title_prefix,omitempty"`
	// At is before_effect or after_effect.
	At string `json:"at"`
	// Action is crash, stall or error.
	Action string `json:"action"`
	// StallMS bounds a stall in milliseconds; 0 is ten minutes. A stall ends
	// earlier when the release file appears in the store directory.
	StallMS int64 `json:"stall_ms,omitempty"`
	// Times is how often the rule fires, over all processes and restarts; 0 is
	// once.
	Times int `json:"times,omitempty"`
}

// Fired is one use of a rule. It is recorded before the fault strikes.
type Fired struct {
	Rule           string    `json:"rule"`
	Tool           string    `json:"tool"`
	At             string    `json:"at"`
	Action         string    `json:"action"`
	ActionID       string    `json:"action_id,omitempty"`
	IdempotencyKey string    `json:"idempotency_key,omitempty"`
	OperationID    string    `json:"operation_id,omitempty"`
	Process        int       `json:"process"`
	Time           time.Time `json:"time"`
}

// WriteFaults replaces the rules of a store.
func WriteFaults(dir string, faults Faults) error {
	text, err := json.MarshalIndent(faults, "", "  ")
	if err != nil {
		return err
	}
	if _, err := parseFaults(text); err != nil {
		return err
	}
	return writeDurably(filepath.Join(dir, faultsName), append(text, '\n'))
}

// Release ends every stall in a store, present and future, until HoldAgain.
func Release(dir string) error {
	return writeDurably(filepath.Join(dir, releaseName), nil)
}

// HoldAgain takes a Release back.
func HoldAgain(dir string) error {
	err := os.Remove(filepath.Join(dir, releaseName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ReadFired lists the faults that struck in a store, oldest first.
func ReadFired(dir string) ([]Fired, error) {
	text, err := os.ReadFile(filepath.Join(dir, firedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var fired []Fired
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // being written
		}
		var one Fired
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, fmt.Errorf("%s: %w", firedName, err)
		}
		fired = append(fired, one)
	}
	return fired, nil
}

func parseFaults(text []byte) (Faults, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var faults Faults
	if err := decoder.Decode(&faults); err != nil {
		return Faults{}, fmt.Errorf("%s: %w", faultsName, err)
	}
	seen := map[string]bool{}
	for _, rule := range faults.Rules {
		if err := rule.check(); err != nil {
			return Faults{}, fmt.Errorf("%s: rule %q: %w", faultsName, rule.ID, err)
		}
		if seen[rule.ID] {
			return Faults{}, fmt.Errorf("%s: rule %q appears twice", faultsName, rule.ID)
		}
		seen[rule.ID] = true
	}
	return faults, nil
}

func (r Rule) check() error {
	switch {
	case r.ID == "":
		return errors.New("a rule needs an id")
	case r.At != BeforeEffect && r.At != AfterEffect:
		return fmt.Errorf("at is %q, not before_effect or after_effect", r.At)
	case r.Action != ActionCrash && r.Action != ActionStall && r.Action != ActionError:
		return fmt.Errorf("action is %q, not crash, stall or error", r.Action)
	case r.StallMS < 0 || r.Times < 0:
		return errors.New("stall_ms and times are not negative")
	default:
		return nil
	}
}

// faults reads and applies the rules of one store.
type faults struct {
	dir    string
	crash  func()
	now    func() time.Time
	locked func(func() error) error
}

func (f faults) read() (Faults, error) {
	text, err := os.ReadFile(filepath.Join(f.dir, faultsName))
	if errors.Is(err, fs.ErrNotExist) {
		return Faults{}, nil
	}
	if err != nil {
		return Faults{}, err
	}
	return parseFaults(text)
}

// occasion is a call that a rule may match.
type occasion struct {
	tool, title, operationID string
	call                     Call
}

// hit applies the first rule that matches and is not used up.
func (f faults) hit(ctx context.Context, faults Faults, at string, on occasion) error {
	for _, rule := range faults.Rules {
		if rule.At != at || rule.Tool != "" && rule.Tool != on.tool || !strings.HasPrefix(on.title, rule.TitlePrefix) {
			continue
		}
		used, err := f.use(rule, on)
		if err != nil {
			return err
		}
		if used {
			return f.strike(ctx, rule)
		}
	}
	return nil
}

// use records that the rule fires, unless it has fired often enough.
func (f faults) use(rule Rule, on occasion) (bool, error) {
	used := false
	err := f.locked(func() error {
		fired, err := ReadFired(f.dir)
		if err != nil {
			return err
		}
		count := 0
		for _, one := range fired {
			if one.Rule == rule.ID {
				count++
			}
		}
		if count >= max(rule.Times, 1) {
			return nil
		}
		used = true
		return f.record(Fired{
			Rule: rule.ID, Tool: on.tool, At: rule.At, Action: rule.Action,
			ActionID: on.call.ActionID, IdempotencyKey: on.call.IdempotencyKey, OperationID: on.operationID,
			Process: os.Getpid(), Time: f.now().UTC(),
		})
	})
	return used, err
}

func (f faults) record(fired Fired) error {
	line, err := json.Marshal(fired)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(f.dir, firedName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, errWrite := file.Write(append(line, '\n'))
	return errors.Join(errWrite, file.Sync(), file.Close())
}

func (f faults) strike(ctx context.Context, rule Rule) error {
	switch rule.Action {
	case ActionCrash:
		f.crash()
		return ErrUncertain // only a double of Crash returns
	case ActionStall:
		return f.stall(ctx, rule)
	case ActionError:
		if rule.At == BeforeEffect {
			return ErrFault
		}
		return errFaultAfterEffect
	default:
		return nil
	}
}

// stall waits for the release file, the rule's time, or the caller to go away.
func (f faults) stall(ctx context.Context, rule Rule) error {
	limit := time.Duration(rule.StallMS) * time.Millisecond
	if limit == 0 {
		limit = defaultStall
	}
	over := time.NewTimer(limit)
	defer over.Stop()
	tick := time.NewTicker(releasePoll)
	defer tick.Stop()
	for {
		if _, err := os.Stat(filepath.Join(f.dir, releaseName)); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over.C:
			return nil
		case <-tick.C:
		}
	}
}
