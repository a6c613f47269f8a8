package pgclustertest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	neturl "net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Cut says where an armed proxy cuts one connection.
type Cut int

// Where a proxy cuts.
const (
	// BeforeCommit withholds the message that commits: the statement has run, its
	// locks are held and its rows are written, and the server never hears that it is
	// to be kept.
	BeforeCommit Cut = iota + 1
	// AfterCommit withholds the answer to the message that commits: the server has
	// committed, and nobody is told.
	AfterCommit
)

// Proxy stands between one client and the server and knows their protocol well
// enough to cut a connection exactly before or after a commit, explicit or implied.
type Proxy struct {
	listener net.Listener
	target   string
	dsn      string
	armed    atomic.Pointer[cutting]
	cuts     atomic.Int64
	deaf     atomic.Bool
	wait     sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]bool
}

type cutting struct {
	at   Cut
	hook func(backend int)
}

// NewProxy starts a proxy before the server of a database URL. It ends with the test.
func NewProxy(t testing.TB, dsn string) *Proxy {
	t.Helper()
	u, err := neturl.Parse(dsn)
	if err != nil {
		t.Fatal("the database URL is not well formed")
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: u.Host, open: map[net.Conn]bool{}}
	u.Host = l.Addr().String()
	p.dsn = u.String()
	p.wait.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

// DSN is the database URL by way of the proxy.
func (p *Proxy) DSN() string { return p.dsn }

// Cuts is how many connections were cut: a test that made none tested nothing.
func (p *Proxy) Cuts() int { return int(p.cuts.Load()) }

// Arm lets the next commit of any connection be cut. hook, when given, runs at that
// very point with the process id of the server's backend, before the client notices.
func (p *Proxy) Arm(at Cut, hook func(backend int)) { p.armed.Store(&cutting{at, hook}) }

// Disarm forgets a cut that has not happened.
func (p *Proxy) Disarm() { p.armed.Store(nil) }

// Sever closes every connection that is open now, whatever it is in the middle of. The
// server goes on with a statement that it has begun: a driver that asks it to cancel, as
// it does when a connection breaks, is not heard from now on.
func (p *Proxy) Sever() {
	p.deaf.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.Sever()
	p.wait.Wait()
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp4", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		s := &session{proxy: p, client: client, server: server}
		p.track(client, server, true)
		var both sync.WaitGroup
		both.Go(s.fromClient)
		both.Go(s.fromServer)
		p.wait.Go(func() { both.Wait(); p.track(client, server, false) })
	}
}

func (p *Proxy) track(client, server net.Conn, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []net.Conn{client, server} {
		if open {
			p.open[c] = true
		} else {
			delete(p.open, c)
		}
	}
}

// session is one connection through the proxy.
type session struct {
	proxy          *Proxy
	client, server net.Conn
	backend        atomic.Int64
	cut            atomic.Pointer[cutting] // decided by the client's side, done by the server's
}

func (s *session) end() {
	_ = s.client.Close()
	_ = s.server.Close()
}

// fromClient carries messages to the server until one of them would commit and a cut
// is armed.
func (s *session) fromClient() {
	defer s.end()
	if err := copyStartup(s.server, s.client, s.proxy.deaf.Load()); err != nil {
		return
	}
	ran := false // a statement ran since the last commit
	for {
		kind, raw, err := readMessage(s.client)
		if err != nil {
			return
		}
		ran = ran || kind == 'E'
		commits := kind == 'S' && ran || kind == 'Q' && commitText(raw)
		if commits {
			if c := s.proxy.armed.Swap(nil); c != nil {
				s.withhold(c, raw)
				return
			}
		}
		if kind == 'S' {
			ran = false
		}
		if _, err := s.server.Write(raw); err != nil {
			return
		}
	}
}

func commitText(raw []byte) bool {
	return strings.EqualFold(strings.TrimSpace(strings.TrimRight(string(raw[5:]), "\x00;")), "commit")
}

// withhold lets the server run what it has, and with AfterCommit also commit; then
// the server's side cuts as soon as the server says that it did.
func (s *session) withhold(c *cutting, commit []byte) {
	s.cut.Store(c)
	if c.at == BeforeCommit {
		if commit[0] == 'Q' { // everything before it was answered already
			s.finish(c)
			return
		}
		commit = []byte{'H', 0, 0, 0, 4} // flush: answer, and do not commit
	}
	if _, err := s.server.Write(commit); err != nil {
		return
	}
	// The server's side ends the session, or the server does.
	_, _ = io.Copy(io.Discard, s.client)
}

func (s *session) finish(c *cutting) {
	s.proxy.cuts.Add(1)
	if c.hook != nil {
		c.hook(int(s.backend.Load()))
	}
	s.end()
}

// fromServer carries messages to the client. Once a cut was decided it withholds them
// and waits for the one that shows that the server has come to the point.
func (s *session) fromServer() {
	defer s.end()
	for {
		kind, raw, err := readMessage(s.server)
		if err != nil {
			return
		}
		if kind == 'K' && len(raw) >= 9 {
			s.backend.Store(int64(binary.BigEndian.Uint32(raw[5:9])))
		}
		c := s.cut.Load()
		if c == nil {
			if _, err := s.client.Write(raw); err != nil {
				return
			}
			continue
		}
		if c.at == BeforeCommit && (kind == 'C' || kind == 'E') || c.at == AfterCommit && kind == 'Z' {
			s.finish(c)
			return
		}
	}
}

const maxMessage = 64 << 20

var errMessage = errors.New("not a message of the protocol")

// cancelRequest is the code of a first message that asks to cancel another connection's
// statement.
const cancelRequest = 80877102

// copyStartup carries the first message, which has no kind; when deaf, not a request to
// cancel.
func copyStartup(to io.Writer, from io.Reader, deaf bool) error {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 8 || size > maxMessage {
		return errMessage
	}
	raw := make([]byte, size)
	copy(raw, head[:])
	if _, err := io.ReadFull(from, raw[4:]); err != nil {
		return err
	}
	if deaf && binary.BigEndian.Uint32(raw[4:8]) == cancelRequest {
		return errMessage
	}
	_, err := to.Write(raw)
	return err
}

// readMessage reads one message, kind and length included.
func readMessage(from io.Reader) (kind byte, raw []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size < 4 || size > maxMessage {
		return 0, nil, errMessage
	}
	raw = make([]byte, 1+size)
	copy(raw, head[:])
	_, err = io.ReadFull(from, raw[5:])
	return head[0], raw, err
}
