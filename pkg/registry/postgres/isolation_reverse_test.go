package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// The other orders of the pairs: maintenance, publications and operators hold, routing
// waits.

// released is an action whose first attempt was cancelled.
func (d *database) released(t *testing.T, action string) fleet.Assignment {
	t.Helper()
	a := d.resolve(t, action, 0)
	if _, err := d.data.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeCancelled}); err != nil {
		t.Fatal(err)
	}
	return a
}

func (s session) exec(t *testing.T, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := s.tx.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// revoking holds a revocation open just before it commits.
func (d *database) revoking(t *testing.T) session {
	t.Helper()
	s := d.begin(t, "aip_control")
	s.exec(t, "UPDATE aip.version_status SET status = 'revoked'", "SELECT aip.rebuild_candidates(ARRAY(SELECT id FROM aip.connector_instance))",
		postgres.LockPublication, "UPDATE aip.catalog_revision SET revision = revision + 1")
	return s
}

// TestIsolation_G17_ResolveAgainstRevoke: a revocation waits for the route that is
// being made, and after it returned nothing is handed out on the version, not even that.
func TestIsolation_G17_ResolveAgainstRevoke(t *testing.T) {
	t.Parallel()
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		s := d.begin(t, "aip_data")
		if status, _, err := d.data.ResolveIn(t.Context(), s.tx, request("one", 0)); err != nil || status != "assigned" {
			t.Fatal(status, err)
		}
		var err error
		move := registry.VersionTransition{Version: versionID(), To: fleet.VersionRevoked, Actor: "test", Reason: "test"}
		waited := d.against(t, s, commit, func(ctx context.Context) { _, err = d.control.Transition(ctx, move) })
		if err != nil || !waited {
			t.Fatalf("waited %v, %v", waited, err)
		}
		_, err = d.data.Resolve(t.Context(), request("one", 0))
		want := map[bool]fleet.Kind{true: fleet.ReplicaUnavailable, false: fleet.BindingUnavailable}[commit]
		if !fleet.Is(err, want) {
			t.Errorf("after the revocation the action got %v, want %s", err, want)
		}
		if _, err := d.data.Resolve(t.Context(), request("two", 0)); !fleet.Is(err, fleet.BindingUnavailable) {
			t.Errorf("after the revocation a new action got %v", err)
		}
	})
}

// TestIsolation_G17_RevokeAgainstResolve: who asks while a revocation commits, for a
// new route or for a retry, decides by the new state.
func TestIsolation_G17_RevokeAgainstResolve(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action string
		kind   fleet.Kind
	}{{"new", fleet.BindingUnavailable}, {"pinned", fleet.ReplicaUnavailable}} {
		t.Run(c.action, func(t *testing.T) {
			bothEnds(t, func(t *testing.T, commit bool) {
				d := small(t)
				d.released(t, "pinned")
				s := d.revoking(t)
				var err error
				waited := d.against(t, s, commit, func(ctx context.Context) { _, err = d.data.Resolve(ctx, request(c.action, 0)) })
				if !waited || commit != fleet.Is(err, c.kind) || !commit && err != nil {
					t.Errorf("waited %v, answered %v", waited, err)
				}
			})
		})
	}
}

// TestIsolation_G12_ExpireAgainstResolve: a retry waits for maintenance to end the
// reservation and never returns the one that ended.
func TestIsolation_G12_ExpireAgainstResolve(t *testing.T) {
	t.Parallel()
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		d.resolve(t, "one", 0)
		d.setNow(t, time.Now().Add(time.Hour))
		s := d.begin(t, "aip_data")
		s.exec(t, "SELECT aip.expire_attempts(10, false)")
		var err error
		waited := d.against(t, s, commit, func(ctx context.Context) { _, err = d.data.Resolve(ctx, request("one", 0)) })
		if !waited || !fleet.Is(err, fleet.ReplicaUnavailable) {
			t.Fatalf("waited %v, %v", waited, err)
		}
		record, err := d.data.Lookup(t.Context(), tenantID(0), actionID("one"))
		if err != nil || len(record.Attempts) != 1 || record.Current().Settlement == nil || record.Current().Settlement.Outcome != fleet.OutcomeLeaseExpired {
			t.Errorf("the attempt is %+v, %v", record.Current(), err)
		}
	})
}

// TestIsolation_G12_MarkOfflineAgainstRetry: a retry waits for the replica that is
// being marked and reads its lease afterwards.
func TestIsolation_G12_MarkOfflineAgainstRetry(t *testing.T) {
	t.Parallel()
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		d.released(t, "one")
		d.setNow(t, time.Now().Add(time.Hour))
		s := d.begin(t, "aip_data")
		s.exec(t, "SELECT aip.mark_offline(10)")
		var err error
		waited := d.against(t, s, commit, func(ctx context.Context) { _, err = d.data.Resolve(ctx, request("one", 0)) })
		if !waited || fleet.CodeOf(err) != "resolve.pinned_unavailable" {
			t.Errorf("waited %v, %v", waited, err)
		}
	})
}

// TestIsolation_G12_ExpireAgainstSettle: a late answer waits for maintenance, and is
// the first only when maintenance did not end the attempt.
func TestIsolation_G12_ExpireAgainstSettle(t *testing.T) {
	t.Parallel()
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		a := d.resolve(t, "one", 0)
		d.setNow(t, time.Now().Add(time.Hour))
		s := d.begin(t, "aip_data")
		s.exec(t, "SELECT aip.expire_attempts(10, false)")
		var receipt registry.Receipt
		var err error
		waited := d.against(t, s, commit, func(ctx context.Context) {
			receipt, err = d.data.Settle(ctx, a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
		})
		want := map[bool]fleet.Outcome{true: fleet.OutcomeLeaseExpired, false: fleet.OutcomeCompleted}[commit]
		if err != nil || !waited || receipt.First == commit || receipt.Settlement.Outcome != want {
			t.Errorf("waited %v, %+v, %v", waited, receipt, err)
		}
	})
}

// TestIsolation_G22_ExpireAgainstBeat: a beat that waits for maintenance does not bring
// the ended lease back.
func TestIsolation_G22_ExpireAgainstBeat(t *testing.T) {
	t.Parallel()
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		d.setNow(t, time.Now().Add(time.Hour))
		s := d.begin(t, "aip_data")
		s.exec(t, "SELECT aip.mark_offline(10)")
		beat := registry.Beat{Replica: replicaID(0, 0), PeerDID: did(0, 0), Epoch: 1, Sequence: 9, Ready: true, TTL: registry.MaxLeaseTTL}
		var err error
		d.against(t, s, commit, func(ctx context.Context) { _, err = d.lifecycle.Renew(ctx, beat) })
		if !fleet.Is(err, fleet.LeaseLost) {
			t.Errorf("the beat gave %v", err)
		}
	})
}

// TestIsolation_G23_IntendAgainstResolve: a new route passes over the replica that is
// being drained while there is another, and waits for the intent when there is none.
func TestIsolation_G23_IntendAgainstResolve(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{2, 1} {
		t.Run(fmt.Sprintf("%d replicas", replicas), func(t *testing.T) {
			bothEnds(t, func(t *testing.T, commit bool) {
				d := fresh(t, pgx.QueryExecModeCacheStatement)
				d.build(t, shape{tenants: 1, replicas: replicas, capacity: 4})
				s := d.begin(t, "aip_control")
				s.exec(t, fmt.Sprintf("SELECT aip.set_intent('%s', 'drain', false)", replicaID(0, 0)))
				var a fleet.Assignment
				var err error
				waited := d.against(t, s, commit, func(ctx context.Context) { a, err = d.data.Resolve(ctx, request("one", 0)) })
				switch {
				case replicas == 2 && (waited || err != nil || a.Route.Replica == replicaID(0, 0)):
					t.Errorf("waited %v, %s, %v", waited, a.Route.Replica, err)
				case replicas == 1 && (!waited || commit != fleet.Is(err, fleet.ReplicaUnavailable) || !commit && err != nil):
					t.Errorf("waited %v, %v", waited, err)
				}
				d.audit(t)
			})
		})
	}
}

// TestIsolation_G06_ResolveAgainAgainstSettle: a settlement of the older fence waits
// for the retry and is then refused, or finds itself when the retry was undone.
func TestIsolation_G06_ResolveAgainAgainstSettle(t *testing.T) {
	t.Parallel()
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		old := d.released(t, "one")
		s := d.begin(t, "aip_data")
		if status, a, err := d.data.ResolveIn(t.Context(), s.tx, request("one", 0)); err != nil || status != "assigned" || a.Attempt.Fence.Number != 2 {
			t.Fatal(status, a.Attempt.Fence.Number, err)
		}
		var receipt registry.Receipt
		var err error
		waited := d.against(t, s, commit, func(ctx context.Context) {
			receipt, err = d.data.Settle(ctx, old, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
		})
		if !waited || commit != fleet.Is(err, fleet.FenceLost) || !commit && (err != nil || receipt.First || receipt.Settlement.Outcome != fleet.OutcomeCancelled) {
			t.Errorf("waited %v, %+v, %v", waited, receipt, err)
		}
	})
}

// TestIsolation_G06_ThreeSessions: a retry and a second settlement both wait for the
// first settlement. Whichever goes on first, no fence is settled twice and none is
// skipped.
func TestIsolation_G06_ThreeSessions(t *testing.T) {
	t.Parallel()
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		a := d.resolve(t, "one", 0)
		s := d.begin(t, "aip_data")
		if _, err := d.data.SettleIn(t.Context(), s.tx, a, fleet.Settlement{Outcome: fleet.OutcomeCancelled}); err != nil {
			t.Fatal(err)
		}
		third := make(chan error, 1)
		var receipt registry.Receipt
		go func() {
			var err error
			receipt, err = d.data.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeUnknown})
			third <- err
		}()
		if !d.waits(t, s, nil) {
			t.Fatal("the second settlement did not wait")
		}
		var again fleet.Assignment
		var err error
		waited := d.against(t, s, commit, func(ctx context.Context) { again, err = d.data.Resolve(ctx, request("one", 0)) })
		settled := <-third
		record, missing := d.data.Lookup(t.Context(), tenantID(0), actionID("one"))
		if err != nil || !waited || missing != nil || record.Route != a.Route {
			t.Fatalf("waited %v, %v, %v", waited, err, missing)
		}
		lost := fleet.Is(settled, fleet.FenceLost)
		switch {
		case settled != nil && !lost:
			t.Errorf("the second settlement gave %v", settled)
		case commit && (again.Attempt.Fence.Number != 2 || !lost && receipt.First):
			t.Errorf("fence %d, receipt %+v, %v", again.Attempt.Fence.Number, receipt, settled)
		case !commit && (lost || !receipt.First || record.Attempts[0].Settlement.Outcome != fleet.OutcomeUnknown):
			t.Errorf("fence %d, receipt %+v, %v", again.Attempt.Fence.Number, receipt, settled)
		}
	})
}

// TestIsolation_G22_RegisterAgainstRetry: a retry waits for the registration of its
// host and is reserved under the epoch that there is afterwards.
func TestIsolation_G22_RegisterAgainstRetry(t *testing.T) {
	t.Parallel()
	bothEnds(t, func(t *testing.T, commit bool) {
		d := small(t)
		old := d.released(t, "one")
		s := d.begin(t, "aip_lifecycle")
		s.exec(t, fmt.Sprintf("UPDATE aip.replica_live SET lease_epoch = lease_epoch + 1 WHERE replica_id = '%s'", old.Route.Replica))
		var a fleet.Assignment
		var err error
		waited := d.against(t, s, commit, func(ctx context.Context) { a, err = d.data.Resolve(ctx, request("one", 0)) })
		want := map[bool]uint64{true: 2, false: 1}[commit]
		if err != nil || !waited || a.Attempt.LeaseEpoch != want {
			t.Errorf("waited %v, epoch %d, %v", waited, a.Attempt.LeaseEpoch, err)
		}
	})
}
