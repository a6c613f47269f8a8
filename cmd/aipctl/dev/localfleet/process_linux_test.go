package localfleet

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// headless is set for a copy of the test program that ends its first thread and goes on
// to listen with the others, as a killed process may for a moment.
const headless = "AIP_TEST_HEADLESS"

func init() {
	if os.Getenv(headless) == "" {
		return
	}
	runtime.LockOSThread()
	listens := make(chan struct{})
	go func() {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		fmt.Println(l.Addr())
		close(listens)
		select {}
	}()
	<-listens
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // of this thread alone
}

// TestProcess_IsGoneOnlyWhenItsLastThreadIs: what was killed counts as gone only when it
// holds neither its port nor its connections; else a fault is judged while it still happens.
func TestProcess_IsGoneOnlyWhenItsLastThreadIs(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), headless+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("it does not listen:", lines.Err())
	}
	for state := ""; state != "Z"; {
		state = stateOf(t, cmd.Process.Pid)
	}
	began, _, err := look(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p := Process{PID: cmd.Process.Pid, Began: began}
	if !p.Alive() {
		t.Error("a process whose first thread has ended counts as gone, and still listens")
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", lines.Text())
	if err != nil {
		t.Fatalf("it is gone and holds its port: %v", err)
	}
	_ = l.Close()
}

// stateOf is the state of a process's first thread.
func stateOf(t *testing.T, pid int) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var name, state string
	if _, err := fmt.Sscanf(string(data), "%d %s %s", &pid, &name, &state); err != nil {
		t.Fatal(err)
	}
	return state
}
