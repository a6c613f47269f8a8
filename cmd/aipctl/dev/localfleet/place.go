package localfleet

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Place is the directory of a fleet and the names in it.
type Place struct{ dir string }

// PlaceOf names the directory, absolute. It makes nothing.
func PlaceOf(dir string) (Place, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Place{}, fleet.Invalidf("dev.directory", "the directory %s cannot be named", dir).Because("%v", err)
	}
	return Place{abs}, nil
}

// Dir is the absolute directory.
func (p Place) Dir() string { return p.dir }

// Context is the configuration file of aipctl for this fleet.
func (p Place) Context() string { return filepath.Join(p.dir, "aipctl.yaml") }

// Release is the directory of the release package.
func (p Place) Release() string { return filepath.Join(p.dir, "release") }

// FleetFile is the fleet file that is applied.
func (p Place) FleetFile() string { return filepath.Join(p.dir, "fleet.yaml") }

// Account is the store of one tenant's ticket desk.
func (p Place) Account(tenant string) string { return filepath.Join(p.dir, "accounts", tenant) }

// HostState is the state directory of one host.
func (p Place) HostState(replica string) string { return filepath.Join(p.dir, "hosts", replica) }

// Log is what a process writes to its standard error.
func (p Place) Log(process string) string { return filepath.Join(p.dir, "logs", process+".log") }

// said is what a process writes to its standard output: the line that it is ready.
func (p Place) said(process string) string { return filepath.Join(p.dir, "logs", process+".out") }

// Secret is a file that only its owner reads.
func (p Place) Secret(name string) string { return filepath.Join(p.dir, "secrets", name) }

// Config is a file that a process is configured with.
func (p Place) Config(name string) string { return filepath.Join(p.dir, "config", name) }

func (p Place) postgres() string  { return filepath.Join(p.dir, "postgres") }
func (p Place) stateFile() string { return filepath.Join(p.dir, "dev.json") }
func (p Place) lockFile() string  { return filepath.Join(p.dir, "dev.lock") }

// make creates the directories.
func (p Place) make() error {
	for name, mode := range map[string]os.FileMode{
		"": 0o755, "secrets": 0o700, "config": 0o755, "logs": 0o755, "hosts": 0o700, "accounts": 0o700, "postgres": 0o755,
	} {
		if err := os.MkdirAll(filepath.Join(p.dir, name), mode); err != nil {
			return unavailable("dev.directory", "the directory of the fleet cannot be made", err)
		}
	}
	return nil
}

// names lists everything that is ever made in the directory, but for the database.
func (p Place) names() []string {
	return []string{
		"secrets", "config", "logs", "hosts", "accounts", "source", "conformance", "next", "release", "release-1.1.0", "wrong",
		"aipctl.yaml", "fleet.yaml", "summary.json", "evidence.txt", "dev.json", "dev.lock",
	}
}

// Free reports whether a fleet may be made here: the directory is absent, empty, or
// holds a fleet already. Anything else could be taken for a fleet's and removed.
func (p Place) Free() error {
	if _, err := os.Stat(p.stateFile()); err == nil {
		return nil
	}
	entries, err := os.ReadDir(p.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return unavailable("dev.directory", "the directory of the fleet cannot be read", err)
	}
	for _, e := range entries {
		if e.Name() != filepath.Base(p.lockFile()) {
			return fleet.Errorf(fleet.Conflict, "dev.directory", "%s holds something that is not a fleet", p.dir).
				Because("%s is in it", fleet.Printable(e.Name(), 80)).Advise("name another directory with --dir")
		}
	}
	return nil
}

// remove removes what was made, and the directory when nothing else is in it.
func (p Place) remove() error {
	for _, name := range p.names() {
		if err := os.RemoveAll(filepath.Join(p.dir, name)); err != nil {
			return unavailable("dev.directory", "the directory of the fleet cannot be removed", err)
		}
	}
	if entries, err := os.ReadDir(p.dir); err == nil && len(entries) == 0 {
		return os.Remove(p.dir)
	}
	return nil
}

// writeFile writes a file beside its place and renames it.
func writeFile(path string, data []byte, mode os.FileMode) error {
	next := path + ".new"
	err := os.Remove(next)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = os.WriteFile(next, data, mode)
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return unavailable("dev.write", "a file of the fleet cannot be written", err)
	}
	return nil
}

// writeOnce writes a secret file unless it exists, and returns what it holds.
func writeOnce(path string, fresh func() ([]byte, error)) ([]byte, error) {
	if data, err := os.ReadFile(path); err == nil {
		return data, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, unavailable("dev.read", "a file of the fleet cannot be read", err)
	}
	data, err := fresh()
	if err != nil {
		return nil, err
	}
	return data, writeFile(path, data, 0o600)
}

func unavailable(code, what string, cause error) *fleet.Error {
	e := fleet.Errorf(fleet.Unavailable, code, "%s", what)
	if cause != nil {
		e = e.Because("%v", cause).Caused(cause)
	}
	return e
}
