// Package pgclustertest answers: how does a test get a PostgreSQL database of
// its own?
//
// One fast server runs for each test binary, started when the first test asks
// for it and ended by Main. Every test takes its own database, cloned from a
// template that the binary builds once.
//
// What it does not own: the schema of a template; the caller builds it.
package pgclustertest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/pgcluster"
)

const timeout = 2 * time.Minute

// server is the one server of this test binary. It is process-wide on purpose:
// the testing package gives tests of one binary no other place to share.
type server struct {
	mu        sync.Mutex
	dir       string
	cluster   *pgcluster.Cluster
	err       error
	templates map[string]*template
	databases atomic.Int64
	free      map[string][]string // databases that were given back, by template
}

type template struct {
	once sync.Once
	name string
	err  error
}

var shared = server{templates: map[string]*template{}, free: map[string][]string{}}

// Main runs the tests and then ends the shared server, if any test started it.
// Use it as: func TestMain(m *testing.M) { os.Exit(pgclustertest.Main(m)) }.
func Main(m *testing.M) int {
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgclustertest:", err)
		return max(code, 1)
	}
	return code
}

// Shared is the server of this test binary. It fails the test when there is
// none to be had.
func Shared(t testing.TB) *pgcluster.Cluster {
	t.Helper()
	cluster, err := shared.start()
	if err != nil {
		t.Fatalf("no PostgreSQL server for this test: %v", err)
	}
	return cluster
}

// Template builds a database once for each key in this test binary and gives its
// name. build must close its connections before it returns.
func Template(t testing.TB, key string, build func(ctx context.Context, adminDSN string) error) string {
	t.Helper()
	cluster := Shared(t)
	entry := shared.template(key)
	entry.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if entry.err = cluster.CreateDatabase(ctx, entry.name, ""); entry.err == nil {
			entry.err = build(ctx, cluster.AdminDSN(entry.name))
		}
	})
	if entry.err != nil {
		t.Fatalf("template %s: %v", key, entry.err)
	}
	return entry.name
}

// NewDatabase makes a database for this test, cloned from the template ("" is
// empty), and drops it when the test ends.
func NewDatabase(t testing.TB, template string) string {
	t.Helper()
	cluster := Shared(t)
	name := fmt.Sprintf("test_%d", shared.databases.Add(1))
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := cluster.CreateDatabase(ctx, name, template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := cluster.DropDatabase(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return name
}

// LendDatabase gives a database cloned from the template, or one that an earlier test gave
// back: making one costs many times what emptying one does. When the test ends, restore
// makes it as it was, after everything that the test opened on it was closed; false leaves
// it to be dropped.
func LendDatabase(t testing.TB, template string, restore func(adminDSN string) bool) string {
	t.Helper()
	cluster := Shared(t)
	name := shared.take(template)
	if name == "" {
		name = fmt.Sprintf("test_%d", shared.databases.Add(1))
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := cluster.CreateDatabase(ctx, name, template); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if restore(cluster.AdminDSN(name)) {
			shared.give(template, name)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := cluster.DropDatabase(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return name
}

func (s *server) take(template string) (name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free[template]); n > 0 {
		name, s.free[template] = s.free[template][n-1], s.free[template][:n-1]
	}
	return name
}

func (s *server) give(template, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free[template] = append(s.free[template], name)
}

func (s *server) template(key string) *template {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.templates[key]
	if !ok {
		entry = &template{name: fmt.Sprintf("template_%d", len(s.templates)+1)}
		s.templates[key] = entry
	}
	return entry
}

func (s *server) start() (*pgcluster.Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil && s.err == nil {
		s.cluster, s.err = s.launch()
	}
	return s.cluster, s.err
}

func (s *server) launch() (*pgcluster.Cluster, error) {
	dir, err := os.MkdirTemp("", "aipfleet-pgtest-")
	if err != nil {
		return nil, err
	}
	s.dir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // the server may run as another account
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return pgcluster.Start(ctx, pgcluster.Config{Dir: dir, Fast: true})
}

func (s *server) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if s.cluster != nil {
		if err := s.cluster.Stop(ctx); err != nil {
			return err
		}
	}
	if err := pgcluster.RemoveDir(ctx, s.dir); err != nil {
		return err
	}
	s.dir, s.cluster = "", nil
	return nil
}
