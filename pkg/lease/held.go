package lease

import "time"

// Held is a host's trust in its own lease. It counts from before the host asked, on
// the monotonic clock, and ends a margin early, so that the host always stops before
// the registry does (G24). The zero value is never trusted; only Hold makes another.
type Held struct{ until time.Time }

// Hold makes the trust that an answered request gives. askedAt must come from
// time.Now before the request left, so that it carries the monotonic clock; ttl is
// the one the registry answered.
func Hold(askedAt time.Time, ttl, margin time.Duration) Held {
	if askedAt.IsZero() || margin < 0 || ttl <= margin {
		return Held{}
	}
	return Held{until: askedAt.Add(ttl - margin)}
}

// Trusted reports whether the host may still start work under the lease.
func (h Held) Trusted(now time.Time) bool { return !h.until.IsZero() && now.Before(h.until) }

// Until returns the first instant at which the lease is no longer trusted; zero for
// none.
func (h Held) Until() time.Time { return h.until }
