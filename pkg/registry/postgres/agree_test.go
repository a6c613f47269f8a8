package postgres_test

import (
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
	"github.com/aipfleet/aipfleet/pkg/settlement"
)

// TestAgree_G10_DrawRankIsRoutingDrawOrder compares the two statements of the draw by
// weight, weights up to the largest included.
func TestAgree_G10_DrawRankIsRoutingDrawOrder(t *testing.T) {
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	weight := rapid.OneOf(rapid.Uint32Range(1, 10), rapid.Uint32Range(1, math.MaxUint32))
	rapid.Check(t, func(t *rapid.T) {
		point := rapid.Int64Range(0, routing.RingSize-1).Draw(t, "point")
		weights := rapid.SliceOfN(weight, 1, 6).Draw(t, "weights")
		var versions []routing.Weighted
		var stored []int64
		for i, w := range weights {
			id := parsed(fleet.ParseVersionID("cver_" + string(rune('a'+i))))
			versions, stored = append(versions, routing.Weighted{Version: id, Weight: w}), append(stored, int64(w))
		}
		for want, version := range routing.DrawOrder(point, versions) {
			var have int
			for i, v := range versions {
				if v.Version != version {
					continue
				}
				if err := d.admin.QueryRow(t.Context(), "SELECT aip.draw_rank($1, $2, $3)", point, stored, i+1).Scan(&have); err != nil {
					t.Fatal(err)
				}
			}
			if have != want {
				t.Fatalf("version %s has rank %d in SQL, %d in Go", version, have, want)
			}
		}
	})
}

// TestAgree_G05_CircuitFollowsSettlement settles random outcomes on one replica and
// compares its circuit after each with package settlement, which is told the same.
func TestAgree_G05_CircuitFollowsSettlement(t *testing.T) {
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	policy := fleet.CircuitPolicy{FailureThreshold: 2, OpenMillis: 1000, HalfOpenProbes: 2}
	d.build(t, shape{tenants: 1, replicas: 1, capacity: 8, tune: func(q *fleet.QuotaPolicy) { q.Circuit = policy }})
	now := time.Now().UTC().Truncate(time.Second)
	want := fleet.Circuit{State: fleet.CircuitClosed}
	outcomes := rapid.SampledFrom([]fleet.Outcome{fleet.OutcomeCompleted, fleet.OutcomeUnknown, fleet.OutcomeCancelled, fleet.OutcomeLeaseExpired})
	opened, n := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		step := func() {
			now = now.Add(time.Duration(rapid.IntRange(1, 300).Draw(r, "ms")) * time.Millisecond)
			d.setNow(t, now)
			d.exec(t, "UPDATE aip.replica_live SET lease_expires_at = $1", now.Add(time.Hour)) // the lease is not in question
		}
		step()
		n++
		a, err := d.data.Resolve(t.Context(), request(action(n), 0))
		if fleet.Is(err, fleet.ReplicaUnavailable) {
			if routing.CircuitAdmits(now, policy, want) {
				r.Fatalf("refused although %+v admits: %v", want, err)
			}
			now = want.OpenUntil
			return
		}
		if err != nil {
			r.Fatal(err)
		}
		var probe bool
		want, probe = settlement.Reserve(want, now)
		if probe != a.Attempt.Probe {
			r.Fatalf("probe is %v, want %v", a.Attempt.Probe, probe)
		}
		step()
		s := fleet.Settlement{Outcome: outcomes.Draw(r, "outcome"), PeerFault: rapid.Bool().Draw(r, "fault")}
		want = settlement.Circuit(policy, want, a.Attempt, s, now)
		receipt, err := d.data.Settle(t.Context(), a, s)
		if err != nil || receipt.Circuit != want {
			r.Fatalf("%+v gave %+v, want %+v (%v)", s, receipt.Circuit, want, err)
		}
		if want.State == fleet.CircuitOpen {
			opened++
		}
	})
	if opened == 0 {
		t.Error("the circuit never opened: nothing was compared")
	}
}

func action(n int) string { return "n" + time.Duration(n).String() }

// TestPublish_G13_WhatCannotBeStoredIsInvalid: limits of the store are refusals of the
// value, not failures of the registry.
func TestPublish_G13_WhatCannotBeStoredIsInvalid(t *testing.T) {
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 1, replicas: 1, capacity: 1})
	before := d.revision(t)
	for name, set := range map[string]registry.ChangeSet{
		"number": {Actor: "a", Reason: "r", Bindings: []fleet.CapabilityBinding{binding(0, math.MaxUint64, true)}},
		"text":   {Actor: "a\x00", Reason: "r", Bindings: []fleet.CapabilityBinding{binding(0, 2, true)}},
	} {
		if _, err := d.control.Apply(t.Context(), set, before); !fleet.Is(err, fleet.Invalid) {
			t.Errorf("%s: it gave %s: %v", name, fleet.KindOf(err), err)
		}
	}
	if d.revision(t) != before {
		t.Error("the revision moved")
	}
}
