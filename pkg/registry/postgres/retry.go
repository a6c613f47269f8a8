package postgres

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// counters count what was retried since the start.
type counters struct {
	deadlocks atomic.Uint64 // 40P01, 40001
	contended atomic.Uint64 // busy rows, lock timeouts
	unknown   atomic.Uint64 // commits whose fate was read again by key
}

// Retries reports how often this process retried: deadlocks must stay zero.
type Retries struct {
	Deadlocks uint64 `json:"deadlocks"`
	Contended uint64 `json:"contended"`
	Unknown   uint64 `json:"unknown"`
}

// Retries returns the counts since the start.
func (r *Registry) Retries() Retries {
	return Retries{Deadlocks: r.retries.deadlocks.Load(), Contended: r.retries.contended.Load(), Unknown: r.retries.unknown.Load()}
}

// maxTries bounds how often one call is repeated after a refusal that left nothing.
const maxTries = 12

// retryable counts and reports an error after which the whole call may be repeated:
// the server rolled it back because of others.
func (r *Registry) retryable(err error) bool {
	switch sqlState(err) {
	case stateDeadlock, stateSerialization:
		r.retries.deadlocks.Add(1)
		return true
	case stateLockTimeout:
		r.retries.contended.Add(1)
		return true
	}
	return false
}

// pause waits before try number n, longer each time and never in step with others;
// no transaction is open meanwhile. It reports false when the context ended.
func pause(ctx context.Context, n int) bool {
	top := min(time.Millisecond<<min(n, 6), 50*time.Millisecond)
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(top))) + time.Millisecond/2)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
