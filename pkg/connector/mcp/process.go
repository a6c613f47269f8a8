package mcp

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// grace is how long a child may take to end at each step of ending it.
const grace = 2 * time.Second

// process is a running server.
type process struct {
	cmd   *exec.Cmd
	stdin *os.File
	gone  chan struct{} // closed when it was reaped
}

// launch starts the process in its own group, so that a signal to the host's
// terminal does not reach it and its own children can be ended with it.
func launch(p Program, env []string, log io.Writer) (*process, io.ReadCloser, error) {
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, inRead.Close(), inWrite.Close())
	}
	c := &process{cmd: exec.Command(p.Path, p.Args...), stdin: inWrite, gone: make(chan struct{})}
	c.cmd.Dir, c.cmd.Env = p.Dir, env
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = inRead, outWrite, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.WaitDelay = grace
	err = c.cmd.Start()
	_, _ = inRead.Close(), outWrite.Close()
	if err != nil {
		return nil, nil, errors.Join(err, inWrite.Close(), outRead.Close())
	}
	go func() {
		defer close(c.gone)
		_ = c.cmd.Wait()
	}()
	return c, outRead, nil
}

// end closes the child's input, then asks it, then kills its group, and waits.
func (c *process) end() {
	_ = c.stdin.Close()
	if c.ended() {
		return
	}
	c.signal(syscall.SIGTERM)
	if !c.ended() {
		c.signal(syscall.SIGKILL)
		<-c.gone
	}
}

func (c *process) ended() bool {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.gone:
		return true
	case <-timer.C:
		return false
	}
}

func (c *process) signal(s syscall.Signal) {
	select {
	case <-c.gone: // the pid may be somebody else's by now
	default:
		_ = syscall.Kill(-c.cmd.Process.Pid, s)
	}
}
