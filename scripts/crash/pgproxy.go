package crash

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// Cut says where a database's client is cut off.
type Cut int

// Where the proxy cuts a batch of messages.
const (
	NoCut      Cut = iota
	NeverSent      // the server never gets it
	ReplyLost      // the server carries it out, and its answer is lost
	TextCutOff     // the server gets the first half of it
	HeldBefore     // it waits before the server until Release, which then carries it out
	HeldAfter      // the server carries it out; its answer waits until Release and is lost
)

// PGProxy stands before a PostgreSQL server and cuts a connection at a statement of
// the test's choice.
type PGProxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu      sync.Mutex
	cut     Cut
	pattern string
	conns   map[net.Conn]bool
	cuts    atomic.Int64
	down    atomic.Bool
	held    chan struct{} // open until Release, when a batch is to be held
	stalled chan struct{} // open while every batch is
	waiting atomic.Int64  // sessions that are stalled
}

// NewPGProxy listens on loopback and passes everything on to target.
func NewPGProxy(target string) (*PGProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &PGProxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.running.Go(p.serve)
	return p, nil
}

// Addr is where clients connect.
func (p *PGProxy) Addr() string { return p.listener.Addr().String() }

// Cut cuts the next batch whose statement holds the pattern, once.
func (p *PGProxy) Cut(at Cut, pattern string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.pattern = at, strings.ToLower(pattern)
	if (at == HeldBefore || at == HeldAfter) && p.held == nil {
		p.held = make(chan struct{})
	}
}

// Release lets the batch go that is held, if one is.
func (p *PGProxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// hold waits for the Release of what was asked to be held.
func (p *PGProxy) hold() {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held != nil {
		<-held
	}
}

// Stall lets every session wait with its next batch, or all of them go on.
func (p *PGProxy) Stall(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on && p.stalled == nil:
		p.stalled = make(chan struct{})
	case !on && p.stalled != nil:
		close(p.stalled)
		p.stalled = nil
	}
}

// Waiting counts the sessions that are stalled now.
func (p *PGProxy) Waiting() int { return int(p.waiting.Load()) }

func (p *PGProxy) stall() {
	p.mu.Lock()
	stalled := p.stalled
	p.mu.Unlock()
	if stalled != nil {
		p.waiting.Add(1)
		<-stalled
		p.waiting.Add(-1)
	}
}

// Cuts counts what was cut off or held.
func (p *PGProxy) Cuts() int { return int(p.cuts.Load()) }

// Down refuses and drops every connection until it is up again.
func (p *PGProxy) Down(down bool) {
	p.down.Store(down)
	if down {
		p.dropAll()
	}
}

// Close ends the proxy and every connection.
func (p *PGProxy) Close() {
	_ = p.listener.Close()
	p.Release()
	p.Stall(false)
	p.dropAll()
	p.running.Wait()
}

func (p *PGProxy) dropAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *PGProxy) keep(c net.Conn, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.conns[c] = true
	} else {
		delete(p.conns, c)
	}
}

func (p *PGProxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.down.Load() {
			_ = client.Close()
			continue
		}
		p.running.Go(func() { p.handle(client) })
	}
}

func (p *PGProxy) handle(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	s := &session{proxy: p, client: client, server: server, statements: map[string]string{}}
	for _, c := range []net.Conn{client, server} {
		p.keep(c, true)
		defer p.keep(c, false)
	}
	var back sync.WaitGroup
	back.Go(func() { s.backend(); s.end() })
	_ = s.frontend()
	if !s.swallow.Load() { // otherwise the server is heard out first
		s.end()
	}
	back.Wait()
	s.end()
}

// session is one connection.
type session struct {
	proxy          *PGProxy
	client, server net.Conn
	statements     map[string]string // by prepared name
	swallow        atomic.Bool       // answers are lost from now on
	linger         atomic.Bool       // and the client is not told before Release
}

func (s *session) end() {
	_ = s.client.Close()
	_ = s.server.Close()
}

var errCut = errors.New("cut off")

// frontend passes the client's messages on, a batch at a time: up to Sync or a simple
// query.
func (s *session) frontend() error {
	if err := s.startup(); err != nil {
		return err
	}
	var batch bytes.Buffer
	var texts []string
	for {
		kind, message, err := readMessage(s.client)
		if err != nil {
			return err
		}
		batch.Write(message)
		if text := s.text(kind, message[5:]); text != "" {
			texts = append(texts, text)
		}
		if !strings.ContainsRune("SQHXdcpf", rune(kind)) {
			continue
		}
		if err := s.pass(batch.Bytes(), texts); err != nil {
			return err
		}
		batch.Reset()
		texts = nil
	}
}

// startup passes the first message, which has no kind.
func (s *session) startup() error {
	for {
		head := make([]byte, 8)
		if _, err := io.ReadFull(s.client, head); err != nil {
			return err
		}
		rest := make([]byte, binary.BigEndian.Uint32(head)-8)
		if _, err := io.ReadFull(s.client, rest); err != nil {
			return err
		}
		const wantsTLS = 80877103
		if binary.BigEndian.Uint32(head[4:]) == wantsTLS { // this proxy reads along
			if _, err := s.client.Write([]byte("N")); err != nil {
				return err
			}
			continue
		}
		_, err := s.server.Write(append(head, rest...))
		return err
	}
}

func readMessage(r io.Reader) (kind byte, message []byte, err error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	message = make([]byte, 1+binary.BigEndian.Uint32(head[1:]))
	copy(message, head)
	_, err = io.ReadFull(r, message[5:])
	return head[0], message, err
}

// text is the statement that a message is about.
func (s *session) text(kind byte, body []byte) string {
	first, rest := cstring(body)
	switch kind {
	case 'Q':
		return first
	case 'P':
		s.statements[first], _ = cstring(rest)
		return s.statements[first]
	case 'B':
		name, _ := cstring(rest)
		return s.statements[name]
	}
	return ""
}

func cstring(b []byte) (string, []byte) {
	at := bytes.IndexByte(b, 0)
	if at < 0 {
		return string(b), nil
	}
	return string(b[:at]), b[at+1:]
}

// pass sends a batch on, or cuts it.
func (s *session) pass(batch []byte, texts []string) error {
	s.proxy.stall()
	switch s.proxy.wanted(texts) {
	case HeldBefore:
		s.proxy.hold()
	case HeldAfter:
		s.linger.Store(true)
		s.swallow.Store(true)
		if _, err := s.server.Write(batch); err != nil {
			return err
		}
		return errCut
	case NeverSent:
		return errCut
	case TextCutOff:
		_, _ = s.server.Write(batch[:len(batch)/2])
		return errCut
	case ReplyLost:
		s.swallow.Store(true)
		if _, err := s.server.Write(batch); err != nil {
			return err
		}
		return errCut
	}
	_, err := s.server.Write(batch)
	return err
}

// wanted reports what happens to a batch, and remembers that it did.
func (p *PGProxy) wanted(texts []string) Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut == NoCut {
		return NoCut
	}
	for _, t := range texts {
		if strings.Contains(strings.ToLower(t), p.pattern) {
			cut := p.cut
			p.cut = NoCut
			p.cuts.Add(1)
			return cut
		}
	}
	return NoCut
}

// backend passes answers on. Once they are to be lost it reads until the server is
// done with the batch, so that its effect is certain, and ends the connection.
func (s *session) backend() {
	for {
		kind, message, err := readMessage(s.server)
		if err != nil {
			return
		}
		if s.swallow.Load() {
			if kind == 'Z' {
				if s.linger.Load() {
					s.proxy.hold()
				}
				return
			}
			continue
		}
		if _, err := s.client.Write(message); err != nil {
			return
		}
	}
}
