package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func capability(s string) fleet.CapabilityID { return must(fleet.ParseCapabilityID(s)) }

func tenant(s string) fleet.TenantID { return must(fleet.ParseTenantID(s)) }

func typ() fleet.ConnectorType {
	return fleet.ConnectorType{ID: must(fleet.ParseTypeID("ctype_a")), Name: "A", Owner: "ann", Enabled: true}
}

func version(n int) fleet.ConnectorVersion {
	d := sample()
	text := fmt.Sprintf("1.%d", n)
	return fleet.ConnectorVersion{
		ID: must(fleet.ParseVersionID(fmt.Sprintf("cver_%d", n))), Type: typ().ID, Version: text, ReleaseSequence: uint64(n), Status: fleet.VersionActive,
		Manifest: fleet.Manifest{AIPVersion: "1.0", Name: "a", Version: text, Capabilities: []fleet.CapabilityDefinition{d},
			Implementations: []fleet.Implementation{{Capability: d.ID, Adapter: "mcp", Tool: "do", Profiles: []string{"core"}}}},
		ManifestDigest: fleet.DigestBytes([]byte("m" + text)), ArtifactDigest: fleet.DigestBytes([]byte("a" + text)),
		AIPVersions: []string{"1.0"}, Attestation: fleet.Attestation{Qualified: true}, AdmittedAt: time.Unix(1, 0),
	}
}

func instance() fleet.ConnectorInstance {
	return fleet.ConnectorInstance{
		ID: must(fleet.ParseInstanceID("cinst_a")), Type: typ().ID, Tenant: tenant("acme"), ConfigRevision: 1, Enabled: true,
		Serving: []fleet.ServingVersion{{Version: version(1).ID, Weight: 1}},
	}
}

func binding() fleet.CapabilityBinding {
	return fleet.CapabilityBinding{
		BindingKey: fleet.BindingKey{Tenant: tenant("acme"), Capability: sample().ID, Instance: instance().ID}, PolicyRevision: 1, Enabled: true,
	}
}

func replica() fleet.Replica {
	return fleet.Replica{
		ID: must(fleet.ParseReplicaID("crepl_a")), Instance: instance().ID, Version: version(1).ID, Endpoint: "https://a.example",
		Peer:     fleet.Peer{PrincipalID: "h", PrincipalKind: "service", DID: "did:key:zA", TrustDomain: "d", TransportProfile: "p"},
		Capacity: 2,
	}
}

func chain() Chain {
	return Chain{Binding: binding(), Instance: instance(), Type: typ(), Version: version(1)}
}

func TestVisible_G18_EveryLinkCounts(t *testing.T) {
	if c := chain(); !c.Valid() || !c.Visible(tenant("acme"), "core") || !c.Visible(tenant("acme"), "") {
		t.Fatal("the whole chain is not visible")
	}
	for what, edit := range map[string]func(*Chain){
		"binding disabled":     func(c *Chain) { c.Binding.Enabled = false },
		"instance disabled":    func(c *Chain) { c.Instance.Enabled = false },
		"type disabled":        func(c *Chain) { c.Type.Enabled = false },
		"other tenant's":       func(c *Chain) { c.Instance.Tenant = tenant("globex") },
		"other instance":       func(c *Chain) { c.Binding.Instance = must(fleet.ParseInstanceID("cinst_b")) },
		"other type":           func(c *Chain) { c.Version.Type = must(fleet.ParseTypeID("ctype_b")) },
		"not served":           func(c *Chain) { c.Instance.Serving = nil },
		"admitted only":        func(c *Chain) { c.Version.Status = fleet.VersionAdmitted },
		"quarantined":          func(c *Chain) { c.Version.Status = fleet.VersionQuarantined },
		"revoked":              func(c *Chain) { c.Version.Status = fleet.VersionRevoked },
		"not qualified":        func(c *Chain) { c.Version.Attestation.Qualified = false },
		"not implemented":      func(c *Chain) { c.Version.Manifest.Implementations = nil },
		"not defined":          func(c *Chain) { c.Version.Manifest.Capabilities = nil },
		"another capability's": func(c *Chain) { c.Binding.Capability = capability("a:other") },
	} {
		c := chain()
		edit(&c)
		if c.Valid() || c.Visible(tenant("acme"), "") {
			t.Errorf("%s: it is still visible", what)
		}
	}
	c := chain()
	if c.Visible(tenant("globex"), "") || c.Visible(fleet.TenantID{}, "") || c.Visible(tenant("acme"), "other") {
		t.Error("it is visible to another tenant, to none, or under another profile")
	}
	c.Instance.Serving[0].Weight = 0
	if !c.Valid() || c.Visible(tenant("acme"), "") {
		t.Error("a version of weight 0 takes no new work, and is visible")
	}
	c = chain()
	c.Version.Status = fleet.VersionDeprecated
	if !c.Visible(tenant("acme"), "") {
		t.Error("a deprecated version that is served is hidden")
	}
}

func TestPrefer_G34_OldestFirst(t *testing.T) {
	a, b := version(1), version(2)
	if Prefer(a, b) >= 0 || Prefer(b, a) <= 0 || Prefer(a, a) != 0 {
		t.Error("the older release does not come first")
	}
	b.ReleaseSequence = 1
	if Prefer(a, b) >= 0 {
		t.Error("equal sequences are not ordered by id")
	}
}

func TestCursor_G14_RoundTripAndBinding(t *testing.T) {
	key := CursorKey("key")
	f := Filter{Tenant: tenant("acme"), Search: "Desk"}
	c := Seal(key, 7, f, capability("a:do"))
	from, err := Open(key, f, c)
	if err != nil || from.After != capability("a:do") || from.Fits(7) != nil {
		t.Fatalf("opened as %+v, %v", from, err)
	}
	if err := from.Fits(8); !fleet.Is(err, fleet.StaleCursor) {
		t.Errorf("of another revision: %v", err)
	}
	if first, err := Open(key, f, ""); err != nil || !first.After.IsZero() || first.Fits(7) != nil || first.Fits(8) != nil {
		t.Errorf("the first page starts at %+v, %v", first, err)
	}
	folded := f
	folded.Search = "dESK"
	if _, err := Open(key, folded, c); err != nil {
		t.Errorf("the same search in other case: %v", err)
	}
	for what, g := range map[string]Filter{
		"tenant": {Tenant: tenant("globex"), Search: "Desk"}, "search": {Tenant: tenant("acme")}, "exact": {Tenant: tenant("acme"), Search: "Desk", Exact: capability("x")},
		"profile": {Tenant: tenant("acme"), Search: "Desk", Profile: "p"}, "unbound": {Tenant: tenant("acme"), Search: "Desk", Unbound: true},
	} {
		if _, err := Open(key, g, c); !fleet.Is(err, fleet.Invalid) {
			t.Errorf("under another %s: %v", what, err)
		}
	}
	if _, err := Open(CursorKey("other"), f, c); !fleet.Is(err, fleet.Invalid) {
		t.Errorf("under another key: %v", err)
	}
}

// Fields must not run into each other: "ab"+"c" is not "a"+"bc".
func TestCursor_G14_FieldsAreSeparated(t *testing.T) {
	key := CursorKey("key")
	c := Seal(key, 1, Filter{Search: "ab", Profile: "c"}, capability("x"))
	if _, err := Open(key, Filter{Search: "a", Profile: "bc"}, c); err == nil {
		t.Error("a cursor fits another split of its fields")
	}
}

func FuzzCursor_G14(f *testing.F) {
	key, filter := CursorKey("key"), Filter{Tenant: tenant("acme")}
	f.Add(Seal(key, 1, filter, capability("a:do")))
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		from, err := Open(key, filter, s)
		if err == nil && s != "" && Seal(key, from.revision, filter, from.After) != s {
			t.Fatalf("%q opened as %q, which seals otherwise", s, from.After)
		}
	})
}

func TestFit_G16_ItemsAndBytes(t *testing.T) {
	for _, c := range []struct {
		sizes        []int
		items, bytes int
		want         int
	}{
		{nil, 5, 10, 0}, {[]int{1, 2, 3}, 5, 10, 3}, {[]int{1, 2, 3}, 2, 10, 2}, {[]int{5, 5, 1}, 5, 10, 2}, {[]int{11, 1}, 5, 10, 1}, {[]int{5, 6}, 5, 10, 1}, {[]int{1, 1}, 1, 10, 1},
	} {
		if got := Fit(c.sizes, c.items, c.bytes); got != c.want {
			t.Errorf("of %v within %d items and %d bytes fit %d, want %d", c.sizes, c.items, c.bytes, got, c.want)
		}
	}
}

func TestContractDigest_G34_IgnoresNamesAndWriting(t *testing.T) {
	a, b := sample(), sample()
	b.Name, b.Description = "Other", "Text"
	b.InputSchema = json.RawMessage(" { \"type\" :\n\"object\" } ")
	if must(ContractDigest(a)) != must(ContractDigest(b)) {
		t.Error("name, description or white space changed the contract digest")
	}
	b.InputSchema = json.RawMessage(`{"type":"object","maxProperties":1}`)
	if must(ContractDigest(a)) == must(ContractDigest(b)) {
		t.Error("another schema has the same contract digest")
	}
	b.InputSchema = json.RawMessage(`{`)
	if _, err := ContractDigest(b); err == nil {
		t.Error("broken JSON has a contract digest")
	}
}

func TestMatches_G14_LiteralAndFolded(t *testing.T) {
	d := sample()
	d.Name, d.Description = "Größe 100%", "Under_score"
	for text, want := range map[string]bool{"": true, "A:DO": true, "GRÖSSE": false, "GRÖßE": true, "100%": true, "1%0": false, "r_s": true, "u%r": false, "zzz": false} {
		if Matches(d, text) != want {
			t.Errorf("%q matches: %v", text, !want)
		}
	}
}

func world() World {
	return World{
		Quotas:    map[string]fleet.QuotaPolicy{},
		Types:     map[fleet.TypeID]fleet.ConnectorType{typ().ID: typ()},
		Versions:  map[fleet.VersionID]fleet.ConnectorVersion{version(1).ID: version(1)},
		Instances: map[fleet.InstanceID]fleet.ConnectorInstance{instance().ID: instance()},
		Replicas:  map[fleet.ReplicaID]fleet.Replica{},
		Bindings:  map[fleet.BindingKey]fleet.CapabilityBinding{binding().BindingKey: binding()},
		Active:    map[fleet.ReplicaID]uint32{},
	}
}

func TestCheck_G13_AWholeNewFleetInOneSet(t *testing.T) {
	s := Set{
		Types: []fleet.ConnectorType{typ()}, Versions: []fleet.ConnectorVersion{version(1)}, Instances: []fleet.ConnectorInstance{instance()},
		Replicas: []fleet.Replica{replica()}, Bindings: []fleet.CapabilityBinding{binding()},
	}
	r, err := Check(World{}, s)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Differences) != 5 || len(r.Types) != 1 || len(r.Bindings) != 1 {
		t.Errorf("there are %d differences", len(r.Differences))
	}
	if r.Replicas[0].Topology != (fleet.Topology{}).WithDefaults() || s.Replicas[0].Topology != (fleet.Topology{}) {
		t.Errorf("the topology is %+v, in the set %+v", r.Replicas[0].Topology, s.Replicas[0].Topology)
	}
	for _, d := range r.Differences {
		if !d.Create || len(d.Fields) == 0 || !slices.IsSortedFunc(d.Fields, func(a, b Field) int { return strings.Compare(a.Path, b.Path) }) {
			t.Errorf("the difference of %s is %+v", d.ID, d)
		}
	}
}

func TestCheck_G13_OnlyWhatDiffers(t *testing.T) {
	b := binding()
	b.Priority, b.PolicyRevision = 3, 2
	v := version(1)
	v.Status = fleet.VersionAdmitted // the status is a transition's business
	r, err := Check(world(), Set{Types: []fleet.ConnectorType{typ()}, Versions: []fleet.ConnectorVersion{v}, Instances: []fleet.ConnectorInstance{instance()}, Bindings: []fleet.CapabilityBinding{b}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Field{{"policy_revision", "1", "2"}, {"priority", "0", "3"}}
	if len(r.Differences) != 1 || r.Differences[0].Create || !slices.Equal(r.Differences[0].Fields, want) || len(r.Versions)+len(r.Types)+len(r.Instances) != 0 {
		t.Errorf("the differences are %+v", r.Differences)
	}
}

func TestCheck_G16_Limits(t *testing.T) {
	for what, s := range map[string]Set{
		"instances": {Instances: make([]fleet.ConnectorInstance, MaxInstances+1)},
		"replicas":  {Replicas: make([]fleet.Replica, MaxReplicas+1)},
		"bindings":  {Bindings: make([]fleet.CapabilityBinding, MaxBindings+1)},
	} {
		if _, err := Check(world(), s); fleet.CodeOf(err) != "publish.limit" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestCheck_G40_EachRuleRefusesByItsCode(t *testing.T) {
	for code, build := range map[string]func(w World) Set{
		"record.type":      func(World) Set { v := typ(); v.Name = ""; return Set{Types: []fleet.ConnectorType{v}} },
		"publish.twice":    func(World) Set { return Set{Types: []fleet.ConnectorType{typ(), typ()}} },
		"publish.identity": func(World) Set { v := typ(); v.Owner = "bob"; return Set{Types: []fleet.ConnectorType{v}} },
		"publish.type":     func(w World) Set { return foreignType(w) },
		"publish.not_serving": func(w World) Set {
			w.Versions[version(2).ID] = version(2)
			r := replica()
			r.Version = version(2).ID
			return Set{Replicas: []fleet.Replica{r}}
		},
		"publish.capability": func(World) Set {
			b := binding()
			b.Capability = capability("a:no")
			return Set{Bindings: []fleet.CapabilityBinding{b}}
		},
		"publish.reference": func(World) Set {
			b := binding()
			b.Tenant = tenant("globex")
			return Set{Bindings: []fleet.CapabilityBinding{b}}
		},
		"publish.release_sequence": func(w World) Set {
			w.Versions[version(3).ID] = version(3)
			return Set{Versions: []fleet.ConnectorVersion{version(2)}}
		},
		"publish.version_status": func(World) Set {
			v := version(2)
			v.Status = fleet.VersionDeprecated
			return Set{Versions: []fleet.ConnectorVersion{v}}
		},
		"publish.stale_revision": func(w World) Set {
			q, _ := fleet.PresetQuota(fleet.QuotaFleet)
			w.Quotas[q.Ref] = q
			q.Tenant = nil
			return Set{Quotas: []fleet.QuotaPolicy{q}}
		},
		"publish.capacity": func(w World) Set {
			r := replica()
			r.Topology = r.Topology.WithDefaults()
			w.Replicas[r.ID], w.Active[r.ID] = r, 2
			r.Capacity = 1
			return Set{Replicas: []fleet.Replica{r}}
		},
	} {
		w := world()
		s := build(w)
		if _, err := Check(w, s); fleet.CodeOf(err) != code {
			t.Errorf("want %s, refused with %v (%s)", code, err, fleet.CodeOf(err))
		}
	}
}

func foreignType(w World) Set {
	other := typ()
	other.ID = must(fleet.ParseTypeID("ctype_b"))
	w.Types[other.ID] = other
	v := version(9)
	v.Type = other.ID
	w.Versions[v.ID] = v
	i := instance()
	i.ConfigRevision, i.Serving = 2, append(i.Serving, fleet.ServingVersion{Version: v.ID})
	return Set{Instances: []fleet.ConnectorInstance{i}}
}

// A revoked version no longer binds what later ones may promise.
func TestCheck_G34_CompatibleWithEveryLivingVersion(t *testing.T) {
	v := version(2)
	v.Manifest.Capabilities[0].Contract.SideEffects = fleet.EffectDestructive
	_, err := Check(world(), Set{Versions: []fleet.ConnectorVersion{v}})
	if fleet.CodeOf(err) != "publish.incompatible" || !strings.Contains(err.Error(), "side effects grew") {
		t.Errorf("refused with %v", err)
	}
	w := world()
	old := version(1)
	old.Status = fleet.VersionRevoked
	w.Versions[old.ID] = old
	if _, err := Check(w, Set{Versions: []fleet.ConnectorVersion{v}}); err != nil {
		t.Errorf("beside a revoked version: %v", err)
	}
	w = world()
	w.Types[typ().ID] = fleet.ConnectorType{ID: typ().ID, Name: "A", Owner: "ann"}
	if _, err := Check(w, Set{Versions: []fleet.ConnectorVersion{version(2)}}); fleet.CodeOf(err) != "publish.type_disabled" {
		t.Errorf("of a disabled type: %v", err)
	}
}

func TestCheck_G34_StoredFormDoesNotMatter(t *testing.T) {
	w := world()
	v := version(1)
	v.Manifest.Capabilities = slices.Clone(v.Manifest.Capabilities)
	v.Manifest.Capabilities[0].InputSchema = json.RawMessage("{ \"type\":  \"object\" }")
	v.AdmittedAt = v.AdmittedAt.In(time.FixedZone("east", 3600)).Add(300 * time.Nanosecond)
	r, err := Check(w, Set{Versions: []fleet.ConnectorVersion{v}})
	if err != nil || len(r.Differences) != 0 {
		t.Errorf("the same version, written otherwise: %v, %+v", err, r.Differences)
	}
}

func TestMove_G23_IsFinalAfterRevocation(t *testing.T) {
	v := version(1)
	q, changed, err := Move(v, fleet.VersionQuarantined)
	if err != nil || !changed || q.StatusBefore != fleet.VersionActive {
		t.Fatalf("quarantined as %+v, %v", q, err)
	}
	if back, _, err := Move(q, fleet.VersionActive); err != nil || back.StatusBefore != "" {
		t.Errorf("back as %+v, %v", back, err)
	}
	if _, _, err := Move(q, fleet.VersionDeprecated); !fleet.Is(err, fleet.Conflict) {
		t.Errorf("out of quarantine to elsewhere: %v", err)
	}
	if again, changed, err := Move(v, fleet.VersionActive); err != nil || changed || again.ID != v.ID {
		t.Errorf("to the same status: %v, %v", changed, err)
	}
	r, _, _ := Move(q, fleet.VersionRevoked)
	for _, to := range []fleet.VersionStatus{fleet.VersionActive, fleet.VersionAdmitted, fleet.VersionDeprecated, fleet.VersionQuarantined} {
		if _, _, err := Move(r, to); !fleet.Is(err, fleet.Conflict) {
			t.Errorf("from revoked to %s: %v", to, err)
		}
	}
}
