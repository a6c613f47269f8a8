package crash

import (
	"bytes"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// NetProxy stands before a host and slows, swallows or refuses what is sent to it.
type NetProxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	blackhole atomic.Bool  // takes connections and bytes, and nothing comes of them
	lose      atomic.Int64 // answers still to be lost
	delay     atomic.Int64 // nanoseconds, each way
	touched   atomic.Int64 // connections or answers that a fault met

	mu     sync.Mutex
	conns  map[net.Conn]bool
	catch  string   // requests that hold this text are caught; "" catches none
	caught [][]byte // as they were sent
}

// NewNetProxy listens at an address and passes everything on to target.
func NewNetProxy(listen, target string) (*NetProxy, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	p := &NetProxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.running.Go(p.serve)
	return p, nil
}

// Blackhole swallows everything, or lets it through again. What is connected is hung up
// in the second case, so that nobody waits for what was swallowed.
func (p *NetProxy) Blackhole(on bool) {
	p.blackhole.Store(on)
	if !on {
		p.dropAll()
	}
}

// LoseAnswers lets so many requests through and hangs up instead of their answers.
func (p *NetProxy) LoseAnswers(n int) { p.lose.Store(int64(n)) }

// Delay holds every chunk for a while, each way.
func (p *NetProxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Catch keeps requests that hold a text and hangs up, instead of delivering them; ""
// catches no more. What was caught before stays.
func (p *NetProxy) Catch(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.catch = text
}

// Caught lists the requests that were caught, as they were sent.
func (p *NetProxy) Caught() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.caught)
}

// Target is where the host itself listens.
func (p *NetProxy) Target() string { return p.target }

// restTime is how long the rest of a request may take to come, while some are caught.
const restTime = 100 * time.Millisecond

// whole waits for the rest of a request of which a chunk came.
func whole(chunk []byte, from net.Conn) []byte {
	_ = from.SetReadDeadline(time.Now().Add(restTime))
	rest, _ := io.ReadAll(from) // until the time is over: the client waits for an answer
	_ = from.SetReadDeadline(time.Time{})
	return append(bytes.Clone(chunk), rest...)
}

func (p *NetProxy) catching() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.catch != ""
}

// takes keeps a request that is to be caught.
func (p *NetProxy) takes(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.catch == "" || !bytes.Contains(request, []byte(p.catch)) {
		return false
	}
	p.caught = append(p.caught, request)
	return true
}

// Touched counts what met a fault.
func (p *NetProxy) Touched() int { return int(p.touched.Load()) }

// Close ends the proxy and every connection.
func (p *NetProxy) Close() {
	_ = p.listener.Close()
	p.dropAll()
	p.running.Wait()
}

func (p *NetProxy) dropAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *NetProxy) keep(c net.Conn, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.conns[c] = true
	} else {
		delete(p.conns, c)
	}
}

func (p *NetProxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.handle(client) })
	}
}

func (p *NetProxy) handle(client net.Conn) {
	defer func() { _ = client.Close() }()
	p.keep(client, true)
	defer p.keep(client, false)
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		if linger, ok := client.(*net.TCPConn); ok {
			_ = linger.SetLinger(0) // a refused connection, as far as a proxy can make one
		}
		return
	}
	defer func() { _ = server.Close() }()
	p.keep(server, true)
	defer p.keep(server, false)
	var back sync.WaitGroup
	back.Go(func() {
		p.pump(client, server, true)
		_ = client.Close()
	})
	p.pump(server, client, false)
	_ = server.Close()
	back.Wait()
}

// pump copies one way, through the faults.
func (p *NetProxy) pump(to, from net.Conn, answers bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			chunk := buffer[:n]
			if p.blackhole.Load() {
				p.touched.Add(1)
				continue
			}
			if !answers && p.catching() {
				if chunk = whole(chunk, from); p.takes(chunk) {
					p.touched.Add(1)
					return
				}
			}
			if d := time.Duration(p.delay.Load()); d > 0 {
				p.touched.Add(1)
				time.Sleep(d)
			}
			if answers && p.lose.Load() > 0 && p.lose.Add(-1) >= 0 {
				p.touched.Add(1)
				return
			}
			if _, err := to.Write(chunk); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
