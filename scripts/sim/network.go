package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// server is what listens at an endpoint now: a process and what serves in it.
type server struct {
	life    *life
	handler http.Handler
}

// network carries messages between processes, and loses, doubles, delays and reorders
// them on the way.
type network struct {
	w *world

	mu       sync.Mutex
	serving  map[string]*server // by endpoint
	cut      map[string][]window
	counts   map[string]int         // posts of a key so far
	carrying map[fleet.ActionID]int // parcels under way, by action
}

func newNetwork(w *world) *network {
	n := &network{
		w: w, serving: map[string]*server{}, cut: map[string][]window{}, counts: map[string]int{},
		carrying: map[fleet.ActionID]int{},
	}
	for _, p := range places() {
		n.cut[p.endpoint()] = w.windows(1, time.Second, 25*time.Second, "partition", p.endpoint())
	}
	return n
}

func (n *network) listen(endpoint string, s *server) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.serving[endpoint] = s
}

func (n *network) at(endpoint string) *server {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.serving[endpoint]; s != nil && !s.life.dead() {
		return s
	}
	return nil
}

// parcel is one message under way.
type parcel struct {
	from, endpoint, path string
	body                 []byte
	about                about
	key                  string // identifies the message's meaning: kind, action, fence
	n                    int    // how often that was posted before
}

// about is what a message is about, as far as the network can read it.
type about struct {
	kind   string
	action fleet.ActionID
	fence  uint64
}

func read(body []byte) about {
	var m struct {
		Type     string `json:"message_type"`
		Security struct {
			Route struct {
				Action fleet.ActionID `json:"action_id"`
				Fence  fleet.Fence    `json:"fence"`
			} `json:"route"`
		} `json:"security"`
	}
	_ = json.Unmarshal(body, &m) // what cannot be read has no name
	return about{m.Type, m.Security.Route.Action, m.Security.Route.Fence.Number}
}

func (n *network) parcel(from, endpoint, path string, body []byte) parcel {
	p := parcel{from: from, endpoint: endpoint, path: path, body: body, about: read(body)}
	p.key = fmt.Sprintf("%s>%s %s %s %d", from, endpoint, p.about.kind, p.about.action, p.about.fence)
	n.mu.Lock()
	defer n.mu.Unlock()
	p.n = n.counts[p.key]
	n.counts[p.key]++
	n.w.report.Messages++
	return p
}

// fate is what happens to a parcel.
type fate struct {
	kind  string        // "" is nothing bad
	delay time.Duration // of the way there
	back  time.Duration // of the way back
	copy  time.Duration // of a second copy; 0 is none
}

// fates of a message in a storm, with their rates.
func fates() []struct {
	kind string
	rate float64
} {
	return []struct {
		kind string
		rate float64
	}{
		{netRefused, 0.05}, {netDialTimeout, 0.01}, {netReset, 0.03}, {netBlackhole, 0.015}, {netNoReply, 0.05},
		{netDuplicate, 0.05}, {netLate, 0.04}, {netSlow, 0.05}, {netGarbage, 0.02},
	}
}

func (n *network) fate(p parcel) fate {
	d := n.w.dice
	f := fate{delay: d.between(time.Millisecond, 40*time.Millisecond, "there", p.key, p.n), back: d.between(time.Millisecond, 40*time.Millisecond, "back", p.key, p.n)}
	if !n.w.stormy() {
		return f
	}
	if within(n.cut[p.endpoint], n.w.elapsed()) {
		f.kind = []string{netRefused, netDialTimeout, netBlackhole, netNoReply}[d.pick(4, "cut", p.key, p.n)]
		n.w.fault(netPartition, p.endpoint)
		return f
	}
	u := d.unit("fate", p.key, p.n)
	if n.w.rash() && d.chance(0.35, "rash", p.key, p.n) {
		f.kind, u = netSlow, 1
		if p.about.kind == protocol.TypeAction {
			f.kind = netGarbage
		}
	}
	for _, next := range fates() {
		if u -= next.rate; u < 0 {
			f.kind = next.kind
			break
		}
	}
	switch f.kind {
	case netDuplicate:
		f.copy = d.between(time.Millisecond, time.Second, "copy", p.key, p.n)
	case netLate:
		f.copy = d.between(5*time.Second, 100*time.Second, "copy", p.key, p.n)
	case netSlow:
		f.delay = d.between(500*time.Millisecond, 20*time.Second, "slow", p.key, p.n)
		if n.w.rash() {
			f.delay /= 3
		}
	}
	if f.kind != "" {
		n.w.fault(f.kind, p.key)
	}
	return f
}

// post sends a message and waits for its answer. Copies go on by themselves.
func (n *network) post(ctx context.Context, p parcel) (peer.Reply, error) {
	f := n.fate(p)
	w := n.w
	switch {
	case f.kind == netDialTimeout:
		sleep(ctx, peer.DefaultDialTimeout)
		return peer.Reply{}, unreachable(ctx.Err())
	case !sleep(ctx, w.between(time.Millisecond, 5*time.Millisecond, "connect", p.key, p.n)):
		return peer.Reply{}, unreachable(ctx.Err())
	case f.kind == netRefused, n.at(p.endpoint) == nil:
		return peer.Reply{}, unreachable(nil)
	case f.kind == netReset:
		sleep(ctx, f.delay)
		return peer.Reply{}, interrupted()
	case f.kind == netBlackhole:
		<-ctx.Done()
		return peer.Reply{}, interrupted()
	}
	if f.copy > 0 { // what was never connected has no copies
		n.carry(p, f.copy, nil)
	}
	answer := make(chan *peer.Reply, 1)
	n.carry(p, f.delay, answer)
	return n.await(ctx, p, f, answer)
}

func (n *network) await(ctx context.Context, p parcel, f fate, answer <-chan *peer.Reply) (peer.Reply, error) {
	select {
	case <-ctx.Done():
		return peer.Reply{}, interrupted()
	case r := <-answer:
		if r == nil || !sleep(ctx, f.back) {
			return peer.Reply{}, interrupted()
		}
		switch f.kind {
		case netNoReply:
			return peer.Reply{}, interrupted()
		case netGarbage:
			return peer.Reply{Status: http.StatusBadGateway, ContentType: "text/html", Body: []byte("<html>bad gateway</html>")}, nil
		}
		return *r, nil
	}
}

func unreachable(cause error) error {
	e := fleet.Errorf(fleet.Unavailable, peer.CodeUnreachable, "the peer was not reached")
	if cause != nil {
		e = e.Caused(cause)
	}
	return &peer.SendError{Err: e}
}

func interrupted() error {
	return &peer.SendError{Written: true, Err: fleet.Errorf(fleet.Unknown, peer.CodeInterrupted, "the peer's answer did not come")}
}

// carry takes a parcel there, whoever waits for it. Its answer is nil when the process
// there is dead, or dies before the answer has left.
func (n *network) carry(p parcel, delay time.Duration, answer chan<- *peer.Reply) {
	n.load(p, 1)
	n.w.run(func() {
		defer n.load(p, -1)
		sleep(context.Background(), delay)
		reply := n.deliver(p)
		if answer != nil {
			answer <- reply
		}
	})
}

func (n *network) load(p parcel, by int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.carrying[p.about.action] += by; n.carrying[p.about.action] == 0 {
		delete(n.carrying, p.about.action)
	}
}

// idle reports whether no message about the action is under way.
func (n *network) idle(id fleet.ActionID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.carrying[id] == 0
}

// ackKillRate is of hosts that die when their answer is about to leave.
const ackKillRate = 0.005

func (n *network) deliver(p parcel) *peer.Reply {
	s := n.at(p.endpoint)
	if s == nil || n.w.pass(s.life, p.key+" in") != nil {
		return nil
	}
	n.w.note("arrives "+p.about.kind, p.key)
	ctx, gone := context.WithCancel(context.Background())
	defer gone()
	out := &recorder{header: http.Header{}}
	s.handler.ServeHTTP(out, request(ctx, p))
	if n.w.stormy() && n.w.chance(ackKillRate, "kill at answer", p.key, p.n) {
		n.w.fault(hostAck, s.life.name)
		s.life.kill()
	}
	if n.w.lines != nil {
		n.w.say("answers "+said(out.body.Bytes()), p.key)
	}
	if n.w.pass(s.life, p.key+" out") != nil || out.body.Len() == 0 {
		return nil
	}
	return &peer.Reply{Status: out.status, ContentType: out.header.Get("Content-Type"), Body: out.body.Bytes()}
}

// said is what an answer says, in short.
func said(body []byte) string {
	var m struct {
		Body struct {
			Error struct {
				Details json.RawMessage `json:"details"`
			} `json:"error"`
			Status struct {
				State string `json:"state"`
				Fence uint64 `json:"fence"`
			} `json:"action_status"`
			Result struct {
				Status string `json:"status"`
			} `json:"action_result"`
		} `json:"body"`
	}
	_ = json.Unmarshal(body, &m) // what cannot be read says nothing
	return fmt.Sprintf("%s %s %d %s", m.Body.Result.Status, m.Body.Status.State, m.Body.Status.Fence, m.Body.Error.Details)
}

func request(ctx context.Context, p parcel) *http.Request {
	r := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: p.path}, RequestURI: p.path, Host: "host", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(p.body)), ContentLength: int64(len(p.body)),
	}
	return r.WithContext(ctx)
}

// recorder is an http.ResponseWriter into memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *recorder) Write(data []byte) (int, error) { return r.body.Write(data) }
