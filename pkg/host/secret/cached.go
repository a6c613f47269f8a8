package secret

import (
	"context"
	"sync"
	"time"
)

// Cached remembers credentials for a while, so that a busy host does not ask a remote
// provider for every call. Forget ends what is remembered: a credential that rolled.
type Cached struct {
	From Provider
	For  time.Duration
	Now  func() time.Time

	mu  sync.Mutex
	all map[string]remembered
}

type remembered struct {
	secret Secret
	until  time.Time
}

// Get implements Provider. Failures are not remembered.
func (c *Cached) Get(ctx context.Context, ref string) (Secret, error) {
	c.mu.Lock()
	had, ok := c.all[ref]
	c.mu.Unlock()
	if ok && c.Now().Before(had.until) {
		return had.secret, nil
	}
	s, err := c.From.Get(ctx, ref)
	if err != nil || c.For <= 0 {
		return s, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]remembered{}
	}
	c.all[ref] = remembered{s, c.Now().Add(c.For)}
	return s, nil
}

// Forget ends what is remembered.
func (c *Cached) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = nil
}
