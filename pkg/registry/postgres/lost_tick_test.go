package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// TestLostShared_G07_SettledThenReservedAgain: the answer to a tick that settled is lost,
// and before its caller can ask again the action is reserved under the next fence. That the
// fence is lost now does not mean that it was lost then: the caller is told its settlement.
func TestLostShared_G07_SettledThenReservedAgain(t *testing.T) {
	t.Parallel()
	s := newSharing(t)
	a := s.resolve(t, "one", 0)
	var again fleet.Assignment
	s.proxy.Arm(pgclustertest.AfterCommit, func(int) { again = s.resolve(t, "one", 0) })
	receipt, err := s.shared.Settle(t.Context(), a, fleet.Settlement{Outcome: fleet.OutcomeCancelled, Code: "x"})
	if s.proxy.Cuts() != 1 || again.Attempt.Fence.Number != 2 {
		t.Fatalf("%d commits were cut, the next fence is %d: nothing was tested", s.proxy.Cuts(), again.Attempt.Fence.Number)
	}
	if err != nil || receipt.Settlement.Outcome != fleet.OutcomeCancelled || receipt.Settlement.Code != "x" {
		t.Errorf("receipt %+v, %v", receipt, err)
	}
	s.settle(t, again)
	s.quiet(t)
}

// TestLostShared_G39_ATickThatStillWaits: the connection of a tick is lost while the tick
// waits for its first action on the server, and goes on there. Nobody may be told that
// nothing happened before the tick has ended: it holds none of the later actions yet.
func TestLostShared_G39_ATickThatStillWaits(t *testing.T) {
	t.Parallel()
	s := newSharing(t)
	names := s.inLockOrder(t, 3) // their rows fit the server's buffer: it commits before it sees that nobody listens
	errs := make([]error, len(names))
	told := make([]fleet.Assignment, len(names))
	var calls []func()
	answered := make(chan struct{}, len(names))
	for n, name := range names {
		calls = append(calls, func() {
			told[n], errs[n] = s.shared.Resolve(t.Context(), request(name, 0))
			answered <- struct{}{}
		})
	}
	held := s.lock(t, names[0])
	wait := s.inOneTick(t, calls, func() {})
	s.waits(t, held, nil)
	s.proxy.Sever()
	seen := 0 // somebody else waits for the tick; give the others time to be answered too early
	until(t, "the callers wait for the tick, or do not", func() bool {
		var waiting int
		err := s.admin.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
			WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		if waiting > 1 {
			seen++
		}
		return len(answered) >= len(names)-1 || seen >= 100
	})
	held.end(t, false)
	wait()
	for n, name := range names {
		stored, missing := s.data.Lookup(t.Context(), tenantID(0), actionID(name))
		truthful(t, errs[n], missing == nil, errs[n] == nil && missing == nil && stored.Current().Fence == told[n].Attempt.Fence)
		if missing == nil {
			s.settle(t, stored.Assignment())
		}
	}
	if n := s.shared.Retries(); n.Unknown == 0 {
		t.Errorf("%+v: no commit was in doubt", n)
	}
	s.quiet(t)
}

// inLockOrder names actions in the order in which a tick locks them.
func (d *database) inLockOrder(t *testing.T, n int) (names []string) {
	t.Helper()
	rows, err := d.admin.Query(t.Context(), "SELECT 'n' || n FROM generate_series(1, $1::integer) n ORDER BY hashtextextended('act_n' || n, 0)", n)
	if err == nil {
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestLost_G39_ReservedAndOverBeforeItWasLookedFor: the answer to a resolve is lost, and
// before its caller looks for it the reservation has ended, with or without a newer one. It
// happened, so it must not be denied; it is over, so it must not be handed out.
func TestLost_G39_ReservedAndOverBeforeItWasLookedFor(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"reserved again": true, "only ended": false} {
		t.Run(name, func(t *testing.T) {
			s := newSharing(t)
			r := s.open(t, postgres.Config{DataURL: s.proxy.DSN(), Connections: 4})
			s.proxy.Arm(pgclustertest.AfterCommit, func(int) {
				first := s.resolve(t, "one", 0)
				if _, err := s.data.Settle(t.Context(), first, fleet.Settlement{Outcome: fleet.OutcomeCancelled}); err != nil {
					t.Error(err)
				}
				if again {
					s.resolve(t, "one", 0)
				}
			})
			told, err := r.Resolve(t.Context(), request("one", 0))
			if s.proxy.Cuts() != 1 || r.Retries().Unknown != 1 {
				t.Fatalf("%d commits were cut, the fate was read %d times: nothing was tested", s.proxy.Cuts(), r.Retries().Unknown)
			}
			if !fleet.Is(err, fleet.Unknown) {
				t.Errorf("it was told fence %d, %v", told.Attempt.Fence.Number, err)
			}
			s.audit(t)
		})
	}
}
