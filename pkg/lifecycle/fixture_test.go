package lifecycle_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
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

func replica() fleet.ReplicaID { return must(fleet.ParseReplicaID("crepl_a")) }

// asked counts what reaches the registry.
type asked struct {
	registry.Fleet
	mu sync.Mutex
	n  int
}

func (a *asked) count() { a.mu.Lock(); a.n++; a.mu.Unlock() }

func (a *asked) reads() int { a.mu.Lock(); defer a.mu.Unlock(); return a.n }

func (a *asked) Register(ctx context.Context, r registry.Registration) (registry.Lease, error) {
	a.count()
	return a.Fleet.Register(ctx, r)
}

func (a *asked) Renew(ctx context.Context, b registry.Beat) (registry.Lease, error) {
	a.count()
	return a.Fleet.Renew(ctx, b)
}

func (a *asked) Leave(ctx context.Context, d registry.Departure) (registry.Lease, error) {
	a.count()
	return a.Fleet.Leave(ctx, d)
}

// rig is a lifecycle service over a memory registry with one declared replica.
type rig struct {
	t       *testing.T
	store   *memory.Registry
	asked   *asked
	http    *httptest.Server
	service envelope.Signer
	host    envelope.Signer
}

func newRig(t *testing.T, adjust ...func(*lifecycle.ServerConfig)) *rig {
	t.Helper()
	r := &rig{t: t, service: signerOf(1), host: signerOf(2)}
	r.store = memory.New(memory.Config{RingKey: bytes.Repeat([]byte{1}, 32), CursorKey: bytes.Repeat([]byte{2}, 32), Now: time.Now})
	r.asked = &asked{Fleet: r.store}
	r.declare()
	cfg := lifecycle.ServerConfig{Fleet: r.asked, Signer: r.service, Now: time.Now, TTL: 5 * time.Second}
	for _, a := range adjust {
		a(&cfg)
	}
	server, err := lifecycle.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.http = httptest.NewServer(server.Handler())
	t.Cleanup(r.http.Close)
	return r
}

func digest(text string) fleet.Digest { return fleet.DigestBytes([]byte(text)) }

// declare publishes one type, version, instance and replica.
func (r *rig) declare() {
	r.t.Helper()
	typ, version := must(fleet.ParseTypeID("ctype_desk")), must(fleet.ParseVersionID("cver_a"))
	instance, tenant := must(fleet.ParseInstanceID("cinst_a")), must(fleet.ParseTenantID("acme"))
	id := must(fleet.ParseCapabilityID("desk:open"))
	archive, doc := []byte("package"), json.RawMessage(`{"roots":["test"]}`)
	v := fleet.ConnectorVersion{
		ID: version, Type: typ, Version: "1.0.0", ReleaseSequence: 1, Status: fleet.VersionActive,
		ManifestDigest: digest("manifest"), ArtifactDigest: digest("artifact"), SchemaBundleDigest: digest("schemas"),
		AIPVersions: []string{"1.0"}, AdmittedAt: time.Now(),
		Manifest: fleet.Manifest{
			AIPVersion: "1.0", Name: "desk", Version: "1.0.0",
			Capabilities: []fleet.CapabilityDefinition{{
				ID: id, Name: "open", Kind: "tool", InputSchema: json.RawMessage(`{"type":"object"}`),
				Contract: fleet.Contract{SideEffects: fleet.EffectWrite, Idempotency: fleet.IdempotencyProviderKey},
			}},
			Implementations: []fleet.Implementation{{Capability: id, Adapter: "mcp", Tool: "open"}},
		},
		Attestation: fleet.Attestation{
			PackageDigest: fleet.DigestBytes(archive), Evidence: map[string]fleet.Digest{"signature": digest("s")},
			Signers: map[string]string{"signature": "k"}, TrustRevision: 1, Qualified: true,
		},
	}
	for _, set := range []registry.ChangeSet{
		{
			Types: []fleet.ConnectorType{{ID: typ, Name: "Desk", Owner: "o", Enabled: true}},
			Trust: &registry.TrustRevision{Number: 1, Digest: fleet.DigestBytes(doc), Document: doc, Actor: "t", Reason: "t"},
		},
		{Versions: []fleet.ConnectorVersion{v}, Admission: &registry.Admission{
			PackageDigest: v.Attestation.PackageDigest, Package: archive, Version: version, Findings: json.RawMessage(`[]`),
			Evidence: v.Attestation.Evidence, TrustRevision: 1, EvaluatorVersion: "t", EvaluatedAt: time.Now(), Actor: "t", Reason: "t",
		}},
		{
			Instances: []fleet.ConnectorInstance{{
				ID: instance, Type: typ, Tenant: tenant, ConfigRevision: 1, Enabled: true, SecretProviderRef: "file:acme",
				Serving: []fleet.ServingVersion{{Version: version, Weight: 1}},
			}},
			Replicas: []fleet.Replica{{
				ID: replica(), Instance: instance, Version: version, Endpoint: "http://127.0.0.1:7101", Capacity: 4,
				Peer: fleet.Peer{
					PrincipalID: "host.a", PrincipalKind: "service", DID: r.host.DID().String(), TrustDomain: "test",
					TransportProfile: "aip-http/1",
				},
				Topology: fleet.Topology{}.WithDefaults(),
			}},
		},
	} {
		set.Actor, set.Reason = "test", "test"
		status := must(r.store.Status(context.Background()))
		if _, err := r.store.Apply(context.Background(), set, status.Revision); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) live() fleet.ReplicaLive {
	r.t.Helper()
	got, err := r.store.List(context.Background(), registry.Selection{Noun: registry.Replicas, IDs: []string{replica().String()}})
	if err != nil || len(got.Replicas) != 1 {
		r.t.Fatalf("%v %v", got, err)
	}
	return got.Replicas[0].Live
}

func (r *rig) registration(journal fleet.JournalID, last uint64) protocol.Register {
	return protocol.Register{
		Replica: replica(), ManifestDigest: digest("manifest"), ArtifactDigest: digest("artifact"),
		Tenant: must(fleet.ParseTenantID("acme")), ConfigRevision: 1, SecretProviderRef: "file:acme", CapabilityCount: 1,
		Capacity: 4, Journal: journal, LastEpoch: last,
	}
}

// seal signs a control message as somebody.
func (r *rig) seal(by envelope.Signer, doc protocol.Document) (fleet.MessageID, []byte) {
	r.t.Helper()
	id := fleet.NewMessageID(time.Now())
	env, err := protocol.NewMessage(doc, id, time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	data, err := envelope.Seal(env, envelope.Lifecycle, by, r.service.DID())
	if err != nil {
		r.t.Fatal(err)
	}
	return id, data
}

// post sends bytes and returns the status and the fleet error's code, or the lease.
func (r *rig) post(data []byte) (int, protocol.Lease, string) {
	r.t.Helper()
	resp, err := http.Post(r.http.URL+protocol.PathControl, protocol.ContentType, bytes.NewReader(data))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var got struct {
		Body struct {
			Lease protocol.Lease `json:"lease"`
			Error protocol.Error `json:"error"`
		} `json:"body"`
		Error protocol.Error `json:"error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		r.t.Fatal(err)
	}
	var details struct {
		Code string `json:"code"`
	}
	for _, e := range []protocol.Error{got.Body.Error, got.Error} {
		if len(e.Details) > 0 {
			_ = json.Unmarshal(e.Details, &details)
		}
	}
	return resp.StatusCode, got.Body.Lease, details.Code
}

// epochs is a journal's memory of the lease.
type epochs struct {
	mu    sync.Mutex
	epoch uint64
}

func (e *epochs) LastEpoch() (uint64, error) { e.mu.Lock(); defer e.mu.Unlock(); return e.epoch, nil }

func (e *epochs) SaveEpoch(_ context.Context, n uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch = n
	return nil
}

// wire posts for a client, and can be told to lose answers or requests.
type wire struct {
	inner *peer.Client
	mu    sync.Mutex
	lose  int // answers
	down  bool
}

var errLost = errors.New("lost on purpose")

func (w *wire) Post(ctx context.Context, e peer.Endpoint, path string, body []byte) (peer.Reply, error) {
	w.mu.Lock()
	down := w.down
	w.mu.Unlock()
	if down {
		return peer.Reply{}, &peer.SendError{Err: errLost}
	}
	reply, err := w.inner.Post(ctx, e, path, body)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lose > 0 && err == nil {
		w.lose--
		return peer.Reply{}, &peer.SendError{Written: true, Err: errLost}
	}
	return reply, err
}

func (w *wire) set(change func(*wire)) { w.mu.Lock(); defer w.mu.Unlock(); change(w) }

func (r *rig) client(w *wire, e *epochs, journal fleet.JournalID, report func() lifecycle.Report) *lifecycle.Client {
	return r.clientBy(w, w, e, journal, report)
}

// clientBy is a client whose messages go by a sender that is over, or is, a wire.
func (r *rig) clientBy(by lifecycle.Sender, w *wire, e *epochs, journal fleet.JournalID, report func() lifecycle.Report) *lifecycle.Client {
	w.inner = peer.NewClient(peer.Config{Addresses: peer.LoopbackPolicy()})
	r.t.Cleanup(w.inner.Close)
	return lifecycle.NewClient(lifecycle.ClientConfig{
		Register: r.registration(journal, 0), Signer: r.host, Server: must(peer.ParseEndpoint(r.http.URL)), Peer: r.service.DID(),
		Sender: by, Epochs: e, Now: time.Now, Report: func(context.Context) lifecycle.Report { return report() },
	})
}

// running runs a client until the test ends.
func (r *rig) running(c *lifecycle.Client) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); <-done }) }
	r.t.Cleanup(stop)
	return stop
}

// eventually waits, bounded, until something holds.
func (r *rig) eventually(what string, holds func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	r.t.Fatalf("it never came to: %s", what)
}
