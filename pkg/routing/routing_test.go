package routing_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func now() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

func tenant() fleet.TenantID { return must(fleet.ParseTenantID("acme")) }

func question() routing.Question { return routing.Question{Tenant: tenant(), Now: now()} }

// fine is a candidate that may serve.
func fine(name string) routing.Candidate {
	instance, version := must(fleet.ParseInstanceID("cinst_a")), must(fleet.ParseVersionID("cver_a"))
	return routing.Candidate{
		Chain: routing.Chain{
			Binding: fleet.CapabilityBinding{BindingKey: fleet.BindingKey{Tenant: tenant(), Instance: instance}, Priority: 10, Enabled: true},
			Tenant:  tenant(), Enabled: true, TypeEnabled: true, Version: version, Status: fleet.VersionActive,
			Qualified: true, Implements: true, Weight: 1,
		},
		Replica: fleet.Replica{
			ID: must(fleet.ParseReplicaID("crepl_" + name)), Instance: instance, Version: version, Capacity: 4,
			Topology: fleet.Topology{Region: "north", Zone: "a", CapacityClass: "standard"},
		},
		Live: fleet.ReplicaLive{
			Status: fleet.ReplicaReady, Intent: fleet.IntentRun, Healthy: true, LeaseExpiresAt: now().Add(time.Second),
			Circuit: fleet.Circuit{State: fleet.CircuitClosed},
		},
	}
}

// defects makes a candidate unfit in one way each; the reasons are in the order in
// which they are judged.
func defects() []struct {
	why  routing.Reason
	make func(*routing.Question, *routing.Candidate)
} {
	type q = routing.Question
	type c = routing.Candidate
	return []struct {
		why  routing.Reason
		make func(*q, *c)
	}{
		{routing.BindingDisabled, func(_ *q, c *c) { c.Chain.Binding.Enabled = false }},
		{routing.TenantMismatch, func(_ *q, c *c) { c.Chain.Tenant = must(fleet.ParseTenantID("globex")) }},
		{routing.InstanceDisabled, func(_ *q, c *c) { c.Chain.Enabled = false }},
		{routing.TypeDisabled, func(_ *q, c *c) { c.Chain.TypeEnabled = false }},
		{routing.VersionStatus, func(_ *q, c *c) { c.Chain.Status = fleet.VersionQuarantined }},
		{routing.NotQualified, func(_ *q, c *c) { c.Chain.Qualified = false }},
		{routing.NotImplemented, func(_ *q, c *c) { c.Chain.Implements = false }},
		{routing.WeightZero, func(_ *q, c *c) { c.Chain.Weight = 0 }},
		{routing.NotServing, func(_ *q, c *c) { c.Replica.Version = must(fleet.ParseVersionID("cver_b")) }},
		{routing.ClassMismatch, func(q *q, c *c) { q.Topology.CapacityClass = "large"; c.Replica.Topology.CapacityClass = "standard" }},
		{routing.CrossRegion, func(q *q, c *c) {
			q.Topology.Region, q.Topology.ForbidCrossRegion = "south", true
			c.Replica.Topology.Region = "north"
		}},
		{routing.Offline, func(_ *q, c *c) { c.Live.Status = fleet.ReplicaOffline }},
		{routing.DrainIntent, func(_ *q, c *c) { c.Live.Intent = fleet.IntentDrain }},
		{routing.Draining, func(_ *q, c *c) { c.Live.Status = fleet.ReplicaDraining }},
		{routing.Unhealthy, func(_ *q, c *c) { c.Live.Healthy = false }},
		{routing.LeaseExpired, func(q *q, c *c) { c.Live.LeaseExpiresAt = q.Now }},
		{routing.CircuitOpen, func(q *q, c *c) { c.Live.Circuit = fleet.Circuit{State: fleet.CircuitOpen, OpenUntil: q.Now.Add(1)} }},
		{routing.AtCapacity, func(_ *q, c *c) { c.Live.Active = c.Replica.Capacity }},
		{routing.ScopeFull, func(_ *q, c *c) { c.Chain.FullScope = "binding" }},
	}
}

func TestFilter_G08_EachDefectAloneRefuses(t *testing.T) {
	if got := routing.Filter(question(), fine("a")); got != routing.Eligible {
		t.Fatalf("the fine candidate is refused: %s", got)
	}
	for _, d := range defects() {
		q, c := question(), fine("a")
		d.make(&q, &c)
		if got := routing.Filter(q, c); got != d.why {
			t.Errorf("refused for %q, want %q", got, d.why)
		}
	}
}

// With two defects the earlier rule is named, so that an explanation is stable.
func TestFilter_G40_ReasonsComeInTheirOrder(t *testing.T) {
	all := defects()
	for i := range all {
		for j := i + 1; j < len(all); j++ {
			if all[i].why == routing.Offline && all[j].why == routing.Draining {
				continue // one field
			}
			q, c := question(), fine("a")
			all[j].make(&q, &c)
			all[i].make(&q, &c)
			if got := routing.Filter(q, c); got != all[i].why {
				t.Errorf("%s and %s: refused for %q", all[i].why, all[j].why, got)
			}
		}
	}
}

func TestFilter_G08_EveryVersionStatus(t *testing.T) {
	for s, want := range map[fleet.VersionStatus]bool{
		fleet.VersionAdmitted: false, fleet.VersionActive: true, fleet.VersionDeprecated: true, fleet.VersionQuarantined: false, fleet.VersionRevoked: false,
	} {
		c := fine("a")
		c.Chain.Status = s
		if got := routing.Filter(question(), c) == routing.Eligible; got != want {
			t.Errorf("%s takes new work: %v", s, got)
		}
	}
}

func TestCircuitAdmits_G08(t *testing.T) {
	p := fleet.CircuitPolicy{FailureThreshold: 3, OpenMillis: 1000, HalfOpenProbes: 2}
	for what, c := range map[string]struct {
		circuit fleet.Circuit
		policy  fleet.CircuitPolicy
		want    bool
	}{
		"closed":                 {fleet.Circuit{State: fleet.CircuitClosed}, p, true},
		"never used":             {fleet.Circuit{}, p, true},
		"open":                   {fleet.Circuit{State: fleet.CircuitOpen, OpenUntil: now().Add(time.Microsecond)}, p, false},
		"open time over":         {fleet.Circuit{State: fleet.CircuitOpen, OpenUntil: now()}, p, true},
		"half open, probe free":  {fleet.Circuit{State: fleet.CircuitHalfOpen, ProbesOut: 1}, p, true},
		"half open, none free":   {fleet.Circuit{State: fleet.CircuitHalfOpen, ProbesOut: 2}, p, false},
		"half open, policy zero": {fleet.Circuit{State: fleet.CircuitHalfOpen}, fleet.CircuitPolicy{}, true},
		"policy zero, one out":   {fleet.Circuit{State: fleet.CircuitHalfOpen, ProbesOut: 1}, fleet.CircuitPolicy{}, false},
	} {
		if got := routing.CircuitAdmits(now(), c.policy, c.circuit); got != c.want {
			t.Errorf("%s admits %v", what, got)
		}
	}
}

func TestRepin_G09_WhatPinnedWorkMayMeet(t *testing.T) {
	harmless := map[routing.Reason]bool{
		routing.BindingDisabled: true, routing.NotQualified: true, routing.NotImplemented: true, routing.WeightZero: true, routing.NotServing: true,
		routing.ClassMismatch: true, routing.CrossRegion: true, routing.DrainIntent: true, routing.Draining: true, routing.Unhealthy: true,
		routing.ScopeFull: true, routing.TenantMismatch: true, routing.VersionStatus: true, // quarantined: pinned work may finish
	}
	for _, d := range defects() {
		q, c := question(), fine("a")
		d.make(&q, &c)
		want := d.why
		if harmless[d.why] {
			want = routing.Eligible
		}
		if got := routing.Repin(q.Now, c); got != want {
			t.Errorf("under %s a retry is judged %q, want %q", d.why, got, want)
		}
	}
	for _, s := range []fleet.VersionStatus{fleet.VersionRevoked, fleet.VersionAdmitted} {
		c := fine("a")
		c.Chain.Status = s
		if got := routing.Repin(now(), c); got != routing.VersionStatus {
			t.Errorf("on a version that is %s a retry is judged %q", s, got)
		}
	}
}

func TestCompare_G10_KeysInOrder(t *testing.T) {
	q := question()
	q.Topology = fleet.TopologyPreference{Region: "north", Zone: "a"}
	q.Ring = 100
	steps := []struct {
		name   string
		better func(*routing.Candidate)
	}{
		{"priority", func(c *routing.Candidate) { c.Chain.Binding.Priority = 1 }},
		{"region", func(c *routing.Candidate) { c.Replica.Topology.Region = "north" }},
		{"zone", func(c *routing.Candidate) { c.Replica.Topology.Zone = "a" }},
		{"active", func(c *routing.Candidate) { c.Live.Active = 0 }},
		{"ring", func(c *routing.Candidate) { c.Ring = 100 }},
		{"instance", func(c *routing.Candidate) { c.Replica.Instance = must(fleet.ParseInstanceID("cinst_A")) }},
		{"replica", func(c *routing.Candidate) { c.Replica.ID = must(fleet.ParseReplicaID("crepl_a")) }},
	}
	worst := fine("b")
	worst.Replica.Topology.Region, worst.Replica.Topology.Zone = "south", "z"
	worst.Live.Active, worst.Ring = 3, 99
	for i, s := range steps {
		a, b := worst, worst
		s.better(&a)
		for _, later := range steps[i+1:] {
			later.better(&b)
		}
		if routing.Compare(q, a, b) >= 0 || routing.Compare(q, b, a) <= 0 {
			t.Errorf("%s does not outweigh everything after it", s.name)
		}
	}
	none := question()
	none.Topology = fleet.TopologyPreference{}
	if k := routing.Keys(none, worst); k.RegionMatch || k.ZoneMatch {
		t.Errorf("without a preference the keys are %+v", k)
	}
}

func candidates(t *rapid.T) []routing.Candidate {
	n := rapid.IntRange(0, 12).Draw(t, "n")
	var all []routing.Candidate
	for i := range n {
		c := fine(string(rune('a' + i)))
		c.Chain.Binding.Priority = uint32(rapid.IntRange(0, 2).Draw(t, "priority"))
		c.Chain.DrawRank = rapid.IntRange(0, 2).Draw(t, "rank")
		c.Replica.Topology.Region = rapid.SampledFrom([]string{"north", "south"}).Draw(t, "region")
		c.Replica.Topology.Zone = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone")
		c.Live.Active = uint32(rapid.IntRange(0, 5).Draw(t, "active"))
		c.Live.Healthy = rapid.IntRange(0, 4).Draw(t, "healthy") > 0
		c.Ring = int64(rapid.IntRange(0, 3).Draw(t, "ring"))
		all = append(all, c)
	}
	return all
}

func TestPick_G10_WinnerIsTheLeastOfThoseThatMayServe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := question()
		q.Topology = fleet.TopologyPreference{Region: "north", Zone: "a"}
		all := candidates(t)
		ordered, removed := routing.Pick(q, all)
		if len(ordered)+len(removed) != len(all) {
			t.Fatalf("%d ordered and %d removed of %d", len(ordered), len(removed), len(all))
		}
		best := 99
		for i, c := range all {
			if r, gone := removed[i]; gone && r != routing.NotDrawn && r != routing.Filter(q, c) {
				t.Fatalf("%s was removed for %s", c.Replica.ID, r)
			}
			if routing.Filter(q, c) == routing.Eligible {
				best = min(best, c.Chain.DrawRank)
			}
		}
		for i, c := range ordered {
			if c.Chain.DrawRank != best || routing.Filter(q, c) != routing.Eligible {
				t.Fatalf("%s may not serve, or was not drawn", c.Replica.ID)
			}
			if i > 0 && routing.Compare(q, ordered[i-1], c) >= 0 {
				t.Fatalf("%s does not come before %s", ordered[i-1].Replica.ID, c.Replica.ID)
			}
		}
		slices.Reverse(all)
		if again, _ := routing.Pick(q, all); len(again) > 0 && again[0].Replica.ID != ordered[0].Replica.ID {
			t.Fatalf("in another order of candidates %s wins, not %s", again[0].Replica.ID, ordered[0].Replica.ID)
		}
	})
}

func TestExplain_G40_AgreesWithPick(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, all := question(), candidates(t)
		ordered, removed := routing.Pick(q, all)
		e := routing.Explain(q, all)
		counted := 0
		for _, n := range e.Counts {
			counted += n
		}
		if e.Total != len(all) || counted != len(removed) || len(e.Candidates) != len(all) {
			t.Fatalf("explained %d of %d, counted %d of %d", len(e.Candidates), len(all), counted, len(removed))
		}
		if len(ordered) == 0 != e.Winner.IsZero() || len(ordered) > 0 && e.Winner != ordered[0].Replica.ID {
			t.Fatalf("the winner is %s", e.Winner)
		}
		for _, c := range e.Candidates {
			if (c.Rank == 0) == (c.Removed == routing.Eligible) || c.Rank == 1 && c.Replica != e.Winner {
				t.Fatalf("candidate %+v", c)
			}
		}
	})
}

func TestExplain_G16_IsBounded(t *testing.T) {
	all := make([]routing.Candidate, routing.MaxExplained+500)
	for i := range all {
		all[i] = fine("a")
	}
	e := routing.Explain(question(), all)
	if len(e.Candidates) != routing.MaxExplained || e.Total != len(all) || e.Winner.IsZero() {
		t.Errorf("%d of %d are listed", len(e.Candidates), e.Total)
	}
}
