package localfleet

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Programs are the executables that a fleet is made of.
type Programs struct{ Dir string }

// FindPrograms looks for the executables beside the one that runs.
func FindPrograms(executable string) (Programs, error) {
	p := Programs{filepath.Dir(executable)}
	var missing []string
	for _, name := range []string{"aipctl", "aipd", "aiphost", "ticketdesk"} {
		info, err := os.Stat(p.path(name))
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return p, fleet.Errorf(fleet.NotFound, "dev.programs", "%s cannot be found", strings.Join(missing, ", ")).
			Because("they are looked for beside aipctl, in %s", p.Dir).Advise("make build, then bin/aipctl dev up")
	}
	return p, nil
}

func (p Programs) path(name string) string { return filepath.Join(p.Dir, name) }

// Result is what one run of aipctl gave.
type Result struct {
	Args   []string
	Stdout []byte
	Stderr []byte
	Exit   int
}

// Line is the command as a person would type it.
func (r Result) Line() string {
	words := make([]string, 0, len(r.Args)+1)
	for _, a := range append([]string{"aipctl"}, r.Args...) {
		if a == "" || strings.ContainsAny(a, " \t\"'$&|;<>(){}*?#\\") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// Failed makes an error of a run that did not exit with the expected code.
func (r Result) Failed(want int) error {
	if r.Exit == want {
		return nil
	}
	return fleet.Errorf(fleet.Internal, "dev.command", "%s ended with exit code %d instead of %d", r.Line(), r.Exit, want).
		Because("%s", strings.TrimSpace(string(r.Stderr)+"\n"+string(r.Stdout)))
}

// commandTime bounds every run of aipctl.
const commandTime = 2 * time.Minute

// Aipctl runs the real program against this fleet.
func (f *Fleet) Aipctl(ctx context.Context, args ...string) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, f.programs.path("aipctl"), args...)
	cmd.Env = f.Environment()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	result := Result{Args: args, Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Exit: cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return result, unavailable("dev.command", result.Line()+" could not be run", errors.Join(err, ctx.Err()))
	}
	return result, nil
}

// must runs aipctl and expects success.
func (f *Fleet) must(ctx context.Context, args ...string) (Result, error) {
	result, err := f.Aipctl(ctx, args...)
	if err != nil {
		return result, err
	}
	return result, result.Failed(0)
}

// Environment is what aipctl is run with: this fleet's contexts and nothing of the
// caller's own.
func (f *Fleet) Environment() []string {
	return append(bareEnvironment(), "AIPCTL_CONFIG="+f.place.Context(), "AIPCTL_ACTOR=dev", "NO_COLOR=1")
}

// bareEnvironment is what a process of the fleet gets of the caller's surroundings.
func bareEnvironment() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
