package serve

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/client"
	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/gateway"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/pgcluster"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

// serveVariable makes this test binary a real aipd serve, for tests that kill it.
const serveVariable = "AIPD_TEST_SERVE_CONFIG"

func TestMain(m *testing.M) {
	if file := os.Getenv(serveVariable); file != "" {
		log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
		err := Options{ConfigFile: file}.run(context.Background(), process{out: os.Stdout, log: log, getenv: os.Getenv, now: time.Now})
		log.Error("ended", "error", err)
		os.Exit(1)
	}
	os.Exit(pgclustertest.Main(m))
}

const password = "a password of this test"

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// desk is a product that counts the effects of each action.
type desk struct {
	mu    sync.Mutex
	calls map[fleet.ActionID]int
	slow  time.Duration // of every call
}

func (d *desk) Discover(context.Context) ([]connector.Offer, error) { return nil, nil }
func (d *desk) Health(context.Context) error                        { return nil }
func (d *desk) Invoke(_ context.Context, c connector.Call) (connector.Result, error) {
	time.Sleep(d.slow)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[c.Action]++
	return connector.Result{Class: connector.Succeeded, Output: json.RawMessage(`{"ticket":9007199254740993,"note":"<b>"}`)}, nil
}

func (d *desk) called(id fleet.ActionID) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[id]
}

// small is a fleet of one host, whose answers can be lost, and of any number of aipd.
type small struct {
	t        *testing.T
	dir      string
	aipd     envelope.Signer
	peer     envelope.Signer
	operator envelope.Signer
	product  *desk
	manifest fleet.Manifest
	digest   fleet.Digest
	listener net.Listener
	url      string // of aip_data; "" for a registry in memory
	control  *postgres.Registry

	mu   sync.Mutex
	lose bool
}

const deskManifest = `{"aip_version":"1.0","name":"desk","version":"1.0.0","capabilities":[
 {"id":"desk:open","name":"open","kind":"tool","risk":"low","input_schema":{"type":"object","properties":{"title":{"type":"string"}},"required":["title"],"additionalProperties":false},"contract":{"side_effects":"write","idempotency":"none"}},
 {"id":"desk:wipe","name":"wipe","kind":"tool","risk":"critical","input_schema":{"type":"object"},"contract":{"side_effects":"destructive","idempotency":"none"}}],
 "implementations":[{"capability_id":"desk:open","adapter":"mcp","tool":"open"},{"capability_id":"desk:wipe","adapter":"mcp","tool":"wipe"}]}`

func newSmall(t *testing.T) *small {
	t.Helper()
	s := &small{t: t, dir: t.TempDir(), product: &desk{calls: map[fleet.ActionID]int{}}}
	s.aipd = must(envelope.GenerateKeyFile(filepath.Join(s.dir, "aipd.pem")))
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s.peer = envelope.NewSigner(key)
	s.operator = must(envelope.GenerateKeyFile(filepath.Join(s.dir, "operator.pem")))
	manifest, canonical, err := protocol.ReadManifest([]byte(deskManifest))
	if err != nil {
		t.Fatal(err)
	}
	s.manifest, s.digest = manifest, fleet.DigestBytes(canonical)
	s.listener = must(net.Listen("tcp", "127.0.0.1:0"))
	s.write("operators.json", fmt.Sprintf(`{"keys":[{"did":%q}]}`, s.operator.DID()))
	s.write("policy.yaml", "rules:\n- {effect: allow, tenants: [acme], capabilities: ['desk:*']}\n- {effect: deny, principals: ['*'], side_effects: [destructive]}\n")
	s.write("tokens.yaml", fmt.Sprintf("tokens:\n- {sha256: %s, principal: alice, tenant: acme}\n- {sha256: %s, principal: eve, tenant: globex}\n",
		gateway.HashToken("token-acme"), gateway.HashToken("token-globex")))
	return s
}

func (s *small) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// changeSet is one release, one account of acme, one replica and its bindings.
func (s *small) changeSet() registry.ChangeSet {
	typeID, version := must(fleet.ParseTypeID("ctype_desk")), must(fleet.ParseVersionID("cver_1"))
	account := must(fleet.ParseInstanceID("cinst_a"))
	trust := json.RawMessage(`{"roots":["test"]}`)
	archive := []byte("package")
	evidence := map[string]fleet.Digest{"signature": fleet.DigestBytes([]byte("signature"))}
	set := registry.ChangeSet{
		Actor: "test", Reason: "test",
		Trust: &registry.TrustRevision{Number: 1, Digest: fleet.DigestBytes(trust), Document: trust, Actor: "test", Reason: "test"},
		Types: []fleet.ConnectorType{{ID: typeID, Name: "Desk", Owner: "test", Enabled: true}},
		Versions: []fleet.ConnectorVersion{{
			ID: version, Type: typeID, Version: "1.0.0", ReleaseSequence: 1, Status: fleet.VersionActive, Manifest: s.manifest,
			ManifestDigest: s.digest, ArtifactDigest: fleet.DigestBytes([]byte("artifact")), SchemaBundleDigest: fleet.DigestBytes([]byte("schemas")),
			AIPVersions: []string{"1.0"}, AdmittedAt: time.Now().UTC(),
			Attestation: fleet.Attestation{
				PackageDigest: fleet.DigestBytes(archive), Evidence: evidence, Signers: map[string]string{"signature": "key-1"},
				TrustRevision: 1, Qualified: true,
			},
		}},
		Admission: &registry.Admission{
			PackageDigest: fleet.DigestBytes(archive), Package: archive, Version: version, Findings: json.RawMessage(`[]`),
			Evidence: evidence, TrustRevision: 1, EvaluatorVersion: "test", EvaluatedAt: time.Now().UTC(), Actor: "test", Reason: "test",
		},
		Instances: []fleet.ConnectorInstance{{
			ID: account, Type: typeID, Tenant: must(fleet.ParseTenantID("acme")), ConfigRevision: 1, SecretProviderRef: "file:acme",
			Serving: []fleet.ServingVersion{{Version: version, Weight: 1}}, Enabled: true,
		}},
		Replicas: []fleet.Replica{{
			ID: must(fleet.ParseReplicaID("crepl_a")), Instance: account, Version: version, Capacity: 8, Endpoint: "http://" + s.listener.Addr().String(),
			Peer: fleet.Peer{PrincipalID: "host-a", PrincipalKind: "service", DID: s.peer.DID().String(), TrustDomain: "test", TransportProfile: "aip-http/1"},
		}},
	}
	set.Replicas[0].Topology = fleet.Topology{}.WithDefaults()
	for _, c := range s.manifest.Capabilities {
		set.Bindings = append(set.Bindings, fleet.CapabilityBinding{
			BindingKey: fleet.BindingKey{Tenant: must(fleet.ParseTenantID("acme")), Capability: c.ID, Instance: account},
			Priority:   1, PolicyRevision: 1, Enabled: true,
		})
	}
	return set
}

// publish signs the change set as the operator, for this aipd.
func (s *small) publish(number uint64, set registry.ChangeSet) {
	s.t.Helper()
	sealed, err := registry.SealPublication(registry.SignedPublication{Number: number, ChangeSet: set}, s.operator, s.aipd.DID(), time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("publication.json", string(sealed))
}

// migrated is the same fleet in PostgreSQL, in a database of the shared server.
func (s *small) migrated() (db string) {
	s.t.Helper()
	db = pgclustertest.NewDatabase(s.t, pgclustertest.Template(s.t, "registry", initRegistry))
	s.open(pgclustertest.Shared(s.t), db)
	return db
}

func initRegistry(ctx context.Context, admin string) error {
	return migrate.Init(ctx, admin, migrate.Passwords{Migrate: password, Control: password, Data: password, Lifecycle: password, Readonly: password})
}

// open uses an initialised database of a server, and publishes the fleet in it.
func (s *small) open(cluster *pgcluster.Cluster, db string) {
	s.t.Helper()
	s.url = cluster.DSN(postgres.RoleData, password, db)
	reg, err := postgres.Open(s.t.Context(), postgres.Config{
		ControlURL: cluster.DSN(postgres.RoleControl, password, db), LifecycleURL: cluster.DSN(postgres.RoleLifecycle, password, db),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(reg.Close)
	s.control = reg
	if _, err := reg.Apply(s.t.Context(), s.changeSet(), 0); err != nil {
		s.t.Fatal(err)
	}
}

// daemon is one running aipd serve.
type daemon struct {
	address string
	stop    func()
}

// config writes the configuration of one aipd.
func (s *small) config(name string) string {
	s.t.Helper()
	config := fmt.Sprintf("listen: 127.0.0.1:0\nidentity_key: aipd.pem\nprincipal: %s\nauth: {tokens_file: tokens.yaml}\npolicy_file: policy.yaml\n"+
		"operators: operators.json\nallow_ranges: [127.0.0.0/8]\nowner_lease: 1s\nreconcile: {every: 20ms, first_pause: 20ms, last_pause: 100ms}\n", name)
	if s.url == "" {
		config += "registry: memory\npublication: publication.json\n"
	} else {
		config += fmt.Sprintf("database_url: %q\n", s.url)
	}
	s.write(name+".yaml", config)
	return filepath.Join(s.dir, name+".yaml")
}

// spawn runs aipd serve as a process of its own; kill ends it as a crash does.
func (s *small) spawn(name string) (d daemon, kill func()) {
	s.t.Helper()
	cmd := exec.Command(must(os.Executable()))
	cmd.Env = append(os.Environ(), serveVariable+"="+s.config(name))
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.t.Cleanup(kill)
	var ready struct {
		Listen string `json:"listen"`
	}
	if line, err := bufio.NewReader(out).ReadBytes('\n'); err != nil || json.Unmarshal(line, &ready) != nil {
		s.t.Fatalf("the process is not ready: %q %v", line, err)
	}
	return daemon{address: "http://" + ready.Listen, stop: kill}, kill
}

// start runs aipd serve as its program does, until it is ready.
func (s *small) start(name string) daemon {
	s.t.Helper()
	o := Options{ConfigFile: s.config(name), AllowMutationsUnsafe: true}
	out, in := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := o.run(ctx, process{out: in, log: slog.New(slog.DiscardHandler), getenv: func(string) string { return "" }, now: time.Now})
		_ = in.CloseWithError(io.EOF)
		done <- err
	}()
	var ready struct {
		Ready  bool   `json:"ready"`
		Listen string `json:"listen"`
		DID    string `json:"did"`
	}
	if line, err := bufio.NewReader(out).ReadBytes('\n'); err != nil || json.Unmarshal(line, &ready) != nil || !ready.Ready {
		cancel()
		s.t.Fatalf("aipd is not ready: %q, %v, %v", line, err, <-done)
	}
	if ready.DID != s.aipd.DID().String() {
		s.t.Errorf("the ready line names %s", ready.DID)
	}
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("aipd serve ended with %v", err)
		}
	})
	s.t.Cleanup(stop)
	return daemon{address: "http://" + ready.Listen, stop: stop}
}

// host starts the host under its own lease, kept with the lifecycle service at url.
func (s *small) host(url string, service envelope.DID) {
	s.t.Helper()
	j := must(journal.Open(filepath.Join(s.dir, "journal.db"), journal.Options{Now: time.Now}))
	own := host.Identity{
		Tenant: must(fleet.ParseTenantID("acme")), Instance: must(fleet.ParseInstanceID("cinst_a")), Replica: must(fleet.ParseReplicaID("crepl_a")),
		Version: must(fleet.ParseVersionID("cver_1")), ManifestDigest: s.digest, ArtifactDigest: fleet.DigestBytes([]byte("artifact")),
	}
	var h *host.Host
	peers := peer.NewClient(peer.Config{Addresses: peer.LoopbackPolicy()})
	lease := lifecycle.NewClient(lifecycle.ClientConfig{
		Register: protocol.Register{
			Replica: own.Replica, ManifestDigest: own.ManifestDigest, ArtifactDigest: own.ArtifactDigest, Tenant: own.Tenant,
			ConfigRevision: 1, SecretProviderRef: "file:acme", CapabilityCount: 2, Capacity: 8, Journal: j.ID(),
		},
		Signer: s.peer, Server: must(peer.ParseEndpoint(url)), Peer: service, Sender: peers, Epochs: j, Now: time.Now,
		Report: func(ctx context.Context) lifecycle.Report { return h.Report(ctx) },
	})
	h = must(host.New(host.Config{
		Identity: own, Manifest: s.manifest, Signer: s.peer, Gateways: envelope.KeySet{{DID: s.aipd.DID()}},
		Operators: envelope.KeySet{{DID: s.operator.DID()}}, Journal: j, Connector: s.product, Lease: lease, Capacity: 8, Now: time.Now,
	}))
	server := &http.Server{Handler: s.front(h.Handler())}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(s.listener) })
	running.Go(func() { lease.Run(ctx) })
	s.t.Cleanup(func() {
		cancel()
		_ = server.Close()
		running.Wait()
		h.Close()
		_ = j.Close()
		peers.Close()
	})
	waiting, stop := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer stop()
	if err := lease.Await(waiting); err != nil {
		s.t.Fatal(err)
	}
	if err := lease.Beat(waiting); err != nil { // says that it is ready
		s.t.Fatal(err)
	}
}

// front loses answers while the fleet is told to.
func (s *small) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		lose := s.lose
		s.mu.Unlock()
		if !lose {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(httptest.NewRecorder(), r)
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
	})
}

func (s *small) loseAnswers(lose bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = lose
}

// lifecycleService serves the leases of a fleet in PostgreSQL.
func (s *small) lifecycleService() (url string, did envelope.DID) {
	s.t.Helper()
	signer := must(envelope.GenerateKeyFile(filepath.Join(s.dir, "lifecycle.pem")))
	service := must(lifecycle.NewServer(lifecycle.ServerConfig{Fleet: s.control, Signer: signer, Now: time.Now}))
	server := httptest.NewServer(service.Handler())
	s.t.Cleanup(server.Close)
	return server.URL, signer.DID()
}

func (d daemon) client(t *testing.T, token string) *client.Client {
	t.Helper()
	c, err := client.New(d.address, token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func openTicket() action.Request {
	return action.Request{
		ID: fleet.NewActionID(time.Now()), Capability: must(fleet.ParseCapabilityID("desk:open")), Input: json.RawMessage(`{"title":"lamp"}`),
	}
}
