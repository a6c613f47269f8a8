package mcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Codes of what makes the connector unhealthy.
const (
	CodeStarting = "connector.starting"   // the child is not up yet, or again
	CodeManifest = connector.CodeManifest // a tool differs from what was admitted
	CodeClosed   = "connector.closed"
)

// Program is a verified program, ready to run.
type Program struct {
	Path string   // absolute
	Args []string // after the program's name
	Dir  string   // working directory
}

// Config of an adapter. Program or Remote, Manifest, Now and Log are required.
type Config struct {
	// Program makes the program ready before each start and proves that it is the
	// admitted one (G28).
	Program func(ctx context.Context) (Program, error)
	// Remote is set instead when the server is not the host's own process.
	Remote *Remote
	// Env is the child's whole environment, NAME=value.
	Env []string
	// Secrets are added to the environment at each start: name to value.
	Secrets  func(ctx context.Context) (map[string]connector.Secret, error)
	Manifest fleet.Manifest
	Log      *slog.Logger
	Now      func() time.Time
	// Patience bounds start-up, listing of tools and reconciling; zero means 10 s.
	Patience time.Duration
	// Stderr also receives the child's log, secrets struck out; may be nil.
	Stderr io.Writer
}

// Adapter is a connector whose tools are those of an MCP server.
type Adapter struct {
	cfg   Config
	byCap map[fleet.CapabilityID]fleet.Implementation
	renew chan struct{} // Renew was called
	quit  chan struct{} // closed by Close
	done  chan struct{} // closed when the supervisor ended, or never began
	once  sync.Once
	begin sync.Once

	redact connector.Redactor // of every credential that was ever given to the server

	mu      sync.Mutex
	link    *link // nil while none is up
	health  error
	changed chan struct{} // closed and replaced when link or health changes
	starts  int
}

// New makes an adapter. It starts nothing: until Start it is not healthy.
func New(cfg Config) *Adapter {
	if cfg.Patience <= 0 {
		cfg.Patience = 10 * time.Second
	}
	a := &Adapter{
		cfg: cfg, byCap: map[fleet.CapabilityID]fleet.Implementation{}, quit: make(chan struct{}), renew: make(chan struct{}, 1),
		done: make(chan struct{}), changed: make(chan struct{}), health: starting("it was not started yet"),
	}
	for _, i := range cfg.Manifest.Implementations {
		a.byCap[i.Capability] = i
	}
	return a
}

// Start begins to supervise the child and returns at once; Health tells when it is
// up. Further calls do nothing.
func (a *Adapter) Start() { a.begin.Do(func() { go a.supervise() }) }

func starting(why string) error {
	return fleet.Errorf(fleet.Unavailable, CodeStarting, "the connector is not up").Because("%s", why)
}

// Close ends the child: its input is closed first, then it is told, then killed.
// It waits for the end.
func (a *Adapter) Close() {
	a.begin.Do(func() { close(a.done) })
	a.once.Do(func() { close(a.quit) })
	<-a.done
}

// Renew opens a new session, in a new process when the server is the host's own, so
// that it gets the credentials as they are now. No call is taken meanwhile; what is
// under way is waited for, for up to a minute.
func (a *Adapter) Renew() {
	select {
	case a.renew <- struct{}{}:
	default: // it is noted already
	}
}

// Health implements connector.Connector.
func (a *Adapter) Health(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health
}

// Starts is how often a child was started.
func (a *Adapter) Starts() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.starts
}

// AwaitHealthy waits until Health is nil, or returns what Health said last.
func (a *Adapter) AwaitHealthy(ctx context.Context) error {
	for {
		a.mu.Lock()
		health, changed := a.health, a.changed
		a.mu.Unlock()
		if health == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return health
		}
	}
}

func (a *Adapter) set(l *link, health error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.link, a.health = l, health
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *Adapter) current() (*link, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.link, a.health
}

// Pauses between starts of a child that does not stay.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 10 * time.Second
	stayed     = time.Minute // a child that ran this long starts the pauses anew
)

// supervise keeps one child running until Close.
func (a *Adapter) supervise() {
	defer close(a.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-a.quit:
			cancel()
		case <-ctx.Done():
		}
	}()
	pause := firstPause
	for {
		began := a.cfg.Now()
		err := a.runOnce(ctx)
		if ctx.Err() != nil {
			a.set(nil, fleet.Errorf(fleet.Unavailable, CodeClosed, "the connector is closed"))
			return
		}
		if errors.Is(err, errRenewed) {
			continue
		}
		if a.cfg.Now().Sub(began) > stayed {
			pause = firstPause
		}
		a.cfg.Log.Warn("connector ended", "error", err.Error(), "restart_in", pause.String())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, longPause)
	}
}

// errRenewed ends a session that is to be opened again at once.
var errRenewed = errors.New("its credentials are renewed")

const (
	// relisting is how often the tools of a remote server are compared again: nobody
	// tells when it is another one.
	relisting = time.Minute
	// renewing bounds the wait for calls before a session is opened again.
	renewing = time.Minute
)

// runOnce opens a session and stays with it until it ends, is renewed, or ctx ends.
func (a *Adapter) runOnce(ctx context.Context) error {
	l, err := a.open(ctx)
	if err != nil {
		a.set(nil, err)
		return err
	}
	defer l.end()
	a.mu.Lock()
	a.starts++
	a.mu.Unlock()
	var again <-chan time.Time
	if l.server == nil {
		ticker := time.NewTicker(relisting)
		defer ticker.Stop()
		again = ticker.C
	}
	for {
		a.check(ctx, l)
		select {
		case <-l.mute:
			a.set(nil, starting("its process ended, or stopped speaking"))
			return starting("its process ended, or stopped speaking")
		case <-ctx.Done():
			a.set(nil, fleet.Errorf(fleet.Unavailable, CodeClosed, "the connector is closed"))
			return ctx.Err()
		case <-a.renew:
			a.set(l, starting("its credentials are being renewed"))
			a.settle(ctx, l)
			a.set(nil, starting("its credentials are being renewed"))
			return errRenewed
		case <-l.relist:
		case <-again:
		}
	}
}

func (a *Adapter) settle(ctx context.Context, l *link) {
	ctx, done := context.WithTimeout(ctx, renewing)
	defer done()
	l.settle(ctx)
}

// check compares the tools with the manifest and says so in the adapter's health.
func (a *Adapter) check(ctx context.Context, l *link) {
	err := a.compare(ctx, l)
	if err != nil {
		a.cfg.Log.Error("connector differs from its manifest", "error", err.Error())
	}
	a.set(l, err)
}
