package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// Sender posts one message; *peer.Client is one.
type Sender interface {
	Post(ctx context.Context, endpoint peer.Endpoint, path string, body []byte) (peer.Reply, error)
}

// Epochs keeps the newest lease epoch durably, so that a host that was killed
// supersedes its own lease at once. *journal.Journal is one.
type Epochs interface {
	LastEpoch() (uint64, error)
	SaveEpoch(ctx context.Context, epoch uint64) error
}

// Report is what a beat says of the host.
type Report struct {
	InFlight uint32
	Ready    bool
	Draining bool // by the host's own wish, not the operator's
}

// ClientConfig of one host's lease. Everything but Log and Spread is required.
type ClientConfig struct {
	Register protocol.Register // LastEpoch and Starting are filled in
	Signer   envelope.Signer
	Server   peer.Endpoint
	Peer     envelope.DID // of the lifecycle service
	Sender   Sender
	Epochs   Epochs
	Report   func(ctx context.Context) Report
	Now      func() time.Time // with the monotonic clock
	Log      *slog.Logger
	Spread   func() float64 // 0..1, for jitter; nil means random
}

// Client keeps one lease: Run registers and beats until its context ends.
type Client struct {
	cfg ClientConfig

	talk sync.Mutex // one exchange at a time, so that sequences arrive in order

	mu       sync.Mutex
	standing Standing
	sequence uint64
	ttl      time.Duration
	changed  chan struct{} // closed and replaced when the standing changes
	last     error         // why there is no lease
	ready    bool          // the service was told so last
}

// NewClient makes a client. It sends nothing.
func NewClient(cfg ClientConfig) *Client {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Spread == nil {
		cfg.Spread = rand.Float64
	}
	return &Client{cfg: cfg, changed: make(chan struct{})}
}

// Standing is what is known of the lease now.
func (c *Client) Standing() Standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.standing
}

// Await waits until a lease is held, or says why none is when ctx ends.
func (c *Client) Await(ctx context.Context) error {
	for {
		c.mu.Lock()
		held, changed, last := c.standing.Trusted(c.cfg.Now()), c.changed, c.last
		c.mu.Unlock()
		if held {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if last == nil {
				last = fleet.Errorf(fleet.Unavailable, "lease.untrusted", "no lease was granted yet")
			}
			return last
		}
	}
}

func (c *Client) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

// marginOf is how long before its end a lease is not trusted any more.
func marginOf(ttl time.Duration) time.Duration { return ttl / 10 }

// granted takes a lease that was answered to a request of askedAt.
func (c *Client) granted(l protocol.Lease, askedAt time.Time) {
	c.update(func() {
		c.last, c.ttl, c.sequence = nil, l.TTL(), max(c.sequence, l.Sequence)
		c.standing = Standing{Epoch: l.Epoch, Held: lease.Hold(askedAt, l.TTL(), marginOf(l.TTL())), Drain: l.Intent == fleet.IntentDrain}
	})
}

// lost ends the trust, and keeps epoch and intent: executions go on (G06).
func (c *Client) lost(why error) {
	c.update(func() { c.standing.Held, c.last = lease.Held{}, why })
}

// Pauses between attempts to register.
const (
	firstPause = 200 * time.Millisecond
	longPause  = 5 * time.Second
)

// Run registers, then beats at a third of the lease's time with jitter, and
// registers again when the lease is lost. It returns when ctx ends; the lease is then
// still held, for Drain and Offline.
func (c *Client) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if !c.join(ctx) {
			return
		}
		c.beatUntilLost(ctx)
	}
}

// join registers until it succeeds; false when ctx ended first.
func (c *Client) join(ctx context.Context) bool {
	pause := firstPause
	var pending *request
	for {
		var err error
		if pending, err = c.register(ctx, pending); err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		c.lost(err)
		c.cfg.Log.Warn("registration failed", "code", fleet.CodeOf(err), "error", err.Error(), "next", fleet.AsError(err, "lease.untrusted").Next)
		if !c.sleep(ctx, c.jitter(pause)) {
			return false
		}
		pause = min(2*pause, longPause)
	}
}

// keepAsking is how long a request whose answer was lost is asked again as it is.
const keepAsking = time.Minute

// register sends a registration. When its fate is not known the same request is
// returned, to be sent again: the registry answers a repeat, and would call a new
// request a conflict with the lease that the lost one may have taken.
func (c *Client) register(ctx context.Context, pending *request) (*request, error) {
	now := c.cfg.Now()
	if pending == nil || now.Sub(pending.askedAt) > keepAsking {
		epoch, err := c.cfg.Epochs.LastEpoch()
		if err != nil {
			return nil, err
		}
		doc := c.cfg.Register
		doc.LastEpoch, doc.Starting = epoch, !c.cfg.Report(ctx).Ready
		if pending, err = c.request(doc); err != nil {
			return nil, err
		}
		pending.ready = !doc.Starting
	}
	c.talk.Lock()
	defer c.talk.Unlock()
	granted, err := c.exchange(ctx, pending)
	if err != nil {
		var refused *refusedError
		if errors.As(err, &refused) {
			return nil, err
		}
		return pending, err
	}
	if err := c.cfg.Epochs.SaveEpoch(ctx, granted.Epoch); err != nil {
		return pending, err
	}
	c.mu.Lock()
	c.sequence, c.ready = 0, pending.ready
	c.mu.Unlock()
	c.granted(granted, pending.askedAt)
	c.cfg.Log.Info("registered", "epoch", granted.Epoch, "intent", string(granted.Intent), "ttl_ms", granted.TTLMS)
	return nil, nil
}

// beatUntilLost beats until the lease is lost or ctx ends.
func (c *Client) beatUntilLost(ctx context.Context) {
	failing := false
	for {
		c.mu.Lock()
		wait := c.ttl / 3
		c.mu.Unlock()
		if failing {
			wait /= 4 // there is time for several more tries before the lease ends
		}
		if !c.sleep(ctx, c.jitter(wait)) {
			return
		}
		err := c.Beat(ctx)
		failing = err != nil
		if err == nil || ctx.Err() != nil {
			continue
		}
		c.cfg.Log.Warn("beat failed", "code", fleet.CodeOf(err), "error", err.Error())
		if fleet.Is(err, fleet.LeaseLost) || fleet.Is(err, fleet.Denied) {
			c.lost(err)
			return
		}
	}
}

// jitter spreads a pause over 80..100 % of it.
func (c *Client) jitter(d time.Duration) time.Duration {
	return d - time.Duration(c.cfg.Spread()*float64(d)/5)
}

func (c *Client) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
