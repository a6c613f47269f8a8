package lifecycle_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope/mutationtest"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

func ready() lifecycle.Report { return lifecycle.Report{Ready: true} }

// generous never refuses: a refusal by rate would prove nothing here.
func generous(c *lifecycle.ServerConfig) {
	c.TTL = time.Minute
	c.Rate = lifecycle.Rate{PerSecond: 1e6, Burst: 1e6, Strangers: 1e6, Peers: 1e6}
}

// tamperer lets every message of a client arrive changed before it arrives.
type tamperer struct {
	*wire
	r    *rig
	sent map[string]int // by body
	last []byte
}

func (w *tamperer) Post(ctx context.Context, e peer.Endpoint, path string, body []byte) (peer.Reply, error) {
	w.r.t.Helper()
	before := w.r.asked.reads()
	for _, m := range mutationtest.Of(w.r.t, body, 11) {
		status, _, code := w.r.post(m.Text)
		if status != 400 && status != 403 || !strings.HasPrefix(code, "envelope.") {
			w.r.t.Errorf("%s: answered %d %s", m.What, status, code)
		}
		w.sent[code]++
	}
	if w.last != nil {
		for _, m := range mutationtest.Grafts(w.r.t, body, w.last) {
			if status, _, code := w.r.post(m.Text); status != 403 && status != 400 || !strings.HasPrefix(code, "envelope.") {
				w.r.t.Errorf("%s: answered %d %s", m.What, status, code)
			}
		}
	}
	if n := w.r.asked.reads() - before; n != 0 {
		w.r.t.Errorf("changed messages bought %d reads of the registry", n)
	}
	w.last = body
	return w.wire.Post(context.WithoutCancel(ctx), e, path, body)
}

// TestMutation_G19_EveryPartOfEveryControlMessage lets a real host register, beat, drain
// and go offline, and sends each of its messages with any one part changed before the
// message itself: the service refuses every one by what is wrong with it, never by a
// rate and without asking the registry, and accepts the unchanged one.
func TestMutation_G19_EveryPartOfEveryControlMessage(t *testing.T) {
	r := newRig(t, generous)
	w := &tamperer{wire: &wire{}, r: r, sent: map[string]int{}}
	c := r.clientBy(w, w.wire, &epochs{}, fleet.NewJournalID(time.Now()), ready)
	ctx, cancel := context.WithCancel(t.Context())
	registered := make(chan struct{})
	go func() { defer close(registered); c.Run(ctx) }()
	if err := c.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel() // no beats of its own any more
	<-registered
	for _, step := range []struct {
		what string
		do   func() error
		want fleet.ReplicaStatus
	}{
		{"beat", func() error { return c.Beat(t.Context()) }, fleet.ReplicaReady},
		{"drain", func() error { return c.Drain(t.Context(), "ending") }, fleet.ReplicaDraining},
		{"offline", func() error { return c.Offline(t.Context(), "ended") }, fleet.ReplicaOffline},
	} {
		if err := step.do(); err != nil || r.live().Status != step.want {
			t.Fatalf("the unchanged %s: %v, %+v", step.what, err, r.live())
		}
	}
	if w.sent["envelope.signature"] < 400 || w.sent["envelope.schema"] < 200 || w.sent["envelope.malformed"] < 50 {
		t.Errorf("too little was tried: %v", w.sent)
	}
}

// bender changes answers on their way to a client: the n-th answer gets its n-th change.
type bender struct {
	*wire
	t       *testing.T
	n       int
	what    string
	whole   bool // the next answer arrives as it was sent
	changes int
}

func (b *bender) Post(ctx context.Context, e peer.Endpoint, path string, body []byte) (peer.Reply, error) {
	reply, err := b.wire.Post(ctx, e, path, body)
	if err != nil || b.whole {
		return reply, err
	}
	changes := mutationtest.Changes(b.t, reply.Body, 11)
	b.changes = len(changes)
	m := changes[b.n%len(changes)]()
	b.n, b.what, reply.Body = b.n+1, m.What, m.Text
	return reply, nil
}

// TestMutation_G19_EveryPartOfEveryControlAnswer changes the service's answers: a host
// takes no lease, and no refusal, from one of which any part was changed.
func TestMutation_G19_EveryPartOfEveryControlAnswer(t *testing.T) {
	r := newRig(t, generous)
	b := &bender{wire: &wire{}, t: t, whole: true}
	journal := fleet.NewJournalID(time.Now())
	c := r.clientBy(b, b.wire, &epochs{}, journal, ready)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { defer close(ran); c.Run(ctx) }()
	if err := c.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ran
	every := func(kind string) {
		b.n, b.whole, b.changes = 0, false, 1
		for b.n < b.changes {
			held := c.Standing()
			if err := c.Beat(t.Context()); fleet.CodeOf(err) != "lifecycle.reply" {
				t.Errorf("%s, %s: %v (%s)", kind, b.what, err, fleet.CodeOf(err))
			}
			if c.Standing() != held {
				t.Fatalf("%s, %s: the host believed it", kind, b.what)
			}
		}
		if b.n < 200 {
			t.Errorf("%s: only %d changes were tried", kind, b.n)
		}
		b.whole = true
	}
	every("lease")
	held := c.Standing()
	if err := c.Beat(t.Context()); err != nil || !c.Standing().Held.Until().After(held.Held.Until()) {
		t.Fatalf("the unchanged lease: %v", err)
	}
	// Another host of the same journal supersedes the epoch: from now on beats are refused.
	_, data := r.seal(r.host, r.registration(journal, held.Epoch))
	if status, _, code := r.post(data); status != 200 {
		t.Fatalf("%d %s", status, code)
	}
	every("refusal")
	if err := c.Beat(t.Context()); fleet.CodeOf(err) != "lease.epoch" {
		t.Fatalf("the unchanged refusal: %v", err)
	}
}
