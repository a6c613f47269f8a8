package exec

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Codes of what makes the connector unhealthy.
const (
	CodeStarting = "connector.starting"
	CodeManifest = connector.CodeManifest
	CodeClosed   = "connector.closed"
)

// Program is a verified program, ready to run.
type Program struct {
	Path string   // absolute
	Args []string // before the verb
	Dir  string   // working directory
}

// Config of an adapter. Everything but Env and Patience is required.
type Config struct {
	// Program makes the program ready and proves that it is the admitted one (G28).
	Program  func(ctx context.Context) (Program, error)
	Manifest fleet.Manifest
	Env      []string // the program's whole environment, NAME=value
	Log      *slog.Logger
	// Patience bounds the listing of tools and reconciling; zero means 10 s.
	Patience time.Duration
}

// Adapter is a connector that runs a program for each call. It is safe for concurrent
// use.
type Adapter struct {
	cfg    Config
	byCap  map[fleet.CapabilityID]fleet.Implementation
	redact connector.Redactor
	quit   chan struct{} // closed by Close
	done   chan struct{} // closed when nothing runs for Start any more
	begin  sync.Once
	once   sync.Once

	mu      sync.Mutex
	ready   Program
	health  error
	changed chan struct{} // closed and replaced when health changes
}

// New makes an adapter. It runs nothing: until Start it is not healthy.
func New(cfg Config) *Adapter {
	if cfg.Patience <= 0 {
		cfg.Patience = 10 * time.Second
	}
	a := &Adapter{
		cfg: cfg, byCap: map[fleet.CapabilityID]fleet.Implementation{}, quit: make(chan struct{}), done: make(chan struct{}),
		changed: make(chan struct{}), health: starting("it was not started yet"),
	}
	for _, i := range cfg.Manifest.Implementations {
		a.byCap[i.Capability] = i
	}
	return a
}

func starting(why string) error {
	return fleet.Errorf(fleet.Unavailable, CodeStarting, "the connector is not up").Because("%s", why)
}

// Start makes the program ready and compares its tools with the manifest, again and
// again until they agree. It returns at once; further calls do nothing.
func (a *Adapter) Start() { a.begin.Do(func() { go a.prepare() }) }

// Close ends Start's work. Calls under way end with their own contexts.
func (a *Adapter) Close() {
	a.begin.Do(func() { close(a.done) })
	a.once.Do(func() { close(a.quit) })
	<-a.done
	a.set(Program{}, fleet.Errorf(fleet.Unavailable, CodeClosed, "the connector is closed"))
}

// Renew does nothing: every call brings its credential.
func (a *Adapter) Renew() {}

// Health implements connector.Connector.
func (a *Adapter) Health(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health
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

func (a *Adapter) set(p Program, health error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready, a.health = p, health
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *Adapter) program() (Program, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ready.Path == "" {
		return a.ready, a.health
	}
	return a.ready, nil
}

const (
	firstPause = 100 * time.Millisecond
	longPause  = 10 * time.Second
)

func (a *Adapter) prepare() {
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
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, longPause) {
		err := a.try(ctx)
		if err == nil {
			return
		}
		a.set(Program{}, err)
		a.cfg.Log.Error("connector not ready", "error", err.Error(), "again_in", pause.String())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (a *Adapter) try(ctx context.Context) error {
	p, err := a.cfg.Program(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.ready = p
	a.mu.Unlock()
	offers, err := a.Discover(ctx)
	if err != nil {
		return err
	}
	if err := connector.Covers(a.cfg.Manifest, offers); err != nil {
		return err
	}
	a.set(p, nil)
	return nil
}

// Discover implements connector.Connector: the program lists {"tools": [{"name": …,
// "input_schema": …}]}.
func (a *Adapter) Discover(ctx context.Context) ([]connector.Offer, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Patience)
	defer cancel()
	ran, err := a.run(ctx, verbDiscover, Order{}, nil)
	if err != nil {
		return nil, err
	}
	if got := conclude(ran); got.Class != connector.Succeeded {
		return nil, starting("its tools cannot be listed: " + got.Why)
	}
	var said struct {
		Tools []struct {
			Name        string          `json:"name"`
			InputSchema json.RawMessage `json:"input_schema"`
		} `json:"tools"`
	}
	if err := envelope.DecodeStrict(ran.Output, envelope.Limits{}, &said); err != nil {
		return nil, starting("its tools cannot be read: " + fleet.Printable(err.Error(), 300))
	}
	var all []connector.Offer
	for _, t := range said.Tools {
		all = append(all, connector.Offer{Tool: t.Name, InputSchema: t.InputSchema})
	}
	return all, nil
}
