// Package schema answers: what is the registry's database made of?
//
// It embeds the versioned migrations, the functions (repeatable: each file is one
// function that replaces itself), the roles, and the privilege matrix that results
// (G20). Package registry/postgres/migrate applies them, package registry/postgres
// checks against them.
//
// It guarantees nothing by itself and owns no connection.
package schema

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed migrations/*.sql functions/*.sql roles/*.sql privileges.golden
var files embed.FS

// File is one embedded file with the digest of its text.
type File struct {
	Name    string // base name: "00001_registry.sql"
	Version int64  // of a migration; 0 for a function
	Serves  int64  // of a migration; 0 for a function
	Text    string
	SHA256  string // hex
}

// servesPrefix begins the line in which a migration declares the oldest program that works
// on the schema as it is after it: "-- Serves: 60" for those whose newest migration is 60.
// A migration without one serves only programs that carry it. The newest one speaks for
// the whole schema, its functions and its grants. It may declare an older program only when
// everything that the older one calls, reads and writes is still there: a column of a table
// whose rows travel whole (route, attempt) is not such an addition.
const servesPrefix = "-- Serves: "

// serves reads the declaration of a migration.
func serves(version int64, text string) int64 {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") || strings.HasPrefix(line, "-- +goose") {
			break // the header is over
		}
		if number, found := strings.CutPrefix(line, servesPrefix); found {
			if oldest, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64); err == nil && oldest > 0 {
				return min(oldest, version)
			}
		}
	}
	return version
}

// MigrationFS is the folder of versioned migrations, for goose.
func MigrationFS() (fs.FS, error) { return fs.Sub(files, "migrations") }

// Migrations lists the versioned migrations, oldest first.
func Migrations() ([]File, error) { return list("migrations") }

// Functions lists the functions in the order in which they are applied.
func Functions() ([]File, error) { return list("functions") }

// Roles is the script that gives the cluster's roles what they are; they exist already.
func Roles() (string, error) { return text("roles/roles.sql") }

// Database is the script that prepares one database; {{database}} stands for its
// quoted name.
func Database() (string, error) { return text("roles/database.sql") }

// MatrixQuery reads the privilege matrix of a live database, one line a row.
func MatrixQuery() (string, error) { return text("roles/matrix.sql") }

// Matrix is the privilege matrix that every database must have, sorted.
func Matrix() ([]string, error) {
	all, err := text("privileges.golden")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Split(all, "\n"), func(line string) bool { return line == "" }), nil
}

func text(name string) (string, error) {
	raw, err := files.ReadFile(name)
	return string(raw), err
}

func list(dir string) ([]File, error) {
	entries, err := files.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	all := make([]File, 0, len(entries))
	for _, e := range entries {
		body, err := text(path.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256([]byte(body))
		number, _, _ := strings.Cut(e.Name(), "_")
		version, _ := strconv.ParseInt(number, 10, 64) // a function has no number
		all = append(all, File{
			Name: e.Name(), Version: version, Serves: serves(version, body), Text: body, SHA256: hex.EncodeToString(sum[:]),
		})
	}
	return all, nil
}
