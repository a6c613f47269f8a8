package registrytest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/registry/memory"
)

// handClock is a clock that only SetNow moves.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *handClock) Set(t time.Time) { c.mu.Lock(); defer c.mu.Unlock(); c.now = t }

// sound is a registry that keeps its promises, to be broken by its wrappers.
func sound() (*memory.Registry, Subject) {
	c := &handClock{now: Epoch()}
	key := []byte("ring key of the suite")
	r := memory.New(memory.Config{RingKey: key, CursorKey: []byte("cursor key"), Now: c.Now})
	return r, Subject{
		Catalog: r, Router: r, Reader: r, Publisher: r, Fleet: r, Uncertain: r, Custody: r,
		SetNow: c.Set, Archive: r.Archive, RingKey: key,
	}
}

// TestSuite_CatchesBrokenRegistries plays each defect on the memory registry.
func TestSuite_CatchesBrokenRegistries(t *testing.T) {
	RunBroken(t, func(*testing.T) Subject { _, s := sound(); return s })
}

// TestSuite_EveryCaseNamesAGuarantee keeps the names usable: G and two digits, one
// line of why, no name twice.
func TestSuite_EveryCaseNamesAGuarantee(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		g, rest, ok := strings.Cut(c.Name, "/")
		if !ok || len(g) != 3 || g[0] != 'G' || g < "G01" || g > "G44" || rest == "" {
			t.Errorf("case %q does not begin with its guarantee", c.Name)
		}
		if c.Why == "" || strings.Contains(c.Why, "\n") || c.Run == nil || seen[c.Name] {
			t.Errorf("case %q lacks a why, or comes twice", c.Name)
		}
		seen[c.Name] = true
	}
	if len(seen) < 100 {
		t.Errorf("there are only %d cases", len(seen))
	}
}
