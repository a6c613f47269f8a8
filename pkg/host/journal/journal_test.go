package journal_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
)

// writerVariable makes this test binary a writer on the journal that it names.
const writerVariable = "JOURNAL_TEST_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerVariable); path != "" {
		os.Exit(writeUntilKilled(path))
	}
	os.Exit(m.Run())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func action(n int) fleet.ActionID { return must(fleet.ParseActionID(fmt.Sprintf("act_%06d", n))) }

func fence(n uint64) fleet.Fence {
	return fleet.Fence{Number: n, Token: fmt.Sprintf("%032x", n)}
}

func acceptance(id fleet.ActionID, n uint64) journal.Acceptance {
	return journal.Acceptance{
		Action: id, Capability: must(fleet.ParseCapabilityID("desk:open")), Tenant: must(fleet.ParseTenantID("acme")),
		InputDigest: fleet.DigestBytes([]byte("in")), IdempotencyKey: "key-" + id.String(), Fence: fence(n), At: time.Now(),
	}
}

// document is what an action's result looks like in these tests.
func document(id fleet.ActionID) json.RawMessage {
	return json.RawMessage(`{"action_id":"` + id.String() + `","note":"<&>"}`)
}

// stepsOf takes an action through its life, up to n of four steps.
func stepsOf(id fleet.ActionID) []func(*journal.Record) error {
	return []func(*journal.Record) error{
		func(r *journal.Record) error { return r.Accept(acceptance(id, 1)) },
		(*journal.Record).Intend,
		(*journal.Record).StartCall,
		func(r *journal.Record) error { return r.Finish(document(id)) },
	}
}

// writeUntilKilled runs actions side by side and says, after each durable step,
// which one it was. It is killed in the middle.
func writeUntilKilled(path string) int {
	j, err := journal.Open(path, journal.Options{Now: time.Now})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var mu sync.Mutex
	say := func(n, step int) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%d %d\n", n, step)
	}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := worker; n < 100_000; n += 8 {
				for step, mutate := range stepsOf(action(n)) {
					if _, err := j.Apply(context.Background(), journal.Change{Action: action(n), Mutate: mutate}); err != nil {
						return
					}
					say(n, step+1)
				}
			}
		}()
	}
	wg.Wait()
	return 1
}

// TestRecovery_G26_KillInTheMiddle kills a writing process again and again: whatever
// it said was durable is there, and nothing that was called counts as not started.
func TestRecovery_G26_KillInTheMiddle(t *testing.T) {
	for round := range 3 {
		path := filepath.Join(t.TempDir(), "journal.db")
		said := runAndKill(t, path, 60+40*round)
		j := open(t, path)
		seen := 0
		for n, step := range said {
			r, found, err := j.Get(action(n))
			if err != nil || !found {
				t.Fatalf("action %d had passed step %d and is gone: %v", n, step, err)
			}
			seen++
			checkRecovered(t, r, step)
		}
		if seen < 10 {
			t.Fatalf("only %d actions were seen: the round proves nothing", seen)
		}
	}
}

// checkRecovered says what may be found of an action whose writer had said step, and
// may have made the next one durable before it was killed.
func checkRecovered(t *testing.T, r journal.Record, step int) {
	t.Helper()
	allowed := map[int][]journal.State{
		1: {journal.NotStarted},
		2: {journal.NotStarted, journal.Unknown},
		3: {journal.Unknown, journal.Result},
		4: {journal.Result},
	}[step]
	for _, s := range allowed {
		if r.State == s {
			if s == journal.Result && !bytes.Equal(r.Document, document(r.Action)) {
				t.Errorf("the document changed: %s", r.Document)
			}
			return
		}
	}
	t.Errorf("after step %d the journal says %s", step, r.State)
}

// runAndKill starts a writer, reads a number of lines, kills it, and returns the last
// step that it said of each action.
func runAndKill(t *testing.T, path string, lines int) map[int]int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerVariable+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := map[int]int{}
	scan := bufio.NewScanner(out)
	for i := 0; scan.Scan(); i++ {
		if i == lines {
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		var n, step int
		if _, err := fmt.Sscanf(scan.Text(), "%d %d", &n, &step); err == nil {
			said[n] = max(said[n], step)
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the writer was not killed: %v", err)
	}
	return said
}

func open(t *testing.T, path string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(path, journal.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func TestJournal_G25_IdentityAndOwnership(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	if _, err := journal.Open(path, journal.Options{Now: time.Now, LockWait: 10 * time.Millisecond}); fleet.CodeOf(err) != journal.CodeLocked {
		t.Errorf("a second owner: %v", err)
	}
	id := j.ID()
	if err := j.SaveEpoch(context.Background(), 42); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path)
	epoch, err := again.LastEpoch()
	if again.ID() != id || id.IsZero() || epoch != 42 || err != nil {
		t.Errorf("%s became %s, epoch %d, %v", id, again.ID(), epoch, err)
	}
	if other := open(t, filepath.Join(t.TempDir(), "journal.db")); other.ID() == id {
		t.Error("a new file has the identity of another")
	}
}

func TestJournal_G27_MessagesAreKeptByteForByteAndForgottenInTime(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"), journal.Options{Now: clock, KeepMessages: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	id := fleet.NewMessageID(now)
	remember := func(m journal.Message) {
		t.Helper()
		if _, err := j.Apply(context.Background(), journal.Change{Message: &m}); err != nil {
			t.Fatal(err)
		}
	}
	answer := []byte("{\"x\":\"<&>\u2028\"}\n")
	digest := fleet.DigestBytes([]byte("m"))
	remember(journal.Message{ID: id, Digest: digest, At: now})
	now = now.Add(30 * time.Second)
	remember(journal.Message{ID: id, Digest: digest, Answer: answer, Status: 200, At: now})
	remember(journal.Message{ID: id, Digest: digest, Answer: []byte("another"), Status: 200, At: now})
	if m, found, err := j.Recall(id); err != nil || !found || !bytes.Equal(m.Answer, answer) {
		t.Errorf("%+v %v %v", m, found, err)
	}
	now = now.Add(45 * time.Second)
	remember(journal.Message{ID: fleet.NewMessageID(now), Digest: digest, At: now})
	if _, found, _ := j.Recall(id); !found {
		t.Error("the message was forgotten with the age of its claim, not of its answer")
	}
	now = now.Add(time.Minute)
	remember(journal.Message{ID: fleet.NewMessageID(now), Digest: digest, At: now})
	if _, found, _ := j.Recall(id); found {
		t.Error("the message is kept for ever")
	}
}

func TestJournal_G39_ARefusedChangeTouchesNoOther(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	refusal := errors.New("no")
	var wg sync.WaitGroup
	for n := range 64 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			message := &journal.Message{ID: must(fleet.ParseMessageID(fmt.Sprintf("msg_%d", n))), Digest: fleet.DigestBytes(nil), At: time.Now()}
			_, err := j.Apply(context.Background(), journal.Change{Action: action(n), Message: message, Mutate: func(r *journal.Record) error {
				if n%2 == 0 {
					return refusal
				}
				return r.Accept(acceptance(action(n), 1))
			}})
			if (n%2 == 0) != errors.Is(err, refusal) {
				t.Errorf("change %d: %v", n, err)
			}
		}()
	}
	wg.Wait()
	for n := range 64 {
		_, known, _ := j.Get(action(n))
		_, told, _ := j.Recall(must(fleet.ParseMessageID(fmt.Sprintf("msg_%d", n))))
		if known != (n%2 == 1) || told != known {
			t.Errorf("change %d: record %v, message %v", n, known, told)
		}
	}
	all, err := j.List(action(10), 5)
	if err != nil || len(all) != 5 || all[0].Action != action(11) {
		t.Errorf("%v %v", all, err)
	}
	if holder, err := j.Holder(must(fleet.ParseCapabilityID("desk:open")), "key-"+action(1).String()); err != nil || holder != action(1) {
		t.Errorf("%s %v", holder, err)
	}
}
