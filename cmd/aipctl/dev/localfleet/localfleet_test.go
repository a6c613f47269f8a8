package localfleet

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/cmd/aipctl/apply"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// TestMain lets this test binary be a process that waits, or one that heeds no request
// to end.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "sleeper" {
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func place(t *testing.T) Place {
	t.Helper()
	p, err := PlaceOf(filepath.Join(t.TempDir(), "fleet"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.make(); err != nil {
		t.Fatal(err)
	}
	return p
}

func sleeper(t *testing.T, p Place) Process {
	t.Helper()
	process, err := p.spawn(launch{name: "sleeper", program: os.Args[0], args: []string{"sleeper"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Kill(context.Background()) })
	return process
}

// A process that has the number of ours but began at another time is a stranger: it
// does not count as alive and is never signalled.
func TestProcess_G39_AStrangerWithTheSameNumberIsLeftAlone(t *testing.T) {
	p := place(t)
	ours := sleeper(t, p)
	stranger := Process{PID: ours.PID, Began: "another time"}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if stranger.Alive() {
		t.Error("a process that began at another time counts as ours")
	}
	if err := stranger.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if gentle, err := stranger.stop(ctx); err != nil || !gentle {
		t.Fatal(gentle, err)
	}
	if !ours.Alive() {
		t.Fatal("the stranger was ended")
	}
	if _, err := ours.stop(ctx); err != nil || ours.Alive() {
		t.Errorf("our own process: %v, alive %v", err, ours.Alive())
	}
}

// A child that ended is not alive, although nobody waited for it.
func TestProcess_G39_AnEndedChildIsGone(t *testing.T) {
	p := place(t)
	process := sleeper(t, p)
	if err := syscall.Kill(process.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := process.awaitGone(ctx); err != nil {
		t.Error(err)
	}
	if (Process{}).Alive() || (Process{PID: 1}).Alive() {
		t.Error("no process, or the first one of the machine, counts as ours")
	}
}

func TestPlace_G39_ADirectoryOfOthersIsRefusedAndNeverRemoved(t *testing.T) {
	p := place(t)
	mine := filepath.Join(p.Dir(), "thesis.txt")
	if err := os.WriteFile(mine, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Free(); fleet.CodeOf(err) != "dev.directory" {
		t.Errorf("a directory with other files: %v", err)
	}
	if err := p.writeState(state{Format: stateFormat}); err != nil {
		t.Fatal(err)
	}
	if err := p.Free(); err != nil {
		t.Errorf("a directory with a fleet: %v", err)
	}
	if err := os.Remove(p.postgres()); err != nil {
		t.Fatal(err)
	}
	if err := p.remove(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(p.Dir())
	if err != nil || len(left) != 1 || left[0].Name() != "thesis.txt" {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestPlace_G40_ARecordOfAnotherFormatIsNotUsed(t *testing.T) {
	p := place(t)
	if _, err := p.readState(); fleet.KindOf(err) != fleet.NotFound {
		t.Errorf("no record: %v", err)
	}
	if err := p.writeState(state{Format: stateFormat + 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.readState(); fleet.CodeOf(err) != "dev.state" {
		t.Errorf("a later format: %v", err)
	}
}

func TestPlace_G40_TwoCommandsDoNotChangeOneFleetAtOnce(t *testing.T) {
	p := place(t)
	release, err := p.lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.lock(); fleet.CodeOf(err) != "dev.busy" {
		t.Errorf("a second lock: %v", err)
	}
	release()
	again, err := p.lock()
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestSecrets_G21_OnlyTheirOwnerCanReadThem(t *testing.T) {
	p := place(t)
	if err := p.writeTokens(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.signer("gateway"); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(p.Secret("*"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", f, info.Mode(), err)
		}
	}
	token, err := os.ReadFile(p.tokenFile(Acme))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{p.tokensYAML(), p.jwks()} {
		text, err := os.ReadFile(f)
		if err != nil || strings.Contains(string(text), strings.TrimSpace(string(token))) || strings.Contains(string(text), `"d"`) {
			t.Errorf("%s holds a secret, or cannot be read: %v", f, err)
		}
	}
}

func TestPorts_G09_AreFreeDifferentAndBelowTheEphemeralOnes(t *testing.T) {
	ports, err := choosePorts(MaxHosts)
	if err != nil {
		t.Fatal(err)
	}
	all := append([]int{ports.Postgres, ports.Serve, ports.Lifecycle}, ports.Hosts...)
	slices.Sort(all)
	if len(slices.Compact(all)) != MaxHosts+3 || all[0] < firstPort || all[len(all)-1] >= 32768 {
		t.Errorf("ports = %v", all)
	}
	l, err := net.Listen("tcp4", address(ports.Serve))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if portFree(ports.Serve) {
		t.Error("a port that is taken counts as free")
	}
}

// However many hosts there are: the written fleet file is one that aipctl apply reads,
// each replica has its own identity, endpoint and tenant's instance.
func TestFleetFile_G08_EveryReplicaHasAnIdentityOfItsOwn(t *testing.T) {
	for n := MinHosts; n <= MaxHosts; n++ {
		all := hosts(n, Ports{Hosts: make([]int, n)})
		for i := range all {
			all[i].Port = 20000 + i
		}
		p := place(t)
		text, err := renderFleet(all, func(replica string) (string, error) {
			s, err := p.signer(replica)
			return s.DID().String(), err
		})
		if err != nil {
			t.Fatal(err)
		}
		set, err := apply.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		ids, zones := map[string]bool{}, map[string]bool{}
		for _, r := range set.Replicas {
			if _, err := envelope.ParseDID(r.Peer.DID); err != nil {
				t.Errorf("%s: %v", r.ID, err)
			}
			ids[r.ID.String()], ids[r.Peer.DID], ids[r.Endpoint], zones[r.Topology.Zone] = true, true, true, true
		}
		if len(set.Replicas) != n || len(ids) != 3*n || len(zones) != 2 || len(set.Instances) != 2 {
			t.Errorf("%d hosts: %d replicas with %d ids in %d zones", n, len(set.Replicas), len(ids), len(zones))
		}
	}
}

// The programs that are looked for, and what is said when they are not there.
func TestPrograms_G40_TheMissingOnesAreNamed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"aipctl", "aipd", "ticketdesk"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, err := FindPrograms(filepath.Join(dir, "aipctl"))
	if err == nil || !strings.Contains(err.Error(), "aiphost") || strings.Contains(err.Error(), "aipd,") {
		t.Errorf("without aiphost: %v", err)
	}
}

// A command line is shown so that it can be pasted.
func TestResult_G40_LineCanBePasted(t *testing.T) {
	args := []string{"action", "submit", "a:b", "--input", `{"it's":"x y"}`, ""}
	out, err := exec.Command("/bin/sh", "-c", "set -- "+strings.TrimPrefix(Result{Args: args}.Line(), "aipctl ")+`; printf '%s\n' "$@"`).Output()
	if err != nil || string(out) != strings.Join(args, "\n")+"\n" {
		t.Errorf("the shell reads %q, %v", out, err)
	}
}

func TestConfig_G21_NoSecretIsInAConfiguration(t *testing.T) {
	p := place(t)
	f := &Fleet{options: Options{Now: time.Now, LeaseTTL: time.Second}, place: p, state: state{Hosts: MinHosts, Ports: Ports{Hosts: []int{1, 2, 3}}}}
	if err := f.writeConfigs(); err != nil {
		t.Fatal(err)
	}
	var secrets []string
	files, err := filepath.Glob(p.Secret("*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, strings.TrimSpace(string(text)))
	}
	configs, err := filepath.Glob(p.Config("*"))
	if err != nil || len(configs) < 8 || len(secrets) < 8 {
		t.Fatalf("%d configurations, %d secrets, %v", len(configs), len(secrets), err)
	}
	for _, file := range append(configs, p.Context()) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s holds a secret", file)
			}
		}
		var any any
		if strings.HasSuffix(file, ".yaml") && yaml.Unmarshal(text, &any) != nil {
			t.Errorf("%s is no YAML", file)
		}
	}
}
