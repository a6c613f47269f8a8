package lifecycle_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipd/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

const password = "lifecycle-test"

func TestMain(m *testing.M) { os.Exit(pgclustertest.Main(m)) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func migrated(t *testing.T) string {
	t.Helper()
	template := pgclustertest.Template(t, "lifecycle", func(ctx context.Context, admin string) error {
		return migrate.Init(ctx, admin, migrate.Passwords{Migrate: password, Control: password, Data: password, Lifecycle: password, Readonly: password})
	})
	return pgclustertest.NewDatabase(t, template)
}

func config(t *testing.T) lifecycle.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lifecycle.pem")
	must(envelope.GenerateKeyFile(path))
	return lifecycle.Config{Listen: "127.0.0.1:0", IdentityKey: path, LeaseTTL: "2s"}
}

func noEnv(string) (string, bool) { return "", false }

func TestRun_G20_RefusesOtherRolesAndSchemas(t *testing.T) {
	db, cluster := migrated(t), pgclustertest.Shared(t)
	for what, url := range map[string]string{
		"the owner":              cluster.DSN("aip_migrate", password, db),
		"a superuser":            cluster.AdminDSN(db),
		"the data role":          cluster.DSN(postgres.RoleData, password, db),
		"an unmigrated database": cluster.DSN(postgres.RoleLifecycle, password, pgclustertest.NewDatabase(t, "")),
	} {
		cfg := config(t)
		cfg.DatabaseURL = url
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		err := lifecycle.Run(ctx, cfg, noEnv, lifecycle.Streams{Out: io.Discard, Err: io.Discard})
		if ctx.Err() != nil || err == nil || fleet.CodeOf(err) == "" || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v", what, err)
		}
		cancel()
	}
	if err := lifecycle.Run(context.Background(), config(t), noEnv, lifecycle.Streams{Out: io.Discard, Err: io.Discard}); fleet.CodeOf(err) != "aipd.config" {
		t.Errorf("without a database: %v", err)
	}
}

// TestRun_G22_AnswersSignedOverPostgreSQL asks under the restricted role: a stranger is
// refused by the registry itself, and the refusal is signed.
func TestRun_G22_AnswersSignedOverPostgreSQL(t *testing.T) {
	cfg := config(t)
	env := func(name string) (string, bool) {
		return pgclustertest.Shared(t).DSN(postgres.RoleLifecycle, password, migrated(t)), name == "AIPD_DATABASE_URL"
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := lifecycle.Run(ctx, cfg, env, lifecycle.Streams{Out: in, Err: io.Discard})
		_ = in.CloseWithError(fmt.Errorf("ended: %w", err))
		ended <- err
	}()
	var ready struct {
		Ready  bool         `json:"ready"`
		Listen string       `json:"listen"`
		DID    envelope.DID `json:"did"`
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &ready) != nil || !ready.Ready {
		t.Fatalf("%s %v", line, err)
	}
	host := must(envelope.GenerateKeyFile(filepath.Join(t.TempDir(), "host.pem")))
	beat := protocol.Heartbeat{Replica: must(fleet.ParseReplicaID("crepl_none")), Epoch: 1, Sequence: 2}
	message := must(protocol.NewMessage(beat, fleet.NewMessageID(time.Now()), time.Now()))
	body := must(envelope.Seal(message, envelope.Lifecycle, host, ready.DID))
	resp := must(http.Post("http://"+ready.Listen+protocol.PathControl, protocol.ContentType, bytes.NewReader(body)))
	answer := must(io.ReadAll(resp.Body))
	_ = resp.Body.Close()
	opened, err := envelope.Open(answer, envelope.Expect{Purpose: envelope.LifecycleResponse, Audience: host.DID(), Peer: ready.DID, Now: time.Now()})
	if err != nil || resp.StatusCode != http.StatusForbidden || !bytes.Contains(opened.Body(), []byte("lease.peer")) {
		t.Errorf("%d %v %s", resp.StatusCode, err, answer)
	}
	wantReady(t, ready.Listen, http.StatusOK)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("a graceful stop: %v", err)
	}
}

func wantReady(t *testing.T, listen string, status int) {
	t.Helper()
	resp := must(http.Get("http://" + listen + "/ready"))
	defer func() { _ = resp.Body.Close() }()
	if body := must(io.ReadAll(resp.Body)); resp.StatusCode != status {
		t.Errorf("/ready: %d, want %d: %s", resp.StatusCode, status, body)
	}
}

// TestRun_G40_ReadyAsksTheDatabaseAgain: when the database is gone, the process serves
// on and says that it is not ready, and ready again when it is back.
func TestRun_G40_ReadyAsksTheDatabaseAgain(t *testing.T) {
	cfg, db := config(t), migrated(t)
	cluster := pgclustertest.Shared(t)
	gate := newGate(t, cluster.DSN(postgres.RoleLifecycle, password, db))
	cfg.DatabaseURL = gate.url
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := lifecycle.Run(ctx, cfg, noEnv, lifecycle.Streams{Out: in, Err: io.Discard})
		_ = in.CloseWithError(fmt.Errorf("ended: %w", err))
		ended <- err
	}()
	var ready struct{ Listen string }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &ready) != nil {
		t.Fatalf("%s %v", line, err)
	}
	becomes := func(status int) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			resp := must(http.Get("http://" + ready.Listen + "/ready"))
			body := must(io.ReadAll(resp.Body))
			_ = resp.Body.Close()
			if resp.StatusCode == status {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("/ready stays %d: %s", resp.StatusCode, body)
			}
		}
	}
	becomes(http.StatusOK)
	gate.shut(true)
	becomes(http.StatusServiceUnavailable)
	gate.shut(false)
	becomes(http.StatusOK)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("a graceful stop: %v", err)
	}
}
