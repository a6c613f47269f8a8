package lifecycle_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func TestServer_G22_ARepeatGetsTheSameLease(t *testing.T) {
	r := newRig(t)
	journal := fleet.NewJournalID(time.Now())
	_, data := r.seal(r.host, r.registration(journal, 0))
	status, first, _ := r.post(data)
	again, second, _ := r.post(data)
	if status != 200 || again != 200 || first.Epoch != 1 || first != second {
		t.Fatalf("%d %+v\n%d %+v", status, first, again, second)
	}
	_, other := r.seal(r.host, r.registration(fleet.NewJournalID(time.Now()), 0))
	if status, _, code := r.post(other); status != 409 || code != "lease.held" {
		t.Errorf("another journal while the lease lives: %d %s", status, code)
	}
	_, back := r.seal(r.host, r.registration(journal, 1))
	if status, lease, code := r.post(back); status != 200 || lease.Epoch != 2 {
		t.Errorf("the same host coming back: %d %s %+v", status, code, lease)
	}
	_, beat := r.seal(r.host, protocol.Heartbeat{Replica: replica(), Epoch: 1, Sequence: 2, Ready: true})
	if status, _, code := r.post(beat); status != 409 || code != "lease.epoch" {
		t.Errorf("a beat of the superseded epoch: %d %s", status, code)
	}
}

func TestServer_G20_OnlyTheDeclaredPeerHasAnEffect(t *testing.T) {
	r := newRig(t)
	register := r.registration(fleet.NewJournalID(time.Now()), 0)
	_, genuine := r.seal(r.host, register)
	_, stranger := r.seal(signerOf(9), register)
	elsewhere := register
	elsewhere.Replica = must(fleet.ParseReplicaID("crepl_nowhere"))
	_, undeclared := r.seal(signerOf(9), elsewhere)
	changed := bytes.Replace(genuine, []byte(`"capacity":4`), []byte(`"capacity":5`), 1)
	swapped := bytes.Replace(genuine, []byte(r.host.DID().String()), []byte(signerOf(9).DID().String()), 1)
	for name, c := range map[string]struct {
		data   []byte
		status int
		code   string
		reads  bool
	}{
		"stranger":           {stranger, 403, lifecycle.CodePeer, true},
		"undeclared replica": {undeclared, 403, lifecycle.CodePeer, true},
		"changed":            {changed, 403, "envelope.signature", false},
		"other signer":       {swapped, 403, "envelope.signature", false},
		"not JSON":           {[]byte(`{"a":1,"a":2}`), 400, "envelope.malformed", false},
		"too large":          {bytes.Repeat([]byte(" "), protocol.MaxControlBytes+1), 400, lifecycle.CodeMalformed, false},
	} {
		before := r.asked.reads()
		status, _, code := r.post(c.data)
		if status != c.status || code != c.code {
			t.Errorf("%s: %d %s, want %d %s", name, status, code, c.status, c.code)
		}
		if (r.asked.reads() > before) != c.reads {
			t.Errorf("%s: the registry was asked: %v", name, r.asked.reads() > before)
		}
	}
	if live := r.live(); live.LeaseEpoch != 0 || live.Status != fleet.ReplicaOffline {
		t.Errorf("somebody else had an effect: %+v", live)
	}
}

func TestServer_G31_RatesComeBeforeTheRegistry(t *testing.T) {
	r := newRig(t, func(c *lifecycle.ServerConfig) {
		c.Rate = lifecycle.Rate{PerSecond: 0.001, Burst: 3, Strangers: 5, Peers: 10}
	})
	journal := fleet.NewJournalID(time.Now())
	limited := 0
	for range 6 {
		_, data := r.seal(r.host, r.registration(journal, r.live().LeaseEpoch))
		if status, _, code := r.post(data); status == 429 && code == lifecycle.CodeRate {
			limited++
		}
	}
	if limited != 3 || r.asked.reads() != 3 {
		t.Errorf("limited %d, asked %d", limited, r.asked.reads())
	}
	for i := range 20 {
		_, data := r.seal(signerOf(byte(100+i)), r.registration(journal, 0))
		r.post(data)
	}
	if n := r.asked.reads(); n > 3+8 {
		t.Errorf("keys made up for the purpose bought %d reads", n-3)
	}
}

func TestClient_G24_TrustCountsFromBeforeTheQuestion(t *testing.T) {
	r := newRig(t)
	w := &wire{}
	c := r.client(w, &epochs{}, fleet.NewJournalID(time.Now()), func() lifecycle.Report { return lifecycle.Report{Ready: true} })
	before := time.Now()
	r.running(c)
	if err := c.Await(context.Background()); err != nil {
		t.Fatal(err)
	}
	s := c.Standing()
	if end := s.Held.Until(); !end.Before(time.Now().Add(5*time.Second)) || end.Before(before.Add(4*time.Second)) {
		t.Errorf("trusted until %s", end.Sub(before))
	}
	if live := r.live(); !s.Held.Until().Before(live.LeaseExpiresAt) {
		t.Errorf("the host trusts its lease until %s, the registry ends it at %s", s.Held.Until(), live.LeaseExpiresAt)
	}
	w.set(func(w *wire) { w.down = true })
	r.eventually("no trust without beats", func() bool { return !c.Standing().Trusted(time.Now()) })
	if live := r.live(); !live.LeaseExpiresAt.After(time.Now().Add(-50 * time.Millisecond)) {
		t.Error("the host trusted its lease longer than the registry did")
	}
	w.set(func(w *wire) { w.down = false })
	r.eventually("a lease again", func() bool { return c.Standing().Trusted(time.Now()) })
}

func TestClient_G22_ALostAnswerIsAskedForAgain(t *testing.T) {
	r := newRig(t)
	w, e := &wire{lose: 2}, &epochs{}
	c := r.client(w, e, fleet.NewJournalID(time.Now()), func() lifecycle.Report { return lifecycle.Report{Ready: true} })
	r.running(c)
	if err := c.Await(context.Background()); err != nil {
		t.Fatal(err)
	}
	if c.Standing().Epoch != 1 || r.live().LeaseEpoch != 1 || e.epoch != 1 {
		t.Errorf("a repeat took another epoch: %+v %+v", c.Standing(), r.live())
	}
}

func TestClient_G22_AKilledHostComesBackAtOnce(t *testing.T) {
	r := newRig(t)
	e, journal := &epochs{}, fleet.NewJournalID(time.Now())
	report := func() lifecycle.Report { return lifecycle.Report{Ready: true} }
	killed := r.client(&wire{}, e, journal, report)
	stop := r.running(killed)
	if err := killed.Await(context.Background()); err != nil {
		t.Fatal(err)
	}
	stop() // without a word to the registry
	back := r.client(&wire{}, e, journal, report)
	r.running(back)
	if err := back.Await(context.Background()); err != nil || back.Standing().Epoch != 2 {
		t.Fatalf("%+v %v", back.Standing(), err)
	}
	if err := killed.Beat(context.Background()); !fleet.Is(err, fleet.LeaseLost) {
		t.Errorf("the old epoch beats on: %v", err)
	}
}

func TestClient_G23_OperatorDrainReachesTheHostAndIsSticky(t *testing.T) {
	r := newRig(t)
	c := r.client(&wire{}, &epochs{}, fleet.NewJournalID(time.Now()), func() lifecycle.Report { return lifecycle.Report{Ready: true, InFlight: 2} })
	r.running(c)
	if err := c.Await(context.Background()); err != nil {
		t.Fatal(err)
	}
	intend := func(want fleet.OperatorIntent) {
		t.Helper()
		if _, err := r.store.Intend(context.Background(), registry.Intent{Replica: replica(), Want: want, Actor: "op", Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		if err := c.Beat(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	intend(fleet.IntentDrain)
	if live := r.live(); !c.Standing().Drain || live.Status != fleet.ReplicaDraining || live.InFlight != 2 {
		t.Errorf("%+v %+v", c.Standing(), live)
	}
	intend(fleet.IntentRun)
	if live := r.live(); c.Standing().Drain || live.Status != fleet.ReplicaReady || !live.Healthy {
		t.Errorf("after the drain: %+v %+v", c.Standing(), live)
	}
}

// TestClient_G08_AHostThatStartsSaysSo: the registration itself says that nothing can be
// executed yet, and the end of it is told once.
func TestClient_G08_AHostThatStartsSaysSo(t *testing.T) {
	r := newRig(t)
	var up atomic.Bool
	c := r.client(&wire{}, &epochs{}, fleet.NewJournalID(time.Now()), func() lifecycle.Report { return lifecycle.Report{Ready: up.Load()} })
	r.running(c)
	if err := c.Await(context.Background()); err != nil {
		t.Fatal(err)
	}
	if live := r.live(); live.Healthy || live.Status != fleet.ReplicaReady {
		t.Fatalf("registered before it could do anything: %+v", live)
	}
	up.Store(true)
	if err := c.Ready(context.Background()); err != nil || !r.live().Healthy {
		t.Fatalf("%v %+v", err, r.live())
	}
	told := r.live().LeaseSequence
	if err := c.Ready(context.Background()); err != nil || r.live().LeaseSequence != told {
		t.Errorf("it was told again: %v %+v", err, r.live())
	}
}

func TestClient_G37_LeavesInOrder(t *testing.T) {
	r := newRig(t)
	c := r.client(&wire{lose: 0}, &epochs{}, fleet.NewJournalID(time.Now()), func() lifecycle.Report { return lifecycle.Report{Ready: true, Draining: true} })
	stop := r.running(c)
	if err := c.Await(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := c.Drain(context.Background(), "ending"); err != nil {
		t.Fatal(err)
	}
	if err := c.Beat(context.Background()); err != nil || r.live().Status != fleet.ReplicaDraining {
		t.Fatalf("%v %+v", err, r.live())
	}
	stop()
	if err := c.Offline(context.Background(), "ending"); err != nil {
		t.Fatal(err)
	}
	if live := r.live(); live.Status != fleet.ReplicaOffline || c.Standing().Trusted(time.Now()) {
		t.Errorf("%+v %+v", live, c.Standing())
	}
}
