package mcp

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Codes of what makes the connector unhealthy.
const (
	CodeStarting = "connector.starting" // the child is not up yet, or again
	CodeManifest = "connector.manifest" // a tool differs from what was admitted
	CodeClosed   = "connector.closed"
)

// Program is a verified program, ready to run.
type Program struct {
	Path string   // absolute
	Args []string // after the program's name
	Dir  string   // working directory
}

// Config of an adapter. Program, Manifest, Now and Log are required.
type Config struct {
	// Program makes the program ready before each start and proves that it is the
	// admitted one (G28).
	Program func(ctx context.Context) (Program, error)
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

// Adapter is a connector whose tools live in a child process.
type Adapter struct {
	cfg   Config
	byCap map[fleet.CapabilityID]fleet.Implementation
	quit  chan struct{} // closed by Close
	done  chan struct{} // closed when the supervisor ended, or never began
	once  sync.Once
	begin sync.Once

	mu      sync.Mutex
	child   *child // nil while none is up
	health  error
	changed chan struct{} // closed and replaced when child or health changes
	starts  int
}

// New makes an adapter. It starts nothing: until Start it is not healthy.
func New(cfg Config) *Adapter {
	if cfg.Patience <= 0 {
		cfg.Patience = 10 * time.Second
	}
	a := &Adapter{
		cfg: cfg, byCap: map[fleet.CapabilityID]fleet.Implementation{}, quit: make(chan struct{}),
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

func (a *Adapter) set(c *child, health error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.child, a.health = c, health
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *Adapter) current() (*child, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.child, a.health
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

// runOnce starts a child and stays with it until it ends or ctx does.
func (a *Adapter) runOnce(ctx context.Context) error {
	c, err := a.startChild(ctx)
	if err != nil {
		a.set(nil, err)
		return err
	}
	defer c.end()
	a.mu.Lock()
	a.starts++
	a.mu.Unlock()
	if err := a.compare(ctx, c); err != nil {
		a.set(c, err)
		a.cfg.Log.Error("connector differs from its manifest", "error", err.Error())
	} else {
		a.set(c, nil)
	}
	select {
	case <-c.mute:
		a.set(nil, starting("its process ended, or stopped speaking"))
		return starting("its process ended, or stopped speaking")
	case <-ctx.Done():
		a.set(nil, fleet.Errorf(fleet.Unavailable, CodeClosed, "the connector is closed"))
		return ctx.Err()
	}
}

// client is the MCP client side; it offers the server nothing.
func (a *Adapter) client() *sdk.Client {
	return sdk.NewClient(&sdk.Implementation{Name: "aiphost", Version: "1"}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
}
