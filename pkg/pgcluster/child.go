package pgcluster

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// child is a server that this process started. A goroutine waits for it; done is
// closed when the process has been reaped.
type child struct {
	pid  int
	done chan struct{}
}

// spawn starts the server. The goroutine that starts it keeps its operating
// system thread until the server ended, because the parent death signal is
// tied to that thread.
func (s starter) spawn(port int) (*child, error) {
	log, err := os.OpenFile(s.place.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fail(CodeStart, "cannot open the server's log", err, "")
	}
	defer log.Close()
	cmd := exec.Command(s.binaries.Postgres(), "-D", s.place.data())
	for _, setting := range s.settings(port) {
		cmd.Args = append(cmd.Args, "-c", setting)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = serverEnvironment()
	cmd.Dir = s.place.data()
	cmd.SysProcAttr = processAttributes(s.who, s.cfg.Detach)
	started := make(chan error)
	c := &child{done: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fail(CodeStart, "cannot start the server", err, "")
	}
	return c, nil
}

// signal sends sig to the process, and reports false when it is gone.
func signal(pid int, sig syscall.Signal) bool {
	return pid > 0 && syscall.Kill(pid, sig) == nil
}
