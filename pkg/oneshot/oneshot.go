// Package oneshot answers: how does one program run to its end, and what is known
// about it when it does not?
//
// A program gets exactly the environment, directory and input that it is given, runs
// in a process group of its own, writes at most a bounded output, and is killed with
// its whole group when its context ends. Run waits for it in every case.
//
// What an exit code means is the caller's: package secret and the exec adapter each
// have their own table. The package knows no credentials and logs nothing.
package oneshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// Program is one run. Path is absolute.
type Program struct {
	Path  string
	Args  []string // after the program's name
	Dir   string
	Env   []string // the whole environment, NAME=value
	Stdin []byte
	// MaxOutput bounds standard output in bytes; the program is killed when it
	// writes more. Zero means 4 MiB.
	MaxOutput int
	// Stderr receives standard error; nil discards it.
	Stderr io.Writer
}

// Outcome is how a run ended.
type Outcome struct {
	// Started is false only if it is proved that the program never ran.
	Started bool
	// Code is the exit code, or -1 when a signal ended the program.
	Code int
	// Output is what was written to standard output; it is not whole if TooLong.
	Output  []byte
	TooLong bool
	// Killed says that the program was killed: its context ended, or its output was
	// too long.
	Killed bool
	Err    error // of the system, when the program could not be started or waited for
}

const (
	defaultMaxOutput = 4 << 20
	// lingering bounds the wait for pipes that a child of the program holds open.
	lingering = 2 * time.Second
)

// Run runs a program to its end.
func Run(ctx context.Context, p Program) Outcome {
	if p.MaxOutput <= 0 {
		p.MaxOutput = defaultMaxOutput
	}
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	out := &bounded{left: p.MaxOutput, over: kill}
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	cmd.Dir, cmd.Env = p.Dir, p.Env
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would mean this process's own
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(p.Stdin), out, p.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = lingering
	if ctx.Err() != nil {
		return Outcome{Code: -1, Err: ctx.Err()}
	}
	if err := cmd.Start(); err != nil {
		return Outcome{Code: -1, Err: err}
	}
	err := cmd.Wait()
	result := Outcome{
		Started: true, Code: cmd.ProcessState.ExitCode(), Output: out.data.Bytes(), TooLong: out.tooLong, Killed: ctx.Err() != nil && cmd.ProcessState.ExitCode() < 0,
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		result.Err = err // such as input that the program did not read
	}
	return result
}

// bounded keeps what is written up to a limit, and ends the program beyond it. It is
// written by one goroutine, which Wait waits for.
type bounded struct {
	data    bytes.Buffer
	left    int
	tooLong bool
	over    func()
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > b.left {
		b.data.Write(p[:b.left])
		b.left, b.tooLong = 0, true
		b.over()
		return 0, io.ErrShortWrite
	}
	b.left -= len(p)
	return b.data.Write(p)
}
