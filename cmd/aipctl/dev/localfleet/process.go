package localfleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Process is a process that was started here. Began tells it from a later one with
// the same number.
type Process struct {
	PID     int    `json:"pid"`
	Began   string `json:"began"`
	Program string `json:"program"`
}

const poll = 20 * time.Millisecond

// launch says which process to start.
type launch struct {
	name    string // in logs and in the record
	program string // path
	args    []string
	env     []string
}

// spawn starts a process in a session of its own, with its log and its output in
// files. It outlives the caller.
func (p Place) spawn(l launch) (Process, error) {
	logFile, err := os.OpenFile(p.Log(l.name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return Process{}, unavailable("dev.log", "a log file cannot be written", err)
	}
	defer logFile.Close()
	outFile, err := os.Create(p.said(l.name))
	if err != nil {
		return Process{}, unavailable("dev.log", "an output file cannot be written", err)
	}
	defer outFile.Close()
	cmd := exec.Command(l.program, l.args...)
	cmd.Dir, cmd.Env = p.dir, l.env
	cmd.Stdout, cmd.Stderr = outFile, logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Process{}, unavailable("dev.start", l.name+" cannot be started", err)
	}
	pid := cmd.Process.Pid
	began, _, err := look(pid)
	if err != nil {
		return Process{}, errors.Join(unavailable("dev.start", l.name+" cannot be observed", err), cmd.Process.Kill())
	}
	return Process{PID: pid, Began: began, Program: l.program}, cmd.Process.Release()
}

// Alive reports whether exactly this process still runs. A child of the caller that
// ended is reaped on the way.
func (p Process) Alive() bool {
	if p.PID <= 1 {
		return false
	}
	var status syscall.WaitStatus
	if got, err := syscall.Wait4(p.PID, &status, syscall.WNOHANG, nil); err == nil && got == p.PID {
		return false
	}
	began, zombie, err := look(p.PID)
	return err == nil && !zombie && began == p.Began
}

// signalGroup reaches the process and what it started in its own group.
func (p Process) signalGroup(s syscall.Signal) error {
	if err := syscall.Kill(-p.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return unavailable("dev.signal", fmt.Sprintf("process %d cannot be signalled", p.PID), err)
	}
	return nil
}

// awaitGone waits for the end of the process.
func (p Process) awaitGone(ctx context.Context) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for p.Alive() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fleet.Errorf(fleet.Unavailable, "dev.stop", "process %d has not ended", p.PID).Caused(ctx.Err())
		}
	}
	return nil
}

// Kill ends the process and its group at once, as a crash would, and waits.
func (p Process) Kill(ctx context.Context) error {
	if !p.Alive() {
		return nil
	}
	if err := p.signalGroup(syscall.SIGKILL); err != nil {
		return err
	}
	return p.awaitGone(ctx)
}

// grace is how long a process may take to end by itself.
const grace = 15 * time.Second

// stop asks the process to end, and kills it when it does not. gentle reports
// whether it ended by itself.
func (p Process) stop(ctx context.Context) (gentle bool, err error) {
	if !p.Alive() {
		return true, nil
	}
	if err := syscall.Kill(p.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return false, unavailable("dev.signal", fmt.Sprintf("process %d cannot be signalled", p.PID), err)
	}
	asked, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if p.awaitGone(asked) == nil {
		return true, nil
	}
	killed, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	return false, p.Kill(killed)
}
