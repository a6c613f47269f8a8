package guests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

type tree = map[string]any

// bin is where the programs were built for these tests.
var bin string //nolint:gochecknoglobals // made by TestMain

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "aipfleet-guests-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin = dir
	for _, args := range [][]string{
		{"-o", dir + "/", "../../cmd/aipctl", "../../cmd/aipd", "../../cmd/aiphost"},
		{"-o", filepath.Join(dir, "ticketdesk"), "../../examples/ticketdesk/server"},
		{"-o", filepath.Join(dir, "leaky"), "./testdata/leaky"},
	} {
		if out, err := exec.Command("go", append([]string{"build", "-buildvcs=false"}, args...)...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// rig is a private fleet whose hosts are all guests.
type rig struct {
	*testing.T
	fleet     *localfleet.Fleet
	hosts     map[string]*exec.Cmd
	addresses map[string]string // of the hosts
}

// newRig makes a fleet and starts its database and its two daemons.
func newRig(t *testing.T) *rig {
	t.Helper()
	programs, err := localfleet.FindPrograms(filepath.Join(bin, "aipctl"))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, hosts: map[string]*exec.Cmd{}, addresses: map[string]string{}}
	r.fleet, err = localfleet.Up(r.bounded(), localfleet.Options{
		Dir: filepath.Join(t.TempDir(), "fleet"), Programs: programs, LeaseTTL: 5 * time.Second, Brisk: true, Idle: true, Now: time.Now,
	})
	if r.fleet != nil {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			if err := r.fleet.Purge(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	r.writeYAML(r.fleet.Place().Config("policy.yaml"), tree{"rules": []tree{{"effect": "allow", "principals": []string{"*"}}}})
	for _, name := range []string{localfleet.ProcessLifecycle, localfleet.ProcessServe} {
		if err := r.fleet.Start(r.bounded(), name); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// within is the same fleet for a subtest.
func (r *rig) within(t *testing.T) *rig {
	inner := *r
	inner.T = t
	return &inner
}

func (r *rig) bounded() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	r.Cleanup(cancel)
	return ctx
}

func (r *rig) write(path string, data []byte) {
	r.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) writeYAML(path string, doc any) {
	r.Helper()
	text, err := yaml.Marshal(doc)
	if err != nil {
		r.Fatal(err)
	}
	r.write(path, text)
}

// aipctl runs the real program and expects success.
func (r *rig) aipctl(args ...string) []byte {
	r.Helper()
	got, err := r.fleet.Aipctl(r.bounded(), args...)
	if err == nil {
		err = got.Failed(0)
	}
	if err != nil {
		r.Fatal(err)
	}
	return got.Stdout
}

// guest is a foreign connector.
type guest struct {
	name        string // first part of its capabilities
	artifact    string // a file or a directory
	entrypoint  string
	interpreter string
	args        []string // while it is discovered
	bill        func(artifact fleet.Digest) any
}

func (g guest) version() string { return "cver_" + g.name + "_1.0.0" }
func (g guest) typeID() string  { return "ctype_" + g.name }

// admit packs, signs and attests a guest, trusts its type, admits and promotes it. It
// returns the package's directory and what was discovered.
func (r *rig) admit(g guest) (string, fleet.Manifest) {
	r.Helper()
	place := r.fleet.Place()
	dir, source := filepath.Join(r.TempDir(), "release"), r.TempDir()
	spec := tree{"path": "artifact/" + g.name}
	if g.entrypoint != "" {
		spec["entrypoint"], spec["interpreter"] = g.entrypoint, g.interpreter
	}
	r.writeYAML(filepath.Join(source, "release.yaml"), tree{
		"type": tree{"id": g.typeID(), "name": g.name}, "owner": "guests", "version": "1.0.0", "version_id": g.version(),
		"release_sequence": 1, "aip_versions": []string{"1.0"}, "artifact": spec,
	})
	pack := []string{"release", "pack", source, "--artifact", g.artifact, "--out", dir, "--discover", "--name", g.name}
	for _, a := range g.args {
		pack = append(pack, "--arg", a)
	}
	r.aipctl(pack...)
	publisher, builder := place.Secret("publisher.pem"), place.Secret("builder.pem")
	sbom := []string{"release", "attest", dir, "--slot", "sbom", "--key", builder}
	if g.bill != nil {
		p, err := admission.OpenPackage(dir, admission.Limits{})
		if err != nil {
			r.Fatal(err)
		}
		text, err := json.Marshal(g.bill(p.ArtifactDigest()))
		if err != nil {
			r.Fatal(err)
		}
		file := filepath.Join(source, "sbom.json")
		r.write(file, text)
		sbom = append(sbom, "--predicate", file)
	}
	r.aipctl(sbom...)
	r.aipctl("release", "attest", dir, "--slot", "provenance", "--key", builder, "--builder-id", "https://builds.example/ticketdesk",
		"--source-repository", "https://git.example/ticketdesk", "--source-ref", "refs/tags/v1.0.0")
	r.aipctl("release", "sign", dir, "--key", publisher)
	r.trust(g)
	r.aipctl("admit", "release", dir, "--yes", "--reason", "a guest")
	r.aipctl("promote", "version", g.version(), "--yes", "--reason", "looked at it")
	p, err := admission.OpenPackage(dir, admission.Limits{})
	if err != nil {
		r.Fatal(err)
	}
	return dir, p.Manifest()
}

// trust adds the type of a guest to the trust policy, which asks for three slots here:
// what the others prove is the example's.
func (r *rig) trust(g guest) {
	r.Helper()
	text, err := os.ReadFile(r.fleet.TrustPolicy())
	if err != nil {
		r.Fatal(err)
	}
	var policy tree
	if err := yaml.Unmarshal(text, &policy); err != nil {
		r.Fatal(err)
	}
	types, _ := policy["types"].([]any)
	if slots, ok := policy["slots"].(tree); ok {
		for _, name := range []string{"vulnerability", "conformance", "approval"} {
			delete(slots, name)
		}
	}
	policy["distinct_signers"] = [][]string{{"signature", "provenance"}}
	policy["types"] = append(types, tree{"type": g.typeID(), "owners": []string{"guests"}, "signers": []string{"publisher", "builder"}})
	r.writeYAML(r.fleet.TrustPolicy(), policy)
	r.aipctl("trust", "apply", r.fleet.TrustPolicy(), "--yes", "--reason", "guests")
}

// seat is one host of a guest, for one tenant.
type seat struct {
	guest    guest
	release  string
	manifest fleet.Manifest
	name     string // of the replica
	tenant   string
	config   tree     // over what every host has
	env      []string // of the host process
}

func (s seat) replica() string  { return "crepl_" + s.name }
func (s seat) instance() string { return "cinst_" + s.name }

// seated declares the account, replica and bindings of a guest, and runs its host until
// the test ends.
func (r *rig) seated(s seat) {
	r.Helper()
	place := r.fleet.Place()
	key, err := envelope.GenerateKeyFile(place.Secret(s.replica() + ".pem"))
	if err != nil {
		r.Fatal(err)
	}
	address := r.freeAddress()
	r.addresses[s.replica()] = address
	r.declare(s, address, key.DID().String())
	var lifecycle struct {
		Listen string `yaml:"listen"`
	}
	r.readYAML(place.Config("lifecycle.yaml"), &lifecycle)
	did, err := envelope.LoadSigner(place.Secret("lifecycle.pem"))
	if err != nil {
		r.Fatal(err)
	}
	config := tree{
		"replica": s.replica(), "instance": s.instance(), "tenant": s.tenant, "version": s.guest.version(),
		"listen": address, "state_dir": place.HostState(s.replica()), "identity_key": place.Secret(s.replica() + ".pem"),
		"release": s.release, "lifecycle": tree{"url": "http://" + lifecycle.Listen, "did": did.DID().String()},
		"gateways": place.Config("gateway.keys.json"), "operators": place.Config("operator.keys.json"),
		"capacity": 8, "config_revision": 1, "secret_provider_ref": "the-ref", "credential_revisions": tree{"current": "rev-1"},
	}
	for name, value := range s.config {
		config[name] = value
	}
	if err := os.MkdirAll(place.HostState(s.replica()), 0o700); err != nil {
		r.Fatal(err)
	}
	r.writeYAML(place.Config(s.replica()+".yaml"), config)
	r.run(s)
	r.aipctl("wait", "replica", s.replica(), "--for", "status=ready && healthy=true", "--timeout", "60s")
}

func (r *rig) readYAML(path string, into any) {
	r.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) freeAddress() string {
	r.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func (r *rig) declare(s seat, address, did string) {
	r.Helper()
	var bindings []tree
	for _, c := range s.manifest.Capabilities {
		bindings = append(bindings, tree{
			"tenant_id": s.tenant, "capability_id": c.ID.String(), "instance_id": s.instance(), "priority": 10,
			"policy_revision": 1, "credential_revision_ref": "rev-1", "enabled": true,
		})
	}
	file := filepath.Join(r.TempDir(), "fleet.yaml")
	r.writeYAML(file, tree{
		"instances": []tree{{
			"id": s.instance(), "type_id": s.guest.typeID(), "tenant_id": s.tenant,
			"serving":         []tree{{"version_id": s.guest.version(), "weight": 1}},
			"config_revision": 1, "secret_provider_ref": "the-ref", "enabled": true,
		}},
		"replicas": []tree{{
			"id": s.replica(), "instance_id": s.instance(), "version_id": s.guest.version(), "endpoint": "http://" + address, "capacity": 8,
			"peer": tree{
				"principal_id": "host." + s.name, "principal_kind": "service", "did": did, "trust_domain": "dev.local", "transport_profile": "aip-http/1",
			},
			"topology": tree{"region": "eu-1", "zone": "eu-1a", "capacity_class": "standard"},
		}},
		"bindings": bindings,
	})
	r.aipctl("apply", "-f", file, "--yes", "--reason", "a guest's account")
}

// run starts the host of a seat, with its output beside that of the daemons.
func (r *rig) run(s seat) {
	r.Helper()
	place := r.fleet.Place()
	log, err := os.OpenFile(place.Log(s.replica()), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(filepath.Join(bin, "aiphost"), "run", "--config", place.Config(s.replica()+".yaml"))
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GOTRACEBACK=all"}, s.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.hosts[s.replica()] = cmd
	r.Cleanup(func() { r.end(s.replica(), syscall.SIGTERM) })
}

// end signals a host and waits for its end.
func (r *rig) end(replica string, how syscall.Signal) {
	r.Helper()
	cmd := r.hosts[replica]
	if cmd == nil || cmd.ProcessState != nil {
		return
	}
	_ = cmd.Process.Signal(how)
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		r.Error(err)
	}
}

// call submits an action and waits for its end.
func (r *rig) call(tenant, capability string, input any, timeout time.Duration) action.View {
	r.Helper()
	c, err := r.fleet.Client(tenant)
	if err != nil {
		r.Fatal(err)
	}
	id, err := fleet.ParseCapabilityID(capability)
	if err != nil {
		r.Fatal(err)
	}
	text, err := json.Marshal(input)
	if err != nil {
		r.Fatal(err)
	}
	v, err := c.Submit(r.bounded(), action.Request{
		ID: fleet.NewActionID(time.Now()), Capability: id, Input: text, TimeoutMS: uint64(timeout.Milliseconds()),
	}, timeout+5*time.Second)
	if err != nil {
		r.Fatalf("%s: %v", capability, err)
	}
	return v
}

// get reads a path of an HTTP surface.
func (r *rig) get(url string) []byte {
	r.Helper()
	resp, err := http.Get(url)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		r.Fatal(err)
	}
	return b.Bytes()
}

// tools are the names behind a connector's capabilities.
func tools(m fleet.Manifest) []string {
	var names []string
	for _, c := range m.Capabilities {
		_, tool, _ := strings.Cut(c.ID.String(), ":")
		names = append(names, tool)
	}
	return names
}
