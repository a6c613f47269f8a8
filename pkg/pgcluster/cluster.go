package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// pollInterval is how often a state that nobody announces is looked at.
const pollInterval = 20 * time.Millisecond

// Cluster is a running private server. Its methods may be called from any
// goroutine.
type Cluster struct {
	place    place
	port     int
	password string
	pid      int
	child    *child // nil when a previous process started the server
}

// PID is the process id of the server.
func (c *Cluster) PID() int { return c.pid }

// Port is the port on 127.0.0.1.
func (c *Cluster) Port() int { return c.port }

// Dir is the cluster directory, absolute.
func (c *Cluster) Dir() string { return c.place.dir }

// LogPath is the file that the server logs to.
func (c *Cluster) LogPath() string { return c.place.log() }

// AdminDSN is a connection string of the superuser for the database. It contains
// the password: do not print it.
func (c *Cluster) AdminDSN(db string) string { return c.DSN(superuser, c.password, db) }

// DSN is a connection string of a role for the database.
func (c *Cluster) DSN(role, password, db string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(role, password),
		Host:     "127.0.0.1:" + strconv.Itoa(c.port),
		Path:     "/" + db,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// waitReady returns when the superuser could log in, or the server ended, or the
// context ended.
func (c *Cluster) waitReady(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var last error
	for {
		conn, err := pgx.Connect(ctx, c.AdminDSN("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-c.ended():
			return fail(CodeStart, "the server ended while starting", errors.New(c.logTail()), "look at "+c.place.log())
		case <-ctx.Done():
			return fail(CodeStart, "the server did not become ready", errors.Join(ctx.Err(), last), "look at "+c.place.log())
		case <-tick.C:
		}
	}
}

// ended is closed when a child server has been reaped; nil, which blocks, for
// one that was attached.
func (c *Cluster) ended() <-chan struct{} {
	if c.child == nil {
		return nil
	}
	return c.child.done
}

// Stop ends the server with a fast shutdown: sessions are terminated, data is
// flushed. It returns when the process is gone. A server that is gone already is
// no error. When the context ends first, the server may still be stopping.
func (c *Cluster) Stop(ctx context.Context) error {
	if !c.alive() || !signal(c.pid, syscall.SIGINT) {
		return nil
	}
	return c.waitGone(ctx)
}

// Kill ends every process of the server at once, without any flush, as a crash
// would. It returns when they are gone.
func (c *Cluster) Kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if !c.alive() || !signal(c.pid, syscall.SIGSTOP) {
		return nil
	}
	backends := childrenOf(c.pid)
	for _, pid := range backends {
		signal(pid, syscall.SIGKILL)
	}
	signal(c.pid, syscall.SIGKILL)
	if err := c.waitGone(ctx); err != nil {
		return err
	}
	return waitAllGone(ctx, backends)
}

// alive reports whether the server's process still runs and is still ours.
func (c *Cluster) alive() bool {
	select {
	case <-c.ended():
		return false
	default:
	}
	if c.child != nil {
		return true
	}
	pid, alive := c.place.runningPID()
	return alive && pid == c.pid
}

func (c *Cluster) waitGone(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for c.alive() {
		select {
		case <-c.ended():
		case <-tick.C:
		case <-ctx.Done():
			return fail(CodeStop, fmt.Sprintf("the server, process %d, did not end", c.pid), ctx.Err(), "look at "+c.place.log())
		}
	}
	if c.child != nil {
		return nil
	}
	// A server that is not our child removes its pid file a moment before it ends.
	return waitAllGone(ctx, []int{c.pid})
}

// logTail is the end of the server's log, for an error message.
func (c *Cluster) logTail() string {
	text, err := os.ReadFile(c.place.log())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}
