package admit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

const (
	password     = "a password of this test"
	capabilities = 100 // of the release; each instance of the deployment is bound to all of them
	desks        = 8   // tenants that route, each on a replica of its own
)

// site is a PostgreSQL server of its own, durable, with a small fleet that routes.
type site struct {
	t       testing.TB
	dir     string
	cluster *pgcluster.Cluster
	control *postgres.Registry
	data    *postgres.Registry
	policy  *admission.Policy
	signer  sigstore.Signer
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir()}
	for d := s.dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) { // the server may run as another account
		check(t, os.Chmod(d, 0o755))
	}
	s.start()
	t.Cleanup(func() {
		s.close()
		check(t, s.cluster.Stop(context.Background()))
		check(t, pgcluster.RemoveDir(context.Background(), filepath.Join(s.dir, "pg")))
	})
	check(t, s.cluster.CreateDatabase(context.Background(), "aip", ""))
	check(t, migrate.Init(context.Background(), s.cluster.AdminDSN("aip"), migrate.Passwords{
		Migrate: password, Control: password, Data: password, Lifecycle: password, Readonly: password,
	}))
	s.open()
	pair, err := sigstore.GenerateKey("ed25519")
	check(t, err)
	s.signer, err = sigstore.NewSigner(pair.Private)
	check(t, err)
	doc, err := json.Marshal(map[string]any{
		"format": admission.PolicyFormat, "keys": []any{map[string]any{"id": "release", "public_key": string(pair.Public)}},
		"types": []any{map[string]any{"type": "ctype_desk", "owners": []any{"desk-team"}, "signers": []any{"release"}}},
		"slots": map[string]any{"signature": map[string]any{"signers": []any{"release"}}},
	})
	check(t, err)
	s.policy, err = admission.ParsePolicy(doc)
	check(t, err)
	s.apply(registry.ChangeSet{Trust: &registry.TrustRevision{
		Number: 1, Digest: s.policy.Digest(), Document: s.policy.Document(), Actor: "test", Reason: "test",
	}})
	s.routes()
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *site) start() {
	s.t.Helper()
	var err error
	s.cluster, err = pgcluster.Start(context.Background(), pgcluster.Config{Dir: filepath.Join(s.dir, "pg")})
	check(s.t, err)
}

func (s *site) open() {
	s.t.Helper()
	url := func(role string) string { return s.cluster.DSN(role, password, "aip") }
	var err error
	s.control, err = postgres.Open(context.Background(), postgres.Config{ControlURL: url("aip_control")})
	check(s.t, err)
	s.data, err = postgres.Open(context.Background(), postgres.Config{
		DataURL: url("aip_data"), LifecycleURL: url("aip_lifecycle"), ReadURL: url("aip_readonly"), Connections: 12,
	})
	check(s.t, err)
}

func (s *site) close() {
	s.control.Close()
	s.data.Close()
}

func (s *site) revision() uint64 {
	s.t.Helper()
	status, err := s.data.Status(context.Background())
	check(s.t, err)
	return status.Revision
}

func (s *site) apply(set registry.ChangeSet) {
	s.t.Helper()
	set.Actor, set.Reason = "test", "test"
	_, err := s.control.Apply(context.Background(), set, s.revision())
	check(s.t, err)
}

// verified packs, signs and evaluates a release with a deployment of n bindings.
func (s *site) verified(version string, sequence, n int) admission.Verified {
	s.t.Helper()
	dir := filepath.Join(s.dir, "pkg-"+version)
	write := func(name string, data []byte) {
		s.t.Helper()
		check(s.t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		check(s.t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	write("release.yaml", fmt.Appendf(nil, "type: {id: ctype_desk, name: Desk}\nowner: desk-team\nversion: \"%s\"\nversion_id: cver_%s\nrelease_sequence: %d\naip_versions: [\"1.0\"]\nartifact: {path: artifact/desk}\n", version, version, sequence))
	write("artifact/desk", []byte("desk "+version))
	write("manifest.json", manifestOf(s.t, version))
	write("deployment.yaml", deploymentOf(s.t, version, n))
	p, err := admission.OpenPackage(dir, admission.Limits{})
	check(s.t, err)
	predicate, err := json.Marshal(p.ReleaseStatement(time.Now()))
	check(s.t, err)
	statement, err := p.Statement(admission.PredicateRelease, predicate)
	check(s.t, err)
	bundle, err := s.signer.SignStatement(statement)
	check(s.t, err)
	write(admission.EvidencePath(admission.SlotSignature), bundle)
	p, err = admission.OpenPackage(dir, admission.Limits{})
	check(s.t, err)
	verified, found := admission.Evaluator{Bundles: sigstore.Verifier{}}.Evaluate(admission.Request{Package: p, Policy: s.policy, TrustRevision: 1, At: time.Now()})
	if len(found) > 0 {
		s.t.Fatal(found)
	}
	return verified
}

func manifestOf(t testing.TB, version string) []byte {
	t.Helper()
	m := fleet.Manifest{AIPVersion: "1.0", Name: "desk", Version: version}
	for k := range capabilities {
		id, err := fleet.ParseCapabilityID(fmt.Sprintf("desk:tool%d", k))
		check(t, err)
		m.Capabilities = append(m.Capabilities, fleet.CapabilityDefinition{
			ID: id, Name: id.String(), Kind: "tool", InputSchema: json.RawMessage(`{"type":"object"}`),
			Contract: fleet.Contract{SideEffects: fleet.EffectRead, Idempotency: fleet.IdempotencyNatural},
		})
		m.Implementations = append(m.Implementations, fleet.Implementation{Capability: id, Adapter: "mcp", Tool: fmt.Sprintf("tool%d", k)})
	}
	data, err := json.Marshal(m)
	check(t, err)
	return data
}

// deploymentOf binds n times: every tenant's instance to every capability. They serve
// the first release, which is active, so that every binding makes a candidate chain.
func deploymentOf(t testing.TB, version string, n int) []byte {
	t.Helper()
	type object = map[string]any
	var instances, bindings []object
	for i := 0; len(bindings) < n; i++ {
		tenant, instance := fmt.Sprintf("tenant-%s-%d", version, i), fmt.Sprintf("cinst_%s_%d", version, i)
		instances = append(instances, object{
			"id": instance, "type_id": "ctype_desk", "tenant_id": tenant, "config_revision": 1, "enabled": true,
			"serving": []object{{"version_id": "cver_1", "weight": 1}},
		})
		for k := 0; k < capabilities && len(bindings) < n; k++ {
			bindings = append(bindings, object{
				"tenant_id": tenant, "capability_id": fmt.Sprintf("desk:tool%d", k), "instance_id": instance, "priority": 1,
				"policy_revision": 1, "credential_revision_ref": "cred-1", "enabled": true,
			})
		}
	}
	data, err := json.Marshal(object{"instances": instances, "bindings": bindings})
	check(t, err)
	return data
}

// routes admits the first release and lets tenants route on it, each on its own replica:
// clients that wait for one another's rows would hide what the publication does to them.
func (s *site) routes() {
	s.t.Helper()
	verified := s.verified("1", 1, desks*capabilities)
	set, err := verified.ChangeSet("test", "test")
	check(s.t, err)
	version := verified.Version()
	for i, instance := range set.Instances {
		replica, err := fleet.ParseReplicaID(fmt.Sprintf("crepl_1_%d", i))
		check(s.t, err)
		did := fmt.Sprintf("did:key:z6Mktest%d", i)
		set.Replicas = append(set.Replicas, fleet.Replica{
			ID: replica, Instance: instance.ID, Version: version.ID, Endpoint: "https://host.example:7101", Capacity: 1000,
			Topology: fleet.Topology{}.WithDefaults(),
			Peer:     fleet.Peer{PrincipalID: "host", PrincipalKind: "service", DID: did, TrustDomain: "example", TransportProfile: "aip-http/1"},
		})
	}
	s.apply(set)
	_, err = s.control.Transition(context.Background(), registry.VersionTransition{Version: version.ID, To: fleet.VersionActive, Actor: "test", Reason: "test"})
	check(s.t, err)
	for i, instance := range set.Instances {
		s.register(version, instance, set.Replicas[i])
	}
}

// register makes a replica ready.
func (s *site) register(version fleet.ConnectorVersion, instance fleet.ConnectorInstance, replica fleet.Replica) {
	s.t.Helper()
	journal, err := fleet.ParseJournalID("jrnl_" + replica.ID.String())
	check(s.t, err)
	_, err = s.data.Register(context.Background(), registry.Registration{
		Claim: registry.RequestClaim{ID: "msg_" + replica.ID.String(), Digest: fleet.DigestBytes([]byte("1"))}, Replica: replica.ID, PeerDID: replica.Peer.DID,
		ManifestDigest: version.ManifestDigest, ArtifactDigest: version.ArtifactDigest, Tenant: instance.Tenant, ConfigRevision: 1,
		CapabilityCount: capabilities, Capacity: 1000, Journal: journal, TTL: registry.MaxLeaseTTL,
	})
	check(s.t, err)
	_, err = s.data.Renew(context.Background(), registry.Beat{Replica: replica.ID, PeerDID: replica.Peer.DID, Epoch: 1, Sequence: 2, Ready: true, TTL: registry.MaxLeaseTTL})
	check(s.t, err)
}

// load is what clients that route saw.
type load struct {
	mu      sync.Mutex
	count   int
	longest time.Duration
	failed  []error
}

// route keeps clients routing until stop is closed.
func (s *site) route(clients int, stop chan struct{}) (*load, *sync.WaitGroup) {
	l, running := &load{}, &sync.WaitGroup{}
	capability, err := fleet.ParseCapabilityID("desk:tool0")
	check(s.t, err)
	for i := range clients {
		tenant, err := fleet.ParseTenantID(fmt.Sprintf("tenant-1-%d", i%desks))
		check(s.t, err)
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				began := time.Now()
				a, err := s.data.Resolve(context.Background(), registry.RouteRequest{Action: fleet.NewActionID(began), Tenant: tenant, Capability: capability})
				took := time.Since(began)
				if err == nil {
					_, err = s.data.Settle(context.Background(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
				}
				l.note(took, err)
			}
		})
	}
	return l, running
}

func (l *load) note(took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	l.longest = max(l.longest, took)
	if err != nil && len(l.failed) < 5 {
		l.failed = append(l.failed, err)
	}
}

// publish admits a release with n bindings while clients route.
func (s *site) publish(version string, sequence, n, clients int) (registry.Publication, time.Duration, *load) {
	s.t.Helper()
	set, err := s.verified(version, sequence, n).ChangeSet("test", "test")
	check(s.t, err)
	before := s.revision()
	stop := make(chan struct{})
	l, running := s.route(clients, stop)
	began := time.Now()
	done, err := s.control.Apply(context.Background(), set, before)
	took := time.Since(began)
	close(stop)
	running.Wait()
	check(s.t, err)
	return done, took, l
}

func (s *site) bindings() int {
	s.t.Helper()
	status, err := s.data.Status(context.Background())
	check(s.t, err)
	return status.Bindings
}

// TestAdmit_G13_ManyBindingsAreOneRevisionWhileRoutingGoesOn publishes a package with
// many bindings; the benchmark does the same with as many as a package may have.
func TestAdmit_G13_ManyBindingsAreOneRevisionWhileRoutingGoesOn(t *testing.T) {
	s := newSite(t)
	before, bindings := s.revision(), s.bindings()
	done, took, l := s.publish("2", 2, 3000, 2)
	if done.Before != before || done.After != before+1 || s.revision() != before+1 || s.bindings() != bindings+3000 {
		t.Errorf("revision %d to %d, %d bindings", done.Before, done.After, s.bindings())
	}
	if len(l.failed) > 0 || l.count == 0 {
		t.Errorf("%d routes while it was published, failures %v", l.count, l.failed)
	}
	t.Logf("3000 bindings in %s, meanwhile %d routes, the longest resolve %s", took, l.count, l.longest)
	s.audit()
}

func (s *site) audit() {
	s.t.Helper()
	snapshot, err := s.data.Snapshot(context.Background())
	check(s.t, err)
	for _, v := range registry.Audit(snapshot) {
		s.t.Errorf("audit: %s broken by %s: %s", v.Guarantee, v.Subject, v.What)
	}
}

// TestAdmit_G13_AServerKilledInTheMiddleOfAPublicationLeavesNothing kills the whole
// server while the bindings are being written, and publishes again afterwards.
func TestAdmit_G13_AServerKilledInTheMiddleOfAPublicationLeavesNothing(t *testing.T) {
	s := newSite(t)
	set, err := s.verified("2", 2, 10_000).ChangeSet("test", "test")
	check(t, err)
	before, bindings := s.revision(), s.bindings()
	ended := make(chan error, 1)
	go func() {
		_, err := s.control.Apply(context.Background(), set, before)
		ended <- err
	}()
	s.awaitWriting(ended)
	check(t, s.cluster.Kill())
	if err := <-ended; err == nil {
		t.Fatal("the publication was over before the server was killed")
	}
	s.close()
	s.start()
	s.open()
	if s.revision() != before || s.bindings() != bindings {
		t.Errorf("after the kill: revision %d of %d, %d bindings of %d", s.revision(), before, s.bindings(), bindings)
	}
	rec, err := s.data.List(context.Background(), registry.Selection{Noun: registry.Admissions, IDs: []string{"cver_2"}})
	check(t, err)
	versions, err := s.data.List(context.Background(), registry.Selection{Noun: registry.Versions, IDs: []string{"cver_2"}})
	check(t, err)
	if len(rec.Admissions)+len(versions.Versions) > 0 {
		t.Errorf("an interrupted admission left %d entries and %d versions", len(rec.Admissions), len(versions.Versions))
	}
	s.audit()
	done, err := s.control.Apply(context.Background(), set, before)
	check(t, err)
	if done.After != before+1 || s.bindings() != bindings+10_000 {
		t.Errorf("published again: revision %d to %d, %d bindings", done.Before, done.After, s.bindings())
	}
}

// awaitWriting returns when the publication has written and is not over: its
// transaction holds an id, and waits for no lock.
func (s *site) awaitWriting(ended chan error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	pool, err := pgxpool.New(ctx, s.cluster.AdminDSN("aip"))
	check(s.t, err)
	defer pool.Close()
	for {
		var writing bool
		err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'aip_control' AND backend_xid IS NOT NULL
			AND state = 'active' AND query LIKE '%INSERT INTO aip.binding%')`).Scan(&writing)
		check(s.t, err)
		if writing {
			return
		}
		select {
		case err := <-ended:
			s.t.Fatalf("the publication ended before it was seen to write: %v", err)
		default:
		}
	}
}

// quiet is the longest resolve of as many clients for as long, with nothing published:
// what the machine itself does to a resolve.
func (s *site) quiet(clients int, d time.Duration) time.Duration {
	stop := make(chan struct{})
	l, running := s.route(clients, stop)
	time.Sleep(d) // a measuring window, not a synchronisation
	close(stop)
	running.Wait()
	return l.longest
}

// BenchmarkPublication admits packages with as many bindings as one may have, while
// eight clients route, on a durable server of its own. It fails when a publication
// takes a minute, is more than one revision, or fails a route. The longest resolve is
// reported, beside that of as long a time without a publication on the same machine.
func BenchmarkPublication(b *testing.B) {
	s := newSite(b)
	const clients = 8
	sequence := 1
	var total, longest, quiet time.Duration
	var routes int
	for b.Loop() {
		sequence++
		done, took, l := s.publish(fmt.Sprint(sequence), sequence, admission.MaxBindings, clients)
		if done.After != done.Before+1 || took > time.Minute || len(l.failed) > 0 {
			b.Fatalf("revision %d to %d in %s, failures %v", done.Before, done.After, took, l.failed)
		}
		total, longest, routes = total+took, max(longest, l.longest), routes+l.count
		quiet = max(quiet, s.quiet(clients, took))
	}
	b.ReportMetric(total.Seconds()/float64(b.N), "publish-s")
	b.ReportMetric(float64(longest.Milliseconds()), "longest-resolve-ms")
	b.ReportMetric(float64(quiet.Milliseconds()), "longest-resolve-quiet-ms")
	b.ReportMetric(float64(routes)/total.Seconds(), "routes/s")
}
