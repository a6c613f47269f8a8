package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// kit is a release of one file with one capability.
func kit(adapter, tool, artifact string, bytes []byte) func(*bed) {
	return func(b *bed) {
		b.write("release/release.yaml", []byte(`type: {id: ctype_ticketdesk, name: Ticket desk}
owner: desk-team
version: 1.0.0
version_id: cver_desk
release_sequence: 1
aip_versions: ["1.0"]
artifact: {path: artifact/`+artifact+`}
`))
		b.write("release/manifest.json", fmt.Appendf(nil, `{"aip_version":"1.0","name":"kit","version":"1.0.0","capabilities":[
			{"id":"kit:do","name":"do","kind":"tool","input_schema":{"type":"object"},"contract":{"side_effects":"write","idempotency":"provider_key"}}],
			"implementations":[{"capability_id":"kit:do","adapter":%q,"tool":%q}]}`, adapter, tool))
		b.write("release/artifact/"+artifact, bytes)
		if err := os.Chmod(filepath.Join(b.dir, "release", "artifact", artifact), 0o700); err != nil {
			b.t.Fatal(err)
		}
	}
}

func do(id fleet.ActionID, capability, input string) protocol.Action {
	return protocol.Action{ID: id, Capability: must(fleet.ParseCapabilityID(capability)), Input: json.RawMessage(input)}
}

// call sends one action and returns what came back.
func (b *bed) call(action protocol.Action) (key, body string) {
	b.t.Helper()
	o, err := b.post(b.seal(action.ID, "", action))
	if err != nil {
		b.t.Fatal(err)
	}
	return o.BodyKey(), string(o.Body())
}

func newID() fleet.ActionID { return fleet.NewActionID(time.Now()) }

// TestAdapter_G28_AnImageKeptElsewhereIsNotStarted: the host has no bytes to hold
// against the admitted digest, and says so before it asks for a lease.
func TestAdapter_G28_AnImageKeptElsewhereIsNotStarted(t *testing.T) {
	b := newBedWith(t, func(b *bed) {
		kit("exec", "act", "program", []byte("x"))(b)
		text := string(must(os.ReadFile(filepath.Join(b.dir, "release/release.yaml"))))
		b.write("release/release.yaml", []byte(strings.Replace(text, "path: artifact/program", "digest: sha256:"+strings.Repeat("ab", 32), 1)))
		if err := os.RemoveAll(filepath.Join(b.dir, "release/artifact")); err != nil {
			b.t.Fatal(err)
		}
	}, nil)
	p := b.spawn()
	if code := p.wait(); code == 0 || !strings.Contains(p.logText(), "error[artifact.elsewhere]") {
		t.Errorf("exit %d\n%s", code, p.logText())
	}
	if b.live().LeaseEpoch != 0 {
		t.Error("it registered")
	}
}

func TestAdapterHTTP_G19_ATemplateReachesItsProduct(t *testing.T) {
	var said atomic.Value
	product := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		said.Store(r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization") + " " + r.Header.Get("Idempotency-Key") + " " + string(body))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":7,"echo":"tok-1414213562"}`)
	}))
	defer product.Close()
	template := `{"type":"aipfleet.http/v1","base_url":"{account.url}","auth":{"header":"Authorization","scheme":"Bearer"},
		"tools":{"make":{"call":{"method":"POST","path":"/things","headers":{"Idempotency-Key":"{idempotency_key}"},"body":{"name":"{input.name}"},"outcome":{"succeeded":["200"]}}}}}`
	config := map[string]any{"connector": map[string]any{"account": map[string]any{"url": product.URL}, "allow_ranges": []string{"127.0.0.0/8"}}}
	b := newBedWith(t, kit("http", "make", "template.json", []byte(template)), config)
	p := b.spawn().ready()
	id := newID()
	key, body := b.call(do(id, "kit:do", `{"name":"x"}`))
	if key != "action_result" || !strings.Contains(body, `"output":{"echo":"[redacted]","id":7}`) {
		t.Errorf("%s %s", key, body)
	}
	if want := `POST /things Bearer tok-1414213562 ` + id.String() + ` {"name":"x"}`; said.Load() != want {
		t.Errorf("the product was told %q, want %q", said.Load(), want)
	}
	if strings.Contains(p.logText(), "tok-1414213562") {
		t.Error("the credential is in the log")
	}
}

// TestAdapterHTTP_G19_NothingSpecialIsReachedByDefault: without an allowed range the
// same product is not spoken to.
func TestAdapterHTTP_G19_NothingSpecialIsReachedByDefault(t *testing.T) {
	product := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the product was reached") }))
	defer product.Close()
	template := `{"type":"aipfleet.http/v1","base_url":"` + product.URL + `","tools":{"make":{"call":{"method":"POST","path":"/things","outcome":{"succeeded":["200"]}}}}}`
	b := newBedWith(t, kit("http", "make", "template.json", []byte(template)), map[string]any{"connector": map[string]any{}})
	b.spawn().ready()
	if key, body := b.call(do(newID(), "kit:do", `{}`)); key != "error" || !strings.Contains(body, "not_started") || !strings.Contains(body, "may not be dialled") {
		t.Errorf("%s %s", key, body)
	}
}

// TestAdapter_G34_ABrokenDocumentIsNotReadyAndSaysWhich: status is answered all the same.
func TestAdapter_G34_ABrokenDocumentIsNotReadyAndSaysWhich(t *testing.T) {
	template := `{"type":"aipfleet.http/v1","base_url":"https://example.com","tools":{"other":{"call":{"method":"POST","path":"/","outcome":{"succeeded":["200"]}}}}}`
	b := newBedWith(t, kit("http", "make", "template.json", []byte(template)), map[string]any{"connector": map[string]any{}})
	b.spawn()
	var said string
	b.eventually("the lease", func() bool { return b.live().LeaseEpoch == 1 })
	b.eventually("not ready", func() bool {
		resp, err := http.Get(b.endpoint + "/ready")
		if err != nil {
			return false
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		said = string(body)
		return resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(said, "tool make")
	})
	id := newID()
	o, err := b.post(b.seal(id, "make", protocol.ActionStatusRequest{ActionID: id}))
	if err != nil || !bytes.Contains(o.Body(), []byte(`"not_started"`)) {
		t.Errorf("status: %v %s", err, o.Body())
	}
}

func TestAdapterExec_G26_AProgramForEachCall(t *testing.T) {
	script := `#!/bin/sh
case "$1" in
discover) echo '{"tools":[{"name":"act","input_schema":{"type":"object"}}]}' ;;
invoke)
  read -r order
  echo "$order" >> calls
  case "$order" in
  *refuse*) echo '{"code":"closed","message":"no"}'; exit 80 ;;
  *crash*) exit 1 ;;
  *) echo '{"done":true}' ;;
  esac ;;
esac
`
	b := newBedWith(t, kit("exec", "act", "program", []byte(script)), map[string]any{"connector": map[string]any{}})
	b.spawn().ready()
	for input, want := range map[string]string{`{"do":"it"}`: `"done":true`, `{"do":"refuse"}`: `provider.closed`, `{"do":"crash"}`: `"state":"unknown"`} {
		if _, body := b.call(do(newID(), "kit:do", input)); !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %s", input, body, want)
		}
	}
	calls := string(must(os.ReadFile(filepath.Join(b.dir, "state", "work", "calls"))))
	if strings.Count(calls, "\n") != 3 || strings.Count(calls, `"credential":"tok-1414213562"`) != 3 {
		t.Errorf("the program was told:\n%s", calls)
	}
}

func TestAdapterMCPHTTP_G25_ARemoteServer(t *testing.T) {
	var calls atomic.Int64
	server := sdk.NewServer(&sdk.Implementation{Name: "remote", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "act", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		calls.Add(1)
		return &sdk.CallToolResult{StructuredContent: map[string]any{"n": 1}}, nil
	})
	remote := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	defer remote.Close()
	config := map[string]any{"connector": map[string]any{"allow_ranges": []string{"127.0.0.0/8"}}}
	b := newBedWith(t, kit("mcp-http", "act", "server.json", []byte(`{"url":"`+remote.URL+`","auth":{"header":"Authorization","scheme":"Bearer"}}`)), config)
	b.spawn().ready()
	action := do(newID(), "kit:do", `{}`)
	for range 2 {
		if key, body := b.call(action); key != "action_result" || !strings.Contains(body, `"output":{"n":1}`) {
			t.Errorf("%s %s", key, body)
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// notebookRelease is the example's own release, with the built program as artifact.
func notebookRelease(b *bed) {
	b.program = built.notebook
	for _, name := range []string{"release.yaml", "manifest.json"} {
		text := string(must(os.ReadFile(filepath.Join("..", "..", "examples", "notebook", "release", name))))
		text = strings.Replace(text, "version: 1.0.0\n", "version: 1.0.0\nversion_id: cver_desk\n", 1)
		b.write("release/"+name, []byte(strings.Replace(text, "ctype_notebook", "ctype_ticketdesk", 1)))
	}
	b.write("release/artifact/notebook", must(os.ReadFile(built.notebook)))
}

// TestGo_G28_AGoConnectorIsItsOwnArtifact writes, finds after a kill, undoes, and
// refuses to run as another program than the admitted one.
func TestGo_G28_AGoConnectorIsItsOwnArtifact(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes.jsonl")
	config := map[string]any{"connector": map[string]any{"account": map[string]any{"notebook": file}}}
	b := newBedWith(t, notebookRelease, config)
	p := b.spawn().ready()
	written := do(newID(), "notebook:write", `{"text":"remember the milk"}`)
	if key, body := b.call(written); key != "action_result" || !strings.Contains(body, "milk") {
		t.Fatalf("%s %s", key, body)
	}
	p.signal(syscall.SIGKILL)
	p.wait()
	p = b.spawn().ready()
	if key, body := b.call(written); key != "action_result" || !strings.Contains(body, "milk") {
		t.Errorf("after a kill: %s %s", key, body)
	}
	undo := do(newID(), "notebook:write", `{"text":"remember the milk"}`)
	undo.Transaction = json.RawMessage(`{"compensates":"` + written.ID.String() + `"}`)
	if key, body := b.call(undo); key != "action_result" || !strings.Contains(body, `"strike":"`+written.ID.String()+`"`) {
		t.Errorf("undone: %s %s", key, body)
	}
	if _, body := b.call(do(newID(), "notebook:read", `{}`)); !strings.Contains(body, `"notes":[]`) {
		t.Errorf("after it was undone: %s", body)
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	other := filepath.Join(b.dir, "other")
	if err := os.WriteFile(other, append(must(os.ReadFile(built.notebook)), 0), 0o700); err != nil {
		t.Fatal(err)
	}
	b.program = other
	if p := b.spawn(); p.wait() != 1 || !strings.Contains(p.logText(), "error[artifact.digest]") {
		t.Errorf("another program ran:\n%s", p.logText())
	}
	b.program = built.host
	if p := b.spawn(); p.wait() != 1 || !strings.Contains(p.logText(), "a host of its own") {
		t.Errorf("aiphost ran a Go connector:\n%s", p.logText())
	}
}

// TestHost_G21_SIGHUPRollsTheCredential: the connector's next process has the new
// credential, a revoked revision is refused, a call under way is not cut, and a file
// that changes more is refused as a whole.
func TestHost_G21_SIGHUPRollsTheCredential(t *testing.T) {
	b := newBed(t)
	p := b.spawn().ready()
	if got := credentialOfChild(t, p.cmd.Process.Pid); got != "tok-1414213562" {
		t.Fatalf("the child has %q", got)
	}
	b.fault(desk.Rule{At: desk.BeforeEffect, Action: desk.ActionStall})
	running := make(chan string, 1)
	go func() {
		o, err := b.post(b.order(newID(), "slow"))
		running <- fmt.Sprint(err, " ", string(o.Body()))
	}()
	b.eventually("the stall", func() bool { return len(must(desk.ReadFired(b.account))) == 1 })
	var config map[string]any
	if err := yaml.Unmarshal(must(os.ReadFile(b.config)), &config); err != nil {
		t.Fatal(err)
	}
	b.write("desk.token.2", []byte("tok-1732050807\n"))
	config["secrets"] = map[string]any{"file": map[string]any{"desk.acme": "desk.token", "desk.acme.2": "desk.token.2"}}
	config["credential_revisions"] = map[string]any{"current": "r2", "revoked": []string{"r1"}, "refs": map[string]any{"r2": "desk.acme.2"}}
	wrong := map[string]any{"capacity": 5}
	for k, v := range config {
		if k != "capacity" {
			wrong[k] = v
		}
	}
	b.write("host.yaml", must(yaml.Marshal(wrong)))
	p.signal(syscall.SIGHUP)
	b.eventually("the refusal", func() bool {
		return strings.Contains(p.logText(), "restart the host") || strings.Contains(p.logText(), "cannot be reloaded")
	})
	b.write("host.yaml", must(yaml.Marshal(config)))
	p.signal(syscall.SIGHUP)
	b.eventually("the reload", func() bool { return strings.Contains(p.logText(), `"msg":"reloaded"`) })
	account := filepath.Join(b.account, "account.json") // the product rolls the token as well
	text := string(must(os.ReadFile(account)))
	for _, token := range []string{"tok-1414213562", "tok-1732050807"} {
		text = strings.Replace(text, fleet.DigestBytes([]byte(token)).String(), fleet.DigestBytes([]byte("tok-1732050807")).String(), 1)
	}
	if err := os.WriteFile(account, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := desk.Release(b.account); err != nil {
		t.Fatal(err)
	}
	if got := <-running; !strings.Contains(got, `"completed"`) {
		t.Errorf("the call was cut: %s", got)
	}
	b.eventually("the new credential", func() bool { return credentialOfChild(t, p.cmd.Process.Pid) == "tok-1732050807" })
	b.eventually("ready again", func() bool {
		key, _ := b.call(do(newID(), "ticketdesk:open_ticket", `{"title":"after"}`))
		return key == "action_result"
	})
	pinned := b.identity
	b.identity.CredentialRevisionRef = "r1"
	if _, body := b.call(do(newID(), "ticketdesk:open_ticket", `{"title":"old"}`)); !strings.Contains(body, "host.credential_revision") {
		t.Errorf("a revoked revision: %s", body)
	}
	b.identity = pinned
	if strings.Contains(p.logText(), "tok-1") {
		t.Error("a credential is in the log")
	}
}

// credentialOfChild reads the environment of the host's child, or "".
func credentialOfChild(t *testing.T, parent int) string {
	t.Helper()
	for _, dir := range must(filepath.Glob("/proc/[0-9]*")) {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			continue
		}
		for _, pair := range strings.Split(string(env), "\x00") {
			if value, ok := strings.CutPrefix(pair, "TICKETDESK_TOKEN="); ok {
				return value
			}
		}
	}
	return ""
}
