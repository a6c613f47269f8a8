package lifecycle_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipd/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer/hostiletest"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// TestRun_G40_HostileRequestsAndDocuments: the lifecycle service refuses all of them.
func TestRun_G40_HostileRequestsAndDocuments(t *testing.T) {
	cfg := config(t)
	cfg.DatabaseURL = pgclustertest.Shared(t).DSN(postgres.RoleLifecycle, password, migrated(t))
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := lifecycle.Run(ctx, cfg, noEnv, lifecycle.Streams{Out: in, Err: io.Discard})
		_ = in.CloseWithError(fmt.Errorf("ended: %w", err))
		ended <- err
	}()
	var ready struct {
		Listen string       `json:"listen"`
		DID    envelope.DID `json:"did"`
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &ready) != nil {
		t.Fatalf("%s %v", line, err)
	}
	host := must(envelope.GenerateKeyFile(filepath.Join(t.TempDir(), "host.pem")))
	beat := protocol.Heartbeat{Replica: must(fleet.ParseReplicaID("crepl_none")), Epoch: 1, Sequence: 2}
	message := must(protocol.NewMessage(beat, fleet.NewMessageID(time.Now()), time.Now()))
	valid := string(must(envelope.Seal(message, envelope.Lifecycle, host, ready.DID)))
	surface := hostiletest.Surface{Addr: ready.Listen, Path: protocol.PathControl, Body: valid}
	hostiletest.Requests(t, surface)
	hostiletest.Post(t, surface, hostiletest.Documents(valid, "message_id"))
	wantReady(t, ready.Listen, 200)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("a graceful stop: %v", err)
	}
}
