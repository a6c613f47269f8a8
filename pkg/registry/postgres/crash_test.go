package postgres_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/pgcluster"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

// crashing is a durable server of its own that a test may kill, with one fleet on it.
type crashing struct {
	*database
	t       *testing.T
	dir     string
	cluster *pgcluster.Cluster
}

func newCrashing(t *testing.T) *crashing {
	t.Helper()
	dir, err := os.MkdirTemp("", "aipfleet-crash-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the server may run as another account
		t.Fatal(err)
	}
	c := &crashing{database: &database{name: "fleet"}, t: t, dir: dir}
	c.start()
	t.Cleanup(func() {
		if err := c.cluster.Kill(); err != nil {
			t.Error(err)
		}
		if err := pgcluster.RemoveDir(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	if err := c.cluster.CreateDatabase(t.Context(), c.name, ""); err != nil {
		t.Fatal(err)
	}
	err = migrate.Init(t.Context(), c.cluster.AdminDSN(c.name), migrate.Passwords{
		Migrate: password, Control: password, Data: password, Lifecycle: password, Readonly: password,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.connect()
	return c
}

// start runs the server again, on the port of before. Its commits reach the operating
// system before they are answered and survive the killed server there; that they reach the
// disk matters when the machine dies, which no test here can do.
func (c *crashing) start() {
	c.t.Helper()
	var err error
	if c.cluster, err = pgcluster.Start(context.Background(), pgcluster.Config{Dir: c.dir, Settings: []string{"fsync=off"}}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *crashing) dsn(role string) string { return c.cluster.DSN(role, password, c.name) }

// connect opens the fleet's registries. It is done once: their pools survive a restart.
func (c *crashing) connect() {
	c.t.Helper()
	var err error
	if c.admin, err = pgxpool.New(context.Background(), c.cluster.AdminDSN(c.name)); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(c.admin.Close)
	c.control = c.open(c.t, postgres.Config{ControlURL: c.dsn("aip_control")})
	c.data = c.open(c.t, postgres.Config{DataURL: c.dsn("aip_data"), Connections: 16})
	c.lifecycle = c.open(c.t, postgres.Config{LifecycleURL: c.dsn("aip_lifecycle")})
	c.read = c.open(c.t, postgres.Config{ReadURL: c.dsn("aip_readonly")})
}

// ready waits until every registry answers again.
func (c *crashing) ready() {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		_, err := c.read.Status(c.t.Context())
		if err == nil {
			_, err = c.data.Expire(c.t.Context(), 1)
		}
		if err == nil {
			err = c.admin.Ping(c.t.Context())
		}
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("the server does not come back: %v", err)
		}
		pauseFor(c.t, 20*time.Millisecond)
	}
}

func pauseFor(t *testing.T, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// A blow is one thing that goes wrong at the cut.
type blow struct {
	name   string
	strike func(c *crashing, backend int) error
	down   bool // the server stays away until it is started again
}

func blows() []blow {
	return []blow{
		{name: "the connection is cut", strike: func(*crashing, int) error { return nil }},
		{name: "the backend is terminated", strike: func(c *crashing, backend int) error {
			conn, err := pgx.Connect(context.Background(), c.cluster.AdminDSN(c.name))
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close(context.Background()) }()
			_, err = conn.Exec(context.Background(), "SELECT pg_terminate_backend($1, 5000)", backend)
			return err
		}},
		{name: "the backend is killed", strike: func(c *crashing, backend int) error {
			witness, err := pgx.Connect(context.Background(), c.cluster.AdminDSN(c.name))
			if err != nil {
				return err
			}
			defer func() { _ = witness.Close(context.Background()) }()
			if err := syscall.Kill(backend, syscall.SIGKILL); err != nil {
				return err
			}
			return c.resets(witness)
		}},
		{name: "the server is killed", down: true, strike: func(c *crashing, _ int) error { return c.cluster.Kill() }},
	}
}

// resets waits until the server has noticed that it lost a backend, and ends every session:
// until then it answers as if nothing had happened.
func (c *crashing) resets(witness *pgx.Conn) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); pauseFor(c.t, 5*time.Millisecond) {
		if witness.Ping(context.Background()) != nil {
			return nil
		}
	}
	return errors.New("the server does not notice that a backend was killed")
}

// struck arms the proxy with a blow, runs the verb, and brings the server back. It
// fails when the blow did not fall.
func (c *crashing) struck(t *testing.T, p *pgclustertest.Proxy, at pgclustertest.Cut, b blow, verb func()) {
	t.Helper()
	before, failed := p.Cuts(), make(chan error, 1)
	p.Arm(at, func(backend int) { failed <- b.strike(c, backend) })
	verb()
	p.Disarm()
	if p.Cuts() != before+1 {
		t.Fatalf("%d cuts: no fault was injected", p.Cuts()-before)
	}
	if err := <-failed; err != nil {
		t.Fatalf("the blow failed: %v", err)
	}
	if b.down {
		c.start()
	}
	c.ready()
}
