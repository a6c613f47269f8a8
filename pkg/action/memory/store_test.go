package memory_test

import (
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action/actiontest"
	"github.com/aipfleet/aipfleet/pkg/action/memory"
)

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(time.Microsecond)
	return c.at
}

func (c *clock) elapse(_ *testing.T, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func TestStore(t *testing.T) {
	actiontest.Run(t, func(*testing.T) actiontest.Harness {
		c := &clock{at: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
		return actiontest.Harness{Store: memory.New(c.now), Elapse: c.elapse}
	})
}
