package registrytest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
)

// recorder is a TB that remembers failures instead of failing a test.
type recorder struct {
	ctx context.Context

	mu       sync.Mutex
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Logf(string, ...any) {}

func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failuresOf plays one case on its own goroutine, so that Fatalf ends the case only,
// and returns what it complained of. A panic is a complaint.
func failuresOf(ctx context.Context, c Case, newSubject func() Subject) []string {
	r := &recorder{ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v", p)
			}
		}()
		play(r, c, newSubject(), newSubject, Options{ModelRuns: 12, ModelSteps: 60, Callers: 4})
	}()
	<-done
	return r.failures
}
