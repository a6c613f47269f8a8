package tui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/memory"
)

// hostileTenant turns round and hides what follows it on a careless screen, and has
// characters that are two cells wide.
const hostileTenant = "glo\u202ebex\u2066 漢字"

// world is a registry, its clock, and a way to make it fail.
type world struct {
	testing.TB
	*memory.Registry
	mu   sync.Mutex
	at   time.Time
	fail error
}

func must[T any](v T, err error) T {
	if err != nil {
		panic("tui test: " + err.Error())
	}
	return v
}

func newWorld(t testing.TB) *world {
	w := &world{TB: t, at: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)}
	w.Registry = memory.New(memory.Config{RingKey: []byte("ring key of the tui tests"), CursorKey: []byte("cursor key of the tui tests"), Now: w.now})
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.at.Add(d)
}

func (w *world) breaks(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = err
}

func (w *world) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fail
}

// Status and List fail when the test says so.
func (w *world) Status(ctx context.Context) (registry.Status, error) {
	if err := w.failure(); err != nil {
		return registry.Status{}, err
	}
	return w.Registry.Status(ctx)
}

func (w *world) List(ctx context.Context, s registry.Selection) (registry.Records, error) {
	if err := w.failure(); err != nil {
		return registry.Records{}, err
	}
	return w.Registry.List(ctx, s)
}

func (w *world) config() Config {
	begin, wait := Bounded(context.Background(), time.Minute)
	w.Cleanup(wait)
	theme, _ := FindTheme("plain")
	return Config{Reader: w, Router: w, Begin: begin, Now: w.now, Context: "lab", Theme: theme}
}

func digest(s string) fleet.Digest { return fleet.DigestBytes([]byte(s)) }

func tenantID(s string) fleet.TenantID { return must(fleet.ParseTenantID(s)) }

func definition(id string) fleet.CapabilityDefinition {
	return fleet.CapabilityDefinition{
		ID: must(fleet.ParseCapabilityID(id)), Name: "Name of " + id, Kind: "tool", Description: "What it does", Risk: "low",
		InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: json.RawMessage(`{"type":"object"}`),
		Contract: fleet.Contract{SideEffects: fleet.EffectWrite, Idempotency: fleet.IdempotencyProviderKey},
	}
}

func deskVersion() fleet.ConnectorVersion {
	m := fleet.Manifest{AIPVersion: "1.0", Name: "desk", Version: "1.0.0", Capabilities: []fleet.CapabilityDefinition{definition("desk:open")}}
	m.Implementations = []fleet.Implementation{{Capability: m.Capabilities[0].ID, Adapter: "mcp", Tool: "open", Profiles: []string{"aip.core.v1"}}}
	return fleet.ConnectorVersion{
		ID: must(fleet.ParseVersionID("cver_desk1")), Type: must(fleet.ParseTypeID("ctype_desk")), Version: "1.0.0", ReleaseSequence: 1,
		Status: fleet.VersionActive, Manifest: m, ManifestDigest: digest("manifest"), ArtifactDigest: digest("artifact"),
		SchemaBundleDigest: digest("schemas"), AIPVersions: []string{"1.0"}, AdmittedAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
		Attestation: fleet.Attestation{PackageDigest: digest("package"), Evidence: map[string]fleet.Digest{"signature": digest("s")},
			Signers: map[string]string{"signature": "key-1"}, TrustRevision: 1, Qualified: true},
	}
}

func deskReplica(owner, name, zone string, capacity uint32) fleet.Replica {
	id := "crepl_" + owner + "_" + name
	return fleet.Replica{
		ID: must(fleet.ParseReplicaID(id)), Instance: must(fleet.ParseInstanceID("cinst_" + owner)), Version: must(fleet.ParseVersionID("cver_desk1")),
		Endpoint: "https://" + name + "." + owner + ".example:7101", Capacity: capacity,
		Peer:     fleet.Peer{PrincipalID: "host-" + id, PrincipalKind: "service", DID: "did:key:z6Mk" + owner + name, TrustDomain: "example", TransportProfile: "aip-http/1"},
		Topology: fleet.Topology{Region: "north", Zone: zone, CapacityClass: "standard"},
	}
}

// publish declares two tenants with an instance each.
func (w *world) publish(replicas ...fleet.Replica) {
	v := deskVersion()
	trust := json.RawMessage(`{"roots":["test"]}`)
	set := registry.ChangeSet{
		Actor: "test", Reason: "first fleet",
		Trust: &registry.TrustRevision{Number: 1, Digest: fleet.DigestBytes(trust), Document: trust, Actor: "test", Reason: "test"},
		Types: []fleet.ConnectorType{{ID: v.Type, Name: "desk", Owner: "test", Enabled: true}}, Versions: []fleet.ConnectorVersion{v},
		Admission: &registry.Admission{PackageDigest: v.Attestation.PackageDigest, Package: []byte("package"), Version: v.ID, Findings: json.RawMessage(`[]`),
			Evidence: v.Attestation.Evidence, TrustRevision: 1, EvaluatorVersion: "test", EvaluatedAt: w.now(), Actor: "test", Reason: "test"},
		Quotas: []fleet.QuotaPolicy{{Ref: "strict", Revision: 1, Enabled: true, Circuit: fleet.CircuitPolicy{FailureThreshold: 1, OpenMillis: 30_000, HalfOpenProbes: 1}}},
	}
	for owner, tenant := range map[string]string{"acme": "acme", "globex": hostileTenant} {
		i := fleet.ConnectorInstance{ID: must(fleet.ParseInstanceID("cinst_" + owner)), Type: v.Type, Tenant: tenantID(tenant), ConfigRevision: 1, Enabled: true,
			Serving: []fleet.ServingVersion{{Version: v.ID, Weight: 100}}, SecretProviderRef: "file:" + owner}
		b := fleet.CapabilityBinding{BindingKey: fleet.BindingKey{Tenant: i.Tenant, Capability: v.Manifest.Capabilities[0].ID, Instance: i.ID},
			Priority: 10, PolicyRevision: 1, CredentialRevisionRef: "cred-1", Enabled: true}
		if owner == "globex" {
			b.QuotaPolicyRef = "strict"
		}
		set.Instances, set.Bindings = append(set.Instances, i), append(set.Bindings, b)
	}
	set.Replicas = replicas
	if _, err := w.Apply(context.Background(), set, 0); err != nil {
		w.Fatalf("publish: %v (%s)", err, fleet.CodeOf(err))
	}
}

func (w *world) register(r fleet.Replica, tenant string, ttl time.Duration) {
	w.Helper()
	v := deskVersion()
	lease, err := w.Register(context.Background(), registry.Registration{
		Claim: registry.RequestClaim{ID: "msg_" + r.ID.String(), Digest: digest(r.ID.String())}, Replica: r.ID, PeerDID: r.Peer.DID,
		ManifestDigest: v.ManifestDigest, ArtifactDigest: v.ArtifactDigest, Tenant: tenantID(tenant), ConfigRevision: 1,
		SecretProviderRef: "file:" + r.Instance.String()[len("cinst_"):], CapabilityCount: 1, Capacity: r.Capacity,
		Journal: must(fleet.ParseJournalID("jrnl_" + r.ID.String())), TTL: ttl,
	})
	if err != nil {
		w.Fatalf("register %s: %v (%s)", r.ID, err, fleet.CodeOf(err))
	}
	w.beat(r, lease.Epoch, lease.Sequence+1, ttl, false)
}

func (w *world) beat(r fleet.Replica, epoch, sequence uint64, ttl time.Duration, draining bool) {
	w.Helper()
	if _, err := w.Renew(context.Background(), registry.Beat{Replica: r.ID, PeerDID: r.Peer.DID, Epoch: epoch, Sequence: sequence, Ready: !draining, Draining: draining, TTL: ttl}); err != nil {
		w.Fatalf("beat of %s: %v (%s)", r.ID, err, fleet.CodeOf(err))
	}
}

func (w *world) resolve(tenant, action string) fleet.Assignment {
	w.Helper()
	a, err := w.Resolve(context.Background(), registry.RouteRequest{
		Action: must(fleet.ParseActionID(action)), Capability: must(fleet.ParseCapabilityID("desk:open")), Tenant: tenantID(tenant), TimeToLive: 10 * time.Minute})
	if err != nil {
		w.Fatalf("resolve %s: %v (%s)", action, err, fleet.CodeOf(err))
	}
	w.advance(time.Second)
	return a
}

func (w *world) settle(a fleet.Assignment, s fleet.Settlement) {
	w.Helper()
	if _, err := w.Settle(context.Background(), a, s); err != nil {
		w.Fatalf("settle: %v (%s)", err, fleet.CodeOf(err))
	}
	w.advance(time.Second)
}

// populated is a fleet in which something of everything is going on.
func populated(t testing.TB) *world {
	w := newWorld(t)
	a, b, c := deskReplica("acme", "a1", "zone-a", 4), deskReplica("acme", "b1", "zone-b", 4), deskReplica("acme", "c1", "zone-b", 8)
	g, h := deskReplica("globex", "a1", "zone-a", 2), deskReplica("globex", "b1", "zone-b", 2)
	w.publish(a, b, c, g, h)
	w.register(a, "acme", registry.MaxLeaseTTL)
	w.register(b, "acme", registry.MaxLeaseTTL)
	w.register(g, hostileTenant, registry.MaxLeaseTTL)
	w.register(h, hostileTenant, 20*time.Second)
	w.advance(2 * time.Second)
	w.settle(w.resolve("acme", "act_done"), fleet.Settlement{Outcome: fleet.OutcomeCompleted, Code: "dispatch.completed"})
	w.settle(w.resolve("acme", "act_again"), fleet.Settlement{Outcome: fleet.OutcomeCancelled, Code: "dispatch.never_sent", Verdict: fleet.VerdictNeverSent})
	w.resolve("acme", "act_again")
	w.resolve("acme", "act_held")
	w.settle(w.resolve(hostileTenant, "act_lost"), fleet.Settlement{Outcome: fleet.OutcomeUnknown, Code: "dispatch.no_answer"})
	if _, err := w.Intend(context.Background(), registry.Intent{Replica: b.ID, Want: fleet.IntentDrain, Actor: "test", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	w.beat(b, 1, 3, registry.MaxLeaseTTL, true)
	w.advance(5 * time.Second)
	return w
}

// crowd is a fleet of n replicas, registered or not.
func crowd(n int) []registry.ReplicaRecord {
	all := make([]registry.ReplicaRecord, n)
	for i := range all {
		all[i].Replica = deskReplica("acme", fmt.Sprintf("%06d", i*7919%n), fmt.Sprintf("zone-%d", i%7), 4)
		all[i].Tenant = tenantID(fmt.Sprintf("tenant-%d", i%40))
		all[i].Live = fleet.ReplicaLive{ID: all[i].ID, Status: []fleet.ReplicaStatus{fleet.ReplicaReady, fleet.ReplicaDraining, fleet.ReplicaOffline}[i%3],
			Healthy: i%5 != 0, Active: uint32(i % 4), LeaseEpoch: uint64(i), LeaseExpiresAt: time.Unix(int64(2_000_000_000+i%600), 0)}
	}
	return all
}

// driver runs a model by hand: every command is executed at once, except ticks.
type driver struct {
	*world
	m Model
}

func drive(w *world, c Config, width, height int) *driver {
	d := &driver{world: w, m: New(c)}
	d.send(tea.WindowSizeMsg{Width: width, Height: height})
	d.run(d.m.Refresh())
	return d
}

func (d *driver) send(msg tea.Msg) {
	next, cmd := d.m.Update(msg)
	d.m = next.(Model)
	if _, isTick := msg.(tickMsg); !isTick {
		d.run(cmd)
	}
}

func (d *driver) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case nil, tea.QuitMsg:
	case tea.BatchMsg:
		for _, c := range msg {
			d.run(c)
		}
	default:
		d.send(msg)
	}
}

// refresh reads once more.
func (d *driver) refresh() { d.press("r") }

// press sends keys by name; text of several letters is typed.
func (d *driver) press(keys ...string) {
	named := map[string]tea.KeyType{"enter": tea.KeyEnter, "esc": tea.KeyEsc, "up": tea.KeyUp, "down": tea.KeyDown, "tab": tea.KeyTab,
		"pgdown": tea.KeyPgDown, "end": tea.KeyEnd, "home": tea.KeyHome, "backspace": tea.KeyBackspace, "right": tea.KeyRight, "left": tea.KeyLeft}
	for _, k := range keys {
		if t, ok := named[k]; ok {
			d.send(tea.KeyMsg{Type: t})
			continue
		}
		for _, r := range k {
			if r == ' ' {
				d.send(tea.KeyMsg{Type: tea.KeySpace, Runes: []rune{' '}})
				continue
			}
			d.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
		}
	}
}

var errAway = fleet.Errorf(fleet.Unavailable, "registry.connect", "the registry cannot be reached").Caused(errors.New("connection refused"))
