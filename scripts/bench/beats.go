package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// beats renews the leases of a site's first group, one replica after the other.
type beats struct {
	registry *postgres.Registry
	replicas []fleet.ReplicaID
	next     atomic.Uint64
}

func openBeats(ctx context.Context, s *site) (driver, error) { return newBeats(ctx, s) }

func newBeats(ctx context.Context, s *site) (*beats, error) {
	r, err := postgres.Open(ctx, postgres.Config{LifecycleURL: s.lifecycle(), Application: "bench"})
	if err != nil {
		return nil, err
	}
	d := &beats{registry: r}
	g := s.shape.groups[0]
	only := site{shape: shape{groups: []group{g}}}
	only.eachReplica(func(g group, n, i, r int) bool {
		d.replicas = append(d.replicas, parsed(fleet.ParseReplicaID(g.replica(n, i, r))))
		return true
	})
	return d, nil
}

func (d *beats) close() { d.registry.Close() }

func (d *beats) unit(ctx context.Context, _ job, t *tally) {
	began := time.Now()
	if err := d.beat(ctx, d.replicas[d.next.Add(1)%uint64(len(d.replicas))]); err != nil {
		t.failed("renew " + failureName(err))
		return
	}
	t.done(opWrite, began)
}

// beat renews one replica's lease. The sequence is the time: it grows over every
// slice of a run.
func (d *beats) beat(ctx context.Context, id fleet.ReplicaID) error {
	_, err := d.registry.Renew(ctx, registry.Beat{
		Replica: id, PeerDID: did(id.String()), Epoch: 1, Sequence: uint64(time.Now().UnixMicro()), Ready: true, TTL: registry.MaxLeaseTTL,
	})
	return err
}

// beatEvery is how often a host renews its lease at the default time to live.
const beatEvery = registry.DefaultLeaseTTL / 3

// beating renews every lease of the first group each beatEvery while others work.
func beating(ctx context.Context, s *site) (func() map[string]float64, error) {
	d, err := newBeats(ctx, s)
	if err != nil {
		return nil, err
	}
	workers := min(16, len(d.replicas)) // so many that a slow answer does not slow the pace
	ctx, cancel := context.WithCancel(ctx)
	var sent, failed atomic.Int64
	var running sync.WaitGroup
	began := time.Now()
	for w := range workers {
		running.Go(func() {
			ticker := time.NewTicker(time.Duration(workers) * beatEvery / time.Duration(len(d.replicas)))
			defer ticker.Stop()
			for n := w; ; n += workers { // no two beat for one replica at once
				if n >= len(d.replicas) {
					n = w
				}
				if err := d.beat(ctx, d.replicas[n]); err == nil {
					sent.Add(1)
				} else if ctx.Err() == nil {
					failed.Add(1)
				}
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
			}
		})
	}
	return func() map[string]float64 {
		rate := float64(sent.Load()) / time.Since(began).Seconds()
		cancel()
		running.Wait()
		d.close()
		return map[string]float64{"beats_per_s": rounded(rate), "beats_failed": float64(failed.Load())}
	}, nil
}

// restoreLeases gives the replicas back the long leases of the seed: a beat cannot
// ask for more than a few minutes.
func (b *bench) restoreLeases(s *site) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, s.admin())
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		_, err = conn.Exec(ctx, fmt.Sprintf(
			"UPDATE aip.replica_live SET lease_expires_at = clock_timestamp() + interval '%d s' WHERE lease_expires_at < clock_timestamp() + interval '1 h'",
			int(leaseLife.Seconds())))
		return err
	}
}
