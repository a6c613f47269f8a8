package lifecycle

import (
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
)

// Rate bounds control messages before they reach the database.
type Rate struct {
	PerSecond float64 // of one peer, once its burst is used
	Burst     float64 // of one peer
	Strangers float64 // per second, of all peers together that were never accepted
	Peers     int     // most peers remembered
}

// DefaultRate lets a host beat every second and register in a loop without harm.
func DefaultRate() Rate { return Rate{PerSecond: 5, Burst: 20, Strangers: 50, Peers: 50_000} }

// bucket is a token bucket.
type bucket struct {
	tokens float64
	at     time.Time
	known  bool // accepted by the registry before
}

func (b *bucket) take(now time.Time, perSecond, burst float64) (time.Duration, bool) {
	b.tokens = min(burst, b.tokens+max(now.Sub(b.at).Seconds(), 0)*perSecond)
	b.at = now
	if b.tokens < 1 {
		return time.Duration((1 - b.tokens) / perSecond * float64(time.Second)), false
	}
	b.tokens--
	return 0, true
}

// limiter keeps a bucket for each peer and one for all strangers, so that keys made
// up for the purpose cannot buy reads of the database.
type limiter struct {
	rate Rate

	mu        sync.Mutex
	peers     map[envelope.DID]*bucket
	strangers bucket
}

func newLimiter(r Rate) *limiter {
	return &limiter{rate: r, peers: map[envelope.DID]*bucket{}, strangers: bucket{tokens: r.Strangers}}
}

// take spends one message of a peer; false with the time until the next one.
func (l *limiter) take(did envelope.DID, now time.Time) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.peers[did]
	if b == nil || !b.known {
		if wait, ok := l.strangers.take(now, l.rate.Strangers, l.rate.Strangers); !ok {
			return wait, false
		}
	}
	if b == nil {
		if len(l.peers) >= l.rate.Peers {
			l.sweep(now)
		}
		b = &bucket{tokens: l.rate.Burst, at: now}
		l.peers[did] = b
	}
	return b.take(now, l.rate.PerSecond, l.rate.Burst)
}

// sweep forgets peers whose bucket has filled again, and strangers.
func (l *limiter) sweep(now time.Time) {
	idle := time.Duration(l.rate.Burst / l.rate.PerSecond * float64(time.Second))
	for did, b := range l.peers {
		if !b.known || now.Sub(b.at) > idle {
			delete(l.peers, did)
		}
	}
}

// known notes that the registry accepted a peer.
func (l *limiter) known(did envelope.DID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.peers[did]; b != nil {
		b.known = true
	}
}
