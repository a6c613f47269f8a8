package silence_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	_ "github.com/charmbracelet/bubbletea" // the library that would ask

	_ "github.com/aipfleet/aipfleet/cmd/aipctl/dash/silence"
)

const (
	child = "AIPCTL_SILENCE_CHILD"
	hello = "this program has started"
)

// TestMain is the child as well: it says hello on its terminal and ends.
func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		fmt.Println(hello)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestStart_G40_NothingIsAskedOfTheTerminal runs a program that links the dashboard
// on a terminal of its own: all that reaches the terminal is the program's own line.
func TestStart_G40_NothingIsAskedOfTheTerminal(t *testing.T) {
	master, slave := terminal(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{child + "=1", "TERM=xterm-256color"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := io.Copy(&got, master); err != nil && !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if text := strings.TrimSpace(got.String()); text != hello {
		t.Errorf("the terminal got %q, want only %q", text, hello)
	}
}

// terminal opens a pair of pseudo-terminal ends.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	var unlock, number int32
	for _, call := range []struct {
		request uintptr
		value   *int32
	}{{syscall.TIOCSPTLCK, &unlock}, {syscall.TIOCGPTN, &number}} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), call.request, uintptr(unsafe.Pointer(call.value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
