package settlement_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/settlement"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func start() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

func policy() fleet.CircuitPolicy {
	return fleet.CircuitPolicy{FailureThreshold: 3, OpenMillis: 1000, HalfOpenProbes: 1}
}

func closed() fleet.Circuit { return fleet.Circuit{State: fleet.CircuitClosed} }

func at(s int) time.Time { return start().Add(time.Duration(s) * time.Second) }

func attempt(reserved int, probe bool) fleet.Attempt {
	return fleet.Attempt{ReservedAt: at(reserved), Probe: probe}
}

func ended(o fleet.Outcome) fleet.Settlement { return fleet.Settlement{Outcome: o} }

// tripped is a circuit that opened at second 10.
func tripped() fleet.Circuit {
	c := closed()
	for range 3 {
		c = settlement.Circuit(policy(), c, attempt(1, false), ended(fleet.OutcomeUnknown), at(10))
	}
	return c
}

func TestCircuit_G08_OpensAtTheThreshold(t *testing.T) {
	c := tripped()
	want := fleet.Circuit{State: fleet.CircuitOpen, ConsecutiveUnknowns: 3, OpenedAt: at(10), OpenUntil: at(11), Openings: 1}
	if c != want {
		t.Errorf("the circuit is %+v, want %+v", c, want)
	}
	one := policy()
	one.FailureThreshold = 1
	if c := settlement.Circuit(one, fleet.Circuit{}, attempt(1, false), ended(fleet.OutcomeUnknown), at(2)); c.State != fleet.CircuitOpen {
		t.Errorf("at threshold 1 it is %+v", c)
	}
}

func TestCircuit_G08_WhatCounts(t *testing.T) {
	two := fleet.Circuit{State: fleet.CircuitClosed, ConsecutiveUnknowns: 2}
	fault := func(o fleet.Outcome) fleet.Settlement { return fleet.Settlement{Outcome: o, PeerFault: true} }
	off := fleet.CircuitPolicy{}
	for what, c := range map[string]struct {
		policy fleet.CircuitPolicy
		s      fleet.Settlement
		state  fleet.CircuitState
		count  uint32
	}{
		"completed resets":          {policy(), ended(fleet.OutcomeCompleted), fleet.CircuitClosed, 0},
		"unknown opens":             {policy(), ended(fleet.OutcomeUnknown), fleet.CircuitOpen, 3},
		"cancelled does nothing":    {policy(), ended(fleet.OutcomeCancelled), fleet.CircuitClosed, 2},
		"lease expired nothing":     {policy(), ended(fleet.OutcomeLeaseExpired), fleet.CircuitClosed, 2},
		"fault while completed":     {policy(), fault(fleet.OutcomeCompleted), fleet.CircuitOpen, 3},
		"fault while cancelled":     {policy(), fault(fleet.OutcomeCancelled), fleet.CircuitOpen, 3},
		"fault while lease expired": {policy(), fault(fleet.OutcomeLeaseExpired), fleet.CircuitOpen, 3},
		"overdue does nothing":      {policy(), fleet.Settlement{Outcome: fleet.OutcomeUnknown, Code: settlement.CodeOverdue}, fleet.CircuitClosed, 2},
		"off does nothing":          {off, ended(fleet.OutcomeUnknown), fleet.CircuitClosed, 2},
	} {
		got := settlement.Circuit(c.policy, two, attempt(1, false), c.s, at(20))
		if got.State != c.state || got.ConsecutiveUnknowns != c.count {
			t.Errorf("%s: the circuit is %+v", what, got)
		}
	}
}

func TestReserve_G08_ProbesOnlyWhenTheTimeIsOver(t *testing.T) {
	if c, probe := settlement.Reserve(closed(), at(1)); probe || c != closed() {
		t.Errorf("through a closed circuit: %+v, probe %v", c, probe)
	}
	open := tripped()
	if c, probe := settlement.Reserve(open, at(10)); probe || c != open {
		t.Errorf("through an open circuit: %+v, probe %v", c, probe)
	}
	c, probe := settlement.Reserve(open, at(11))
	if !probe || c.State != fleet.CircuitHalfOpen || c.ProbesOut != 1 {
		t.Errorf("after the open time: %+v, probe %v", c, probe)
	}
	if c, probe = settlement.Reserve(c, at(11)); !probe || c.ProbesOut != 2 {
		t.Errorf("a second probe: %+v, probe %v", c, probe)
	}
}

func TestCircuit_G08_ProbeDecides(t *testing.T) {
	half, _ := settlement.Reserve(tripped(), at(11))
	good := settlement.Circuit(policy(), half, attempt(11, true), ended(fleet.OutcomeCompleted), at(12))
	if good.State != fleet.CircuitClosed || good.ProbesOut != 0 || good.Openings != 0 || good.ConsecutiveUnknowns != 0 {
		t.Errorf("a good probe leaves %+v", good)
	}
	bad := settlement.Circuit(policy(), half, attempt(11, true), ended(fleet.OutcomeUnknown), at(12))
	if bad.State != fleet.CircuitOpen || bad.ProbesOut != 0 || bad.Openings != 2 || !bad.OpenUntil.Equal(at(14)) {
		t.Errorf("a failed probe leaves %+v", bad)
	}
	for _, s := range []fleet.Settlement{ended(fleet.OutcomeCancelled), ended(fleet.OutcomeLeaseExpired), {Outcome: fleet.OutcomeUnknown, Code: settlement.CodeOverdue}} {
		c := settlement.Circuit(policy(), half, attempt(11, true), s, at(12))
		if c.State != fleet.CircuitHalfOpen || c.ProbesOut != 0 {
			t.Errorf("a probe that ended %s leaves %+v", s.Outcome, c)
		}
	}
}

// What was reserved before the last opening says nothing about now, even after the
// circuit closed again.
func TestCircuit_G08_OldAnswersChangeNothing(t *testing.T) {
	half, _ := settlement.Reserve(tripped(), at(11))
	good := settlement.Circuit(policy(), half, attempt(11, true), ended(fleet.OutcomeCompleted), at(12))
	for what, c := range map[string]fleet.Circuit{"open": tripped(), "half open": half, "closed again": good} {
		for _, o := range []fleet.Outcome{fleet.OutcomeCompleted, fleet.OutcomeUnknown} {
			for _, reserved := range []int{5, 10} {
				if got := settlement.Circuit(policy(), c, attempt(reserved, false), ended(o), at(13)); got != c {
					t.Errorf("%s: an old %s made it %+v", what, o, got)
				}
			}
		}
	}
	if got := settlement.Circuit(policy(), good, attempt(12, false), ended(fleet.OutcomeUnknown), at(13)); got.ConsecutiveUnknowns != 1 {
		t.Errorf("a new unknown made it %+v", got)
	}
}

func TestCircuit_G08_OpenTimeDoublesToTenMinutes(t *testing.T) {
	p := policy()
	p.OpenMillis = 100_000
	c, now := closed(), start()
	for range 3 {
		c = settlement.Circuit(p, c, fleet.Attempt{ReservedAt: now}, ended(fleet.OutcomeUnknown), now)
	}
	for _, want := range []time.Duration{100, 200, 400, 600, 600} {
		if got := c.OpenUntil.Sub(c.OpenedAt); got != want*time.Second {
			t.Errorf("opening %d lasts %s, want %ds", c.Openings, got, want)
		}
		now = c.OpenUntil
		c, _ = settlement.Reserve(c, now)
		c = settlement.Circuit(p, c, fleet.Attempt{ReservedAt: now, Probe: true}, ended(fleet.OutcomeUnknown), now.Add(time.Second))
	}
	p.OpenMillis = fleet.MaxOpenMillis
	c.Openings, c.State = 7, fleet.CircuitHalfOpen
	c = settlement.Circuit(p, c, fleet.Attempt{ReservedAt: now.Add(time.Hour)}, ended(fleet.OutcomeUnknown), now.Add(time.Hour))
	if got := c.OpenUntil.Sub(c.OpenedAt); got != time.Hour {
		t.Errorf("a policy of an hour opens for %s", got)
	}
}

// TestCircuit_G04_ProbesOutAreTheProbesReserved: in every history the slots out are
// exactly the unsettled probes, so that none leaks.
func TestCircuit_G04_ProbesOutAreTheProbesReserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy()
		p.HalfOpenProbes = uint32(rapid.IntRange(1, 3).Draw(t, "probes"))
		c, now := closed(), start()
		var held []fleet.Attempt
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 900).Draw(t, "ms")) * time.Millisecond)
			if rapid.Bool().Draw(t, "reserve") {
				if c.State == fleet.CircuitOpen && c.OpenUntil.After(now) || c.State == fleet.CircuitHalfOpen && c.ProbesOut >= p.HalfOpenProbes {
					continue
				}
				a := fleet.Attempt{ReservedAt: now}
				c, a.Probe = settlement.Reserve(c, now)
				held = append(held, a)
			} else if len(held) > 0 {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				s := fleet.Settlement{
					Outcome:   rapid.SampledFrom([]fleet.Outcome{fleet.OutcomeCompleted, fleet.OutcomeUnknown, fleet.OutcomeUnknown, fleet.OutcomeCancelled}).Draw(t, "outcome"),
					PeerFault: rapid.IntRange(0, 5).Draw(t, "fault") == 0,
				}
				c = settlement.Circuit(p, c, held[i], s, now)
				held = slices.Delete(held, i, i+1)
			}
			out := uint32(0)
			for _, a := range held {
				if a.Probe {
					out++
				}
			}
			if c.ProbesOut != out {
				t.Fatalf("%d probes are held, the circuit says %+v", out, c)
			}
			if c.State == fleet.CircuitClosed && c.ConsecutiveUnknowns >= p.FailureThreshold {
				t.Fatalf("closed at the threshold: %+v", c)
			}
		}
	})
}

func TestNeedsRecord_G42(t *testing.T) {
	for o, want := range map[fleet.Outcome]bool{
		fleet.OutcomeCompleted: false, fleet.OutcomeCancelled: false, fleet.OutcomeUnknown: true, fleet.OutcomeLeaseExpired: true,
	} {
		if settlement.NeedsRecord(o) != want {
			t.Errorf("%s needs a record: %v", o, !want)
		}
	}
}

func n(v uint32) *uint32 { return &v }

func everything(ref string) fleet.QuotaPolicy {
	return fleet.QuotaPolicy{
		Ref: ref, Revision: 1, Enabled: true, Global: n(1), Tenant: n(2), ConnectorType: n(3), Instance: n(4), Binding: n(5), TenantRetry: n(6),
	}
}

func key() fleet.BindingKey {
	return fleet.BindingKey{
		Tenant: must(fleet.ParseTenantID("acme")), Capability: must(fleet.ParseCapabilityID("desk:open")), Instance: must(fleet.ParseInstanceID("cinst_a")),
	}
}

func typ() fleet.TypeID { return must(fleet.ParseTypeID("ctype_a")) }

func TestScopes_G04_FixedOrderFromTwoPolicies(t *testing.T) {
	deployment, binding := everything("deployment"), everything("mine")
	deployment.Instance, deployment.Binding, deployment.TenantRetry = n(99), n(99), n(99)
	binding.Global, binding.Tenant, binding.ConnectorType = n(99), n(99), n(99)
	got := settlement.Scopes(key(), typ(), settlement.Policies{Deployment: deployment, Binding: binding}, true)
	want := []fleet.Scope{
		{Kind: fleet.ScopeBinding, Key: "acme|desk:open|cinst_a", Limit: 5},
		{Kind: fleet.ScopeConnectorType, Key: "ctype_a", Limit: 3},
		{Kind: fleet.ScopeGlobal, Key: "global", Limit: 1},
		{Kind: fleet.ScopeInstance, Key: "cinst_a", Limit: 4},
		{Kind: fleet.ScopeTenant, Key: "acme", Limit: 2},
		{Kind: fleet.ScopeTenantRetry, Key: "acme", Limit: 6},
	}
	if !slices.Equal(got, want) {
		t.Errorf("the scopes are %+v", got)
	}
	if !slices.IsSortedFunc(got, settlement.CompareScopes) {
		t.Error("they are not in the order in which they are locked")
	}
	first := settlement.Scopes(key(), typ(), settlement.Policies{Deployment: deployment, Binding: binding}, false)
	if !slices.Equal(first, want[:5]) {
		t.Errorf("a first attempt takes %+v", first)
	}
}

func TestScopes_G05_AbsentOrDisabledIsOff(t *testing.T) {
	off := everything("mine")
	off.Enabled = false
	if got := settlement.Scopes(key(), typ(), settlement.Policies{Deployment: off, Binding: off}, true); len(got) != 0 || got == nil {
		t.Errorf("disabled policies give %+v", got)
	}
	none := fleet.QuotaPolicy{Enabled: true}
	if got := settlement.Scopes(key(), typ(), settlement.Policies{Deployment: none, Binding: none}, true); len(got) != 0 {
		t.Errorf("policies without limits give %+v", got)
	}
	zero := none
	zero.Tenant = n(0)
	if got := settlement.Scopes(key(), typ(), settlement.Policies{Deployment: zero, Binding: none}, false); len(got) != 1 || got[0].Limit != 0 {
		t.Errorf("a limit of 0 is not off: %+v", got)
	}
	p := settlement.Policies{Binding: off}
	p.Binding.Circuit = policy()
	if p.Circuit() != (fleet.CircuitPolicy{}) {
		t.Errorf("a disabled policy has circuit %+v", p.Circuit())
	}
}

func TestPolicy_G05_WhichPolicyCounts(t *testing.T) {
	published := map[string]fleet.QuotaPolicy{"mine": everything("mine")}
	look := func(ref string) (fleet.QuotaPolicy, bool) { p, ok := published[ref]; return p, ok }
	if p, ok := settlement.Policy("", look); !ok || p.Ref != fleet.QuotaFleet || *p.Tenant != 1000 {
		t.Errorf("no reference gives %+v", p)
	}
	if p, ok := settlement.Policy("conservative", look); !ok || *p.Global != 10_000 {
		t.Errorf("conservative gives %+v", p)
	}
	if _, ok := settlement.Policy("nowhere", look); ok {
		t.Error("an unknown reference was found")
	}
	if p := settlement.Deployment(look); p.Ref != fleet.QuotaFleet {
		t.Errorf("without one of its own the deployment has %+v", p)
	}
	published[fleet.QuotaFleet] = everything(fleet.QuotaFleet)
	if p, _ := settlement.Policy("", look); *p.Tenant != 2 {
		t.Errorf("a published policy does not win over the preset: %+v", p)
	}
	if p := settlement.Deployment(look); *p.Tenant != 2 {
		t.Errorf("the deployment does not follow the published fleet policy: %+v", p)
	}
	published[fleet.QuotaDeployment] = everything(fleet.QuotaDeployment)
	if p := settlement.Deployment(look); p.Ref != fleet.QuotaDeployment {
		t.Errorf("the deployment has %+v", p)
	}
}

func TestSelective_G05(t *testing.T) {
	for kind, want := range map[fleet.ScopeKind]bool{
		fleet.ScopeBinding: true, fleet.ScopeInstance: true, fleet.ScopeConnectorType: true,
		fleet.ScopeTenant: false, fleet.ScopeTenantRetry: false, fleet.ScopeGlobal: false,
	} {
		if settlement.Selective(kind) != want {
			t.Errorf("%s passes over one candidate only: %v", kind, !want)
		}
	}
}

func TestSame_G07_TimesAreInstantsAndTheEndingMayBeAbsent(t *testing.T) {
	a := fleet.Assignment{Attempt: fleet.Attempt{ReservedAt: start(), Scopes: []fleet.Scope{{Kind: "tenant", Key: "acme", Limit: 1}}}}
	b := a
	b.Attempt.ReservedAt = start().In(time.FixedZone("east", 7200))
	b.Attempt.Scopes = slices.Clone(a.Attempt.Scopes)
	b.Earlier = []fleet.AttemptEnd{{Fence: 1}}
	if f, same := settlement.Same(a, b); !same {
		t.Errorf("%s differs", f)
	}
	stored := a
	stored.Attempt.Settlement = &fleet.Settlement{Outcome: fleet.OutcomeCompleted, SettledAt: at(3)}
	if f, same := settlement.Same(stored, a); !same {
		t.Errorf("without the ending %s differs", f)
	}
	if f, same := settlement.Same(stored, stored); !same {
		t.Errorf("with the ending %s differs", f)
	}
	if _, same := settlement.Same(a, stored); same {
		t.Error("an ending that is not stored is accepted")
	}
	other := stored
	other.Attempt.Settlement = &fleet.Settlement{Outcome: fleet.OutcomeUnknown, SettledAt: at(3)}
	if _, same := settlement.Same(stored, other); same {
		t.Error("another ending is accepted")
	}
	short := a
	short.Attempt.Scopes = nil
	if f, same := settlement.Same(a, short); same || !strings.Contains(f, "Scopes") {
		t.Errorf("missing scopes: same %v, field %q", same, f)
	}
}

func TestSame_G07_NamesTheField(t *testing.T) {
	a := fleet.Assignment{}
	b := a
	b.Route.Peer.DID = "did:key:zB"
	if f, same := settlement.Same(a, b); same || f != "route.Peer.DID" {
		t.Errorf("same %v, field %q", same, f)
	}
	b = a
	b.Attempt.Fence.Token = "x"
	if f, same := settlement.Same(a, b); same || f != "attempt.Fence.Token" {
		t.Errorf("same %v, field %q", same, f)
	}
}
