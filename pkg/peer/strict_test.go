package peer_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/peer/hostiletest"
)

// obliging is a handler that takes whatever reaches it at one path.
func obliging(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	case r.Method != http.MethodPost || r.URL.Path != "/aip/v1/messages":
		w.WriteHeader(http.StatusNotFound)
	default:
		fmt.Fprintf(w, "%d", len(body))
	}
}

func TestStrict_G40_NothingAmbiguousReachesAHandler(t *testing.T) {
	server := httptest.NewUnstartedServer(peer.Strict(http.HandlerFunc(obliging)))
	server.Config.MaxHeaderBytes, server.Config.DisableGeneralOptionsHandler = 32<<10, true
	server.Start()
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	hostiletest.Requests(t, hostiletest.Surface{Addr: addr, Path: "/aip/v1/messages", Body: `{"a":1}`})
	resp, err := http.Post(server.URL+"/aip/v1/messages", "application/json", strings.NewReader(`{"a":1}`))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("an ordinary request: %v %v", resp, err)
	}
	_ = resp.Body.Close()
}

// TestStrict_G31_ASlowBodyEndsItsConnection: a body that trickles in does not hold a
// handler, and one that came in whole may be worked on for as long as it takes.
func TestStrict_G31_ASlowBodyEndsItsConnection(t *testing.T) {
	working := make(chan struct{})
	server := httptest.NewServer(peer.StrictWithin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		if r.URL.Path == "/long" {
			<-working
			if r.Context().Err() != nil {
				err = r.Context().Err()
			}
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	}), 200*time.Millisecond))
	defer server.Close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a slow body: %v %v", resp, err)
	}
	go func() { time.Sleep(600 * time.Millisecond); close(working) }() // longer than the patience for a body
	long, err := http.Post(server.URL+"/long", "text/plain", strings.NewReader("whole"))
	if err != nil || long.StatusCode != http.StatusOK {
		t.Errorf("a long handler: %v %v", long, err)
	}
}
