package journal

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// TestJournal_G39_AFailedSyncIsFinal breaks the disk once: the change fails, and so
// does everything after it, although the disk works again.
func TestJournal_G39_AFailedSyncIsFinal(t *testing.T) {
	j, err := Open(filepath.Join(t.TempDir(), "journal.db"), Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	broken := errors.New("input/output error")
	j.commit = func(*bolt.Tx) error { return broken }
	close1 := Change{Action: mustAction(t), Mutate: func(r *Record) error { return r.Close(mustAction(t), fleet.Fence{Number: 1}, Refusal{}) }}
	if _, err := j.Apply(context.Background(), close1); !errors.Is(err, broken) || fleet.CodeOf(err) != CodeFailed {
		t.Fatalf("%v", err)
	}
	select {
	case <-j.Failed():
	default:
		t.Error("the owner is not told")
	}
	if _, err := j.Apply(context.Background(), close1); fleet.CodeOf(err) != CodeFailed {
		t.Errorf("the journal goes on: %v", err)
	}
	if _, found, err := j.Get(mustAction(t)); found || err != nil {
		t.Errorf("the failed change is there: %v", err)
	}
}

func mustAction(t interface{ Fatal(...any) }) fleet.ActionID {
	id, err := fleet.ParseActionID("act_a")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestRecord_G25_NoSequenceOfStepsCallsTwice tries steps at random, restarts among
// them, and checks after each what must always hold.
func TestRecord_G25_NoSequenceOfStepsCallsTwice(t *testing.T) {
	id := mustAction(t)
	rapid.Check(t, func(rt *rapid.T) {
		var r Record
		calls := map[uint64]int{}
		closed, high := uint64(0), uint64(0)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			before := r
			n := rapid.Uint64Range(1, 4).Draw(rt, "fence")
			fence := fleet.Fence{Number: n, Token: string(rune('a' + n))}
			var err error
			step := rapid.IntRange(0, 15).Draw(rt, "step")
			switch step {
			case 0:
				err = r.Accept(Acceptance{Action: id, InputDigest: fleet.DigestBytes(nil), Fence: fence})
			case 1:
				err = r.Intend()
			case 2:
				if err = r.StartCall(); err == nil {
					calls[r.Fence]++
				}
			case 3:
				err = r.Finish(json.RawMessage(`{}`))
			case 4:
				err = r.Lose(nil)
			case 5:
				err = r.Abandon(Refusal{})
			case 6:
				err = r.Close(id, fence, Refusal{})
			case 7:
				err = r.Cancel(id, fence, json.RawMessage(`{}`))
			case 8:
				err = r.Decide(id, n, []byte("d"))
			case 9:
				r.recover()
			case 10:
				err = r.See(fence)
			case 11:
				err = r.StartPlan()
			case 12:
				err = r.KeepPlan(json.RawMessage(`{}`))
			case 13:
				err = r.StartRelease(nil)
			case 14:
				err = r.Prune(json.RawMessage(`{}`))
			case 15:
				err = r.Settle()
			}
			if err != nil && before.State != r.State {
				rt.Fatalf("a refused step moved %s to %s", before.State, r.State)
			}
			checkRecord(rt, before, r, calls)
			if r.Closed < closed || r.Highest.Number < high {
				rt.Fatalf("a promise went back: closed %d to %d, highest %d to %d", closed, r.Closed, high, r.Highest.Number)
			}
			closed, high = r.Closed, r.Highest.Number
		}
	})
}

func checkRecord(rt *rapid.T, before, r Record, calls map[uint64]int) {
	for fence, n := range calls {
		if n > 1 {
			rt.Fatalf("fence %d was called %d times", fence, n)
		}
	}
	if before.State == Result && r.State != Result || before.State == Cancelled && r.State != Cancelled {
		rt.Fatalf("a definite outcome %s became %s", before.State, r.State)
	}
	if r.State == CallStarted && before.State != CallStarted && r.Called <= before.Closed {
		rt.Fatalf("closed fence %d was called", r.Called)
	}
	if before.State == Releasing && (r.State == CallStarted || r.State == Result || r.State == Cancelled) {
		rt.Fatalf("a plan that is given back went to %s", r.State)
	}
	if r.Pruned && !before.Pruned && before.State != Result && before.State != Cancelled && before.State != NotStarted {
		rt.Fatalf("what is %s was pruned", before.State)
	}
	if before.State == Unknown && r.State.Running() {
		rt.Fatal("an unknown outcome was run again without a decision")
	}
	if before.State == CallStarted && r.State == NotStarted && r.Closed < r.Called {
		rt.Fatal("an abandoned call is not closed")
	}
}
