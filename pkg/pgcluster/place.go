package pgcluster

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Names inside a cluster directory.
const (
	dataName     = "data"
	pointerName  = "data.location"
	stateName    = "cluster.json"
	logName      = "postgres.log"
	passwordName = "superuser.password"
)

// place is a cluster directory: where its data is, and its small files.
type place struct {
	dir  string // absolute; owned by the caller
	home string // holds the data; dir itself, or a directory elsewhere
}

func (p place) data() string     { return filepath.Join(p.home, dataName) }
func (p place) pointer() string  { return filepath.Join(p.dir, pointerName) }
func (p place) state() string    { return filepath.Join(p.dir, stateName) }
func (p place) log() string      { return filepath.Join(p.dir, logName) }
func (p place) password() string { return filepath.Join(p.dir, passwordName) }

// initialised reports whether the database directory is complete.
func (p place) initialised() bool {
	_, err := os.Stat(filepath.Join(p.data(), "PG_VERSION"))
	return err == nil
}

// existingPlace reads where the data of a cluster directory is.
func existingPlace(dir string) (place, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return place{}, fail(CodeDirectory, "cannot name the cluster directory "+dir, err, "")
	}
	p := place{dir: abs, home: abs}
	text, err := os.ReadFile(p.pointer())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return place{}, fail(CodeDirectory, "cannot read the cluster directory "+abs, err, "")
	default:
		p.home = strings.TrimSpace(string(text))
	}
	return p, nil
}

// preparePlace makes the directory and chooses where the data goes, so that the
// server's account can reach it.
func preparePlace(dir string, who account) (place, error) {
	p, err := existingPlace(dir)
	if err != nil {
		return place{}, err
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return place{}, fail(CodeDirectory, "cannot make the cluster directory", err, "choose another directory")
	}
	if p.initialised() && who.reaches(p.home) {
		return p, nil
	}
	if who.reaches(p.dir) {
		p.home = p.dir
		if err := os.Remove(p.pointer()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return place{}, fail(CodeDirectory, "cannot prepare the cluster directory", err, "")
		}
		return p, nil
	}
	return p.moveOut(who)
}

// moveOut puts the data into the temporary directory and records where.
func (p place) moveOut(who account) (place, error) {
	home, err := os.MkdirTemp("", "aipfleet-pg-")
	if err != nil {
		return place{}, fail(CodeDirectory, "cannot make a data directory outside "+p.dir, err, "set TMPDIR")
	}
	p.home = home
	if err := os.Chmod(home, 0o755); err != nil {
		return place{}, fail(CodeDirectory, "cannot open the data directory "+home, err, "set TMPDIR")
	}
	if !who.reaches(home) {
		_ = os.Remove(home) // empty and useless: nothing to report about it
		return place{}, fail(CodeDirectory, "the account that runs PostgreSQL reaches neither "+p.dir+" nor "+home,
			errors.New("a parent directory is closed to other users"), "set TMPDIR to a directory that everybody may pass")
	}
	if err := writeFile(p.pointer(), []byte(home+"\n"), 0o644); err != nil {
		return place{}, err
	}
	return p, nil
}

// superuserPassword reads the password of the superuser, or makes one.
func (p place) superuserPassword() (string, error) {
	text, err := os.ReadFile(p.password())
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) || p.initialised() {
		return "", fail(CodeDirectory, "cannot read the superuser's password of "+p.dir, err, "remove the directory and start again")
	}
	var raw [24]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", fail(CodeDirectory, "cannot make a password", err, "")
	}
	password := hex.EncodeToString(raw[:])
	return password, writeFile(p.password(), []byte(password+"\n"), 0o600)
}

// state is what a later process needs to find the server again.
type state struct {
	Port     int    `json:"port"`
	BinDir   string `json:"bin_dir"`
	Detached bool   `json:"detached"`
}

func (p place) readState() (state, error) {
	var s state
	text, err := os.ReadFile(p.state())
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(text, &s)
}

func (p place) writeState(s state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fail(CodeDirectory, "cannot record the server", err, "")
	}
	return writeFile(p.state(), append(text, '\n'), 0o644)
}

// writeFile replaces a file as a whole, so that a reader sees the old or the new.
func writeFile(path string, text []byte, mode fs.FileMode) error {
	next := path + ".new"
	if err := os.WriteFile(next, text, mode); err != nil {
		return fail(CodeDirectory, "cannot write "+path, err, "")
	}
	if err := os.Rename(next, path); err != nil {
		return fail(CodeDirectory, "cannot write "+path, err, "")
	}
	return nil
}
