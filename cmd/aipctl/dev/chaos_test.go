package dev_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/client"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// How much goes on at once, and how often something dies meanwhile.
const (
	chaosWorkers = 3 // of each tenant
	chaosKills   = 10
)

// Every process is killed at some time while work goes on. Clients do what a client
// should: they ask again with the same id. An operator decides what no host can tell,
// by looking at the provider. Afterwards every action is completed with exactly one
// effect, and nothing is reserved or uncertain.
func TestFleet_G12_AfterRandomKillsEverythingEndsOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	working, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	over := make(chan struct{}) // closed when nothing is killed any more
	group, ctx := errgroup.WithContext(working)
	group.Go(func() error {
		defer close(over)
		return killAtRandom(ctx, rand.New(rand.NewPCG(seed, 1)))
	})
	begun := make([][]action.Request, 2*chaosWorkers)
	for i := range begun {
		c := agent(t, localfleet.Tenants()[i%2])
		group.Go(func() error {
			begun[i] = keepSubmitting(ctx, t, c, over)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	total, decided := 0, 0
	for i, requests := range begun {
		total += len(requests)
		for _, r := range requests {
			if bringToEnd(t, localfleet.Tenants()[i%2], r) {
				decided++
			}
		}
	}
	t.Logf("%d actions, %d of them decided by an operator", total, decided)
	nothingIsLeft(t)
}

// keepSubmitting begins one action after the other until the killing is over. It asks
// again while nobody answers, and goes on when an action is uncertain.
func keepSubmitting(ctx context.Context, t *testing.T, c *client.Client, over <-chan struct{}) []action.Request {
	var begun []action.Request
	for {
		r := ticket(t, "chaos")
		begun = append(begun, r)
		for {
			select {
			case <-over:
				return begun
			default:
			}
			v, err := c.Submit(ctx, r, 2*time.Second)
			if err == nil && (v.State.Final() || v.State == action.Uncertain) {
				break
			}
			if app.Pause(ctx, 100*time.Millisecond) != nil {
				return begun
			}
		}
	}
}

// bringToEnd asks for an action until it is completed, and reports whether an
// operator had to decide: that is so only when its host says that it cannot tell, and
// the provider has no effect of it.
func bringToEnd(t *testing.T, tenant string, r action.Request) (decided bool) {
	t.Helper()
	c := agent(t, tenant)
	until(t, "action "+r.ID.String()+" of "+tenant+" is completed", func(ctx context.Context) (bool, error) {
		v, err := c.Submit(ctx, r, time.Second)
		if err == nil && v.State == action.Uncertain && hostCannotTell(t, r.ID) && effects(t, tenant, r.ID) == 0 {
			decide(t, r.ID)
			decided = true
		}
		return err == nil && v.State == action.Completed, err
	})
	if n := effects(t, tenant, r.ID); n != 1 {
		t.Errorf("action %s of %s has %d effects", r.ID, tenant, n)
	}
	return decided
}

// hostCannotTell reads the last probe of the newest record.
func hostCannotTell(t *testing.T, id fleet.ActionID) bool {
	t.Helper()
	var doc struct {
		Items []fleet.Reconciliation `json:"items"`
	}
	if err := json.Unmarshal(aipctl(t, "reconcile", "list", "-o", "json").Stdout, &doc); err != nil {
		t.Fatal(err)
	}
	for _, r := range doc.Items {
		if n := len(r.Probes); r.Action == id && n > 0 {
			return r.Probes[n-1].Answer == "unknown"
		}
	}
	return false
}

func decide(t *testing.T, id fleet.ActionID) {
	t.Helper()
	evidence := filepath.Join(t.TempDir(), "provider.txt")
	if err := os.WriteFile(evidence, []byte("the provider has no ticket of it, and the process that was called is gone"), 0o600); err != nil {
		t.Fatal(err)
	}
	exits(t, 0, "reconcile", "resolve", id.String(), "--outcome", "did-not-happen", "--evidence", evidence, "--reason", "looked at the provider", "--yes")
}

// killAtRandom kills one process after the other and starts it again.
func killAtRandom(ctx context.Context, r *rand.Rand) error {
	names := []string{localfleet.ProcessServe, localfleet.ProcessLifecycle, localfleet.ProcessPostgres}
	for _, h := range live.Hosts() {
		names = append(names, h.Replica)
	}
	for range chaosKills {
		name := names[r.IntN(len(names))]
		if err := app.Pause(ctx, time.Duration(r.IntN(700))*time.Millisecond); err != nil {
			return nil // the work is done
		}
		if err := live.Kill(ctx, name); err != nil {
			return err
		}
		if err := live.Start(context.WithoutCancel(ctx), name); err != nil {
			return err
		}
	}
	return nil
}

// nothingIsLeft waits until nothing is reserved and nothing is uncertain, and audits.
func nothingIsLeft(t *testing.T) {
	t.Helper()
	for _, h := range live.Hosts() {
		ready(t, h.Replica)
	}
	until(t, "nothing is reserved and nothing uncertain", func(context.Context) (bool, error) {
		var replicas struct {
			Items []registry.ReplicaRecord `json:"items"`
		}
		if err := json.Unmarshal(aipctl(t, "get", "replicas", "-o", "json").Stdout, &replicas); err != nil {
			return false, err
		}
		for _, r := range replicas.Items {
			if r.Live.Active != 0 {
				return false, nil
			}
		}
		var uncertain struct {
			Items []fleet.Reconciliation `json:"items"`
		}
		err := json.Unmarshal(aipctl(t, "reconcile", "list", "-o", "json").Stdout, &uncertain)
		return err == nil && len(uncertain.Items) == 0, err
	})
	exits(t, 0, "registry", "audit")
}
