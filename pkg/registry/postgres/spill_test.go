package postgres_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func otherCapability() fleet.CapabilityID { return parsed(fleet.ParseCapabilityID("desk:read")) }

// opposed is one tenant with two accounts and two capabilities: each prefers another
// account and falls over to the one that the other prefers.
func opposed(t *testing.T, limit uint32) *database {
	t.Helper()
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	v := deskVersion()
	second := v.Manifest.Capabilities[0]
	second.ID = otherCapability()
	v.Manifest.Capabilities = append(v.Manifest.Capabilities, second)
	v.Manifest.Implementations = append(v.Manifest.Implementations, fleet.Implementation{Capability: second.ID, Adapter: "mcp", Tool: "read"})
	trust := json.RawMessage(`{}`)
	d.publish(t, registry.ChangeSet{
		Types: []fleet.ConnectorType{{ID: typeID(), Name: "Desk", Owner: "test", Enabled: true}},
		Trust: &registry.TrustRevision{Number: 1, Digest: fleet.DigestBytes(trust), Document: trust, Actor: "test", Reason: "test"},
	})
	d.publish(t, registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}, Admission: &registry.Admission{
		PackageDigest: digest("package"), Version: v.ID, Findings: json.RawMessage(`[]`), Evidence: v.Attestation.Evidence,
		TrustRevision: 1, EvaluatorVersion: "test", EvaluatedAt: v.AdmittedAt, Actor: "test", Reason: "test",
	}})
	quota, _ := fleet.PresetQuota(fleet.QuotaFleet)
	quota.Ref, quota.Circuit, quota.Instance = "test", fleet.CircuitPolicy{}, &limit
	set := registry.ChangeSet{Quotas: []fleet.QuotaPolicy{quota}}
	for n := range 2 {
		set.Instances = append(set.Instances, fleet.ConnectorInstance{
			ID: instanceID(n), Type: typeID(), Tenant: tenantID(0), ConfigRevision: 1, Enabled: true,
			Serving: []fleet.ServingVersion{{Version: versionID(), Weight: 1}},
		})
		for m, c := range []fleet.CapabilityID{capabilityID(), otherCapability()} {
			b := binding(0, 1, true)
			b.Instance, b.Capability, b.Priority = instanceID(n), c, uint32(1+(n+m)%2)
			set.Bindings = append(set.Bindings, b)
		}
		for m := range 4 {
			set.Replicas = append(set.Replicas, replica(n, m, 64))
		}
	}
	d.publish(t, set)
	for n := range 8 {
		r := registration(n/4, n%4, fmt.Sprintf("msg_%d", n))
		r.Tenant, r.CapabilityCount = tenantID(0), 2
		if _, err := d.lifecycle.Register(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// TestSpill_G05_OpposedOrdersNeverDeadlock: 64 callers on two accounts that spill over
// into each other in opposite orders. Limits hold, nothing deadlocks, and nobody is
// refused while either account has room for certain.
func TestSpill_G05_OpposedOrdersNeverDeadlock(t *testing.T) {
	t.Parallel()
	const limit, callers, rounds = 12, 64, 8
	d := opposed(t, limit)
	type end struct {
		capability fleet.CapabilityID
		instance   fleet.InstanceID
		err        error
	}
	ends := make(chan end, callers*rounds)
	var wait sync.WaitGroup
	for caller := range callers {
		wait.Go(func() {
			for round := range rounds {
				req := request(fmt.Sprintf("c%dr%d", caller, round), 0)
				req.Capability = []fleet.CapabilityID{capabilityID(), otherCapability()}[caller%2]
				a, err := d.data.Resolve(t.Context(), req)
				if err == nil {
					_, err = d.data.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
				}
				ends <- end{req.Capability, a.Route.Instance, err}
			}
		})
	}
	wait.Wait()
	close(ends)
	spilled, refused := map[fleet.CapabilityID]int{}, map[fleet.Kind]int{}
	for e := range ends {
		preferred := map[fleet.CapabilityID]fleet.InstanceID{capabilityID(): instanceID(0), otherCapability(): instanceID(1)}[e.capability]
		switch {
		case e.err != nil:
			refused[fleet.KindOf(e.err)]++
		case e.instance != preferred:
			spilled[e.capability]++
		}
	}
	t.Logf("spilled over %v, refused %v, retries %+v", spilled, refused, d.data.Retries())
	for kind := range refused {
		if kind != fleet.CapacityExceeded && kind != fleet.Contended {
			t.Errorf("refused with %s", kind)
		}
	}
	if n := d.data.Retries(); n.Deadlocks != 0 || spilled[capabilityID()] == 0 || spilled[otherCapability()] == 0 {
		t.Errorf("retries %+v, spilled %v: no deadlock, and spill-over both ways, was to be shown", n, spilled)
	}
	for _, c := range d.audit(t).Counters {
		if c.Current != 0 {
			t.Errorf("%s %s is left at %d", c.Kind, c.Key, c.Current)
		}
	}
}
