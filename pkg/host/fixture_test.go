package host_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/protocol"
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

// counter is a connector that counts effects and keeps them by idempotency key, as
// a product would.
type counter struct {
	mu      sync.Mutex
	calls   map[fleet.ActionID]int
	effects map[string]json.RawMessage
	health  error
	// act replaces the ordinary effect.
	act func(ctx context.Context, c connector.Call) (connector.Result, error)
	// stop answers a cancel; nil means that calls cannot be stopped.
	stop func(q connector.Query) connector.Result
}

func (c *counter) Discover(context.Context) ([]connector.Offer, error) { return nil, nil }

func (c *counter) Health(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health
}

func (c *counter) Invoke(ctx context.Context, call connector.Call) (connector.Result, error) {
	c.mu.Lock()
	c.calls[call.Action]++
	act := c.act
	c.mu.Unlock()
	if act != nil {
		return act(ctx, call)
	}
	return c.happen(call), nil
}

// happen is the effect itself: once per key.
func (c *counter) happen(call connector.Call) connector.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := json.RawMessage(`{"big":9007199254740993,"note":"<b>&</b>"}`)
	c.effects[call.IdempotencyKey] = out
	return connector.Result{Class: connector.Succeeded, Output: out}
}

func (c *counter) Reconcile(_ context.Context, q connector.Query) (connector.Finding, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, found := c.effects[q.IdempotencyKey]
	return connector.Finding{Found: found, Result: connector.Result{Class: connector.Succeeded, Output: out}}, nil
}

func (c *counter) Cancel(_ context.Context, q connector.Query) (connector.Result, error) {
	if c.stop == nil {
		return connector.Result{Class: connector.Unknown, Why: "it cannot be stopped"}, nil
	}
	return c.stop(q), nil
}

func (c *counter) called(id fleet.ActionID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[id]
}

func (c *counter) set(change func(*counter)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

type standing struct {
	mu sync.Mutex
	s  lifecycle.Standing
}

func (s *standing) Standing() lifecycle.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.s
}

func (s *standing) set(change func(*lifecycle.Standing)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.s)
}

// rig is a host with its doubles, reachable over HTTP.
type rig struct {
	t        *testing.T
	cfg      host.Config
	path     string
	host     *host.Host
	server   *httptest.Server
	product  *counter
	lease    *standing
	gateway  envelope.Signer
	operator envelope.Signer
}

const manifestText = `{"aip_version":"1.0","name":"desk","version":"1","capabilities":[
 {"id":"desk:open","name":"open","kind":"tool","input_schema":{"type":"object","properties":{"title":{"type":"string"}},"required":["title"],"additionalProperties":false},"contract":{"side_effects":"write","idempotency":"provider_key"}},
 {"id":"desk:wild","name":"wild","kind":"tool","input_schema":{"type":"object"},"contract":{"side_effects":"write","idempotency":"none"}},
 {"id":"desk:approved","name":"approved","kind":"tool","input_schema":{"type":"object"},"contract":{"side_effects":"write","idempotency":"none","approval":{"required":true}}}],
 "implementations":[{"capability_id":"desk:open","adapter":"mcp","tool":"open"},{"capability_id":"desk:wild","adapter":"mcp","tool":"wild"},{"capability_id":"desk:approved","adapter":"mcp","tool":"approved"}]}`

func newRig(t *testing.T, adjust ...func(*host.Config)) *rig {
	t.Helper()
	manifest, canonical, err := protocol.ReadManifest([]byte(manifestText))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		t: t, path: filepath.Join(t.TempDir(), "journal.db"), gateway: signerOf(1), operator: signerOf(3),
		product: &counter{calls: map[fleet.ActionID]int{}, effects: map[string]json.RawMessage{}},
		lease:   &standing{s: lifecycle.Standing{Epoch: 7, Held: lease.Hold(time.Now(), time.Hour, time.Second)}},
	}
	r.cfg = host.Config{
		Identity: host.Identity{
			Tenant: must(fleet.ParseTenantID("acme")), Instance: must(fleet.ParseInstanceID("cinst_a")),
			Replica: must(fleet.ParseReplicaID("crepl_a")), Version: must(fleet.ParseVersionID("cver_a")),
			ManifestDigest: fleet.DigestBytes(canonical), ArtifactDigest: fleet.DigestBytes([]byte("artifact")),
		},
		Manifest: manifest, Signer: signerOf(2), Gateways: envelope.KeySet{{DID: r.gateway.DID()}},
		Operators: envelope.KeySet{{DID: r.operator.DID()}}, Connector: r.product, Lease: r.lease, Capacity: 4,
		Credentials: host.Credentials{Current: "cred-2", Previous: []string{"cred-1"}}, Now: time.Now,
	}
	for _, a := range adjust {
		a(&r.cfg)
	}
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *rig) start() {
	r.t.Helper()
	var err error
	if r.cfg.Journal, err = journal.Open(r.path, journal.Options{Now: time.Now}); err != nil {
		r.t.Fatal(err)
	}
	if r.host, err = host.New(r.cfg); err != nil {
		r.t.Fatal(err)
	}
	r.server = httptest.NewServer(r.host.Handler())
}

func (r *rig) stop() {
	r.server.Close()
	r.host.Close()
	if err := r.cfg.Journal.Close(); err != nil {
		r.t.Error(err)
	}
}

// restart ends the host and starts it again on the same journal.
func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// crash starts again from a copy of the journal as it is now, as after a SIGKILL.
func (r *rig) crash(abandon func()) {
	r.t.Helper()
	copied := filepath.Join(r.t.TempDir(), "journal.db")
	if err := r.cfg.Journal.CopyTo(copied); err != nil {
		r.t.Fatal(err)
	}
	abandon()
	r.stop()
	r.path = copied
	r.start()
}

// ask is one message to make.
type ask struct {
	doc   protocol.Document
	route protocol.RouteCoordinates
	id    fleet.MessageID
}

func newAction() fleet.ActionID { return fleet.NewActionID(time.Now()) }

// fence gives each number its own token.
func fence(n uint64) fleet.Fence {
	return fleet.Fence{Number: n, Token: fleet.DigestBytes([]byte{byte(n)}).Hex()[:32]}
}

func (r *rig) route(id fleet.ActionID, n uint64) protocol.RouteCoordinates {
	own := r.cfg.Identity
	return protocol.RouteCoordinates{
		Action: id, Capability: must(fleet.ParseCapabilityID("desk:open")), Tenant: own.Tenant, Instance: own.Instance,
		Replica: own.Replica, Version: own.Version, ManifestDigest: own.ManifestDigest, ArtifactDigest: own.ArtifactDigest,
		CatalogRevision: 1, LeaseEpoch: 7, Fence: fence(n), Mode: protocol.ModeSync,
		Deadline: time.Now().Add(time.Minute).UTC(), RegisteredJournal: r.cfg.Journal.ID(), CredentialRevisionRef: "cred-2",
	}
}

// order is a dispatch of an action in an attempt.
func (r *rig) order(id fleet.ActionID, n uint64) ask {
	return ask{
		route: r.route(id, n), id: fleet.NewMessageID(time.Now()),
		doc: protocol.Action{ID: id, Capability: must(fleet.ParseCapabilityID("desk:open")), Input: json.RawMessage(`{"title":"x"}`)},
	}
}

func (r *rig) question(id fleet.ActionID, n uint64) ask {
	return ask{route: r.route(id, n), id: fleet.NewMessageID(time.Now()), doc: protocol.ActionStatusRequest{ActionID: id}}
}

func (r *rig) cancel(id fleet.ActionID, n uint64) ask {
	return ask{route: r.route(id, n), id: fleet.NewMessageID(time.Now()), doc: protocol.Cancel{ActionID: id, Reason: "no longer"}}
}

func (r *rig) seal(a ask) []byte {
	r.t.Helper()
	env, err := protocol.NewMessage(a.doc, a.id, time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	raw, err := a.route.Raw()
	if err != nil {
		r.t.Fatal(err)
	}
	env.Security = &envelope.Security{Route: raw}
	data, err := envelope.Seal(env, envelope.Dispatch, r.gateway, r.cfg.Signer.DID())
	if err != nil {
		r.t.Fatal(err)
	}
	return data
}

// said is an answer, opened.
type said struct {
	http   int
	bytes  []byte
	result *protocol.ActionResult
	raw    json.RawMessage
	status *protocol.ActionStatus
	no     *protocol.HostRefusal
	ack    *protocol.Ack
}

func (r *rig) send(a ask) said { r.t.Helper(); return r.post(r.seal(a), a.id) }

func (r *rig) post(data []byte, id fleet.MessageID) said {
	r.t.Helper()
	resp, err := http.Post(r.server.URL+protocol.PathMessages, protocol.ContentType, bytes.NewReader(data))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.read(resp.StatusCode, body, id)
}

func (r *rig) read(code int, body []byte, id fleet.MessageID) said {
	r.t.Helper()
	opened, err := envelope.Open(body, envelope.Expect{
		Purpose: envelope.Response, Audience: r.gateway.DID(), Peer: r.cfg.Signer.DID(), Now: time.Now(),
	})
	if err != nil {
		r.t.Fatalf("answer %d does not open: %v\n%s", code, err, body)
	}
	if opened.Envelope().InResponseTo != id {
		r.t.Fatalf("the answer is to %s, asked was %s", opened.Envelope().InResponseTo, id)
	}
	out := said{http: code, bytes: body}
	switch opened.BodyKey() {
	case "action_result":
		out.raw = opened.Body()
		out.result = new(protocol.ActionResult)
		*out.result, err = protocol.Read[protocol.ActionResult](opened)
	case "action_status":
		out.status = new(protocol.ActionStatus)
		*out.status, err = protocol.Read[protocol.ActionStatus](opened)
	case "ack":
		out.ack = new(protocol.Ack)
		*out.ack, err = protocol.Read[protocol.Ack](opened)
	default:
		var problem protocol.Error
		problem, err = protocol.Read[protocol.Error](opened)
		no, ok := problem.Refusal()
		if !ok {
			r.t.Fatalf("the error names no check: %s", body)
		}
		out.no = &no
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (s said) wantResult(t *testing.T, status protocol.ResultStatus) {
	t.Helper()
	if s.result == nil || s.result.Status != status || s.http != 200 {
		t.Fatalf("want a result that is %s, got %d %s", status, s.http, s.bytes)
	}
}

func (s said) wantState(t *testing.T, state protocol.ActionState) {
	t.Helper()
	if s.status == nil || s.status.State != state {
		t.Fatalf("want a status %s, got %d %s", state, s.http, s.bytes)
	}
}

func (s said) wantAck(t *testing.T) {
	t.Helper()
	if s.ack == nil || s.http != 200 {
		t.Fatalf("want an ack, got %d %s", s.http, s.bytes)
	}
}

func (s said) wantNo(t *testing.T, code string, http int, class protocol.RefusalClass) {
	t.Helper()
	if s.no == nil || s.no.Code != code || s.http != http || s.no.Class != class {
		t.Fatalf("want %d %s (%s), got %d %s", http, code, class, s.http, s.bytes)
	}
}

func (r *rig) wantCalls(id fleet.ActionID, n int) {
	r.t.Helper()
	if got := r.product.called(id); got != n {
		r.t.Fatalf("the provider was called %d times for %s, want %d", got, id, n)
	}
}
