package pgcluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func startIn(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	cluster, err := Start(bounded(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := RemoveDir(bounded(t), cfg.Dir); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

func query(t *testing.T, dsn, statement string) string {
	t.Helper()
	ctx := bounded(t)
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var answer string
	if err := conn.QueryRow(ctx, statement).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return answer
}

func hasCode(err error, code string) bool { return fleet.CodeOf(err) == code }

// A server that is killed comes back on the same address with everything that it
// had acknowledged.
func TestKill_G39_AcknowledgedDataSurvivesAKillOfTheWholeServer(t *testing.T) {
	cfg := Config{Dir: filepath.Join(t.TempDir(), "pg")}
	cluster := startIn(t, cfg)
	ctx := bounded(t)
	if err := cluster.CreateDatabase(ctx, "kept", ""); err != nil {
		t.Fatal(err)
	}
	dsn := cluster.AdminDSN("kept")
	query(t, dsn, `WITH made AS (SELECT 1) SELECT 'ready' FROM made`)
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, `CREATE TABLE note AS SELECT 'kept' AS text`); err != nil {
		t.Fatal(err)
	}
	backends := childrenOf(cluster.PID())
	if procAvailable() && len(backends) == 0 {
		t.Fatal("the server shows no backend: the kill would prove nothing")
	}
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range append(backends, cluster.PID()) {
		if processExists(pid) {
			t.Errorf("process %d outlived the kill", pid)
		}
	}
	again, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if again.AdminDSN("kept") != dsn {
		t.Errorf("the restarted server has another address: port %d, was %d", again.Port(), cluster.Port())
	}
	if got := query(t, dsn, `SELECT text FROM note`); got != "kept" {
		t.Errorf("note = %q after the kill", got)
	}
}

func TestStart_G20_AWrongPasswordIsRefused(t *testing.T) {
	cluster := startIn(t, Config{Dir: filepath.Join(t.TempDir(), "pg"), Fast: true})
	ctx := bounded(t)
	conn, err := pgx.Connect(ctx, cluster.DSN("postgres", "wrong", "postgres"))
	if err == nil {
		conn.Close(ctx)
		t.Fatal("a login with a wrong password was accepted")
	}
	if !strings.Contains(err.Error(), "28P01") {
		t.Errorf("refused for another reason: %v", err)
	}
	info, err := os.Stat(filepath.Join(cluster.Dir(), passwordName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("password file: %v, %v; want mode 0600", info, err)
	}
}

func TestStart_G39_DefaultsAreDurableAndFastIsNot(t *testing.T) {
	for _, row := range []struct {
		fast bool
		want string
	}{{false, "on"}, {true, "off"}} {
		cluster := startIn(t, Config{Dir: filepath.Join(t.TempDir(), "pg"), Fast: row.fast})
		for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
			if got := query(t, cluster.AdminDSN("postgres"), "SHOW "+setting); got != row.want {
				t.Errorf("fast=%v: %s = %s, want %s", row.fast, setting, got, row.want)
			}
		}
	}
}

func TestStart_G40_ASecondServerInTheSameDirectoryIsRefused(t *testing.T) {
	cfg := Config{Dir: filepath.Join(t.TempDir(), "pg"), Fast: true}
	startIn(t, cfg)
	if _, err := Start(bounded(t), cfg); !hasCode(err, CodeRunning) {
		t.Errorf("second start: %v, want %s", err, CodeRunning)
	}
}

func TestStart_G40_AnUnusablePortNamesTheReason(t *testing.T) {
	first := startIn(t, Config{Dir: filepath.Join(t.TempDir(), "one"), Fast: true})
	dir := filepath.Join(t.TempDir(), "two")
	_, err := Start(bounded(t), Config{Dir: dir, Port: first.Port(), Fast: true})
	if !hasCode(err, CodeStart) || !strings.Contains(err.Error(), "ended while starting") {
		t.Errorf("start on a taken port: %v", err)
	}
	if err := RemoveDir(bounded(t), dir); err != nil {
		t.Error(err)
	}
}

// The test binary starts itself as the parent that goes away.
func TestDetach_G39_ADetachedServerOutlivesItsParentAndIsStoppedByDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pg")
	runParent(t, dir, "detach")
	t.Cleanup(func() {
		if err := RemoveDir(bounded(t), dir); err != nil {
			t.Error(err)
		}
	})
	cluster, err := Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := query(t, cluster.AdminDSN("postgres"), "SELECT 'up'"); got != "up" {
		t.Errorf("the detached server answers %q", got)
	}
	if err := StopDir(bounded(t), dir); err != nil {
		t.Fatal(err)
	}
	if processExists(cluster.PID()) {
		t.Error("the server outlived StopDir")
	}
	if _, err := Attach(dir); !hasCode(err, CodeNotRunning) {
		t.Errorf("attach after the stop: %v", err)
	}
	if err := StopDir(bounded(t), dir); err != nil {
		t.Errorf("a second stop: %v", err)
	}
}

func TestStart_G39_AnAttachedToParentServerEndsWithIt(t *testing.T) {
	if !procAvailable() {
		t.Log("this system has no parent death signal; StopDir ends such a server")
		return
	}
	dir := filepath.Join(t.TempDir(), "pg")
	runParent(t, dir, "plain")
	t.Cleanup(func() {
		if err := RemoveDir(bounded(t), dir); err != nil {
			t.Error(err)
		}
	})
	p, err := existingPlace(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !p.initialised() {
		t.Fatal("the parent started no server: nothing was tested")
	}
	ctx := bounded(t)
	for pid, alive := p.runningPID(); alive; pid, alive = p.runningPID() {
		if ctx.Err() != nil {
			t.Fatalf("process %d outlived its parent", pid)
		}
		time.Sleep(pollInterval)
	}
}

// runParent runs this binary as a process that starts a cluster and exits
// without stopping it.
func runParent(t *testing.T, dir, mode string) {
	t.Helper()
	cmd := exec.CommandContext(bounded(t), os.Args[0], "-test.run=^TestMain_ParentProcess$")
	cmd.Env = append(os.Environ(), "PGCLUSTER_PARENT_DIR="+dir, "PGCLUSTER_PARENT_MODE="+mode)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the parent process: %v\n%s", err, out)
	}
}

func TestMain(m *testing.M) {
	dir, ok := os.LookupEnv("PGCLUSTER_PARENT_DIR")
	if !ok {
		os.Exit(m.Run())
	}
	cfg := Config{Dir: dir, Fast: true, Detach: os.Getenv("PGCLUSTER_PARENT_MODE") == "detach"}
	if _, err := Start(context.Background(), cfg); err != nil {
		println(err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}
