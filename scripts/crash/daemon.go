package crash

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aipfleet/aipfleet/pkg/crashpoint"
)

// Daemon is one program of the fleet, which may be started again and again.
type Daemon struct {
	Name string
	path string
	args []string
	dir  string // for its log and for what tests write to it

	mu   sync.Mutex
	life *life
}

// life is one process.
type life struct {
	cmd   *exec.Cmd
	ready chan struct{} // closed when it says that it is ready
	ended chan struct{} // closed when it is gone
}

// NewDaemon names a program. Nothing is started.
func NewDaemon(dir, name, path string, args ...string) *Daemon {
	return &Daemon{Name: name, path: path, args: args, dir: dir}
}

// readyTime bounds the wait for a daemon's word.
const readyTime = 40 * time.Second

// Start starts the process unless it runs, and waits until it is ready or gone.
func (d *Daemon) Start() error {
	if err := d.Launch(); err != nil {
		return err
	}
	return d.AwaitReady(readyTime)
}

// Launch starts the process unless it runs.
func (d *Daemon) Launch() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life != nil && !closed(d.life.ended) {
		return nil
	}
	log, err := os.OpenFile(d.LogPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(d.path, d.args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), crashpoint.PointFile + "=" + d.file("point"),
		crashpoint.ClockFile + "=" + d.file("clock"), crashpoint.DiskFile + "=" + d.file("disk"),
	}
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	l := &life{cmd: cmd, ready: make(chan struct{}), ended: make(chan struct{})}
	go l.watch(out)
	d.life = l
	return nil
}

// watch reads what the process says, and waits for its end.
func (l *life) watch(out io.Reader) {
	defer close(l.ended)
	said := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var line struct {
			Ready bool `json:"ready"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Ready && !said {
			said = true
			close(l.ready)
		}
	}
	_ = l.cmd.Wait() // how it ended is in its state
	// A connector that outlives its host holds the provider; it is of the same group.
	_ = syscall.Kill(-l.cmd.Process.Pid, syscall.SIGKILL)
}

// AwaitReady waits for the daemon's word.
func (d *Daemon) AwaitReady(most time.Duration) error {
	l := d.current()
	if l == nil {
		return fmt.Errorf("%s was never started", d.Name)
	}
	select {
	case <-l.ready:
		return nil
	case <-l.ended:
		return fmt.Errorf("%s ended: %s\n%s", d.Name, l.cmd.ProcessState, d.LogTail(15))
	case <-time.After(most):
		return fmt.Errorf("%s is not ready after %s\n%s", d.Name, most, d.LogTail(15))
	}
}

func (d *Daemon) current() *life {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.life
}

// Alive reports whether the process runs.
func (d *Daemon) Alive() bool {
	l := d.current()
	return l != nil && !closed(l.ended)
}

// PID of the process that runs, or ran last.
func (d *Daemon) PID() int {
	if l := d.current(); l != nil {
		return l.cmd.Process.Pid
	}
	return 0
}

// Signal reaches the process and what it started.
func (d *Daemon) Signal(s syscall.Signal) error {
	if !d.Alive() {
		return nil
	}
	if err := syscall.Kill(-d.PID(), s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// Kill ends the process as a crash would, and waits for its end.
func (d *Daemon) Kill() error {
	if err := d.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	return d.AwaitEnd(readyTime)
}

// Stop asks the process to end, and waits for it.
func (d *Daemon) Stop() error {
	l := d.current()
	if l == nil || closed(l.ended) {
		return nil
	}
	_ = d.Signal(syscall.SIGCONT)
	if err := syscall.Kill(d.PID(), syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	if d.AwaitEnd(readyTime) == nil {
		return nil
	}
	return d.Kill()
}

// AwaitEnd waits until the process is gone.
func (d *Daemon) AwaitEnd(most time.Duration) error {
	l := d.current()
	if l == nil {
		return nil
	}
	select {
	case <-l.ended:
		return nil
	case <-time.After(most):
		return fmt.Errorf("%s has not ended after %s", d.Name, most)
	}
}

// Killed reports whether the last process ended by SIGKILL.
func (d *Daemon) Killed() bool {
	l := d.current()
	if l == nil || !closed(l.ended) {
		return false
	}
	status, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Arm makes the process end ("kill") or stop ("stop") when it reaches the point next.
func (d *Daemon) Arm(point crashpoint.Name, how string) error {
	_ = os.Remove(d.file("point") + ".hit")
	return write(d.file("point"), string(point)+" "+how)
}

// Disarm takes back what was not reached.
func (d *Daemon) Disarm() { _ = os.Remove(d.file("point")) }

// Struck reports whether the armed point was reached.
func (d *Daemon) Struck() bool { return exists(d.file("point") + ".hit") }

// BreakDisk makes the next durable write fail: "full" before it, "sync" after it.
func (d *Daemon) BreakDisk(how string) error {
	_ = os.Remove(d.file("disk") + ".hit")
	return write(d.file("disk"), how)
}

// DiskBroke reports whether the write failed.
func (d *Daemon) DiskBroke() bool { return exists(d.file("disk") + ".hit") }

// StepClock adds to the process's clock; zero puts it right.
func (d *Daemon) StepClock(by time.Duration) error { return write(d.file("clock"), by.String()) }

func (d *Daemon) file(what string) string { return filepath.Join(d.dir, d.Name+"."+what) }

// LogPath is where the process's log is.
func (d *Daemon) LogPath() string { return d.file("log") }

// LogTail is the end of the log.
func (d *Daemon) LogTail(lines int) string {
	text, err := os.ReadFile(d.LogPath())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// write replaces a file at once, so that nobody reads half of it.
func write(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
