package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/connector/mcp"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

// remote is an MCP server over Streamable HTTP whose answers to tool calls a test may
// replace.
type remote struct {
	http  *httptest.Server
	dir   string
	inner http.Handler
	calls atomic.Int64
	mu    sync.Mutex
	wrong func(w http.ResponseWriter, r *http.Request)
	auth  []string

	client *http.Client // of the newest adapter
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	r := &remote{dir: t.TempDir()}
	server := newServer(r.dir)
	r.inner = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	r.http = httptest.NewServer(r)
	t.Cleanup(r.http.Close)
	return r
}

func (r *remote) answer(wrong func(w http.ResponseWriter, r *http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = wrong
}

func (r *remote) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	wrong := r.wrong
	r.auth = append(r.auth, q.Header.Get("Authorization"))
	r.mu.Unlock()
	if bytes.Contains(body, []byte(`"tools/call"`)) {
		r.calls.Add(1)
		if wrong != nil {
			wrong(w, q)
			return
		}
	}
	r.inner.ServeHTTP(w, q)
}

func (r *remote) adapter(t *testing.T, addresses peer.AddressPolicy, m fleet.Manifest) *mcp.Adapter {
	t.Helper()
	server, err := mcp.ParseServer([]byte(`{"url":"` + r.http.URL + `","auth":{"header":"Authorization","scheme":"Bearer"}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.client = peer.Guarded(peer.Config{Addresses: addresses, MaxResponse: 1 << 20}, server.URL)
	a := mcp.New(mcp.Config{
		Manifest: m, Log: slog.New(slog.DiscardHandler), Now: time.Now, Patience: 5 * time.Second,
		Remote: &mcp.Remote{
			Server: server, Client: r.client,
			Credential: func(context.Context) (connector.Secret, error) { return token("tok-session-1"), nil },
		},
	})
	a.Start()
	t.Cleanup(a.Close)
	return a
}

func TestRemote_G25_CallsOverStreamableHTTP(t *testing.T) {
	r := newRemote(t)
	a := r.adapter(t, peer.LoopbackPolicy(), oddManifest())
	healthy(t, a)
	got, err := a.Invoke(context.Background(), connector.Call{
		Action: fleet.NewActionID(time.Now()), Capability: capability("book"), Input: json.RawMessage(`{}`), Credential: token("tok-pinned-2"),
	})
	if err != nil || got.Class != connector.Succeeded {
		t.Fatalf("%+v %v", got, err)
	}
	if all := strings.Join(r.auth, "|"); !strings.Contains(all, "Bearer tok-session-1") || !strings.Contains(all, "Bearer tok-pinned-2") {
		t.Errorf("the credentials on the wire: %s", all)
	}
	id, out := invoke(a, "heeds")
	eventually(t, "the call", func() bool { return noted(r.dir, "heeds") })
	if got, err := a.Cancel(context.Background(), connector.Query{Action: id, Capability: capability("heeds")}); err != nil || got.Class != connector.Failed {
		t.Errorf("cancelled: %+v %v", got, err)
	}
	<-out
}

// TestRemote_G41_ClassesFollowWhatTheServerProves is the table of a server's answers.
func TestRemote_G41_ClassesFollowWhatTheServerProves(t *testing.T) {
	status := func(code int) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		want   connector.Class
	}{
		"unauthorised":     {status(401), connector.NotStarted},
		"forbidden":        {status(403), connector.NotStarted},
		"session over":     {status(404), connector.NotStarted},
		"too many":         {status(429), connector.NotStarted},
		"bad request":      {status(400), connector.Unknown},
		"internal":         {status(500), connector.Unknown},
		"bad gateway":      {status(502), connector.Unknown},
		"unavailable":      {status(503), connector.Unknown},
		"gateway timeout":  {status(504), connector.Unknown},
		"accepted":         {status(202), connector.Unknown},
		"redirect":         {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "/x"); w.WriteHeader(307) }, connector.Unknown},
		"connection cut":   {func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, connector.Unknown},
		"not JSON":         {typed("application/json", "nonsense"), connector.Unknown},
		"too large":        {typed("application/json", `{"jsonrpc":"2.0","id":1,"result":"`+strings.Repeat("x", 2<<20)+`"}`), connector.Unknown},
		"other type":       {typed("text/html", "<html>"), connector.Unknown},
		"broken events":    {typed("text/event-stream", "data: {\n\n"), connector.Unknown},
		"empty events":     {typed("text/event-stream", ""), connector.Unknown},
		"refused by name":  {protocolError(-32601), connector.Failed},
		"internal by name": {protocolError(-32603), connector.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t)
			a := r.adapter(t, peer.LoopbackPolicy(), oddManifest())
			healthy(t, a)
			r.answer(c.answer)
			_, out := invoke(a, "shows")
			if got := <-out; got.Class != c.want {
				t.Errorf("got %+v, want %s", got, c.want)
			}
			if n := r.calls.Load(); n != 1 {
				t.Errorf("the call was sent %d times", n)
			}
			r.answer(nil)
			healthy(t, a)
			eventually(t, "the next call", func() bool {
				_, out := invoke(a, "shows")
				return (<-out).Class == connector.Succeeded
			})
		})
	}
}

func typed(kind, body string) func(w http.ResponseWriter, r *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}
}

// protocolError answers the call's own id with an error of the protocol.
func protocolError(code int) func(w http.ResponseWriter, r *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			ID json.RawMessage `json:"id"`
		}
		if json.NewDecoder(r.Body).Decode(&asked) != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": asked.ID, "error": map[string]any{"code": code, "message": "no"}})
	}
}

func TestRemote_G41_NoConnectionIsNotStarted(t *testing.T) {
	r := newRemote(t)
	a := r.adapter(t, peer.LoopbackPolicy(), oddManifest())
	healthy(t, a)
	if err := r.http.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	r.client.CloseIdleConnections()
	_, out := invoke(a, "shows")
	if got := <-out; got.Class != connector.NotStarted {
		t.Errorf("%+v", got)
	}
}

// TestRemote_G19_TheAddressPolicyHolds: a name or address that the deployment does not
// allow is not spoken to, and neither is a manifest that differs.
func TestRemote_G19_TheAddressPolicyHolds(t *testing.T) {
	r := newRemote(t)
	a := r.adapter(t, peer.AddressPolicy{}, oddManifest())
	eventually(t, "the refusal", func() bool {
		err := a.Health(context.Background())
		return err != nil && strings.Contains(err.Error(), "may not be dialled")
	})
	if r.calls.Load() > 0 || len(r.auth) > 0 {
		t.Error("a request came through")
	}
	b := r.adapter(t, peer.LoopbackPolicy(), withTool(oddManifest(), "missing"))
	if err := awaitCode(b, mcp.CodeManifest); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("want a refusal that names the tool, got %v", err)
	}
}

func TestParseServer_G19_OnlyAPinnedServer(t *testing.T) {
	for _, doc := range []string{
		``, `{}`, `{"url":"http://example.com/mcp"}`, `{"url":"https://u:p@example.com"}`, `{"url":"https://example.com","more":1}`,
		`{"url":"https://example.com","url":"https://evil.example"}`, `{"URL":"https://example.com"}`,
		`{"url":"https://example.com","auth":{"header":"Bad Header"}}`, `{"url":"https://example.com","auth":{"header":"X","scheme":"a\r\nb"}}`,
	} {
		if _, err := mcp.ParseServer([]byte(doc)); err == nil {
			t.Errorf("accepted %s", doc)
		}
	}
	if s, err := mcp.ParseServer([]byte(`{"url":"https://mcp.example.com/v1"}`)); err != nil || s.URL.String() != "https://mcp.example.com/v1" {
		t.Errorf("%+v %v", s, err)
	}
}
