package dispatch_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	actionmemory "github.com/aipfleet/aipfleet/pkg/action/memory"
	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/dispatch"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fairness"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/memory"
)

func signerOf(seed byte) envelope.Signer {
	return envelope.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var (
	acme       = must(fleet.ParseTenantID("acme"))
	globex     = must(fleet.ParseTenantID("globex"))
	openDesk   = must(fleet.ParseCapabilityID("desk:open"))
	closeDesk  = must(fleet.ParseCapabilityID("desk:close"))
	theVersion = must(fleet.ParseVersionID("cver_1"))
	theReplica = must(fleet.ParseReplicaID("crepl_a"))
	theAccount = must(fleet.ParseInstanceID("cinst_a"))
)

// desk is a product that counts its effects; act replaces the ordinary one.
type desk struct {
	mu      sync.Mutex
	calls   map[fleet.ActionID]int
	effects map[string]json.RawMessage
	act     func(ctx context.Context, c connector.Call) (connector.Result, error)
}

func (d *desk) Discover(context.Context) ([]connector.Offer, error) { return nil, nil }
func (d *desk) Health(context.Context) error                        { return nil }

func (d *desk) Invoke(ctx context.Context, c connector.Call) (connector.Result, error) {
	d.mu.Lock()
	d.calls[c.Action]++
	act := d.act
	d.mu.Unlock()
	if act != nil {
		return act(ctx, c)
	}
	return d.happen(c), nil
}

func (d *desk) happen(c connector.Call) connector.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := json.RawMessage(`{"ticket":9007199254740993,"note":"<b>&</b>","price":1.10}`)
	d.effects[c.IdempotencyKey] = out
	return connector.Result{Class: connector.Succeeded, Output: out}
}

func (d *desk) Reconcile(_ context.Context, q connector.Query) (connector.Finding, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out, found := d.effects[q.IdempotencyKey]
	return connector.Finding{Found: found, Result: connector.Result{Class: connector.Succeeded, Output: out}}, nil
}

func (d *desk) set(act func(ctx context.Context, c connector.Call) (connector.Result, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.act = act
}

func (d *desk) called(id fleet.ActionID) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[id]
}

// rig is a registry, a store and one real host that can be stopped, cut off and
// restarted at its address.
type rig struct {
	t        *testing.T
	reg      *memory.Registry
	store    *actionmemory.Store
	product  *desk
	host     *host.Host
	config   host.Config
	address  string
	server   *http.Server
	gateway  envelope.Signer
	operator envelope.Signer
	peers    *peer.Client

	mu    sync.Mutex
	front func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

const deskManifest = `{"aip_version":"1.0","name":"desk","version":"1.0.0","capabilities":[
 {"id":"desk:open","name":"open","kind":"tool","risk":"low","input_schema":{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]},"contract":{"side_effects":"write","idempotency":"none"}},
 {"id":"desk:close","name":"close","kind":"tool","risk":"low","input_schema":{"type":"object"},"contract":{"side_effects":"write","idempotency":"none"}}],
 "implementations":[{"capability_id":"desk:open","adapter":"mcp","tool":"open"},{"capability_id":"desk:close","adapter":"mcp","tool":"close"}]}`

func newRig(t *testing.T) *rig {
	t.Helper()
	manifest, canonical, err := protocol.ReadManifest([]byte(deskManifest))
	if err != nil {
		t.Fatal(err)
	}
	key := bytes.Repeat([]byte{9}, 32)
	r := &rig{
		t: t, reg: memory.New(memory.Config{RingKey: key, CursorKey: key, Now: time.Now}), store: actionmemory.New(time.Now),
		product: &desk{calls: map[fleet.ActionID]int{}, effects: map[string]json.RawMessage{}},
		gateway: signerOf(1), operator: signerOf(3), peers: peer.NewClient(peer.Config{Addresses: peer.LoopbackPolicy()}),
	}
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	r.address = listener.Addr().String()
	r.publish(manifest, fleet.DigestBytes(canonical))
	r.config = host.Config{
		Identity: host.Identity{
			Tenant: acme, Instance: theAccount, Replica: theReplica, Version: theVersion,
			ManifestDigest: fleet.DigestBytes(canonical), ArtifactDigest: fleet.DigestBytes([]byte("artifact")),
		},
		Manifest: manifest, Signer: signerOf(2), Gateways: envelope.KeySet{{DID: r.gateway.DID()}},
		Operators: envelope.KeySet{{DID: r.operator.DID()}}, Connector: r.product, Capacity: 8, Now: time.Now,
	}
	r.config.Journal = must(journal.Open(filepath.Join(t.TempDir(), "journal.db"), journal.Options{Now: time.Now}))
	r.register()
	r.serve(listener)
	t.Cleanup(func() {
		r.down()
		r.host.Close()
		_ = r.config.Journal.Close()
		r.peers.Close()
	})
	return r
}

// publish makes one release, account, replica and binding of acme.
func (r *rig) publish(manifest fleet.Manifest, digest fleet.Digest) {
	r.t.Helper()
	typeID := must(fleet.ParseTypeID("ctype_desk"))
	trust := json.RawMessage(`{"roots":["test"]}`)
	archive := []byte("package")
	evidence := map[string]fleet.Digest{"signature": fleet.DigestBytes([]byte("signature"))}
	set := registry.ChangeSet{
		Actor: "test", Reason: "test",
		Trust: &registry.TrustRevision{Number: 1, Digest: fleet.DigestBytes(trust), Document: trust, Actor: "test", Reason: "test"},
		Types: []fleet.ConnectorType{{ID: typeID, Name: "Desk", Owner: "test", Enabled: true}},
		Versions: []fleet.ConnectorVersion{{
			ID: theVersion, Type: typeID, Version: "1.0.0", ReleaseSequence: 1, Status: fleet.VersionActive, Manifest: manifest,
			ManifestDigest: digest, ArtifactDigest: fleet.DigestBytes([]byte("artifact")), SchemaBundleDigest: fleet.DigestBytes([]byte("schemas")),
			AIPVersions: []string{"1.0"}, AdmittedAt: time.Now(),
			Attestation: fleet.Attestation{
				PackageDigest: fleet.DigestBytes(archive), Evidence: evidence, Signers: map[string]string{"signature": "key-1"},
				TrustRevision: 1, Qualified: true,
			},
		}},
		Admission: &registry.Admission{
			PackageDigest: fleet.DigestBytes(archive), Package: archive, Version: theVersion, Findings: json.RawMessage(`[]`),
			Evidence: evidence, TrustRevision: 1, EvaluatorVersion: "test", EvaluatedAt: time.Now(), Actor: "test", Reason: "test",
		},
		Instances: []fleet.ConnectorInstance{{
			ID: theAccount, Type: typeID, Tenant: acme, Serving: []fleet.ServingVersion{{Version: theVersion, Weight: 1}},
			ConfigRevision: 1, SecretProviderRef: "file:acme", Enabled: true,
		}},
		Replicas: []fleet.Replica{{
			ID: theReplica, Instance: theAccount, Version: theVersion, Endpoint: "http://" + r.address, Capacity: 8,
			Peer: fleet.Peer{
				PrincipalID: "host-a", PrincipalKind: "service", DID: signerOf(2).DID().String(), TrustDomain: "test", TransportProfile: "aip-http/1",
			},
			Topology: fleet.Topology{}.WithDefaults(),
		}},
	}
	for _, c := range []fleet.CapabilityID{openDesk, closeDesk} {
		set.Bindings = append(set.Bindings, fleet.CapabilityBinding{
			BindingKey: fleet.BindingKey{Tenant: acme, Capability: c, Instance: theAccount}, Priority: 1, PolicyRevision: 1, Enabled: true,
		})
	}
	if _, err := r.reg.Apply(r.t.Context(), set, 0); err != nil {
		r.t.Fatal(err)
	}
}

// register gives the host a lease.
func (r *rig) register() {
	r.t.Helper()
	own := r.config.Identity
	granted, err := r.reg.Register(r.t.Context(), registry.Registration{
		Claim:   registry.RequestClaim{ID: "msg_r", Digest: fleet.DigestBytes([]byte("r"))},
		Replica: own.Replica, PeerDID: r.config.Signer.DID().String(), ManifestDigest: own.ManifestDigest, ArtifactDigest: own.ArtifactDigest,
		Tenant: own.Tenant, ConfigRevision: 1, SecretProviderRef: "file:acme", CapabilityCount: 2, Capacity: 8,
		Journal: r.config.Journal.ID(), TTL: 5 * time.Minute,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.reg.Renew(r.t.Context(), registry.Beat{
		Replica: own.Replica, PeerDID: r.config.Signer.DID().String(), Epoch: granted.Epoch, Sequence: granted.Sequence + 1, Ready: true, TTL: 5 * time.Minute,
	}); err != nil {
		r.t.Fatal(err)
	}
	r.config.Lease = lifecycle.Standing{Epoch: granted.Epoch, Held: lease.Hold(time.Now(), time.Hour, time.Second)}
	r.host = must(host.New(r.config))
}

// serve puts the host behind the rig's front, where faults are.
func (r *rig) serve(l net.Listener) {
	handler := r.host.Handler()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		front := r.front
		r.mu.Unlock()
		if front == nil {
			handler.ServeHTTP(w, req)
			return
		}
		front(w, req, handler)
	})}
	r.server = server
	go func() { _ = server.Serve(l) }() // ends with down
}

func (r *rig) down() { _ = r.server.Close() }

func (r *rig) up() {
	r.t.Helper()
	r.serve(must(net.Listen("tcp", r.address)))
}

func (r *rig) setFront(front func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.front = front
}

// loseAnswer lets the host do its work and cuts the connection instead of answering.
func loseAnswer(w http.ResponseWriter, req *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), req)
	hangUp(w)
}

func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func (r *rig) courier() *dispatch.Courier {
	return &dispatch.Courier{
		Sender: r.peers, Signer: r.gateway, Principal: "gateway.test", Now: time.Now,
		Pauses: []time.Duration{10 * time.Millisecond, 20 * time.Millisecond},
	}
}

func (r *rig) engineConfig(owner string, adjust ...func(*dispatch.Config)) dispatch.Config {
	c := dispatch.Config{
		Owner: owner, Store: r.store, Router: r.reg, Uncertain: r.reg, Records: r.reg,
		Scheduler: fairness.New(fairness.Config{Now: time.Now}), Courier: r.courier(),
		Hold: 300 * time.Millisecond, Grace: 10 * time.Second, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
	for _, a := range adjust {
		a(&c)
	}
	return c
}

// engine runs an engine until the returned function stops it, or the test ends.
func (r *rig) engine(owner string, adjust ...func(*dispatch.Config)) (*dispatch.Engine, func()) {
	r.t.Helper()
	e := dispatch.New(r.engineConfig(owner, adjust...))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(stop)
	return e, stop
}

func submission(id fleet.ActionID) action.Submission {
	return action.Submission{
		ID: id, Tenant: acme, Capability: openDesk, Principal: "alice", Input: json.RawMessage(`{"title":"lamp"}`),
		Mode: "sync", Timeout: 20 * time.Second,
	}
}

func newAction() fleet.ActionID { return fleet.NewActionID(time.Now()) }

// submit submits and waits for the action to rest.
func (r *rig) submit(e *dispatch.Engine, s action.Submission) action.Record {
	r.t.Helper()
	if _, err := e.Submit(r.t.Context(), s); err != nil {
		r.t.Fatal(err)
	}
	return r.wait(e, s.ID)
}

func (r *rig) wait(e *dispatch.Engine, id fleet.ActionID) action.Record {
	r.t.Helper()
	got, err := e.Wait(r.t.Context(), acme, id, 20*time.Second)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

func (r *rig) want(got action.Record, state action.State) {
	r.t.Helper()
	if got.State != state {
		r.t.Fatalf("action is %s (%+v), want %s", got.State, got.Problem, state)
	}
}

func (r *rig) route(id fleet.ActionID) registry.RouteRecord {
	r.t.Helper()
	record, err := r.reg.Lookup(r.t.Context(), acme, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return record
}

func (r *rig) wantCalls(id fleet.ActionID, n int) {
	r.t.Helper()
	if got := r.product.called(id); got != n {
		r.t.Fatalf("the provider was called %d times, want %d", got, n)
	}
}

// audit waits until nothing is reserved any more, and checks every invariant of the
// registry (G04, G12).
func (r *rig) audit() {
	r.t.Helper()
	var snapshot registry.Snapshot
	r.eventually("every counter returns to zero", func() bool {
		snapshot = must(r.reg.Snapshot(r.t.Context()))
		return !slices.ContainsFunc(snapshot.Counters, func(c registry.Counter) bool { return c.Current != 0 })
	})
	for _, v := range registry.Audit(snapshot) {
		r.t.Errorf("audit: %s broken by %s: %s", v.Guarantee, v.Subject, v.What)
	}
}

// eventually waits for a condition, without a deadline of its own: the test's is enough.
func (r *rig) eventually(what string, holds func() bool) {
	r.t.Helper()
	for range 2000 {
		if holds() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.t.Fatalf("it never happened: %s", what)
}

func oneAtATime(c *dispatch.Config) {
	c.Scheduler = fairness.New(fairness.Config{Bounds: fairness.Bounds{InFlight: 1}, Now: time.Now})
}

// messageType reads the type of a message on its way to the host, and puts it back.
func messageType(req *http.Request) string {
	data, _ := io.ReadAll(req.Body)
	req.Body = io.NopCloser(bytes.NewReader(data))
	var env struct {
		Type string `json:"message_type"`
	}
	_ = json.Unmarshal(data, &env)
	return env.Type
}

// hangUpAtOnce cuts the connection before the host sees the message.
func hangUpAtOnce(w http.ResponseWriter, _ *http.Request, _ http.Handler) { hangUp(w) }
