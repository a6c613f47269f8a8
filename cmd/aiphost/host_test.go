package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// TestHost_G26_KilledAfterTheEffect kills the host after the product has acted and
// before anybody heard of it: the next process finds the effect, and makes no second one.
func TestHost_G26_KilledAfterTheEffect(t *testing.T) {
	b := newBed(t)
	p := b.spawn().ready()
	id := fleet.NewActionID(time.Now())
	b.fault(desk.Rule{At: desk.AfterEffect, Action: desk.ActionStall})
	order := b.order(id, "printer on fire")
	lost := make(chan error, 1)
	go func() { _, err := b.post(order); lost <- err }()
	b.eventually("the effect", func() bool { return b.effects() == 1 })
	p.signal(syscall.SIGKILL)
	p.wait()
	if err := <-lost; err == nil {
		t.Fatal("an answer came although the host was killed")
	}
	b.spawn().ready()
	if live := b.live(); live.LeaseEpoch != 2 {
		t.Errorf("the killed host did not supersede its lease: %+v", live)
	}
	b.eventually("the outcome", func() bool {
		o, err := b.post(b.seal(id, "open_ticket", protocol.ActionStatusRequest{ActionID: id}))
		return err == nil && bytes.Contains(o.Body(), []byte(`"state":"completed"`)) && bytes.Contains(o.Body(), []byte(`"source":"reconcile"`))
	})
	o, err := b.post(order)
	if err != nil || o.BodyKey() != "action_result" {
		t.Fatalf("the same message again: %v %s", err, o.Body())
	}
	if n := b.effects(); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// TestHost_G37_SIGTERMFinishesWhatRuns asks the host to end while an action runs: it
// takes nothing new, finishes, goes offline, and exits with 0.
func TestHost_G37_SIGTERMFinishesWhatRuns(t *testing.T) {
	b := newBed(t)
	p := b.spawn().ready()
	b.fault(desk.Rule{At: desk.BeforeEffect, Action: desk.ActionStall})
	running := fleet.NewActionID(time.Now())
	answer := make(chan string, 1)
	go func() {
		o, err := b.post(b.order(running, "slow"))
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- o.BodyKey() + " " + string(o.Body())
	}()
	b.eventually("the stall", func() bool { return len(must(desk.ReadFired(b.account))) == 1 })
	p.signal(syscall.SIGTERM)
	b.eventually("draining", func() bool { return b.live().Status == fleet.ReplicaDraining })
	late := fleet.NewActionID(time.Now())
	o, err := b.post(b.order(late, "late"))
	if err != nil || !bytes.Contains(o.Body(), []byte(`host.draining`)) {
		t.Errorf("a new action while draining: %v %s", err, o.Body())
	}
	if err := desk.Release(b.account); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; !strings.HasPrefix(got, "action_result") || !strings.Contains(got, `"completed"`) {
		t.Errorf("the running action: %s", got)
	}
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if live := b.live(); live.Status != fleet.ReplicaOffline {
		t.Errorf("not offline: %+v", live)
	}
	if n := b.effects(); n != 1 {
		t.Errorf("%d effects", n)
	}
	if strings.Contains(p.logText(), "tok-1414213562") {
		t.Error("the credential is in the log (G21)")
	}
}

// TestHost_G28_OtherBytesNeverRun changes the artifact after it was admitted: no lease
// is granted for it, and it is not even unpacked.
func TestHost_G28_OtherBytesNeverRun(t *testing.T) {
	b := newBed(t)
	path := filepath.Join(b.dir, "release", "artifact", "ticketdesk")
	f := must(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))
	must(f.WriteString("more"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	p := b.spawn()
	b.eventually("the refusal", func() bool { return strings.Contains(p.logText(), "lease.artifact") })
	if _, err := os.Stat(filepath.Join(b.dir, "state", "artifact")); !os.IsNotExist(err) {
		t.Errorf("the artifact was unpacked: %v", err)
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 || len(p.lines) > 0 {
		t.Errorf("exit code %d, said %d lines", code, len(p.lines))
	}
}

// TestHost_G40_RefusesToStartAndSaysWhy lists what keeps a host from starting.
func TestHost_G40_RefusesToStartAndSaysWhy(t *testing.T) {
	b := newBed(t)
	config := string(must(os.ReadFile(b.config)))
	for name, c := range map[string]struct{ from, to, say string }{
		"unknown member":  {"capacity: 4", "capacity: 4\ncapacties: 5", "capacties"},
		"missing key":     {"identity_key: host.pem", "identity_key: none.pem", "envelope.key_file"},
		"other version":   {"version: cver_desk", "version: cver_other", "cver_other"},
		"no capacity":     {"capacity: 4", "capacity: 0", "capacity"},
		"missing release": {"release: release", "release: nowhere", "error["},
	} {
		b.write("host.yaml", []byte(strings.Replace(config, c.from, c.to, 1)))
		p := b.spawn()
		if code := p.wait(); code != 1 || !strings.Contains(p.logText(), c.say) || !strings.HasPrefix(p.logText(), "error[") {
			t.Errorf("%s: exit code %d\n%s", name, code, p.logText())
		}
	}
	if code := b.spawn("--no-such-flag").wait(); code != 2 {
		t.Errorf("a wrong command line: exit code %d", code)
	}
	b.write("host.yaml", []byte(config))
	b.spawn().ready()
	second := b.spawn("--listen", "127.0.0.1:0")
	if code := second.wait(); code != 1 || !strings.Contains(second.logText(), "journal.locked") {
		t.Errorf("a second host on the same state: exit code %d\n%s", code, second.logText())
	}
}

// TestHost_G08_NothingIsRoutedToAHostWhoseConnectorIsNotUp: a connector's session takes
// until the test lets it open. Meanwhile the host has its lease and beats, and the
// registry sends nothing; once the connector is up it does at once.
func TestHost_G08_NothingIsRoutedToAHostWhoseConnectorIsNotUp(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "slow", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "act", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{StructuredContent: map[string]any{"n": 1}}, nil
	})
	mcp := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	gate, ended := make(chan struct{}), make(chan struct{})
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		select {
		case <-gate:
			mcp.ServeHTTP(w, q)
		case <-ended:
		}
	}))
	defer remote.Close()
	defer close(ended)
	config := map[string]any{"connector": map[string]any{"allow_ranges": []string{"127.0.0.0/8"}}}
	b := newBedWith(t, kit("mcp-http", "act", "server.json", []byte(`{"url":"`+remote.URL+`"}`)), config)
	b.bind("kit:do")
	p := b.spawn()
	b.eventually("two beats", func() bool { return b.live().LeaseSequence >= 3 })
	if live := b.live(); live.Healthy || live.Status != fleet.ReplicaReady {
		t.Errorf("without its connector it is %+v", live)
	}
	if _, err := b.resolve("kit:do"); !fleet.Is(err, fleet.ReplicaUnavailable) {
		t.Errorf("a route was given: %v", err)
	}
	close(gate)
	p.ready()
	if live := b.live(); !live.Healthy {
		t.Errorf("with its connector it is %+v", live)
	}
	if a, err := b.resolve("kit:do"); err != nil || a.Route.Replica != b.identity.Replica {
		t.Errorf("no route was given: %v", err)
	}
}

// bind lets the tenant use a capability of the instance.
func (b *bed) bind(capability string) {
	b.t.Helper()
	key := fleet.BindingKey{Tenant: b.identity.Tenant, Capability: must(fleet.ParseCapabilityID(capability)), Instance: b.identity.Instance}
	revision := must(b.store.Status(context.Background())).Revision
	if _, err := b.store.Apply(context.Background(), registry.ChangeSet{
		Actor: "test", Reason: "test", Bindings: []fleet.CapabilityBinding{{BindingKey: key, Priority: 1, PolicyRevision: 1, Enabled: true}},
	}, revision); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) resolve(capability string) (fleet.Assignment, error) {
	return b.store.Resolve(context.Background(), registry.RouteRequest{
		Action: newID(), Tenant: b.identity.Tenant, Capability: must(fleet.ParseCapabilityID(capability)),
	})
}
