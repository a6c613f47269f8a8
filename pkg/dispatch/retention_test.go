package dispatch_test

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	actionmemory "github.com/aipfleet/aipfleet/pkg/action/memory"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/retention"
)

// keeper is one whose store's clock can be moved on, driven pass by pass.
func (r *rig) keeper() (k *retention.Keeper, later func(time.Duration)) {
	var offset atomic.Int64
	r.store = actionmemory.New(func() time.Time { return time.Now().Add(time.Duration(offset.Load())) })
	k = retention.New(retention.Config{
		Actions: r.store, Routes: r.reg, Records: r.reg, Host: r.courier(), Keep: time.Hour, Log: slog.New(slog.DiscardHandler),
	})
	return k, func(d time.Duration) { offset.Add(int64(d)) }
}

func (r *rig) pass(k *retention.Keeper, want retention.Pass) {
	r.t.Helper()
	if done, err := k.Pass(r.t.Context()); err != nil || done != want {
		r.t.Fatalf("the pass did %+v, %v, want %+v", done, err, want)
	}
}

// TestRetention_G44_TheHostHearsAndNothingRunsAgain: what is over is archived, its host is
// told until it has heard, and only then gives up what it kept; a repeat never runs.
func TestRetention_G44_TheHostHearsAndNothingRunsAgain(t *testing.T) {
	r := newRig(t)
	k, later := r.keeper()
	e, _ := r.engine("one")
	s := submission(newAction())
	s.IdempotencyKey = "invoice-7"
	r.want(r.submit(e, s), action.Completed)
	r.eventually("it is settled", func() bool { return !r.get(s.ID).Unsettled })
	r.pass(k, retention.Pass{})
	later(time.Hour + time.Minute)
	r.down()
	r.pass(k, retention.Pass{Archived: 1, Untold: 1})
	r.pass(k, retention.Pass{}) // not its turn
	kept, _, err := r.config.Journal.Get(s.ID)
	if err != nil || kept.Settled {
		t.Fatalf("the host heard something while it was away: %+v, %v", kept, err)
	}
	r.up()
	later(3 * time.Minute)
	r.setFront(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusNoContent) })
	r.pass(k, retention.Pass{Untold: 1}) // nobody signed that
	r.setFront(nil)
	later(10 * time.Minute)
	r.pass(k, retention.Pass{Told: 1})
	later(48 * time.Hour)
	r.pass(k, retention.Pass{})
	if kept, _, err = r.config.Journal.Get(s.ID); err != nil || !kept.Settled {
		t.Fatalf("the host did not hear: %+v, %v", kept, err)
	}
	if _, err := e.Submit(t.Context(), s); fleet.CodeOf(err) != action.CodeArchived {
		t.Errorf("the same again: %v", err)
	}
	other := submission(newAction())
	other.IdempotencyKey = s.IdempotencyKey
	if _, err := e.Submit(t.Context(), other); fleet.CodeOf(err) != action.CodeArchived {
		t.Errorf("its key again: %v", err)
	}
	r.wantCalls(s.ID, 1)
	r.wantCalls(other.ID, 0)
	r.audit()
}

// TestRetention_G38_AHostThatDisagreesKeepsItsOwn: what a host does not know the end of it
// does not give up; a host that is retired need not be told.
func TestRetention_G38_AHostThatDisagreesKeepsItsOwn(t *testing.T) {
	r := newRig(t)
	k, later := r.keeper()
	e, _ := r.engine("one")
	s := r.uncertain(e)
	r.product.set(nil)
	got := r.get(s.ID)
	next, err := got.Finish(action.Completed, []byte(`{"status":"completed"}`), fleet.Digest{}, true) // as an operator's decision does
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.Advance(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	r.setFront(func(w http.ResponseWriter, req *http.Request, next http.Handler) { loseAnswer(w, req, next) })
	later(time.Hour + time.Minute)
	r.pass(k, retention.Pass{Archived: 1, Untold: 1})
	later(10 * time.Minute)
	live := r.replica()
	if _, err := r.reg.Leave(t.Context(), registry.Departure{
		Claim:   registry.RequestClaim{ID: "msg_leave", Digest: fleet.DigestBytes([]byte("leave"))},
		Replica: theReplica, PeerDID: live.Peer.DID, Epoch: live.Live.LeaseEpoch, Offline: true,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.reg.Retire(t.Context(), registry.Retirement{Replica: theReplica, Actor: "ann", Reason: "gone"}); err != nil {
		t.Fatal(err)
	}
	r.pass(k, retention.Pass{Told: 1})
}

func (r *rig) replica() registry.ReplicaRecord {
	r.t.Helper()
	all, err := r.reg.List(r.t.Context(), registry.Selection{Noun: registry.Replicas, IDs: []string{theReplica.String()}})
	if err != nil || len(all.Replicas) != 1 {
		r.t.Fatalf("%d replicas, %v", len(all.Replicas), err)
	}
	return all.Replicas[0]
}
