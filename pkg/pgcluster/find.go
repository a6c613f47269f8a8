package pgcluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"
)

// MinVersion is the oldest major version of PostgreSQL that a cluster may run.
const MinVersion = 14

// Binaries names an installed PostgreSQL server.
type Binaries struct {
	// Dir holds initdb and postgres.
	Dir string
	// Version is the major version, for example 15.
	Version int
}

// Initdb is the path of the initdb program.
func (b Binaries) Initdb() string { return filepath.Join(b.Dir, "initdb") }

// Postgres is the path of the server program.
func (b Binaries) Postgres() string { return filepath.Join(b.Dir, "postgres") }

// Find looks for a PostgreSQL server of at least MinVersion: in PATH, in the
// places where distributions put it, and where pg_config points. The highest
// version wins. The error names what was found and how to install one.
func Find() (Binaries, error) {
	return findIn(searchDirs(os.Getenv("PATH")))
}

func findIn(dirs []string) (Binaries, error) {
	var found []Binaries
	var refused []string
	for _, dir := range dirs {
		version, ok := serverVersion(dir)
		switch {
		case !ok:
		case version < MinVersion:
			refused = append(refused, fmt.Sprintf("%s (version %d)", dir, version))
		default:
			found = append(found, Binaries{Dir: dir, Version: version})
		}
	}
	if len(found) == 0 {
		return Binaries{}, errNotInstalled(refused)
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].Version > found[j].Version })
	return found[0], nil
}

// searchDirs lists each candidate directory once, PATH first.
func searchDirs(path string) []string {
	dirs := filepath.SplitList(path)
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/libexec/postgresql*", "/usr/pgsql-*/bin",
		"/usr/local/opt/postgresql*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/pgsql/bin",
	} {
		matches, _ := filepath.Glob(pattern) // the patterns are constant and well formed
		dirs = append(dirs, matches...)
	}
	if out, err := run("pg_config", "--bindir"); err == nil {
		dirs = append(dirs, out)
	}
	return unique(dirs)
}

func unique(dirs []string) []string {
	seen := map[string]bool{}
	var kept []string
	for _, dir := range dirs {
		if dir == "" || seen[dir] {
			continue
		}
		seen[dir] = true
		kept = append(kept, dir)
	}
	return kept
}

var versionNumber = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// serverVersion reports the major version of the server in dir, and whether
// both programs that a cluster needs are there.
func serverVersion(dir string) (int, bool) {
	b := Binaries{Dir: dir}
	if !executable(b.Initdb()) || !executable(b.Postgres()) {
		return 0, false
	}
	out, err := run(b.Postgres(), "--version")
	if err != nil {
		return 0, false
	}
	match := versionNumber.FindStringSubmatch(out)
	if match == nil {
		return 0, false
	}
	version, err := strconv.Atoi(match[1])
	return version, err == nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// run returns the trimmed output of a short informational command.
func run(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	return strings.TrimSpace(string(out)), err
}
