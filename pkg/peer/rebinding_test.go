package peer_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/peer"
)

// nameServer answers every A question with the address that answer gives for
// the n-th question, and everything else with nothing.
func nameServer(t *testing.T, answer func(n int32) netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	var running sync.WaitGroup
	running.Go(func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(respond(buf[:n], func() netip.Addr { return answer(asked.Add(1)) }), from)
		}
	})
	t.Cleanup(func() { _ = conn.Close(); running.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// respond builds the answer to one DNS question: header, the question as asked,
// and for type A one record that points back at the name.
func respond(query []byte, address func() netip.Addr) []byte {
	end := 12
	for end < len(query) && query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // root label, type, class
	if end > len(query) {
		return nil
	}
	out := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
	if query[end-4] == 0 && query[end-3] == 1 {
		out[7] = 1
		ip := address().As4()
		out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		out = append(out, ip[:]...)
	}
	return out
}

// A name that was fine when it was declared and then points inside reaches
// nothing: the address is judged when it is dialled.
func TestPost_G19_RebindingNameReachesNothing(t *testing.T) {
	var reached atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, inside := range []string{"127.0.0.1", "169.254.169.254", "10.0.0.1", "0.0.0.0"} {
		resolver := nameServer(t, func(int32) netip.Addr { return netip.MustParseAddr(inside) })
		// The zero policy, but for a range that is not this one.
		client := newClient(t, peer.Config{
			Resolver: resolver, DialTimeout: 10 * time.Second,
			Addresses: peer.AddressPolicy{Allow: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}},
		})
		_, err := client.Post(bounded(t), endpoint(t, "https://host.example.test:"+port), path, []byte("{}"))
		wantSendError(t, err, false, peer.CodeAddress)
	}
	if reached.Load() {
		t.Error("the server inside was reached")
	}
}

// The name is judged again at every dial, not once; and no proxy of the
// environment is dialled in its place.
func TestPost_G19_EveryDialIsJudged(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	resolver := nameServer(t, func(n int32) netip.Addr {
		if n == 1 {
			return netip.MustParseAddr("127.0.0.1")
		}
		return netip.MustParseAddr("127.0.0.2") // loopback as well, but not allowed
	})
	client := newClient(t, peer.Config{
		Resolver: resolver, DialTimeout: 10 * time.Second,
		Addresses: peer.AddressPolicy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}},
	})
	to := endpoint(t, "https://host.example.test:"+port)
	_, err = client.Post(bounded(t), to, path, []byte("{}"))
	wantSendError(t, err, false, peer.CodeUnreachable) // dialled; the server speaks no TLS
	_, err = client.Post(bounded(t), to, path, []byte("{}"))
	wantSendError(t, err, false, peer.CodeAddress)
}
