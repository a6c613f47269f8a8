package lifecycle_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// gate stands between the service and its database and can be shut.
type gate struct {
	url      string
	listener net.Listener
	to       string

	mu     sync.Mutex
	closed bool
	open   []net.Conn
}

func newGate(t *testing.T, dsn string) *gate {
	t.Helper()
	u := must(url.Parse(dsn))
	g := &gate{listener: must(net.Listen("tcp", "127.0.0.1:0")), to: u.Host}
	u.Host = g.listener.Addr().String()
	g.url = u.String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := g.listener.Accept()
			if err != nil {
				return
			}
			g.join(conn)
		}
	}()
	t.Cleanup(func() {
		_ = g.listener.Close()
		<-done
		g.shut(true)
	})
	return g
}

func (g *gate) join(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	server, err := net.Dial("tcp", g.to)
	if g.closed || err != nil {
		_ = conn.Close()
		if err == nil {
			_ = server.Close()
		}
		return
	}
	g.open = append(g.open, conn, server)
	for _, pair := range [][2]net.Conn{{conn, server}, {server, conn}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			_, _ = pair[0].Close(), pair[1].Close()
		}()
	}
}

func (g *gate) shut(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed = closed; closed {
		for _, c := range g.open {
			_ = c.Close()
		}
		g.open = nil
	}
}
