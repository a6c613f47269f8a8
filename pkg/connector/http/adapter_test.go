package http_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/connector/http"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

type token string

func (t token) Reveal() string { return string(t) }
func (token) String() string   { return "hidden" }

const template = `{
 "type": "aipfleet.http/v1", "base_url": "{account.url}", "auth": {"header": "Authorization", "scheme": "Bearer"},
 "headers": {"X-Account": "{account.name}"}, "max_response_bytes": 65536,
 "tools": {
  "open": {"call": {
    "method": "POST", "path": "/projects/{input.project}/issues", "query": {"notify": "{input.notify}"},
    "headers": {"Idempotency-Key": "{idempotency_key}"},
    "body": {"title": "{input.title}", "note": "by {tenant}: {input.title}", "amount": "{input.amount}", "labels": ["fixed", "{input.label}"], "braces": "{{kept}}"},
    "outcome": {"succeeded": ["2xx"], "failed": ["409", "422"], "not_started": ["401", "403", "429"]},
    "output": "/issue", "operation": "/issue/id", "failure": {"code": "/error/code", "message": "/error/message"}}},
  "delete": {"call": {"method": "DELETE", "path": "/issues/{input.id}", "headers": {"Idempotency-Key": "{idempotency_key}"}, "outcome": {"succeeded": ["204"]}}},
  "find": {"look": {"method": "GET", "path": "/issues", "query": {"key": "{idempotency_key}"}, "outcome": {"succeeded": ["200"]}, "found": "/items/0", "absent": ["404"]}},
  "hold": {"call": {"method": "POST", "path": "/holds", "form": {"key": "{idempotency_key}", "title": "{input.title}"}, "outcome": {"succeeded": ["200"]}}},
  "undo": {"release": {"method": "DELETE", "path": "/holds/{plan.id}", "outcome": {"succeeded": ["204", "200"]}},
           "compensate": {"method": "POST", "path": "/undo", "body": {"id": "{result.id}", "of": "{undone_key}"}, "outcome": {"succeeded": ["200"]}}}
 }}`

func capability(tool string) fleet.CapabilityID {
	id, err := fleet.ParseCapabilityID("desk:" + tool)
	if err != nil {
		panic(err)
	}
	return id
}

func manifest() fleet.Manifest {
	m := fleet.Manifest{AIPVersion: "1.0", Name: "desk", Version: "1"}
	for _, tool := range []string{"open", "delete"} {
		m.Capabilities = append(m.Capabilities, fleet.CapabilityDefinition{ID: capability(tool)})
		i := fleet.Implementation{Capability: capability(tool), Adapter: "http", Tool: tool, ReconcileTool: "find"}
		if tool == "open" {
			i.PlanTool, i.CompensateTool = "hold", "undo"
		}
		m.Implementations = append(m.Implementations, i)
	}
	return m
}

// product records what it was asked and answers as a test says.
type product struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string
	answer nethttp.HandlerFunc
}

func newProduct(t *testing.T) *product {
	p := &product{}
	p.Server = httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		line := fmt.Sprintf("%s %s %s auth=%s key=%s account=%s %s", r.Method, r.RequestURI, r.Header.Get("Content-Type"),
			r.Header.Get("Authorization"), r.Header.Get("Idempotency-Key"), r.Header.Get("X-Account"), body)
		p.mu.Lock()
		p.asked = append(p.asked, line)
		answer := p.answer
		p.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(p.Close)
	p.says(200, `{}`)
	return p
}

func (p *product) says(status int, body string) {
	p.does(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func (p *product) does(answer nethttp.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (p *product) heard() []string { p.mu.Lock(); defer p.mu.Unlock(); return p.asked }

func (p *product) adapter(t *testing.T, url string, policy peer.AddressPolicy) *http.Adapter {
	t.Helper()
	parsed, err := http.Parse([]byte(template))
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.New(http.Config{
		Template: parsed, Manifest: manifest(), Account: map[string]string{"url": url, "name": "acme"},
		Peer: peer.Config{Addresses: policy, DialTimeout: 2 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func call(tool, input string) connector.Call {
	action, _ := fleet.ParseActionID("act_1")
	tenant, _ := fleet.ParseTenantID("acme")
	return connector.Call{
		Action: action, Tenant: tenant, Capability: capability(tool), Input: json.RawMessage(input), IdempotencyKey: "key 1", Credential: token("tok-314159"),
	}
}

func invoke(t *testing.T, a *http.Adapter, c connector.Call) connector.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := a.Invoke(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestInvoke_G19_ValuesGoWhereTheTemplateSays(t *testing.T) {
	p := newProduct(t)
	a := p.adapter(t, p.URL, peer.LoopbackPolicy())
	p.says(201, `{"issue":{"id":17,"n":9007199254740993}}`)
	got := invoke(t, a, call("open", `{"project":"p ü?#%2F&","title":"a \"b\" {tenant}","amount":12.50,"notify":true}`))
	if got.Class != connector.Succeeded || string(got.Output) != `{"id":17,"n":9007199254740993}` || string(got.Operation) != `17` {
		t.Errorf("%+v %s", got, got.Output)
	}
	want := `POST /projects/p%20%C3%BC%3F%23%252F&/issues?notify=true application/json auth=Bearer tok-314159 key=key 1 account=acme ` +
		`{"title":"a \"b\" {tenant}","note":"by acme: a \"b\" {tenant}","amount":12.50,"labels":["fixed"],"braces":"{kept}"}`
	if heard := p.heard(); len(heard) != 1 || heard[0] != want {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(heard, "\n"), want)
	}
}

// TestInvoke_G41_ValuesThatDoNotFitAreNeverSent: an input cannot reach another path,
// another header or another origin.
func TestInvoke_G41_ValuesThatDoNotFitAreNeverSent(t *testing.T) {
	p := newProduct(t)
	a := p.adapter(t, p.URL, peer.LoopbackPolicy())
	for name, c := range map[string]connector.Call{
		"dots":           call("open", `{"project":"..","title":"x"}`),
		"slash":          call("open", `{"project":"a/b","title":"x"}`),
		"climbing":       call("open", `{"project":"../../admin","title":"x"}`),
		"backslash":      call("open", `{"project":"..\\admin","title":"x"}`),
		"line break":     call("open", `{"project":"a\nb","title":"x"}`),
		"zero":           call("open", `{"project":"a\u0000b","title":"x"}`),
		"empty":          call("open", `{"project":"","title":"x"}`),
		"missing":        call("open", `{"title":"x"}`),
		"null":           call("open", `{"project":null,"title":"x"}`),
		"object":         call("open", `{"project":{"a":1},"title":"x"}`),
		"missing inside": call("open", `{"project":"p"}`),
		"duplicate":      call("open", `{"project":"p","project":"q","title":"x"}`),
		"header break": func() connector.Call {
			c := call("open", `{"project":"p","title":"x"}`)
			c.IdempotencyKey = "k\r\nX-Evil: 1"
			return c
		}(),
		"no credential": func() connector.Call { c := call("delete", `{"id":1}`); c.Credential = nil; return c }(),
		"odd credential": func() connector.Call {
			c := call("delete", `{"id":1}`)
			c.Credential = token("tok\r\nX-Evil: 1")
			return c
		}(),
		"no such capability": call("none", `{}`),
	} {
		if got := invoke(t, a, c); got.Class != connector.NotStarted || strings.Contains(got.Why, "tok") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if heard := p.heard(); len(heard) != 0 {
		t.Errorf("something was sent:\n%s", strings.Join(heard, "\n"))
	}
}

// TestInvoke_G26_StatusesMeanWhatTheTemplateSays, and nothing else means anything.
func TestInvoke_G26_StatusesMeanWhatTheTemplateSays(t *testing.T) {
	p := newProduct(t)
	a := p.adapter(t, p.URL, peer.LoopbackPolicy())
	for status, want := range map[int]connector.Class{
		200: connector.Succeeded, 202: connector.Succeeded, 409: connector.Failed, 422: connector.Failed, 401: connector.NotStarted,
		403: connector.NotStarted, 429: connector.NotStarted, 301: connector.Unknown, 307: connector.Unknown, 400: connector.Unknown,
		404: connector.Unknown, 500: connector.Unknown, 502: connector.Unknown, 503: connector.Unknown, 504: connector.Unknown,
	} {
		p.says(status, `{"error":{"code":"closed","message":"the desk is closed, tok-314159"}}`)
		got := invoke(t, a, call("open", `{"project":"p","title":"x"}`))
		if got.Class != want {
			t.Errorf("%d: %+v, want %s", status, got, want)
		}
		if want == connector.Failed && (got.Failure.Code != "provider.closed" || got.Failure.Message != "the desk is closed, [redacted]") {
			t.Errorf("%d: %+v", status, got.Failure)
		}
	}
}

// TestInvoke_G19_AHostileServerGainsNothing: every answer of the table ends in time, is
// bounded, leads nowhere, and never turns a doubt into a certainty.
func TestInvoke_G19_AHostileServerGainsNothing(t *testing.T) {
	trap := httptest.NewServer(nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		t.Errorf("the request went elsewhere with %s", r.Header)
	}))
	defer trap.Close()
	release := make(chan struct{})
	raw := func(text string) nethttp.HandlerFunc {
		return func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			conn, _, err := w.(nethttp.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, text)
				_ = conn.Close()
			}
		}
	}
	hostile := map[string]struct {
		answer nethttp.HandlerFunc
		want   connector.Class
	}{
		"redirect elsewhere": {func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			w.Header().Set("Location", trap.URL)
			w.WriteHeader(307)
		}, connector.Unknown},
		"redirect to metadata": {func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			w.Header().Set("Location", "http://169.254.169.254/latest/meta-data/")
			w.WriteHeader(302)
		}, connector.Unknown},
		"endless body": {func(w nethttp.ResponseWriter, r *nethttp.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}, connector.Unknown},
		"silence":            {func(_ nethttp.ResponseWriter, r *nethttp.Request) { <-r.Context().Done() }, connector.Unknown},
		"half a body":        {raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"a\":"), connector.Unknown},
		"broken chunk":       {raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), connector.Unknown},
		"two lengths":        {raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x"), connector.Unknown},
		"nonsense":           {raw("SSH-2.0-OpenSSH_9.0\r\n"), connector.Unknown},
		"nothing":            {raw(""), connector.Unknown},
		"endless headers":    {raw("HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: "+strings.Repeat("b", 1000)+"\r\n", 200) + "\r\n"), connector.Unknown},
		"switching protocol": {raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), connector.Unknown},
		"duplicate members":  {said("application/json", `{"issue":1,"issue":2}`), connector.Succeeded},
		"html":               {said("text/html", `<script>alert(1)</script>`), connector.Succeeded},
		"compressed": {func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			said("application/json", "{}")(w, r)
		}, connector.Succeeded},
		"echo of credential": {said("application/json", `{"issue":{"token":"tok-314159","in":"x tok-314159"}}`), connector.Succeeded},
	}
	defer close(release)
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			p := newProduct(t)
			p.does(c.answer)
			a := p.adapter(t, p.URL, peer.LoopbackPolicy())
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			got, err := a.Invoke(ctx, call("open", `{"project":"p","title":"x"}`))
			if err != nil || got.Class != c.want {
				t.Errorf("%+v %v, want %s", got, err, c.want)
			}
			if n := len(p.heard()); n != 1 {
				t.Errorf("sent %d times", n)
			}
			if text := fmt.Sprintf("%+v %s", got, got.Output); len(text) > 10_000 || strings.Contains(text, "314159") {
				t.Errorf("the result is too large or shows a credential: %.200s", text)
			}
		})
	}
}

func said(kind, body string) nethttp.HandlerFunc {
	return func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}
}

// TestInvoke_G25_SentOnceOverADyingConnection: a request without a body and with an
// idempotency header is what net/http would send again by itself.
func TestInvoke_G25_SentOnceOverADyingConnection(t *testing.T) {
	p := newProduct(t)
	a := p.adapter(t, p.URL, peer.LoopbackPolicy())
	p.says(204, "")
	for range 3 {
		if got := invoke(t, a, call("delete", `{"id":5}`)); got.Class != connector.Succeeded {
			t.Fatalf("%+v", got)
		}
	}
	p.does(func(w nethttp.ResponseWriter, _ *nethttp.Request) { panic(nethttp.ErrAbortHandler) })
	if got := invoke(t, a, call("delete", `{"id":6}`)); got.Class != connector.Unknown {
		t.Errorf("%+v", got)
	}
	if got := invoke(t, a, call("open", `{"project":"p","title":"x"}`)); got.Class != connector.Unknown {
		t.Errorf("%+v", got)
	}
	if n := len(p.heard()); n != 5 {
		t.Errorf("sent %d times:\n%s", n, strings.Join(p.heard(), "\n"))
	}
}

// TestInvoke_G41_UnreachableIsNotStarted: nothing listens, or the address is not allowed.
func TestInvoke_G41_UnreachableIsNotStarted(t *testing.T) {
	p := newProduct(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + free.Addr().String()
	_ = free.Close()
	for name, a := range map[string]*http.Adapter{
		"nobody listens": p.adapter(t, nobody, peer.LoopbackPolicy()),
		"not allowed":    p.adapter(t, p.URL, peer.AddressPolicy{}),
		"metadata":       p.adapter(t, "https://169.254.169.254", peer.LoopbackPolicy()),
		"private":        p.adapter(t, "https://10.0.0.1/v1", peer.LoopbackPolicy()),
		"mapped":         p.adapter(t, "https://[::ffff:169.254.169.254]", peer.LoopbackPolicy()),
	} {
		if got := invoke(t, a, call("open", `{"project":"p","title":"x"}`)); got.Class != connector.NotStarted {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if len(p.heard()) != 0 {
		t.Error("something was sent")
	}
}

func TestReconcile_G26_FoundAbsentOrUnanswered(t *testing.T) {
	p := newProduct(t)
	a := p.adapter(t, p.URL, peer.LoopbackPolicy())
	q := connector.Query{Capability: capability("open"), IdempotencyKey: "key 1", Credential: token("tok-314159")}
	p.says(200, `{"items":[{"id":17}]}`)
	if f, err := a.Reconcile(context.Background(), q); err != nil || !f.Found || string(f.Result.Output) != `{"id":17}` {
		t.Errorf("found: %+v %v", f, err)
	}
	for name, c := range map[string]struct {
		status int
		body   string
	}{"absent": {404, ``}, "empty list": {200, `{"items":[]}`}, "null": {200, `{"items":[null]}`}, "other document": {200, `[]`}} {
		p.says(c.status, c.body)
		if f, err := a.Reconcile(context.Background(), q); err != nil || f.Found {
			t.Errorf("%s: %+v %v", name, f, err)
		}
	}
	for _, status := range []int{201, 301, 400, 401, 500, 503} {
		p.says(status, `{"items":[{"id":17}]}`)
		if f, err := a.Reconcile(context.Background(), q); fleet.CodeOf(err) != "connector.reconcile" || f.Found {
			t.Errorf("%d: %+v %v", status, f, err)
		}
	}
	p.says(200, `not JSON`)
	if f, err := a.Reconcile(context.Background(), q); err == nil || f.Found {
		t.Errorf("not JSON: %+v", f)
	}
	if heard := p.heard(); !strings.HasPrefix(heard[0], "GET /issues?key=key+1 ") {
		t.Errorf("asked %s", heard[0])
	}
}

func TestTransaction_G25_PlanReleaseCompensate(t *testing.T) {
	p := newProduct(t)
	a := p.adapter(t, p.URL, peer.LoopbackPolicy())
	ctx, c := context.Background(), call("open", `{"project":"p","title":"a&b"}`)
	p.says(200, `{"id":"h1"}`)
	plan, err := a.Plan(ctx, c)
	if err != nil || plan.Class != connector.Succeeded || string(plan.Output) != `{"id":"h1"}` {
		t.Fatalf("%+v %v", plan, err)
	}
	q := connector.Query{Action: c.Action, Capability: c.Capability, IdempotencyKey: c.IdempotencyKey, Credential: c.Credential}
	if r, err := a.Release(ctx, q, plan.Output); err != nil || r.Class != connector.Succeeded {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := a.Release(ctx, q, nil); err != nil || r.Class != connector.NotStarted {
		t.Errorf("a plan that is not known cannot be named: %+v %v", r, err)
	}
	done := connector.Done{Query: connector.Query{IdempotencyKey: "k0"}, Output: json.RawMessage(`{"id":17}`)}
	if r, err := a.Compensate(ctx, c, done); err != nil || r.Class != connector.Succeeded {
		t.Errorf("%+v %v", r, err)
	}
	heard := strings.Join(p.heard(), "\n")
	for _, want := range []string{"POST /holds application/x-www-form-urlencoded", "key=key+1&title=a%26b", "DELETE /holds/h1 ", `{"id":17,"of":"k0"}`} {
		if !strings.Contains(heard, want) {
			t.Errorf("%s is missing in\n%s", want, heard)
		}
	}
}
