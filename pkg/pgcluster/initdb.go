package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// superuser is the bootstrap role of every cluster.
const superuser = "postgres"

// initialise makes the database directory beside its place and renames it, so
// that an interrupted run leaves nothing that looks like a cluster.
func (p place) initialise(ctx context.Context, b Binaries, who account, password string) error {
	next := p.data() + ".new"
	if err := os.RemoveAll(next); err != nil {
		return fail(CodeInit, "cannot clear an unfinished database directory", err, "")
	}
	if err := os.Mkdir(next, 0o700); err != nil {
		return fail(CodeInit, "cannot make the database directory", err, "")
	}
	if err := who.give(next); err != nil {
		return fail(CodeInit, "cannot hand the database directory over", err, "")
	}
	passwordFile, err := p.lendPassword(who, password)
	if err != nil {
		return err
	}
	defer os.Remove(passwordFile)
	if err := runInitdb(ctx, b, who, []string{
		"--pgdata=" + next, "--username=" + superuser, "--pwfile=" + passwordFile,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions", "--no-sync",
	}); err != nil {
		return err
	}
	if err := os.Rename(next, p.data()); err != nil {
		return fail(CodeInit, "cannot put the database directory in place", err, "")
	}
	return nil
}

// lendPassword writes the password where initdb's account can read it; the
// caller removes the file.
func (p place) lendPassword(who account, password string) (string, error) {
	path := filepath.Join(p.home, passwordName+".lent")
	if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
		return "", fail(CodeInit, "cannot write the password for initdb", err, "")
	}
	if err := who.give(path); err != nil {
		return "", errors.Join(fail(CodeInit, "cannot hand the password to initdb", err, ""), os.Remove(path))
	}
	return path, nil
}

func runInitdb(ctx context.Context, b Binaries, who account, args []string) error {
	cmd := exec.CommandContext(ctx, b.Initdb(), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who.credential()}
	cmd.Dir = "/"
	cmd.Env = serverEnvironment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fail(CodeInit, "initdb failed", fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out))), "look at the message of initdb")
	}
	return nil
}

// serverEnvironment keeps the caller's PG* settings and locale away from the
// server.
func serverEnvironment() []string {
	env := []string{"LC_ALL=C", "TZ=UTC"}
	for _, name := range []string{"PATH", "TMPDIR", "LD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
