package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// opTimeout ends what a server that does not answer would keep waiting for.
const opTimeout = 15 * time.Second

// window is how long a slice runs: unmeasured at first, then measured.
type window struct {
	ramp, measured time.Duration
}

// sample is what one slice gave.
type sample struct {
	perSecond float64
	tally     *tally
	serverCPU time.Duration // of all of the server's processes, within the window
	ownCPU    time.Duration // of this program, clients included
	done      int           // operations within the window
}

// never is a window in which nothing counts.
func never() (from, until time.Time) { return time.Unix(1<<40, 0), time.Unix(1<<40, 0) }

// runSlice lets clients work for one window and returns when all have stopped.
func runSlice(ctx context.Context, d driver, pick picker, clients int, w window, cpu cpuMeter) sample {
	start := time.Now()
	from := start.Add(w.ramp)
	until := from.Add(w.measured)
	ctx, cancel := context.WithDeadline(ctx, until.Add(opTimeout))
	defer cancel()
	tallies := make([]*tally, clients)
	var running sync.WaitGroup
	for i := range clients {
		tallies[i] = newTally(from, until)
		running.Go(func() {
			r := rand.New(rand.NewPCG(uint64(start.UnixNano()), uint64(i)))
			for ctx.Err() == nil && time.Now().Before(until) {
				d.unit(ctx, pick(r), tallies[i])
			}
		})
	}
	s := observe(ctx, d, from, until, cpu)
	running.Wait()
	s.tally = newTally(from, until)
	for _, t := range tallies {
		s.tally.merge(t)
	}
	s.done += s.tally.counted
	s.perSecond = float64(s.done) / w.measured.Seconds()
	if c, ok := d.(completer); ok && !c.drained(ctx) {
		s.tally.failed("not drained")
	}
	return s
}

// observe reads the clocks at both ends of the window.
func observe(ctx context.Context, d driver, from, until time.Time, cpu cpuMeter) (s sample) {
	c, _ := d.(completer)
	sleepUntil(ctx, from)
	server, own := cpu.read()
	var before, after int64
	if c != nil {
		before = c.completed()
	}
	sleepUntil(ctx, until)
	if c != nil {
		after = c.completed()
	}
	serverAfter, ownAfter := cpu.read()
	s.serverCPU, s.ownCPU, s.done = serverAfter-server, ownAfter-own, int(after-before)
	return s
}

func sleepUntil(ctx context.Context, at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// loop lets clients work until stop is closed.
func loop(ctx context.Context, stop <-chan struct{}, d driver, pick picker, clients int) *tally {
	all := newTally(time.Time{}, time.Now().Add(time.Hour))
	tallies := make([]*tally, clients)
	var running sync.WaitGroup
	for i := range clients {
		tallies[i] = newTally(all.from, all.until)
		running.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for ctx.Err() == nil {
				select {
				case <-stop:
					return
				default:
					d.unit(ctx, pick(r), tallies[i])
				}
			}
		})
	}
	running.Wait()
	for _, t := range tallies {
		all.merge(t)
	}
	return all
}
