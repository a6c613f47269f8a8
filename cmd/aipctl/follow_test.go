package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/apptest"
)

// stream is a stdout that a test can read while the command writes.
type stream struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// until waits for text on the stream, for at most ten seconds.
func (s *stream) until(t *testing.T, text string) {
	t.Helper()
	for range 1000 {
		if strings.Contains(s.String(), text) {
			return
		}
		if app.Pause(t.Context(), 10*time.Millisecond) != nil {
			break
		}
	}
	t.Fatalf("%q did not come:\n%s", text, s.String())
}

// follow runs a line that never ends, lets the test act, interrupts it and returns
// its exit code.
func follow(t *testing.T, h *apptest.Harness, out *stream, act func(), args ...string) int {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var ignored bytes.Buffer
	a := h.App(&ignored, &ignored)
	a.Out = out
	ended := make(chan int, 1)
	go func() { ended <- a.Run(ctx, root(a), args) }()
	act()
	interrupt()
	select {
	case code := <-ended:
		return code
	case <-time.After(10 * time.Second):
		t.Fatalf("aipctl %v goes on after the interrupt", args)
		return 0
	}
}

// TestEvents_G40_FollowShowsEachEventOnce shows the journal going on, and the end by
// an interrupt.
func TestEvents_G40_FollowShowsEachEventOnce(t *testing.T) {
	h := populated(t)
	var out stream
	code := follow(t, h, &out, func() {
		out.until(t, "registered")
		h.OK("bind", "acme", "desk:read", "cinst_acme", "--priority", "3", "--reason", "for the follower")
		out.until(t, "for the follower")
		h.OK("bind", "acme", "desk:read", "cinst_acme", "--priority", "4", "--reason", "once more")
		out.until(t, "once more")
	}, "events", "--follow", "--interval", "1ms", "-o", "jsonl")
	if code != app.ExitInterrupted {
		t.Errorf("exit %d after an interrupt, want %d", code, app.ExitInterrupted)
	}
	if n := strings.Count(out.String(), "for the follower"); n != 1 {
		t.Errorf("the event is shown %d times", n)
	}
	expect(t, h, 2, "use -o jsonl", "events", "--follow", "-o", "json")
}

// TestGet_G40_WatchPrintsWhatChanges shows a list that goes on.
func TestGet_G40_WatchPrintsWhatChanges(t *testing.T) {
	h := populated(t)
	var out stream
	code := follow(t, h, &out, func() {
		out.until(t, "crepl_globex_a")
		h.OK("undrain", "replica", "crepl_acme_b")
		h.Advance(time.Second)
		h.OK("drain", "replica", "crepl_acme_b", "--detach", "--yes", "--confirm", "crepl_acme_b", "--reason", "test")
		out.until(t, `"intent":"drain"`)
	}, "get", "replicas", "--watch", "--interval", "1ms", "-o", "jsonl")
	if code != app.ExitInterrupted {
		t.Errorf("exit %d after an interrupt, want %d", code, app.ExitInterrupted)
	}
	if strings.Count(out.String(), `"status":"ready"`) == 0 || strings.Count(out.String(), "host-crepl_globex_a") != 1 {
		t.Errorf("what did not change is printed again:\n%s", out.String())
	}
	expect(t, h, 2, "use -o jsonl", "get", "replicas", "--watch", "-o", "yaml")
}

// TestCompletion_G18_IdsAreCompletedAndPrintable asks as a shell does.
func TestCompletion_G18_IdsAreCompletedAndPrintable(t *testing.T) {
	h := populated(t)
	for line, want := range map[string]string{
		"__complete drain replica crepl_acme":  "crepl_acme_a\ncrepl_acme_b\n",
		"__complete describe instance cinst_g": "cinst_globex\n",
		"__complete get repl":                  "replicas\n",
		"__complete route inspect act_h":       "act_held\n",
	} {
		if out := h.OK(strings.Fields(line)...); !strings.HasPrefix(out, want) {
			t.Errorf("%s gives %q, want %q first", line, out, want)
		}
	}
}
