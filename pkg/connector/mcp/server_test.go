package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/connector/mcp"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// serveVariable makes this test's own binary an MCP server over stdio.
const serveVariable = "MCP_TEST_SERVE"

func serveOverStdio() {
	if err := newServer(os.Getenv(serveVariable)).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

const anyObject = `{"type":"object"}`

// newServer is a server whose tools behave badly in known ways. What happens is
// written into files in dir.
func newServer(dir string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "odd", Version: "1"}, nil)
	add := func(name string, handle func(ctx context.Context, r *sdk.CallToolRequest) (any, error)) {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(anyObject)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			out, err := handle(ctx, r)
			if err != nil {
				return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: err.Error()}}}, nil
			}
			return &sdk.CallToolResult{StructuredContent: out}, nil
		})
	}
	add("heeds", func(ctx context.Context, _ *sdk.CallToolRequest) (any, error) {
		note(dir, "heeds")
		<-ctx.Done()
		return nil, fmt.Errorf("stopped before the effect")
	})
	add("deaf", func(context.Context, *sdk.CallToolRequest) (any, error) {
		note(dir, "deaf")
		await(filepath.Join(dir, "release"))
		return map[string]any{"done": true}, nil
	})
	add("shows", func(context.Context, *sdk.CallToolRequest) (any, error) {
		return map[string]any{"token": os.Getenv("TOKEN"), "wrapped": `"` + os.Getenv("TOKEN") + `"`}, nil
	})
	add("grows", func(context.Context, *sdk.CallToolRequest) (any, error) {
		s.RemoveTools("shows")
		return map[string]any{}, nil
	})
	s.AddTool(&sdk.Tool{Name: "draws", InputSchema: json.RawMessage(anyObject)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "a picture"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("png")},
			&sdk.ResourceLink{URI: "desk://1", Name: "one"}, &sdk.TextContent{Text: os.Getenv("TOKEN")},
		}}, nil
	})
	addSpeaking(s)
	addTransaction(dir, add)
	return s
}

// addSpeaking adds tools that say more than their structure.
func addSpeaking(s *sdk.Server) {
	add := func(name string, result *sdk.CallToolResult) {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(anyObject)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return result, nil
		})
	}
	seats := map[string]any{"seats": 2}
	picture := &sdk.ImageContent{MIMEType: "image/png", Data: []byte("png")}
	add("plots", &sdk.CallToolResult{StructuredContent: seats, Content: []sdk.Content{
		&sdk.TextContent{Text: `{"seats": 2}`}, picture, &sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("wav")},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "desk://plan", MIMEType: "text/plain", Text: "row 7 " + os.Getenv("TOKEN")}},
	}})
	add("repeats", &sdk.CallToolResult{StructuredContent: seats, Content: []sdk.Content{&sdk.TextContent{Text: ` { "seats": 2 } `}}})
	add("remarks", &sdk.CallToolResult{StructuredContent: seats, Content: []sdk.Content{&sdk.TextContent{Text: "two seats"}}})
	add("addresses", &sdk.CallToolResult{StructuredContent: seats, Content: []sdk.Content{
		&sdk.TextContent{Text: `{"seats":2}`, Annotations: &sdk.Annotations{Audience: []sdk.Role{"user"}}},
	}})
	add("refuses", &sdk.CallToolResult{IsError: true, StructuredContent: map[string]any{"free": 0}, Content: []sdk.Content{
		&sdk.TextContent{Text: "no seats"}, picture,
	}})
	add("objects", &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "no seats"}}})
}

// speaking is the names of the tools of addSpeaking.
var speaking = []string{"plots", "repeats", "remarks", "addresses", "refuses", "objects"} //nolint:gochecknoglobals // a constant list

// addTransaction adds tools that plan, commit and take back, counting in files.
func addTransaction(dir string, add func(string, func(context.Context, *sdk.CallToolRequest) (any, error))) {
	add("hold", func(_ context.Context, r *sdk.CallToolRequest) (any, error) {
		note(dir, "hold")
		return map[string]any{"seat": 7, "key": r.Params.Meta["aip/idempotency_key"]}, nil
	})
	add("book", func(_ context.Context, r *sdk.CallToolRequest) (any, error) {
		note(dir, "book")
		return map[string]any{"plan": r.Params.Meta["aip/plan"]}, nil
	})
	add("undo", func(_ context.Context, r *sdk.CallToolRequest) (any, error) {
		var said map[string]any
		if err := json.Unmarshal(r.Params.Arguments, &said); err != nil {
			return nil, err
		}
		note(dir, fmt.Sprint("undo-", said["phase"]))
		return said, nil
	})
}

func note(dir, name string) { _ = os.WriteFile(filepath.Join(dir, name), nil, 0o600) }

func noted(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

func await(path string) {
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
}

func oddManifest() fleet.Manifest {
	m := fleet.Manifest{AIPVersion: "1.0", Name: "odd", Version: "1"}
	for _, tool := range append([]string{"heeds", "deaf", "shows", "grows", "draws", "book"}, speaking...) {
		m.Capabilities = append(m.Capabilities, fleet.CapabilityDefinition{ID: capability(tool), InputSchema: json.RawMessage(anyObject)})
		i := fleet.Implementation{Capability: capability(tool), Adapter: "mcp", Tool: tool}
		if tool == "book" {
			i.PlanTool, i.CompensateTool = "hold", "undo"
		}
		m.Implementations = append(m.Implementations, i)
	}
	return m
}

// vault holds the credential that the server gets.
type vault struct {
	mu    sync.Mutex
	value string
}

func (v *vault) set(value string) { v.mu.Lock(); defer v.mu.Unlock(); v.value = value }
func (v *vault) get() token       { v.mu.Lock(); defer v.mu.Unlock(); return token(v.value) }

// odd is an adapter over the test's own server, and where the server leaves notes.
func odd(t *testing.T) (*mcp.Adapter, string, *vault) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, store := t.TempDir(), &vault{value: "tok-2718281828"}
	a := mcp.New(mcp.Config{
		Program:  func(context.Context) (mcp.Program, error) { return mcp.Program{Path: self, Dir: dir}, nil },
		Manifest: oddManifest(), Env: []string{serveVariable + "=" + dir}, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Patience: 5 * time.Second,
		Secrets: func(context.Context) (map[string]connector.Secret, error) {
			return map[string]connector.Secret{"TOKEN": store.get()}, nil
		},
	})
	a.Start()
	t.Cleanup(a.Close)
	healthy(t, a)
	return a, dir, store
}

func invoke(a *mcp.Adapter, tool string) (fleet.ActionID, <-chan connector.Result) {
	id, out := fleet.NewActionID(time.Now()), make(chan connector.Result, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
		defer cancel()
		r, err := a.Invoke(ctx, connector.Call{Action: id, Capability: capability(tool), Input: json.RawMessage(`{}`), IdempotencyKey: "k"})
		if err != nil {
			r.Why = err.Error()
		}
		out <- r
	}()
	return id, out
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came to: %s", what)
		}
	}
}

// TestInvoke_G39_NoPartOfAnAnswerIsLost: what is not text goes on as it came, and no
// credential with it.
func TestInvoke_G39_NoPartOfAnAnswerIsLost(t *testing.T) {
	a, _, _ := odd(t)
	_, out := invoke(a, "draws")
	const want = `{"text":"a picture\n[redacted]","content":[{"type":"text","text":"a picture"},` +
		`{"type":"image","data":"cG5n","mimeType":"image/png"},{"type":"resource_link","uri":"desk://1","name":"one"},{"type":"text","text":"[redacted]"}]}`
	if r := <-out; r.Class != connector.Succeeded || !sameJSON(t, r.Output, []byte(want)) {
		t.Errorf("got %s %+v", r.Output, r)
	}
}

// TestInvoke_G39_WhatIsSaidBesideAStructureGoesWithIt is the table of answers that say
// more than one thing. Only a text that repeats the structure adds nothing to it.
func TestInvoke_G39_WhatIsSaidBesideAStructureGoesWithIt(t *testing.T) {
	a, _, _ := odd(t)
	const picture = `{"type":"image","data":"cG5n","mimeType":"image/png"}`
	for tool, want := range map[string]connector.Result{
		"plots": {Class: connector.Succeeded, Output: json.RawMessage(`{"seats":2}`), Content: []json.RawMessage{
			json.RawMessage(`{"type":"text","text":"{\"seats\": 2}"}`), json.RawMessage(picture), json.RawMessage(`{"type":"audio","data":"d2F2","mimeType":"audio/wav"}`),
			json.RawMessage(`{"type":"resource","resource":{"uri":"desk://plan","mimeType":"text/plain","text":"row 7 [redacted]"}}`),
		}},
		"repeats": {Class: connector.Succeeded, Output: json.RawMessage(`{"seats":2}`)},
		"remarks": {Class: connector.Succeeded, Output: json.RawMessage(`{"seats":2}`), Content: []json.RawMessage{json.RawMessage(`{"type":"text","text":"two seats"}`)}},
		"addresses": {Class: connector.Succeeded, Output: json.RawMessage(`{"seats":2}`), Content: []json.RawMessage{
			json.RawMessage(`{"type":"text","text":"{\"seats\":2}","annotations":{"audience":["user"]}}`),
		}},
		"refuses": {
			Class: connector.Failed, Failure: &connector.Failure{Code: "provider.tool_error", Message: "no seats"}, Output: json.RawMessage(`{"free":0}`),
			Content: []json.RawMessage{json.RawMessage(`{"type":"text","text":"no seats"}`), json.RawMessage(picture)},
		},
		"objects": {Class: connector.Failed, Failure: &connector.Failure{Code: "provider.tool_error", Message: "no seats"}},
	} {
		t.Run(tool, func(t *testing.T) {
			_, out := invoke(a, tool)
			got := <-out
			if got.Class != want.Class || (got.Failure == nil) != (want.Failure == nil) || got.Failure != nil && *got.Failure != *want.Failure {
				t.Errorf("it ended as %+v", got)
			}
			if len(want.Output) != len(got.Output) || len(want.Output) > 0 && !sameJSON(t, got.Output, want.Output) {
				t.Errorf("output: %s", got.Output)
			}
			if len(got.Content) != len(want.Content) {
				t.Fatalf("content: %s", got.Content)
			}
			for i, part := range want.Content {
				if !sameJSON(t, got.Content[i], part) {
					t.Errorf("part %d: %s", i, got.Content[i])
				}
			}
		})
	}
}

// TestCancel_G25_OnlyTheCallsOwnAnswerIsEvidence: a server that heeds the notification
// says how the call ended; one that is deaf to it leaves the call running.
func TestCancel_G25_OnlyTheCallsOwnAnswerIsEvidence(t *testing.T) {
	a, dir, _ := odd(t)
	id, out := invoke(a, "heeds")
	eventually(t, "the call", func() bool { return noted(dir, "heeds") })
	got, err := a.Cancel(context.Background(), connector.Query{Action: id, Capability: capability("heeds")})
	if err != nil || got.Class != connector.Failed {
		t.Errorf("heeded: %+v %v", got, err)
	}
	if r := <-out; r.Class != connector.Failed || r.Failure.Message != "stopped before the effect" {
		t.Errorf("the call: %+v", r)
	}
	id, out = invoke(a, "deaf")
	eventually(t, "the call", func() bool { return noted(dir, "deaf") })
	got, err = a.Cancel(context.Background(), connector.Query{Action: id, Capability: capability("deaf")})
	if err != nil || got.Class != connector.Unknown {
		t.Errorf("not heeded: %+v %v", got, err)
	}
	note(dir, "release")
	if r := <-out; r.Class != connector.Succeeded {
		t.Errorf("the call went on: %+v", r)
	}
	got, err = a.Cancel(context.Background(), connector.Query{Action: id, Capability: capability("deaf")})
	if err != nil || got.Class != connector.Unknown {
		t.Errorf("nothing under way: %+v %v", got, err)
	}
}

// TestRenew_G21_NewCredentialWithoutCuttingACall: a call under way ends in its own
// time, calls meanwhile are not started, and the next process has the new credential.
// Neither credential is ever shown.
func TestRenew_G21_NewCredentialWithoutCuttingACall(t *testing.T) {
	a, dir, store := odd(t)
	_, out := invoke(a, "deaf")
	eventually(t, "the call", func() bool { return noted(dir, "deaf") })
	store.set("tok-5772156649")
	a.Renew()
	eventually(t, "the pause", func() bool { return a.Health(context.Background()) != nil })
	_, refused := invoke(a, "shows")
	if r := <-refused; r.Class != connector.NotStarted {
		t.Errorf("a call meanwhile: %+v", r)
	}
	note(dir, "release")
	if r := <-out; r.Class != connector.Succeeded {
		t.Errorf("the call was cut: %+v", r)
	}
	healthy(t, a)
	if a.Starts() != 2 {
		t.Errorf("%d starts", a.Starts())
	}
	_, shown := invoke(a, "shows")
	if r := <-shown; string(r.Output) != `{"token":"[redacted]","wrapped":"\"[redacted]\""}` {
		t.Errorf("the credential: %+v %s", r, r.Output)
	}
}

// TestHealth_G34_AToolThatGoesAwayWhileItRuns: the server tells that its tools
// changed, and the connector is not ready and says which.
func TestHealth_G34_AToolThatGoesAwayWhileItRuns(t *testing.T) {
	a, _, _ := odd(t)
	_, out := invoke(a, "grows")
	if r := <-out; r.Class != connector.Succeeded {
		t.Fatalf("%+v", r)
	}
	if err := awaitCode(a, mcp.CodeManifest); err == nil {
		t.Fatal("the connector is still healthy")
	} else if got := err.Error(); got != "tool shows is not as it was admitted: the connector does not offer it" {
		t.Errorf("health says: %s", got)
	}
}

func TestTransaction_G25_PlanTravelsToItsCommit(t *testing.T) {
	a, dir, _ := odd(t)
	ctx := context.Background()
	call := connector.Call{Action: fleet.NewActionID(time.Now()), Capability: capability("book"), Input: json.RawMessage(`{}`), IdempotencyKey: "k9"}
	plan, err := a.Plan(ctx, call)
	if err != nil || plan.Class != connector.Succeeded || noted(dir, "book") {
		t.Fatalf("plan: %+v %v", plan, err)
	}
	done, err := a.Commit(ctx, call, plan.Output)
	if err != nil || string(done.Output) != `{"plan":{"key":"k9","seat":7}}` {
		t.Errorf("commit: %+v %s %v", done, done.Output, err)
	}
	given, err := a.Release(ctx, connector.Query{Action: call.Action, Capability: call.Capability, IdempotencyKey: "k9"}, plan.Output)
	if err != nil || !noted(dir, "undo-release") || string(given.Output) != `{"idempotency_key":"k9","phase":"release","plan":{"key":"k9","seat":7}}` {
		t.Errorf("release: %s %v", given.Output, err)
	}
	undone, err := a.Compensate(ctx, call, connector.Done{Query: connector.Query{IdempotencyKey: "k8"}, Output: json.RawMessage(`{"x":1}`)})
	if err != nil || string(undone.Output) != `{"idempotency_key":"k8","phase":"compensate","result":{"x":1}}` {
		t.Errorf("compensate: %s %v", undone.Output, err)
	}
}
