package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/schema"
)

// SchemaMin is the oldest schema version on which this binary works. The newest is
// the newest migration that it carries, or any later schema that declares to serve it.
const SchemaMin = 90

// SchemaMax is the newest schema version on which this binary works.
func SchemaMax() (int64, error) {
	migrations, err := schema.Migrations()
	if err != nil || len(migrations) == 0 {
		return 0, fleet.Errorf(fleet.Internal, "registry.schema", "this binary carries no migrations")
	}
	return migrations[len(migrations)-1].Version, nil
}

// Querier is a connection or a pool.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// MigrationState is where one file stands.
type MigrationState string

// Migration states.
const (
	MigrationApplied MigrationState = "applied"
	MigrationPending MigrationState = "pending"
	MigrationEdited  MigrationState = "edited"  // its text is not the one that was applied
	MigrationForeign MigrationState = "unknown" // applied, and this binary does not carry it
)

// SchemaFile is one migration or function and its state in the database.
type SchemaFile struct {
	Name      string         `json:"name"`
	Version   int64          `json:"version"` // 0 for a function
	State     MigrationState `json:"state"`
	AppliedAt time.Time      `json:"applied_at,omitzero"`
}

// SchemaReport compares the database's schema with this binary's.
type SchemaReport struct {
	Current int64        `json:"current"` // 0: not migrated
	Min     int64        `json:"min"`     // of this binary
	Max     int64        `json:"max"`
	Serves  int64        `json:"serves"` // the oldest Max of a binary that the database's schema serves
	Files   []SchemaFile `json:"files"`
}

// ReadSchema reads what was applied. A database without the schema reports Current 0.
func ReadSchema(ctx context.Context, db Querier) (SchemaReport, error) {
	top, err := SchemaMax()
	if err != nil {
		return SchemaReport{}, err
	}
	report := SchemaReport{Min: SchemaMin, Max: top}
	applied, err := readApplied(ctx, db)
	if err != nil {
		return report, err
	}
	migrations, err := schema.Migrations()
	if err != nil {
		return report, err
	}
	functions, err := schema.Functions()
	if err != nil {
		return report, err
	}
	for _, f := range append(migrations, functions...) {
		have, ok := applied[f.Name]
		delete(applied, f.Name)
		row := SchemaFile{Name: f.Name, Version: f.Version, State: MigrationPending, AppliedAt: have.at}
		if ok {
			row.State = MigrationApplied
			report.at(have)
		}
		if ok && have.sha256 != f.SHA256 {
			row.State = MigrationEdited
		}
		report.Files = append(report.Files, row)
	}
	for name, have := range applied {
		report.Files = append(report.Files, SchemaFile{Name: name, Version: have.version, State: MigrationForeign, AppliedAt: have.at})
		report.at(have)
	}
	slices.SortFunc(report.Files, func(a, b SchemaFile) int { return strings.Compare(a.Name, b.Name) })
	return report, nil
}

// at moves the report up to an applied file. Its newest migration speaks for the schema.
func (r *SchemaReport) at(f appliedFile) {
	if f.version > r.Current {
		r.Current, r.Serves = f.version, f.serves
	}
}

type appliedFile struct {
	version, serves int64
	sha256          string
	at              time.Time
}

func readApplied(ctx context.Context, db Querier) (map[string]appliedFile, error) {
	var found bool
	err := db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'aip' AND tablename = 'schema_file')`).Scan(&found)
	if err != nil {
		return nil, refused("registry.schema", "the schema could not be read", err)
	}
	applied := map[string]appliedFile{}
	if !found {
		return applied, nil
	}
	// A schema of before the column existed serves its own version only.
	rows, err := db.Query(ctx, `SELECT name, version, sha256, applied_at, COALESCE(NULLIF((to_jsonb(f) ->> 'serves')::bigint, 0), version)
		FROM aip.schema_file f`)
	if err != nil {
		return nil, refused("registry.schema", "the schema could not be read", err)
	}
	var name string
	var file appliedFile
	_, err = pgx.ForEachRow(rows, []any{&name, &file.version, &file.sha256, &file.at, &file.serves}, func() error {
		file.at = file.at.UTC()
		applied[name] = file
		return nil
	})
	if err != nil {
		return nil, refused("registry.schema", "the schema could not be read", err)
	}
	return applied, nil
}

// Applicable refuses when migrations must not be applied: an applied one was edited
// since, or the database is newer than this binary.
func (r SchemaReport) Applicable() error {
	for _, f := range r.Files {
		switch {
		case f.Version > 0 && f.State == MigrationEdited:
			return fleet.Errorf(fleet.Conflict, "registry.migration_edited", "migration %s is not the one that was applied", f.Name).
				Advise("use the binary that matches the database, or restore the file")
		case f.Version > 0 && f.State == MigrationForeign:
			return newer(f.Version, r.Max)
		}
	}
	return nil
}

// Newer reports whether the database was migrated further than this binary knows.
func (r SchemaReport) Newer() bool { return r.Current > r.Max }

// Usable refuses when a process must not work on the schema. On a newer schema that
// declares to serve this binary the functions may be newer, and none may be missing.
func (r SchemaReport) Usable() error {
	switch {
	case r.Current == 0:
		return fleet.Errorf(fleet.Conflict, "registry.not_migrated", "the database holds no registry").
			Because("nothing was ever applied to it").Advise("aipctl registry init")
	case r.Current < r.Min:
		return fleet.Errorf(fleet.Conflict, "registry.not_migrated", "the database has schema version %d, this binary needs %d", r.Current, r.Min).
			Advise("aipctl registry migrate")
	case r.Newer() && r.Serves > r.Max:
		return newer(r.Current, r.Max).Because("it serves programs from version %d on", r.Serves)
	}
	for _, f := range r.Files {
		switch {
		case r.accepts(f):
		case r.Newer():
			return newer(r.Current, r.Max).Because("%s in the database is %s", f.Name, f.State)
		default:
			return fleet.Errorf(fleet.Conflict, "registry.not_migrated", "%s in the database is not the one of this binary", f.Name).
				Because("it is %s", f.State).Advise("aipctl registry migrate")
		}
	}
	return nil
}

// accepts reports whether one file is as a process needs it.
func (r SchemaReport) accepts(f SchemaFile) bool {
	switch f.State {
	case MigrationApplied:
		return true
	case MigrationForeign:
		return r.Newer()
	case MigrationEdited: // a newer schema has newer functions; what was migrated stays as it was
		return f.Version == 0 && r.Newer()
	}
	return f.Version > r.Current
}

func newer(current, top int64) *fleet.Error {
	return fleet.Errorf(fleet.Conflict, "registry.schema_newer", "the database has schema version %d, this binary knows %d", current, top).
		Advise("use a newer binary")
}

// Problems lists what is not as this binary has it.
func (r SchemaReport) Problems() []string {
	if r.Current == 0 {
		return []string{"the database is not migrated"}
	}
	var problems []string
	for _, f := range r.Files {
		if f.State != MigrationApplied {
			problems = append(problems, fmt.Sprintf("%s is %s", f.Name, f.State))
		}
	}
	return problems
}
