package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Variants of the one case.
const (
	caseName  = "dispatch"
	floorName = "floor" // the connector called directly
	fleetName = "fleet" // aipd, host, connector
)

// attempt makes one call and says why it failed, "" when it did not.
type attempt func(ctx context.Context, title string) string

func (s *site) floor(ctx context.Context, title string) string {
	id := fleet.NewActionID(time.Now())
	r, err := s.connector.Invoke(ctx, connector.Call{
		Action: id, Capability: s.capability, Input: input(title), IdempotencyKey: id.String(), Deadline: time.Now().Add(time.Minute),
	})
	switch {
	case err != nil:
		return "connector"
	case r.Class != connector.Succeeded:
		return string(r.Class)
	}
	return ""
}

func (s *site) through(ctx context.Context, title string) string {
	v, err := s.client.Submit(ctx, action.Request{
		ID: fleet.NewActionID(time.Now()), Capability: s.capability, Input: input(title), TimeoutMS: 60_000,
	}, time.Minute)
	switch {
	case err != nil:
		return fleet.KindOf(err).String()
	case v.State != action.Completed:
		return string(v.State)
	}
	return ""
}

func input(title string) json.RawMessage {
	raw, _ := json.Marshal(map[string]string{"title": title}) // plain text
	return raw
}

// sample is what one or more rounds came to.
type sample struct {
	latencies []time.Duration
	rates     []float64
	errors    map[string]int
	counted   int                      // calls that ended in a window
	used      map[string]time.Duration // processor time in the windows, by who used it
	look      func() map[string]time.Duration
}

// measure runs every number of clients, both variants in turn.
func measure(ctx context.Context, s *site, p plan) ([]row, error) {
	var rows []row
	for _, clients := range p.clients {
		gathered := map[string]*sample{floorName: {errors: map[string]int{}}, fleetName: {errors: map[string]int{}, look: s.used}}
		calls := map[string]attempt{floorName: s.floor, fleetName: s.through}
		for round := range p.rounds {
			order := []string{floorName, fleetName}
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, name := range order {
				gathered[name].slice(ctx, calls[name], clients, p)
				if err := ctx.Err(); err != nil {
					return nil, err
				}
			}
		}
		rows = append(rows, rowsOf(clients, gathered[floorName], gathered[fleetName])...)
	}
	return rows, nil
}

// slice lets clients call one after the other for a window, after a warm-up. A call
// counts when it ended in the window, whenever it began; its latency counts when it
// began in the window, also when it ended later. Counting only what did both would
// lose the more of the window the longer a call takes.
func (s *sample) slice(ctx context.Context, call attempt, clients int, p plan) {
	var mu sync.Mutex
	var all sync.WaitGroup
	from := time.Now().Add(p.warmUp)
	until := from.Add(p.window)
	counted := 0
	all.Go(func() { s.watch(from, until) })
	for c := range clients {
		all.Go(func() {
			for n := 0; time.Now().Before(until) && ctx.Err() == nil; n++ {
				began := time.Now()
				failure := call(ctx, fmt.Sprintf("client %d call %d", c, n))
				ended := time.Now()
				mu.Lock()
				if failure == "" && !ended.Before(from) && ended.Before(until) {
					counted++
				}
				switch {
				case began.Before(from):
				case failure != "":
					s.errors[failure]++
				default:
					s.latencies = append(s.latencies, ended.Sub(began))
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	s.counted += counted
	s.rates = append(s.rates, float64(counted)/p.window.Seconds())
}

// watch notes what is used between two moments.
func (s *sample) watch(from, until time.Time) {
	if s.look == nil {
		return
	}
	time.Sleep(time.Until(from))
	before := s.look()
	time.Sleep(time.Until(until))
	if s.used == nil {
		s.used = map[string]time.Duration{}
	}
	for who, after := range s.look() {
		s.used[who] += after - before[who]
	}
}

func (s *sample) quantile(q float64) float64 {
	if len(s.latencies) == 0 {
		return 0
	}
	slices.Sort(s.latencies)
	at := min(int(q*float64(len(s.latencies))), len(s.latencies)-1)
	return rounded(float64(s.latencies[at].Microseconds()) / 1000)
}

func (s *sample) failed() int {
	total := 0
	for _, n := range s.errors {
		total += n
	}
	return total
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func rounded(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }
