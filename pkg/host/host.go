package host

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/host/secret"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
)

// Identity is what the host is. Every message must name exactly this target.
type Identity struct {
	Tenant         fleet.TenantID
	Instance       fleet.InstanceID
	Replica        fleet.ReplicaID
	Version        fleet.VersionID
	ManifestDigest fleet.Digest
	ArtifactDigest fleet.Digest
}

// Lease tells what the host knows of its own lease. *lifecycle.Client is one, and a
// lifecycle.Standing is a fixed one.
type Lease interface {
	Standing() lifecycle.Standing
}

// Config of a host. Everything but Operators, Credentials, Secrets and Log is
// required.
type Config struct {
	Identity    Identity
	Manifest    fleet.Manifest
	Signer      envelope.Signer
	Gateways    envelope.KeySet // who may send actions
	Operators   envelope.KeySet // who may sign decisions
	Journal     *journal.Journal
	Connector   connector.Connector
	Lease       Lease
	Capacity    int         // executions at once
	Credentials Credentials // at the start; SetCredentials changes them
	// Secrets resolves SecretRef for each execution. Without a reference the
	// connector gets no credential with the call.
	Secrets   secret.Provider
	SecretRef string
	// Retention says how long ended actions are kept in full; see Prune.
	Retention journal.Retention
	// DecisionAge is how old an operator's decision may be when it first comes in;
	// zero means 30 days.
	DecisionAge time.Duration
	// MaxDuration bounds an execution whatever its deadline says; zero means a day.
	MaxDuration time.Duration
	Now         func() time.Time
	Log         *slog.Logger
	// PlantUnsafe makes the host wrong on purpose. No configuration file sets it.
	PlantUnsafe Defects
}

// Host is one running host. New makes it, Handler serves it, Close ends it.
type Host struct {
	cfg    Config
	inputs inputs
	locks  keyed

	mu          sync.Mutex
	running     map[fleet.ActionID]*execution
	credentials Credentials
	inFlight    int           // slots taken, executions included
	draining    bool          // by the process's own end
	closed      bool          // nothing starts any more
	settled     chan struct{} // closed and replaced when a slot is given back
}

// New checks the configuration, compiles every input schema and makes a host. It
// starts nothing.
func New(cfg Config) (*Host, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxDuration <= 0 {
		cfg.MaxDuration = fleet.MaxTimeToLiveSeconds * time.Second
	}
	if cfg.DecisionAge <= 0 {
		cfg.DecisionAge = decisionAge
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	compiled, err := compileInputs(cfg.Manifest)
	if err != nil {
		return nil, err
	}
	return &Host{
		cfg: cfg, inputs: compiled, running: map[fleet.ActionID]*execution{}, settled: make(chan struct{}),
		credentials: cfg.Credentials,
	}, nil
}

func (c Config) check() error {
	missing := ""
	switch id := c.Identity; {
	case id.Tenant.IsZero() || id.Instance.IsZero() || id.Replica.IsZero() || id.Version.IsZero():
		missing = "an identity"
	case id.ManifestDigest.IsZero() || id.ArtifactDigest.IsZero():
		missing = "a digest of the release"
	case c.Signer.IsZero():
		missing = "an identity key"
	case len(c.Gateways) == 0:
		missing = "the keys of the gateways"
	case c.Journal == nil || c.Connector == nil || c.Lease == nil || c.Now == nil:
		missing = "a journal, connector, lease or clock"
	case c.Capacity < 1:
		missing = "a capacity of at least 1"
	case (c.SecretRef != "" || len(c.Credentials.Refs) > 0) && c.Secrets == nil:
		missing = "a provider for its credential"
	default:
		return c.Credentials.Validate()
	}
	return fleet.Invalidf("host.config", "the host cannot be made").Because("it has not %s", missing)
}

// InFlight is how many executions hold a slot now.
func (h *Host) InFlight() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inFlight
}

// Drain stops the host from taking new actions. Pinned work still comes in.
func (h *Host) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
}

// Draining reports whether new actions are refused, by Drain or by the operator.
func (h *Host) Draining() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.draining || h.cfg.Lease.Standing().Drain
}

// Idle waits until nothing is executed, or ctx ends.
func (h *Host) Idle(ctx context.Context) error {
	for {
		h.mu.Lock()
		n, settled := h.inFlight, h.settled
		h.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return fleet.Errorf(fleet.Unavailable, "host.busy", "actions are still being executed").Because("%d of them", n)
		}
	}
}

// Close stops everything: nothing new starts, calls under way are cut off, and
// what became of them is journaled. It waits for that. A connector that does not
// heed the end of a call's context holds it up.
func (h *Host) Close() {
	h.mu.Lock()
	h.closed = true
	for _, e := range h.running {
		e.cancel()
	}
	h.mu.Unlock()
	_ = h.Idle(context.Background())
}

// Ready is nil when an action could be executed now; otherwise it says which part
// is not ready. The lease is a part of it; Serviceable leaves it out.
func (h *Host) Ready(ctx context.Context) error {
	if err := h.Serviceable(ctx); err != nil {
		return err
	}
	if !h.cfg.Lease.Standing().Trusted(h.cfg.Now()) {
		return fleet.Errorf(fleet.Unavailable, "lease.untrusted", "the lease is not held, or ends too soon")
	}
	return nil
}

// Serviceable is Ready without the lease: what a heartbeat reports.
func (h *Host) Serviceable(ctx context.Context) error {
	if err := h.cfg.Journal.Err(); err != nil {
		return err
	}
	return h.cfg.Connector.Health(ctx)
}

// Report is what a heartbeat says of the host.
func (h *Host) Report(ctx context.Context) lifecycle.Report {
	ready := h.Serviceable(ctx) == nil
	h.mu.Lock()
	defer h.mu.Unlock()
	return lifecycle.Report{InFlight: uint32(h.inFlight), Ready: ready, Draining: h.draining}
}
