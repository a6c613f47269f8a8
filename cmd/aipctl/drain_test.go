package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/cmd/aipctl/apptest"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// broken is a registry that cannot be reached after some intents.
type broken struct {
	registry.Fleet
	registry.Reader
	intents int  // that still work; negative is any number
	blind   bool // after the first intent nothing can be read either
	changed bool
	asked   int // lists so far
}

func gone() error {
	return fleet.Errorf(fleet.Unavailable, "registry.unreachable", "the registry is away")
}

func (b *broken) Intend(ctx context.Context, i registry.Intent) (fleet.ReplicaLive, error) {
	if b.intents == 0 {
		return fleet.ReplicaLive{}, gone()
	}
	b.intents, b.changed = b.intents-1, true
	return b.Fleet.Intend(ctx, i)
}

func (b *broken) List(ctx context.Context, s registry.Selection) (registry.Records, error) {
	if b.asked++; b.blind && b.changed {
		return registry.Records{}, gone()
	}
	return b.Reader.List(ctx, s)
}

func (b *broken) in(h *apptest.Harness) *broken {
	b.Fleet, b.Reader = h.Registry.Fleet, h.Registry.Reader
	h.Registry.Fleet, h.Registry.Reader = b, b
	return b
}

// results reads what came of each replica.
func results(t *testing.T, h *apptest.Harness, stdout string) string {
	t.Helper()
	var all []string
	for _, item := range h.Document(stdout).Items {
		var s struct {
			ID, Result string
			Error      struct{ Code string }
		}
		if err := json.Unmarshal(item, &s); err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimSpace(s.ID+" "+s.Result+" "+s.Error.Code))
	}
	return strings.Join(all, "; ")
}

// TestDrain_G37_WhateverEndsItEachReplicaHasItsResult takes the registry away in the middle:
// what was begun is told from what was not.
func TestDrain_G37_WhateverEndsItEachReplicaHasItsResult(t *testing.T) {
	line := []string{"drain", "region", "north", "--yes", "--confirm", "north", "--reason", "test", "--interval", "1ms", "-o", "json", "--batch"}
	for name, c := range map[string]struct {
		broken broken
		batch  string
		code   int
		says   string
		want   string
	}{
		"no intent": {broken{intents: 0}, "2", 9, "registry.unreachable",
			"crepl_acme_a failed registry.unreachable; crepl_acme_b not_started; crepl_globex_a not_started"},
		"after one intent": {broken{intents: 1}, "0", 8, "drain.partial",
			"crepl_acme_a draining; crepl_acme_b failed registry.unreachable; crepl_globex_a not_started"},
		"before it is seen": {broken{intents: -1, blind: true}, "2", 9, "registry.unreachable",
			"crepl_acme_a draining; crepl_acme_b draining; crepl_globex_a not_started"},
	} {
		t.Run(name, func(t *testing.T) {
			h := populated(t)
			c.broken.in(h)
			r := expect(t, h, c.code, c.says, append(line, c.batch)...)
			if got := results(t, h, r.Stdout); got != c.want {
				t.Errorf("the results are %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestDrain_G37_OfManyEverythingIsReadOnce: a preview of many replicas does not ask about
// each, and still names what is in flight on the right one; the question names the first
// and counts the others.
func TestDrain_G37_OfManyEverythingIsReadOnce(t *testing.T) {
	h := populated(t)
	set := registry.ChangeSet{Actor: "test", Reason: "test"}
	for n := range 40 {
		r := apptest.Set().Replicas[0]
		r.ID = apptest.Replica(fmt.Sprintf("crepl_more_%02d", n))
		r.Peer.DID = apptest.Signer(r.ID.String()).DID().String()
		r.Endpoint = fmt.Sprintf("https://more%d.acme.example:7101", n)
		set.Replicas = append(set.Replicas, r)
	}
	h.Publish(set)
	b := (&broken{intents: -1}).in(h)
	out := h.OK("drain", "instance", "cinst_acme", "--dry-run")
	if b.asked > 8 {
		t.Errorf("%d lists were read for 42 replicas", b.asked)
	}
	if strings.Count(out, "act_held (fence 1)") != 1 || !strings.Contains(out, "crepl_more_39") {
		t.Errorf("the preview is\n%s", out)
	}
	h.TTY, h.Stdin = true, "no\n"
	r := expect(t, h, 11, "confirm.refused", "drain", "instance", "cinst_acme", "--reason", "test")
	for _, says := range []string{"42 replicas to take no new work and to finish what is pinned, in 5 batches of at most 10:",
		"crepl_acme_b, 1 attempt in flight", "and 22 more; --dry-run shows all", "Type cinst_acme to go ahead"} {
		if !strings.Contains(r.Stderr, says) {
			t.Errorf("the question does not say %q:\n%s", says, r.Stderr)
		}
	}
}
