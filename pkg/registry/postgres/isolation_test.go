package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// Each case holds one session in the middle of its transaction, starts another, sees
// whether it waits, ends the first one way or the other, and looks at both answers.

// session is a transaction that the test holds open, as one role.
type session struct {
	pid int32
	tx  pgx.Tx
}

func (d *database) begin(t *testing.T, role string) session {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url(t, d.name, role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, s := range []string{"SET idle_in_transaction_session_timeout = 0", "SET lock_timeout = '1min'", "SET statement_timeout = '1min'"} {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return session{int32(conn.PgConn().PID()), tx}
}

func (s session) end(t *testing.T, commit bool) {
	t.Helper()
	end := s.tx.Rollback
	if commit {
		end = s.tx.Commit
	}
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// patience ends a test that waits for what never comes: long, since machines are busy.
const patience = time.Minute

// waits returns once some other session waits for a lock that s holds; false when the
// other one was done without waiting.
func (d *database) waits(t *testing.T, s session, done <-chan struct{}) bool {
	t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		select {
		case <-done:
			return false
		default:
		}
		var blocked bool
		err := d.admin.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND $1::integer = ANY (pg_blocking_pids(pid)))`, s.pid).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
		if blocked {
			return true
		}
	}
	t.Fatal("the other session neither waited nor finished")
	return false
}

// against runs the other session while s is open, then ends s.
func (d *database) against(t *testing.T, s session, commit bool, other func(ctx context.Context)) (waited bool) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		other(t.Context())
	}()
	waited = d.waits(t, s, done)
	s.end(t, commit)
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("the other session did not finish after the first had ended")
	}
	return waited
}

func bothEnds(t *testing.T, run func(t *testing.T, commit bool)) {
	t.Run("first commits", func(t *testing.T) { run(t, true) })
	t.Run("first rolls back", func(t *testing.T) { run(t, false) })
}

func small(t *testing.T) *database {
	d := lent(t)
	d.build(t, shape{tenants: 1, replicas: 2, capacity: 4})
	t.Cleanup(func() { d.audit(t) })
	return d
}

// TestIsolation_G01_ResolveAgainstResolve: the second waits for the first's action and
// then sees its route, or decides anew when there is none.
func TestIsolation_G01_ResolveAgainstResolve(t *testing.T) {
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		s := d.begin(t, "aip_data")
		_, first, err := d.data.ResolveIn(t.Context(), s.tx, request("one", 0))
		if err != nil {
			t.Fatal(err)
		}
		var second fleet.Assignment
		waited := d.against(t, s, commit, func(ctx context.Context) { second, err = d.data.Resolve(ctx, request("one", 0)) })
		if err != nil || !waited {
			t.Fatalf("waited %v, answered %v", waited, err)
		}
		if same := second.Attempt.Fence == first.Attempt.Fence; same != commit {
			t.Errorf("the second got the first's reservation: %v", same)
		}
	})
}

// TestIsolation_G17_ResolveAgainstPublish: a publication that returned has no route of
// the older revision committing after it.
func TestIsolation_G17_ResolveAgainstPublish(t *testing.T) {
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		s := d.begin(t, "aip_data")
		status, _, err := d.data.ResolveIn(t.Context(), s.tx, request("one", 0))
		if err != nil || status != "assigned" {
			t.Fatal(status, err)
		}
		revision := d.revision(t)
		var p registry.Publication
		set := registry.ChangeSet{Actor: "test", Reason: "test", Bindings: []fleet.CapabilityBinding{binding(0, 2, false)}}
		waited := d.against(t, s, commit, func(ctx context.Context) { p, err = d.control.Apply(ctx, set, revision) })
		if err != nil || !waited || p.After != revision+1 {
			t.Fatalf("waited %v, published %+v, %v", waited, p, err)
		}
		if _, err := d.data.Resolve(t.Context(), request("two", 0)); !fleet.Is(err, fleet.BindingUnavailable) {
			t.Errorf("after the publication a new route gave %v", err)
		}
	})
}

// TestIsolation_G17_PublishAgainstResolve: who asks while a publication commits
// decides by the new revision.
func TestIsolation_G17_PublishAgainstResolve(t *testing.T) {
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		s := d.begin(t, "aip_control")
		for _, statement := range []string{
			"UPDATE aip.binding SET enabled = false", "SELECT aip.rebuild_candidates(ARRAY(SELECT id FROM aip.connector_instance))",
			postgres.LockPublication, "UPDATE aip.catalog_revision SET revision = revision + 1",
		} {
			if _, err := s.tx.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		waited := d.against(t, s, commit, func(ctx context.Context) { _, err = d.data.Resolve(ctx, request("one", 0)) })
		if !waited || commit != fleet.Is(err, fleet.BindingUnavailable) || !commit && err != nil {
			t.Errorf("waited %v, answered %v", waited, err)
		}
	})
}

// TestIsolation_G17_PublisherDoesNotStallRouting: everything but the last step of a
// publication runs beside new routes.
func TestIsolation_G17_PublisherDoesNotStallRouting(t *testing.T) {
	d := small(t)
	s := d.begin(t, "aip_control")
	for _, statement := range []string{
		"SELECT pg_advisory_xact_lock(4871, 2)", "UPDATE aip.binding SET priority = 9, policy_revision = 2",
		"SELECT aip.rebuild_candidates(ARRAY(SELECT id FROM aip.connector_instance))",
	} {
		if _, err := s.tx.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	var a fleet.Assignment
	var err error
	waited := d.against(t, s, false, func(ctx context.Context) { a, err = d.data.Resolve(ctx, request("one", 0)) })
	if err != nil || waited || a.Route.OrderingKeys.Priority != 1 {
		t.Errorf("waited %v, answered %v with priority %d", waited, err, a.Route.OrderingKeys.Priority)
	}
}

// TestIsolation_G14_CatalogReadsAgainstAPublication: a read does not wait for a
// publication that is being written, and shows the revision before it whole; after it
// has returned, the new one.
func TestIsolation_G14_CatalogReadsAgainstAPublication(t *testing.T) {
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		before := d.revision(t)
		s := d.revoking(t)
		var one registry.Listing
		var page registry.CatalogPage
		var err error
		waited := d.against(t, s, commit, func(ctx context.Context) {
			if one, err = d.data.Get(ctx, tenantID(0), capabilityID()); err == nil {
				page, err = d.data.Query(ctx, tenantID(0), registry.CatalogQuery{Limit: 10})
			}
		})
		if err != nil || waited || one.Revision != before || page.Revision != before || len(page.Items) != 1 || one.Definition.ID != capabilityID() {
			t.Errorf("waited %v, got %+v and %+v, %v", waited, one, page, err)
		}
		one, err = d.data.Get(t.Context(), tenantID(0), capabilityID())
		if commit != fleet.Is(err, fleet.NotFound) || !commit && (err != nil || one.Revision != before) {
			t.Errorf("after its end: %+v %v", one, err)
		}
		page, err = d.data.Query(t.Context(), tenantID(0), registry.CatalogQuery{Limit: 10})
		if err != nil || commit != (page.Revision == before+1) || commit != (len(page.Items) == 0) {
			t.Errorf("after its end: %+v %v", page, err)
		}
	})
}

// TestIsolation_G07_SettleAgainstSettle: one is the first, the other reports it.
func TestIsolation_G07_SettleAgainstSettle(t *testing.T) {
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		a := d.resolve(t, "one", 0)
		s := d.begin(t, "aip_data")
		if status, err := d.data.SettleIn(t.Context(), s.tx, a, fleet.Settlement{Outcome: fleet.OutcomeCompleted}); err != nil || status != "settled" {
			t.Fatal(status, err)
		}
		var receipt registry.Receipt
		var err error
		waited := d.against(t, s, commit, func(ctx context.Context) {
			receipt, err = d.data.Settle(ctx, a, fleet.Settlement{Outcome: fleet.OutcomeCancelled})
		})
		if err != nil || !waited || receipt.First == commit {
			t.Fatalf("waited %v, receipt %+v, %v", waited, receipt, err)
		}
		want := map[bool]fleet.Outcome{true: fleet.OutcomeCompleted, false: fleet.OutcomeCancelled}[commit]
		if receipt.Settlement.Outcome != want {
			t.Errorf("settled as %s, want %s", receipt.Settlement.Outcome, want)
		}
	})
}

// TestIsolation_G06_SettleAgainstResolveAgain: a retry that waits for the settlement
// gets a new fence, never the old one.
func TestIsolation_G06_SettleAgainstResolveAgain(t *testing.T) {
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		a := d.resolve(t, "one", 0)
		s := d.begin(t, "aip_data")
		if _, err := d.data.SettleIn(t.Context(), s.tx, a, fleet.Settlement{Outcome: fleet.OutcomeCancelled}); err != nil {
			t.Fatal(err)
		}
		var again fleet.Assignment
		var err error
		waited := d.against(t, s, commit, func(ctx context.Context) { again, err = d.data.Resolve(ctx, request("one", 0)) })
		want := map[bool]uint64{true: 2, false: 1}[commit]
		if err != nil || !waited || again.Attempt.Fence.Number != want || again.Route != a.Route {
			t.Errorf("waited %v, fence %d, %v", waited, again.Attempt.Fence.Number, err)
		}
	})
}

// TestIsolation_G12_ResolveAgainstExpire: maintenance does not wait for a replica that
// a new route holds, and the route it did not see is not lost.
func TestIsolation_G12_ResolveAgainstExpire(t *testing.T) {
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		s := d.begin(t, "aip_data")
		_, first, err := d.data.ResolveIn(t.Context(), s.tx, request("one", 0))
		if err != nil {
			t.Fatal(err)
		}
		d.setNow(t, time.Now().Add(time.Hour))
		var done registry.Expiry
		waited := d.against(t, s, commit, func(ctx context.Context) { done, err = d.data.Expire(ctx, 10) })
		if err != nil || waited || done.Offline != 1 {
			t.Fatalf("waited %v, %+v, %v: the held replica %s must be left for the next pass", waited, done, err, first.Route.Replica)
		}
		done, err = d.data.Expire(t.Context(), 10)
		if want := map[bool]int{true: 1, false: 0}[commit]; err != nil || done.Offline != 1 || done.Expired != want {
			t.Errorf("the next pass did %+v, %v", done, err)
		}
	})
}

// TestIsolation_G12_SettleAgainstExpire: both release at most once between them.
func TestIsolation_G12_SettleAgainstExpire(t *testing.T) {
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		a := d.resolve(t, "one", 0)
		d.setNow(t, time.Now().Add(time.Hour))
		s := d.begin(t, "aip_data")
		if _, err := d.data.SettleIn(t.Context(), s.tx, a, fleet.Settlement{Outcome: fleet.OutcomeCompleted}); err != nil {
			t.Fatal(err)
		}
		var done registry.Expiry
		var err error
		waited := d.against(t, s, commit, func(ctx context.Context) { done, err = d.data.Expire(ctx, 10) })
		if want := map[bool]int{true: 0, false: 1}[commit]; err != nil || !waited || done.Expired != want {
			t.Errorf("waited %v, %+v, %v", waited, done, err)
		}
	})
}

// TestIsolation_G22_BeatAgainstExpire: a lease that a beat is prolonging is not ended
// under it, and one that was ended does not come back.
func TestIsolation_G22_BeatAgainstExpire(t *testing.T) {
	d := small(t)
	now := time.Now().Add(time.Second)
	d.setNow(t, now)
	s := d.begin(t, "aip_lifecycle")
	var status string
	err := s.tx.QueryRow(t.Context(), "SELECT o_status FROM aip.renew($1, $2, 1, 2, 0, true, false, 300000000)",
		replicaID(0, 0).String(), did(0, 0)).Scan(&status)
	if err != nil || status != "ready" {
		t.Fatal(status, err)
	}
	d.setNow(t, now.Add(registry.MaxLeaseTTL-time.Millisecond)) // the other lease ends, the prolonged one does not
	var done registry.Expiry
	if waited := d.against(t, s, true, func(ctx context.Context) { done, err = d.data.Expire(ctx, 10) }); err != nil || waited || done.Offline != 1 {
		t.Fatalf("waited %v, %+v, %v", waited, done, err)
	}
	beat := registry.Beat{Replica: replicaID(0, 1), PeerDID: did(0, 1), Epoch: 1, Sequence: 9, Ready: true}
	if _, err := d.lifecycle.Renew(t.Context(), beat); fleet.CodeOf(err) != "lease.offline" {
		t.Errorf("a beat of the ended lease gave %v", err)
	}
}

// TestIsolation_G23_DrainAgainstResolve: an intent that waits for a reservation acts
// on the very next one.
func TestIsolation_G23_DrainAgainstResolve(t *testing.T) {
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		s := d.begin(t, "aip_data")
		_, first, err := d.data.ResolveIn(t.Context(), s.tx, request("one", 0))
		if err != nil {
			t.Fatal(err)
		}
		intent := registry.Intent{Replica: first.Route.Replica, Want: fleet.IntentDrain, Actor: "test", Reason: "test"}
		waited := d.against(t, s, commit, func(ctx context.Context) { _, err = d.control.Intend(ctx, intent) })
		if err != nil || !waited {
			t.Fatalf("waited %v, %v", waited, err)
		}
		for n := range 4 {
			if a := d.resolve(t, "after"+string(rune('a'+n)), 0); a.Route.Replica == first.Route.Replica {
				t.Errorf("a new route went to the draining replica")
			}
		}
	})
}

// TestIsolation_G22_RegisterAgainstRegister: the second process of one identity waits
// and is then told that the lease is held.
func TestIsolation_G22_RegisterAgainstRegister(t *testing.T) {
	d := small(t)
	s := d.begin(t, "aip_lifecycle")
	if _, err := s.tx.Exec(t.Context(), "SELECT FROM aip.replica_live WHERE replica_id = $1 FOR NO KEY UPDATE", replicaID(0, 0).String()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.tx.Exec(t.Context(), "UPDATE aip.replica_live SET lease_epoch = 2 WHERE replica_id = $1", replicaID(0, 0).String()); err != nil {
		t.Fatal(err)
	}
	again := registration(0, 0, "msg_again")
	again.LastEpoch = 1
	var err error
	waited := d.against(t, s, true, func(ctx context.Context) { _, err = d.lifecycle.Register(ctx, again) })
	if !waited || fleet.CodeOf(err) != "lease.held" {
		t.Errorf("waited %v, answered %v", waited, err)
	}
}
