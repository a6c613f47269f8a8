package oneshot_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/oneshot"
)

func shell(script string) oneshot.Program {
	return oneshot.Program{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}
}

func TestRun_G26_WhatIsKnownAfterEachEnd(t *testing.T) {
	t.Setenv("OURS", "must not be passed on")
	p := shell(`cat; printf '%s' "$OURS"; exit 3`)
	p.Stdin = []byte("in")
	if got := oneshot.Run(context.Background(), p); !got.Started || got.Code != 3 || string(got.Output) != "in" || got.Killed || got.Err != nil {
		t.Errorf("exit: %+v", got)
	}
	if got := oneshot.Run(context.Background(), shell("kill -9 $$")); !got.Started || got.Code != -1 || got.Killed {
		t.Errorf("signal: %+v", got)
	}
	if got := oneshot.Run(context.Background(), oneshot.Program{Path: "/nowhere/program"}); got.Started || got.Err == nil {
		t.Errorf("missing: %+v", got)
	}
	long := shell("while :; do echo 0123456789; done")
	long.MaxOutput = 1000
	if got := oneshot.Run(context.Background(), long); !got.TooLong || !got.Killed || len(got.Output) != 1000 {
		t.Errorf("too long: %v %v %d", got.TooLong, got.Killed, len(got.Output))
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if got := oneshot.Run(ended, shell("exit 0")); got.Started {
		t.Errorf("it ran although its time was over: %+v", got)
	}
	unread := shell("exit 0")
	unread.Stdin = make([]byte, 1<<20)
	if got := oneshot.Run(context.Background(), unread); got.Code != 0 || !got.Started {
		t.Errorf("unread input: %+v", got)
	}
}

// TestRun_G26_TheWholeGroupEndsAtTheDeadline: what a program started ends with it.
func TestRun_G26_TheWholeGroupEndsAtTheDeadline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan oneshot.Outcome, 1)
	go func() {
		done <- oneshot.Run(ctx, shell("sleep 600 & echo $! > "+file+".part; mv "+file+".part "+file+"; wait"))
	}()
	child := 0
	for deadline := time.Now().Add(30 * time.Second); child == 0; time.Sleep(time.Millisecond) {
		if text, err := os.ReadFile(file); err == nil {
			child, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		if time.Now().After(deadline) {
			t.Fatal("the program did not start its child")
		}
	}
	cancel()
	if got := <-done; !got.Started || !got.Killed {
		t.Errorf("%+v", got)
	}
	for deadline := time.Now().Add(30 * time.Second); running(child); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("child %d outlived its group", child)
		}
	}
}

// running reports a process that is neither gone nor waiting to be reaped.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
