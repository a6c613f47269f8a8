package impact

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func parsed[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// fleetOf makes an instance of acme with n ready replicas of equal capacity, bound to one capability.
func fleetOf(t *testing.T, n int) Fleet {
	t.Helper()
	tenant := parsed[fleet.TenantID](t)(fleet.ParseTenantID("acme"))
	instance := parsed[fleet.InstanceID](t)(fleet.ParseInstanceID("cinst_a"))
	f := Fleet{}
	for i := range n {
		r := registry.ReplicaRecord{Tenant: tenant, Replica: fleet.Replica{ID: parsed[fleet.ReplicaID](t)(fleet.ParseReplicaID(fmt.Sprintf("crepl_%d", i))), Instance: instance, Capacity: 4}}
		r.Live = fleet.ReplicaLive{Status: fleet.ReplicaReady, Intent: fleet.IntentRun, Healthy: true, Active: 1}
		f.Replicas = append(f.Replicas, r)
	}
	f.Bindings = []fleet.CapabilityBinding{{Enabled: true, BindingKey: fleet.BindingKey{Tenant: tenant, Instance: instance,
		Capability: parsed[fleet.CapabilityID](t)(fleet.ParseCapabilityID("desk:open"))}}}
	return f
}

func first(n int) func(registry.ReplicaRecord) bool {
	return func(registry.ReplicaRecord) bool { n--; return n >= 0 }
}

// TestImpact_G40_LastReplicaAndLargeShareAskForAName shows the bounds of the ladder.
func TestImpact_G40_LastReplicaAndLargeShareAskForAName(t *testing.T) {
	only := func(id string) func(registry.ReplicaRecord) bool {
		return func(r registry.ReplicaRecord) bool { return r.ID.String() == id }
	}
	for _, c := range []struct {
		replicas int
		want     app.Level
		last     int
	}{{1, app.ConfirmName, 1}, {2, app.ConfirmName, 0}, {4, app.ConfirmName, 0}, {5, app.ConfirmYes, 0}, {10, app.ConfirmYes, 0}} {
		i := Of(fleetOf(t, c.replicas), only("crepl_0"), NoBinding)
		if got := i.Level(app.ConfirmYes); got != c.want || len(i.LastOf) != c.last {
			t.Errorf("one of %d: level %d, last of %v; want %d and %d", c.replicas, got, i.LastOf, c.want, c.last)
		}
	}
}

// TestImpact_G40_WhatServesNothingIsNoLoss shows that a replica that is drained
// already takes nothing away, and that what is pinned to it is still named.
func TestImpact_G40_WhatServesNothingIsNoLoss(t *testing.T) {
	f := fleetOf(t, 3)
	f.Replicas[0].Live.Intent = fleet.IntentDrain
	i := Of(f, first(1), NoBinding)
	if i.Level(app.ConfirmNone) != app.ConfirmNone || i.Active != 1 {
		t.Errorf("%+v", i)
	}
	if text := strings.Join(i.Lines(), "\n"); !strings.Contains(text, "1 assignment pinned") {
		t.Errorf("the pinned work is not named: %q", text)
	}
}

// TestImpact_G40_LosingTheOnlyBindingIsNamed shows the loss of a binding.
func TestImpact_G40_LosingTheOnlyBindingIsNamed(t *testing.T) {
	i := Of(fleetOf(t, 3), NoReplica, func(fleet.CapabilityBinding) bool { return true })
	if i.Level(app.ConfirmNone) != app.ConfirmName || len(i.LastOf) != 1 || i.LastOf[0] != "acme desk:open" {
		t.Errorf("%+v", i)
	}
}
