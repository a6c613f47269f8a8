package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/connector/mcp"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/memory"
)

// programs are built once: the host and the connector that it runs.
type programs struct{ host, desk, notebook string }

var built programs //nolint:gochecknoglobals // made by TestMain

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "aiphost")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	built = programs{filepath.Join(dir, "aiphost"), filepath.Join(dir, "ticketdesk"), filepath.Join(dir, "notebook")}
	for out, pkg := range map[string]string{built.host: ".", built.desk: "../../examples/ticketdesk/server", built.notebook: "../../examples/notebook"} {
		if text, err := exec.Command("go", "build", "-o", out, pkg).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, text)
			return 1
		}
	}
	return m.Run()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func capability(tool string) fleet.CapabilityID {
	return must(fleet.ParseCapabilityID("ticketdesk:" + tool))
}

// bed is everything around one host process: a registry with its lifecycle service,
// a release package, an account, a gateway's key.
type bed struct {
	t         *testing.T
	dir       string
	store     *memory.Registry
	service   *httptest.Server
	gateway   envelope.Signer
	host      envelope.Signer
	release   *admission.Package
	account   string // the provider's own store
	program   string // to run; "" is aiphost
	config    string
	endpoint  string
	identity  protocol.RouteCoordinates // the pinned part
	processes int
}

func newBed(t *testing.T) *bed {
	t.Helper()
	return newBedWith(t, (*bed).writeRelease, nil)
}

// newBedWith is a bed with a release and a configuration of its own.
func newBedWith(t *testing.T, release func(*bed), config map[string]any) *bed {
	t.Helper()
	b := &bed{t: t, dir: t.TempDir(), account: t.TempDir()}
	key := func(name string) envelope.Signer {
		return must(envelope.GenerateKeyFile(filepath.Join(b.dir, name+".pem")))
	}
	b.gateway, b.host = key("gateway"), key("host")
	serviceKey := key("lifecycle")
	b.write("gateways.json", must(json.Marshal(map[string]any{"keys": []map[string]any{{"did": b.gateway.DID()}}})))
	b.write("desk.token", []byte("tok-1414213562\n"))
	release(b)
	b.release = must(admission.OpenPackage(filepath.Join(b.dir, "release"), admission.Limits{}))
	b.store = memory.New(memory.Config{RingKey: bytes.Repeat([]byte{1}, 32), CursorKey: bytes.Repeat([]byte{2}, 32), Now: time.Now})
	server := must(lifecycle.NewServer(lifecycle.ServerConfig{Fleet: b.store, Signer: serviceKey, Now: time.Now, TTL: 3 * time.Second}))
	b.service = httptest.NewServer(server.Handler())
	t.Cleanup(b.service.Close)
	listen := freeAddress(t)
	b.endpoint = "http://" + listen
	b.declare()
	b.writeConfig(listen, serviceKey.DID(), config)
	return b
}

func (b *bed) write(name string, data []byte) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(b.dir, name)), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, name), data, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// writeRelease packs the connector: its tools as they are, all with a provider key.
func (b *bed) writeRelease() {
	b.t.Helper()
	adapter := mcp.New(mcp.Config{
		Program: func(context.Context) (mcp.Program, error) {
			return mcp.Program{Path: built.desk, Dir: b.t.TempDir()}, nil
		},
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	adapter.Start()
	defer adapter.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := adapter.AwaitHealthy(ctx); err != nil {
		b.t.Fatal(err)
	}
	m := fleet.Manifest{AIPVersion: "1.0", Name: "ticketdesk", Version: "1.0.0"}
	for _, o := range must(adapter.Discover(ctx)) {
		m.Capabilities = append(m.Capabilities, fleet.CapabilityDefinition{
			ID: capability(o.Tool), Name: o.Tool, Kind: "tool", InputSchema: o.InputSchema,
			Contract: fleet.Contract{SideEffects: fleet.EffectWrite, Idempotency: fleet.IdempotencyProviderKey},
		})
		m.Implementations = append(m.Implementations, fleet.Implementation{
			Capability: capability(o.Tool), Adapter: "mcp", Tool: o.Tool, ReconcileTool: "find_operation",
		})
	}
	b.write("release/manifest.json", must(json.Marshal(m)))
	b.write("release/release.yaml", []byte(`type: {id: ctype_ticketdesk, name: Ticket desk}
owner: desk-team
version: 1.0.0
version_id: cver_desk
release_sequence: 1
aip_versions: ["1.0"]
artifact: {path: artifact/ticketdesk}
`))
	b.write("release/artifact/ticketdesk", must(os.ReadFile(built.desk)))
}

// declare publishes the release, one instance and the replica.
func (b *bed) declare() {
	b.t.Helper()
	id := protocol.RouteCoordinates{
		Tenant: must(fleet.ParseTenantID("acme")), Instance: must(fleet.ParseInstanceID("cinst_acme")),
		Replica: must(fleet.ParseReplicaID("crepl_acme_a")), Version: must(fleet.ParseVersionID("cver_desk")),
		ManifestDigest: b.release.ManifestDigest(), ArtifactDigest: b.release.ArtifactDigest(),
	}
	b.identity = id
	archive, doc, typ := []byte("package"), json.RawMessage(`{"roots":["test"]}`), must(fleet.ParseTypeID("ctype_ticketdesk"))
	v := fleet.ConnectorVersion{
		ID: id.Version, Type: typ, Version: "1.0.0", ReleaseSequence: 1, Status: fleet.VersionActive, Manifest: b.release.Manifest(),
		ManifestDigest: id.ManifestDigest, ArtifactDigest: id.ArtifactDigest, SchemaBundleDigest: fleet.DigestBytes([]byte("s")),
		AIPVersions: []string{"1.0"}, AdmittedAt: time.Now(), Attestation: fleet.Attestation{
			PackageDigest: fleet.DigestBytes(archive), Evidence: map[string]fleet.Digest{"signature": fleet.DigestBytes(nil)},
			Signers: map[string]string{"signature": "k"}, TrustRevision: 1, Qualified: true,
		},
	}
	for _, set := range []registry.ChangeSet{
		{
			Types: []fleet.ConnectorType{{ID: typ, Name: "Ticket desk", Owner: "o", Enabled: true}},
			Trust: &registry.TrustRevision{Number: 1, Digest: fleet.DigestBytes(doc), Document: doc, Actor: "t", Reason: "t"},
		},
		{Versions: []fleet.ConnectorVersion{v}, Admission: &registry.Admission{
			PackageDigest: v.Attestation.PackageDigest, Package: archive, Version: v.ID, Findings: json.RawMessage(`[]`),
			Evidence: v.Attestation.Evidence, TrustRevision: 1, EvaluatorVersion: "t", EvaluatedAt: time.Now(), Actor: "t", Reason: "t",
		}},
		{
			Instances: []fleet.ConnectorInstance{{
				ID: id.Instance, Type: typ, Tenant: id.Tenant, ConfigRevision: 1, Enabled: true, SecretProviderRef: "desk.acme",
				Serving: []fleet.ServingVersion{{Version: v.ID, Weight: 1}},
			}},
			Replicas: []fleet.Replica{{
				ID: id.Replica, Instance: id.Instance, Version: v.ID, Endpoint: b.endpoint, Capacity: 4,
				Topology: fleet.Topology{}.WithDefaults(), Peer: fleet.Peer{
					PrincipalID: "host.a", PrincipalKind: "service", DID: b.host.DID().String(), TrustDomain: "t", TransportProfile: "aip-http/1",
				},
			}},
		},
	} {
		set.Actor, set.Reason = "test", "test"
		revision := must(b.store.Status(context.Background())).Revision
		if _, err := b.store.Apply(context.Background(), set, revision); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bed) writeConfig(listen string, service envelope.DID, more map[string]any) {
	b.config = filepath.Join(b.dir, "host.yaml")
	all := map[string]any{
		"replica": "crepl_acme_a", "instance": "cinst_acme", "tenant": "acme", "version": "cver_desk", "listen": listen,
		"state_dir": "state", "identity_key": "host.pem", "release": "release", "gateways": "gateways.json", "capacity": 4,
		"lifecycle":       map[string]any{"url": b.service.URL, "did": service.String()},
		"config_revision": 1, "secret_provider_ref": "desk.acme",
		"secrets": map[string]any{"file": map[string]any{"desk.acme": "desk.token"}},
		"connector": map[string]any{
			"env":        map[string]any{"TICKETDESK_DIR": b.account, "TICKETDESK_ACCOUNT": "acme"},
			"secret_env": map[string]any{"TICKETDESK_TOKEN": "default"},
		},
	}
	maps.Copy(all, more)
	b.write("host.yaml", must(yaml.Marshal(all)))
}

func (b *bed) live() fleet.ReplicaLive {
	b.t.Helper()
	got := must(b.store.List(context.Background(), registry.Selection{Noun: registry.Replicas, IDs: []string{"crepl_acme_a"}}))
	return got.Replicas[0].Live
}

// process is one run of aiphost.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // standard output
	log   string
	ended chan error
}

func (b *bed) spawn(args ...string) *process {
	b.t.Helper()
	b.processes++
	p := &process{t: b.t, lines: make(chan string, 10), ended: make(chan error, 1), log: filepath.Join(b.dir, fmt.Sprintf("log.%d", b.processes))}
	program := built.host
	if b.program != "" {
		program = b.program
	}
	p.cmd = exec.Command(program, append([]string{"run", "--config", b.config}, args...)...)
	log := must(os.Create(p.log))
	p.cmd.Stderr = log
	out := must(p.cmd.StdoutPipe())
	if err := p.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	go func() {
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- scan.Text()
		}
		err := p.cmd.Wait()
		_ = log.Close()
		p.ended <- err
	}()
	b.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		if b.t.Failed() {
			b.t.Logf("log of process %d:\n%s", p.cmd.Process.Pid, p.logText())
		}
	})
	return p
}

func (p *process) logText() string { return string(must(os.ReadFile(p.log))) }

// ready waits for the ready line.
func (p *process) ready() *process {
	p.t.Helper()
	select {
	case line := <-p.lines:
		var got struct {
			Ready bool   `json:"ready"`
			DID   string `json:"did"`
		}
		if json.Unmarshal([]byte(line), &got) != nil || !got.Ready || got.DID == "" {
			p.t.Fatalf("not a ready line: %s", line)
		}
	case err := <-p.ended:
		p.t.Fatalf("the host ended: %v\n%s", err, p.logText())
	case <-time.After(60 * time.Second):
		p.t.Fatalf("the host did not become ready\n%s", p.logText())
	}
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns the exit code; -1 for a signal.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(60 * time.Second):
		p.t.Fatalf("the host did not end\n%s", p.logText())
		return 0
	}
}

// seal signs a message of the gateway about an action in its first attempt.
func (b *bed) seal(id fleet.ActionID, tool string, doc protocol.Document) []byte {
	b.t.Helper()
	live := b.live()
	route := b.identity
	name := capability(tool)
	if action, ok := doc.(protocol.Action); ok {
		name = action.Capability
	}
	route.Action, route.Capability, route.Fence = id, name, fleet.Fence{Number: 1, Token: fmt.Sprintf("%032x", 1)}
	route.LeaseEpoch, route.Mode, route.RegisteredJournal = max(live.LeaseEpoch, 1), protocol.ModeSync, live.Journal
	route.Deadline = time.Now().Add(time.Minute).UTC()
	env := must(protocol.NewMessage(doc, fleet.NewMessageID(time.Now()), time.Now()))
	env.Security = &envelope.Security{Route: must(route.Raw())}
	return must(envelope.Seal(env, envelope.Dispatch, b.gateway, b.host.DID()))
}

func (b *bed) order(id fleet.ActionID, title string) []byte {
	input := must(json.Marshal(map[string]string{"title": title}))
	return b.seal(id, "open_ticket", protocol.Action{ID: id, Capability: capability("open_ticket"), Input: input})
}

// post sends a message and opens the answer; an error when none came.
func (b *bed) post(data []byte) (envelope.Opened, error) {
	resp, err := http.Post(b.endpoint+protocol.PathMessages, protocol.ContentType, bytes.NewReader(data))
	if err != nil {
		return envelope.Opened{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return envelope.Opened{}, err
	}
	return envelope.Open(body, envelope.Expect{Purpose: envelope.Response, Audience: b.gateway.DID(), Peer: b.host.DID(), Now: time.Now()})
}

func (b *bed) effects() int { return len(must(desk.ReadEffects(b.account))) }

func (b *bed) fault(rule desk.Rule) {
	b.t.Helper()
	rule.ID = "r"
	if err := desk.WriteFaults(b.account, desk.Faults{Rules: []desk.Rule{rule}}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) eventually(what string, holds func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	b.t.Fatalf("it never came to: %s", what)
}
