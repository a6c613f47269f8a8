package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
)

// journals measures a host's journal alone: durable changes a second, and how many of
// them one sync carries (the group-commit factor).
func journals(ctx context.Context, dir string, p plan) ([]row, error) {
	var rows []row
	for _, writers := range p.clients {
		r, err := writeJournal(ctx, filepath.Join(dir, fmt.Sprintf("journal-%d.db", writers)), writers, p.window)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// answer is about as long as a signed one.
var answer = make([]byte, 1024)

func writeJournal(ctx context.Context, path string, writers int, window time.Duration) (r row, err error) {
	groups := 0 // only the writer of the journal counts
	j, err := journal.OpenUnsafe(path, journal.Options{Now: time.Now}, journal.Seams{Commit: func(write func() error) error {
		groups++
		return write()
	}})
	if err != nil {
		return r, err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	samples := make([]sample, writers)
	var running sync.WaitGroup
	for i := range writers {
		running.Go(func() {
			samples[i].errors = map[string]int{}
			for ctx.Err() == nil {
				start := time.Now()
				m := journal.Message{
					ID: fleet.NewMessageID(start), Digest: fleet.DigestBytes([]byte(path)), Action: fleet.NewActionID(start), Answer: answer, At: start,
				}
				if _, err := j.Apply(context.WithoutCancel(ctx), journal.Change{Message: &m}); err != nil {
					samples[i].errors[fleet.KindOf(err).String()]++
					continue
				}
				samples[i].latencies = append(samples[i].latencies, time.Since(start))
			}
		})
	}
	running.Wait()
	seconds := time.Since(began).Seconds()
	if err := j.Close(); err != nil {
		return r, err
	}
	all := sample{errors: map[string]int{}}
	for _, s := range samples {
		all.latencies = append(all.latencies, s.latencies...)
		for kind, n := range s.errors {
			all.errors[kind] += n
		}
	}
	r = row{
		Case: "journal", Variant: "host", Clients: writers, OpsPerSecond: rounded(float64(len(all.latencies)) / seconds),
		P50: all.quantile(0.50), P99: all.quantile(0.99), Errors: all.failed(), ErrorsBy: all.errors,
		More: map[string]float64{"changes_per_sync": rounded(float64(len(all.latencies)) / float64(max(groups, 1)))},
	}
	return r, os.Remove(path)
}
