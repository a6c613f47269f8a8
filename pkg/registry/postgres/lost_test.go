package postgres_test

import (
	"context"
	"net"
	neturl "net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// cutter is a proxy before the database that can lose an answer: once armed, the next
// bytes from the server are swallowed and the client's connection is closed, so that
// the statement ran and nobody was told; or the next bytes from the client are, so
// that it never ran.
type cutter struct {
	listener net.Listener
	target   string
	armed    atomic.Int32
	skip     atomic.Int32 // how many pass before one is lost
	lost     atomic.Int32
	wait     sync.WaitGroup
}

const (
	loseNothing int32 = iota
	loseAnswer
	loseRequest
)

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, target: target}
	c.wait.Go(c.serve)
	t.Cleanup(func() { _ = l.Close(); c.wait.Wait() })
	return c
}

func (c *cutter) serve() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c.wait.Go(func() { c.pump(server, client, loseRequest); _ = server.Close() })
		c.wait.Go(func() { c.pump(client, server, loseAnswer); _ = client.Close() })
	}
}

// pump copies until an end closes, or until what it carries is to be lost.
func (c *cutter) pump(to, from net.Conn, loses int32) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && c.armed.Load() == loses && c.skip.Add(-1) < 0 && c.armed.CompareAndSwap(loses, loseNothing) {
			c.lost.Add(1)
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// through rewrites a database URL so that it goes by the proxy.
func (c *cutter) through(t *testing.T, url string) string {
	t.Helper()
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = c.listener.Addr().String()
	return u.String()
}

func hostOf(t *testing.T, url string) string {
	t.Helper()
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// flaky is a small fleet whose data role goes by a proxy. One connection, already
// warm: an armed proxy then loses exactly the verb's own statement.
func flaky(t *testing.T) (*database, *cutter, *postgres.Registry) {
	d := small(t)
	dsn := url(t, d.name, "aip_data")
	c := newCutter(t, hostOf(t, dsn))
	r := d.open(t, postgres.Config{DataURL: c.through(t, dsn), Connections: 1})
	warm, err := r.Resolve(t.Context(), request("warm", 0))
	if err == nil {
		_, err = r.Settle(t.Context(), warm, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
	}
	if err != nil {
		t.Fatal(err)
	}
	return d, c, r
}

// TestLost_G39_AnswerToAResolve: the route was committed and nobody was told. The
// registry reads again by key and hands out that very reservation.
func TestLost_G39_AnswerToAResolve(t *testing.T) {
	d, c, r := flaky(t)
	c.armed.Store(loseAnswer)
	a, err := r.Resolve(t.Context(), request("one", 0))
	if err != nil {
		t.Fatalf("resolve: %v", err)
	}
	if c.lost.Load() != 1 || r.Retries().Unknown != 1 {
		t.Fatalf("lost %d answers, read again %d times: nothing was tested", c.lost.Load(), r.Retries().Unknown)
	}
	stored, err := d.data.Lookup(t.Context(), tenantID(0), actionID("one"))
	if err != nil || len(stored.Attempts) != 1 || stored.Attempts[0].Fence != a.Attempt.Fence {
		t.Errorf("stored %+v, %v", stored, err)
	}
}

// TestLost_G39_RequestOfAResolve: the statement never arrived. The answer says that
// nothing happened, and nothing did.
func TestLost_G39_RequestOfAResolve(t *testing.T) {
	d, c, r := flaky(t)
	c.armed.Store(loseRequest)
	_, err := r.Resolve(t.Context(), request("one", 0))
	if !fleet.Is(err, fleet.Unavailable) || c.lost.Load() != 1 {
		t.Fatalf("it gave %v, lost %d", err, c.lost.Load())
	}
	if _, err := d.data.Lookup(t.Context(), tenantID(0), actionID("one")); !fleet.Is(err, fleet.NotFound) {
		t.Errorf("the lookup gave %v", err)
	}
}

// TestLost_G07_AnswerToASettlement: it is settled once, whatever is lost.
func TestLost_G07_AnswerToASettlement(t *testing.T) {
	for name, what := range map[string]int32{"answer": loseAnswer, "request": loseRequest} {
		t.Run(name, func(t *testing.T) {
			d, c, r := flaky(t)
			a := d.resolve(t, "one", 0)
			c.armed.Store(what)
			receipt, err := r.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted, Code: "x"})
			if err != nil || receipt.Settlement.Code != "x" || receipt.First != (what == loseRequest) {
				t.Fatalf("receipt %+v, %v", receipt, err)
			}
			if c.lost.Load() != 1 || r.Retries().Unknown != 1 {
				t.Fatalf("lost %d, repeated %d: nothing was tested", c.lost.Load(), r.Retries().Unknown)
			}
		})
	}
}

// TestLost_G13_AnswerToTheCommitOfAPublication: the server is asked what became of the
// transaction, so the publisher gets the true answer.
func TestLost_G13_AnswerToTheCommitOfAPublication(t *testing.T) {
	d := small(t)
	dsn := url(t, d.name, "aip_control")
	c := newCutter(t, hostOf(t, dsn))
	r := d.open(t, postgres.Config{ControlURL: c.through(t, dsn), Connections: 1})
	// Every answer of the publication is lost in turn, until one run loses none.
	before := d.revision(t)
	ended := map[string]int{}
	for n := uint64(1); ; n++ {
		lostBefore := c.lost.Load()
		set := registry.ChangeSet{Actor: "test", Reason: "test", Bindings: []fleet.CapabilityBinding{binding(0, n+1, true)}}
		revision := d.revision(t)
		c.skip.Store(int32(n) - 1)
		c.armed.Store(loseAnswer)
		p, err := r.Apply(t.Context(), set, revision)
		c.armed.Store(loseNothing)
		c.skip.Store(0)
		moved := d.revision(t) == revision+1
		switch {
		case err == nil && !moved, err == nil && p.After != revision+1:
			t.Fatalf("answer %d lost: it said %+v, and the revision did not move", n, p)
		case err != nil && moved && !fleet.Is(err, fleet.Unknown):
			t.Fatalf("answer %d lost: it said %v, and the revision moved", n, err)
		case err == nil:
			ended["published"]++
		default:
			ended[fleet.KindOf(err).String()]++
		}
		if c.lost.Load() == lostBefore {
			break
		}
		if n > 200 {
			t.Fatal("a publication has more than 200 answers")
		}
	}
	if r.Retries().Unknown == 0 || ended["unavailable"] == 0 || ended["published"] < 2 {
		t.Errorf("ends %v, asked for the fate %d times: the commit's answer was not among the lost", ended, r.Retries().Unknown)
	}
	t.Logf("from revision %d: %v, fate asked %d times", before, ended, r.Retries().Unknown)
}

// TestCancelled_G39_ResolveTellsTheTruth: the caller gives up at some point of the
// call. Whatever it is told, the registry holds nothing that was denied.
func TestCancelled_G39_ResolveTellsTheTruth(t *testing.T) {
	d := small(t)
	s := d.begin(t, "aip_data")
	if _, _, err := d.data.ResolveIn(t.Context(), s.tx, request("one", 0)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := d.data.Resolve(ctx, request("one", 0))
		done <- err
	}()
	if !d.waits(t, s, nil) {
		t.Fatal("the second resolve did not wait")
	}
	cancel()
	s.end(t, false)
	select {
	case err := <-done:
		_, lookup := d.data.Lookup(t.Context(), tenantID(0), actionID("one"))
		if err == nil != (lookup == nil) && !fleet.Is(err, fleet.Unknown) {
			t.Errorf("resolve said %v, the lookup %v", err, lookup)
		}
	case <-time.After(patience):
		t.Fatal("a cancelled resolve did not return")
	}
}
