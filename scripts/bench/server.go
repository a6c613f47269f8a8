package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/pgcluster"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

// server is the private PostgreSQL of one run. It is seeded without durability and
// then started again with it, so that filling tables takes little of the time.
type server struct {
	cluster  *pgcluster.Cluster
	dir      string
	own      bool // dir was made here and goes with the server
	password string
	profile  bool
	log      io.Writer
}

const (
	templateDB     = "bench_template"
	maxConnections = 700
)

// newServer starts the server that is seeded. dir "" takes a temporary one.
func newServer(ctx context.Context, dir string, profile bool, log io.Writer) (*server, error) {
	s := &server{dir: dir, profile: profile, log: log, password: secret()}
	if dir == "" {
		made, err := os.MkdirTemp("", "aipfleet-bench-")
		if err != nil {
			return nil, err
		}
		if err := os.Chmod(made, 0o755); err != nil { // the server's account passes through it
			return nil, err
		}
		s.dir, s.own = filepath.Join(made, "cluster"), true
	}
	if err := s.start(ctx, true); err != nil {
		s.close()
		return nil, err
	}
	if err := s.template(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func secret() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // does not fail
	return hex.EncodeToString(b[:])
}

func (s *server) start(ctx context.Context, seeding bool) (err error) {
	s.cluster, err = pgcluster.Start(ctx, pgcluster.Config{
		Dir: s.dir, MaxConnections: maxConnections, Fast: seeding, Settings: s.settings(seeding),
	})
	return err
}

func (s *server) settings(seeding bool) []string {
	settings := []string{
		"shared_buffers=" + sharedBuffers(), "max_wal_size=16GB", "checkpoint_timeout=30min", "checkpoint_completion_target=0.9",
		"maintenance_work_mem=256MB", "max_locks_per_transaction=128",
	}
	if seeding { // nothing of it is measured
		return append(settings, "wal_level=minimal", "max_wal_senders=0", "autovacuum=off")
	}
	if s.profile {
		settings = append(settings, "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track=all",
			"pg_stat_statements.max=5000", "track_functions=all")
	}
	return settings
}

// template makes the database that every site is cloned from: the product's roles,
// schema and functions, made by the product's own migration.
func (s *server) template(ctx context.Context) error {
	if err := s.cluster.CreateDatabase(ctx, templateDB, ""); err != nil {
		return err
	}
	return migrate.Init(ctx, s.cluster.AdminDSN(templateDB), migrate.Passwords{
		Migrate: s.password, Control: s.password, Data: s.password, Lifecycle: s.password, Readonly: s.password,
	})
}

// makeDurable restarts the seeded server with default durability.
func (s *server) makeDurable(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.cluster.AdminDSN("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CHECKPOINT")
	_ = conn.Close(ctx)
	if err != nil {
		return err
	}
	stopping, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := s.cluster.Stop(stopping); err != nil {
		return err
	}
	return s.start(ctx, false)
}

// close ends the server whatever state it is in and removes what it wrote. It takes
// no context: it runs after an interrupt too.
func (s *server) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if s.cluster != nil {
		if err := s.cluster.Kill(); err != nil { // nobody needs its data
			fmt.Fprintln(s.log, "bench: the server could not be ended:", err)
		}
	}
	if !s.own {
		return
	}
	if err := pgcluster.RemoveDir(ctx, s.dir); err != nil {
		fmt.Fprintln(s.log, "bench: the cluster directory could not be removed:", err)
	}
	_ = os.RemoveAll(filepath.Dir(s.dir)) // empty now
}

// url is a role's connection string for one database.
func (s *server) url(role, database string) string {
	return s.cluster.DSN(role, s.password, database)
}
