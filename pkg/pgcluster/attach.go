package pgcluster

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Attach finds the server that an earlier process left running in dir. It fails
// with CodeNotRunning when there is none.
func Attach(dir string) (*Cluster, error) {
	p, err := existingPlace(dir)
	if err != nil {
		return nil, err
	}
	pid, alive := p.runningPID()
	if !alive {
		return nil, fail(CodeNotRunning, "no server runs in "+p.dir, nil, "start one")
	}
	recorded, err := p.readState()
	if err != nil {
		return nil, fail(CodeDirectory, "cannot read how the server in "+p.dir+" was started", err, "")
	}
	password, err := p.superuserPassword()
	if err != nil {
		return nil, err
	}
	return &Cluster{place: p, port: recorded.Port, password: password, pid: pid}, nil
}

// StopDir ends the server that runs in dir, if there is one.
func StopDir(ctx context.Context, dir string) error {
	c, err := Attach(dir)
	if fleet.CodeOf(err) == CodeNotRunning {
		return nil
	}
	if err != nil {
		return err
	}
	return c.Stop(ctx)
}

// RemoveDir ends the server that runs in dir, if there is one, and removes the
// database and the cluster directory. It refuses a directory that holds
// something other than a cluster.
func RemoveDir(ctx context.Context, dir string) error {
	if err := StopDir(ctx, dir); err != nil {
		return err
	}
	p, err := existingPlace(dir)
	if err != nil {
		return err
	}
	for _, path := range []string{p.data(), p.data() + ".new", p.pointer(), p.state(), p.log(), p.password()} {
		if err := os.RemoveAll(path); err != nil {
			return fail(CodeDirectory, "cannot remove the cluster in "+p.dir, err, "")
		}
	}
	for _, empty := range []string{p.home, p.dir} {
		if err := os.Remove(empty); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail(CodeDirectory, "cannot remove the cluster directory", err, "")
		}
	}
	return nil
}
