package peer_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

const path = "/aip/v1/messages"

// TestMain names a proxy that nobody serves for the whole run: net/http reads
// the environment once.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		_ = os.Setenv(name, "http://127.0.0.1:1")
	}
	os.Exit(m.Run())
}

func newClient(t *testing.T, c peer.Config) *peer.Client {
	t.Helper()
	if c.Addresses.Allow == nil {
		c.Addresses = peer.LoopbackPolicy()
	}
	client := peer.NewClient(c)
	t.Cleanup(client.Close)
	return client
}

func endpoint(t *testing.T, url string) peer.Endpoint {
	t.Helper()
	e, err := peer.ParseEndpoint(url)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// wantSendError checks the one thing a caller acts on, and the kind and code.
func wantSendError(t *testing.T, err error, written bool, code string) {
	t.Helper()
	var s *peer.SendError
	if !errors.As(err, &s) {
		t.Fatalf("err = %v, want a SendError", err)
	}
	if s.Written != written || peer.Written(err) != written || fleet.CodeOf(err) != code {
		t.Errorf("written %v code %s (%v), want %v %s", s.Written, fleet.CodeOf(err), err, written, code)
	}
	if written != fleet.Is(err, fleet.Unknown) {
		t.Errorf("kind %v with written %v", fleet.KindOf(err), written)
	}
}

func TestPost_G19_ReachesThePeerWithTheBody(t *testing.T) {
	var got []byte
	var request *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		request = r
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"a":1}`)
	}))
	defer server.Close()
	reply, err := newClient(t, peer.Config{}).Post(bounded(t), endpoint(t, server.URL+"/base/"), path, []byte(`{"b":2}`))
	if err != nil {
		t.Fatal(err)
	}
	if reply.Status != 409 || string(reply.Body) != `{"a":1}` || reply.ContentType != "application/json" {
		t.Errorf("reply %+v", reply)
	}
	if string(got) != `{"b":2}` || request.URL.Path != "/base"+path || request.Method != "POST" || request.ContentLength != 7 ||
		request.Header.Get("Content-Type") != "application/json" || request.Header.Get("Accept-Encoding") != "" {
		t.Errorf("the peer got %s %s %v %q", request.Method, request.URL, request.Header, got)
	}
}

func TestPost_G19_SpeaksHTTP2OverTLSAndVerifies(t *testing.T) {
	var proto atomic.Value
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proto.Store(r.Proto)
		_, _ = io.Copy(w, r.Body)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a refused handshake is expected
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	trusting := newClient(t, peer.Config{TLS: &tls.Config{RootCAs: roots, InsecureSkipVerify: true}})
	reply, err := trusting.Post(bounded(t), endpoint(t, server.URL), path, []byte("hello"))
	if err != nil || string(reply.Body) != "hello" || proto.Load() != "HTTP/2.0" {
		t.Fatalf("%+v %v over %v", reply, err, proto.Load())
	}
	// Without the root nothing is sent, and skipping verification is not taken over.
	_, err = newClient(t, peer.Config{TLS: &tls.Config{InsecureSkipVerify: true}}).Post(bounded(t), endpoint(t, server.URL), path, nil)
	wantSendError(t, err, false, peer.CodeUnreachable)
}

func TestPost_G25_ResetHTTP2StreamMayHaveArrived(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		requests.Add(1)
		panic(http.ErrAbortHandler)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	_, err := newClient(t, peer.Config{TLS: &tls.Config{RootCAs: roots}}).Post(bounded(t), endpoint(t, server.URL), path, []byte("{}"))
	wantSendError(t, err, true, peer.CodeInterrupted)
	if n := requests.Load(); n != 1 {
		t.Errorf("the peer saw %d requests, want 1", n)
	}
}

func TestPost_G41_RefusedConnectionWroteNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = newClient(t, peer.Config{}).Post(bounded(t), endpoint(t, url), path, []byte("{}"))
	wantSendError(t, err, false, peer.CodeUnreachable)
	if !fleet.Is(err, fleet.Unavailable) {
		t.Errorf("kind %v", fleet.KindOf(err))
	}
}

func TestPost_G41_NothingIsWrittenBeforeTheTLSHandshakeEnds(t *testing.T) {
	server := rawServer(t, func(conn net.Conn, _ *bufio.Reader) {}) // hangs up at once
	_, err := newClient(t, peer.Config{}).Post(bounded(t), endpoint(t, "https://"+server), path, []byte("{}"))
	wantSendError(t, err, false, peer.CodeUnreachable)
}

func TestPost_G41_CancelledBeforeTheConnectionWroteNothing(t *testing.T) {
	release := make(chan struct{})
	server := rawServer(t, func(net.Conn, *bufio.Reader) { <-release }) // accepts, never shakes hands
	defer close(release)
	ctx, cancel := context.WithTimeout(bounded(t), 50*time.Millisecond)
	defer cancel()
	_, err := newClient(t, peer.Config{}).Post(ctx, endpoint(t, "https://"+server), path, []byte("{}"))
	wantSendError(t, err, false, peer.CodeUnreachable)
	done, stop := context.WithCancel(bounded(t))
	stop()
	_, err = newClient(t, peer.Config{}).Post(done, endpoint(t, "http://"+server), path, []byte("{}"))
	wantSendError(t, err, false, peer.CodeUnreachable)
}

func TestPost_G25_CutAfterHeadersMayHaveArrived(t *testing.T) {
	answers := map[string]string{
		"no answer": "", "half a status line": "HTTP/1.1 2", "headers cut": "HTTP/1.1 200 OK\r\nContent-Le",
		"body cut": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "not HTTP": "hello\r\n\r\n",
		"chunked body cut": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			server := rawServer(t, func(conn net.Conn, r *bufio.Reader) {
				readRequest(r)
				_, _ = io.WriteString(conn, answer)
			})
			_, err := newClient(t, peer.Config{}).Post(bounded(t), endpoint(t, "http://"+server), path, []byte("{}"))
			wantSendError(t, err, true, peer.CodeInterrupted)
		})
	}
}

func TestPost_G25_CancelledWhileWaitingMayHaveArrived(t *testing.T) {
	ctx, cancel := context.WithCancel(bounded(t))
	server := rawServer(t, func(_ net.Conn, r *bufio.Reader) {
		readRequest(r)
		cancel()
		_, _ = r.ReadByte() // until the client hangs up
	})
	_, err := newClient(t, peer.Config{}).Post(ctx, endpoint(t, "http://"+server), path, []byte("{}"))
	wantSendError(t, err, true, peer.CodeInterrupted)
}

// A kept connection that the peer closes after it read the next request is the
// case in which net/http repeats idempotent requests by itself.
func TestPost_G25_IsNeverSentTwiceByTheTransport(t *testing.T) {
	var requests atomic.Int32
	server := rawServer(t, func(conn net.Conn, r *bufio.Reader) {
		readRequest(r)
		requests.Add(1)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		if readRequest(r) {
			requests.Add(1) // and hangs up without an answer
		}
	})
	client, to := newClient(t, peer.Config{}), endpoint(t, "http://"+server)
	if _, err := client.Post(bounded(t), to, path, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	_, err := client.Post(bounded(t), to, path, []byte("{}"))
	wantSendError(t, err, true, peer.CodeInterrupted)
	if n := requests.Load(); n != 2 {
		t.Errorf("the peer saw %d requests, want 2", n)
	}
}

func TestPost_G25_UnusableAnswersAreUnknown(t *testing.T) {
	const limit = 1000
	var followed atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/huge/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", limit+1)) })
	mux.HandleFunc("/full/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", limit)) })
	mux.HandleFunc("/headers/", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 100<<10)) })
	for _, code := range []string{"301", "302", "303", "307", "308", "304"} {
		mux.HandleFunc("/"+code+"/", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/target")
			w.WriteHeader(map[string]int{"301": 301, "302": 302, "303": 303, "307": 307, "308": 308, "304": 304}[code])
		})
	}
	mux.HandleFunc("/target", func(http.ResponseWriter, *http.Request) { followed.Store(true) })
	server := httptest.NewServer(mux)
	defer server.Close()
	client := newClient(t, peer.Config{MaxResponse: limit})
	post := func(base string) (peer.Reply, error) {
		return client.Post(bounded(t), endpoint(t, server.URL+base), path, []byte("{}"))
	}
	if reply, err := post("/full"); err != nil || len(reply.Body) != limit {
		t.Errorf("an answer of exactly the bound: %d %v", len(reply.Body), err)
	}
	_, err := post("/huge")
	wantSendError(t, err, true, peer.CodeTooLarge)
	_, err = post("/headers")
	wantSendError(t, err, true, peer.CodeInterrupted)
	for _, code := range []string{"301", "302", "303", "307", "308", "304"} {
		_, err = post("/" + code)
		wantSendError(t, err, true, peer.CodeRedirect)
	}
	if followed.Load() {
		t.Error("a redirect was followed")
	}
}

func TestPost_G19_NeedsEndpointAndPlainPath(t *testing.T) {
	client, to := newClient(t, peer.Config{}), endpoint(t, "http://127.0.0.1:1")
	_, err := client.Post(bounded(t), peer.Endpoint{}, path, nil)
	wantSendError(t, err, false, peer.CodeRequest)
	for _, p := range []string{"", "x", "//host/x", "/a?b", "/a#b", "/../x", "/a/./b", "/%2e", "/a b", `/a\b`} {
		_, err := client.Post(bounded(t), to, p, nil)
		wantSendError(t, err, false, peer.CodeRequest)
	}
}

func TestWritten_G25_DoubtMeansYes(t *testing.T) {
	if peer.Written(nil) || !peer.Written(io.EOF) || !peer.Written(&peer.SendError{Written: true, Err: io.EOF}) || peer.Written(&peer.SendError{Err: io.EOF}) {
		t.Error("Written does not say yes in doubt")
	}
}

// rawServer answers every connection with serve, then closes it.
func rawServer(t *testing.T, serve func(net.Conn, *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
				serve(conn, bufio.NewReader(conn))
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); running.Wait() })
	return l.Addr().String()
}

func readRequest(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}
