package memory_test

import (
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/registry/memory"
	"github.com/aipfleet/aipfleet/pkg/registry/registrytest"
)

// clock is a hand-set clock.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *clock) Set(t time.Time) { c.mu.Lock(); defer c.mu.Unlock(); c.now = t }

func subject(*testing.T) registrytest.Subject {
	c := &clock{now: registrytest.Epoch()}
	key := []byte("ring key of the suite")
	r := memory.New(memory.Config{RingKey: key, CursorKey: []byte("cursor key of the suite"), Now: c.Now})
	return registrytest.Subject{
		Catalog: r, Router: r, Reader: r, Publisher: r, Fleet: r, Uncertain: r, Custody: r,
		SetNow: c.Set, Archive: r.Archive, RingKey: key,
	}
}

// TestSuite plays every case of the conformance suite, G01 to G44, each named after
// the guarantee that it defends.
func TestSuite(t *testing.T) {
	registrytest.Run(t, subject, registrytest.Options{ModelRuns: 100})
}

// TestModel draws sequences of calls and compares every answer with the sequential
// model (G04, G06, G07, G09, G12).
func TestModel_G04_RandomSequencesAgreeWithTheModel(t *testing.T) {
	registrytest.CheckModel(t, func() registrytest.Subject { return subject(t) }, 1000)
}

// TestHistories records what concurrent clients are answered and has porcupine look
// for an order that the sequential model accepts.
func TestHistories(t *testing.T) {
	registrytest.RunHistories(t, subject)
}
