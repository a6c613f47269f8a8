package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Limits and defaults of Start.
const (
	defaultMaxConnections = 200
	startTimeout          = 60 * time.Second
	portAttempts          = 5
)

// Config says what Start should run.
type Config struct {
	// Dir is the cluster directory; made when it does not exist.
	Dir string
	// Port on 127.0.0.1; 0 takes the port of the last run when it is free,
	// otherwise any free one.
	Port int
	// Logger receives one line a step; nil is silent. The server itself writes
	// to postgres.log in Dir.
	Logger io.Writer
	// MaxConnections of the server; 0 is 200.
	MaxConnections int
	// Fast gives up durability for speed: for tests whose data nobody needs
	// after a crash of the machine. A kill of the server loses nothing
	// that it had handed to the operating system.
	Fast bool
	// Detach lets the server outlive the caller; StopDir ends it.
	Detach bool
	// Settings are added to the server's own, each "name=value"; the last of a name
	// wins. For measurements, whose server is sized for the machine.
	Settings []string
}

// Start runs the cluster in cfg.Dir and returns when a client could log in. The
// context bounds the start only (at most one minute), never the life of the
// server. It fails with CodeRunning when the directory already has a server.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	binaries, err := Find()
	if err != nil {
		return nil, err
	}
	who, err := serverAccount()
	if err != nil {
		return nil, err
	}
	p, err := preparePlace(cfg.Dir, who)
	if err != nil {
		return nil, err
	}
	if pid, alive := p.runningPID(); alive {
		return nil, fail(CodeRunning, "a server already runs in "+p.dir, fmt.Errorf("process %d", pid), "attach to it, or stop it first")
	}
	s := starter{cfg: cfg, binaries: binaries, who: who, place: p}
	return s.start(ctx)
}

// starter carries the decisions of one Start.
type starter struct {
	cfg      Config
	binaries Binaries
	who      account
	place    place
}

func (s starter) start(ctx context.Context) (*Cluster, error) {
	password, err := s.place.superuserPassword()
	if err != nil {
		return nil, err
	}
	if !s.place.initialised() {
		s.logf("initialising a PostgreSQL %d cluster in %s", s.binaries.Version, s.place.data())
		if err := s.place.initialise(ctx, s.binaries, s.who, password); err != nil {
			return nil, err
		}
	}
	var last error
	for range portAttempts {
		port, err := s.choosePort()
		if err != nil {
			return nil, err
		}
		cluster, err := s.startOn(ctx, port, password)
		if err == nil {
			return cluster, nil
		}
		last = err
		if s.cfg.Port != 0 || portFree(port) {
			break // the port was not the reason
		}
	}
	return nil, last
}

func (s starter) startOn(ctx context.Context, port int, password string) (*Cluster, error) {
	child, err := s.spawn(port)
	if err != nil {
		return nil, err
	}
	c := &Cluster{place: s.place, port: port, password: password, pid: child.pid, child: child}
	if err := c.waitReady(ctx); err != nil {
		return nil, errors.Join(err, c.Kill())
	}
	record := state{Port: port, BinDir: s.binaries.Dir, Detached: s.cfg.Detach}
	if err := s.place.writeState(record); err != nil {
		return nil, errors.Join(err, c.Kill())
	}
	s.logf("PostgreSQL %d listens on 127.0.0.1:%d, process %d", s.binaries.Version, port, c.pid)
	return c, nil
}

// choosePort prefers the configured port, then that of the last run.
func (s starter) choosePort() (int, error) {
	if s.cfg.Port != 0 {
		return s.cfg.Port, nil
	}
	if last, err := s.place.readState(); err == nil && last.Port > 0 && portFree(last.Port) {
		return last.Port, nil
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fail(CodeStart, "no free port on loopback", err, "")
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func portFree(port int) bool {
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// settings are passed on the command line, so that a restart of an old directory
// runs under today's settings.
func (s starter) settings(port int) []string {
	connections := s.cfg.MaxConnections
	if connections == 0 {
		connections = defaultMaxConnections
	}
	settings := []string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=",
		fmt.Sprintf("port=%d", port), fmt.Sprintf("max_connections=%d", connections),
		"shared_buffers=256MB", "password_encryption=scram-sha-256",
		"logging_collector=off", "log_destination=stderr", "log_line_prefix=%m [%p] %u@%d ",
		"timezone=UTC", "log_timezone=UTC", "max_wal_size=2GB",
	}
	if s.cfg.Fast {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off")
	}
	return append(settings, s.cfg.Settings...)
}

func (s starter) logf(format string, args ...any) {
	if s.cfg.Logger != nil {
		fmt.Fprintf(s.cfg.Logger, format+"\n", args...)
	}
}
