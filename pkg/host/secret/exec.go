package secret

import (
	"context"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/oneshot"
)

// Exec asks a program for each credential: reference to command, the program's
// absolute path first. What it writes to standard output is the credential, without a
// final line break. Its standard error is not read: it may hold what must not be logged.
type Exec struct {
	Commands map[string][]string
	Env      []string      // the whole environment of the programs, NAME=value
	Timeout  time.Duration // of one run; zero means 10 s
}

// Get implements Provider.
func (e Exec) Get(ctx context.Context, ref string) (Secret, error) {
	command, ok := e.Commands[ref]
	if !ok || len(command) == 0 {
		return Secret{}, unknown(ref)
	}
	timeout := e.Timeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ran := oneshot.Run(ctx, oneshot.Program{Path: command[0], Args: command[1:], Dir: "/", Env: e.Env, MaxOutput: MaxBytes})
	name := fleet.Printable(command[0], 200)
	switch {
	case !ran.Started:
		return Secret{}, source("the credential program %s cannot be started", name).Caused(ran.Err)
	case ran.TooLong:
		return Secret{}, source("the credential program %s wrote more than 64 KiB", name)
	case ran.Killed:
		return Secret{}, source("the credential program %s did not end in time", name)
	case ran.Code != 0:
		return Secret{}, source("the credential program %s failed", name).Because("its exit code is %d", ran.Code)
	}
	return nonEmpty(ref, strings.TrimRight(string(ran.Output), "\r\n"))
}
