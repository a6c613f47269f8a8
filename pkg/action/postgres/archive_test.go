package postgres_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/action/postgres"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// routeOf writes a route for an action: only that it is there matters here.
func routeOf(s action.Submission) string {
	return fmt.Sprintf(`INSERT INTO aip.route SELECT '%s', '%s', '%s', 'cinst_x', 'crepl_x', 'https://x.example', 'r', 'z', 'c', 'p', 'service',
		'did', 'd', 'aip-http/1', 'cver_x', 'm', 'a', 1, 1, '', '', 0, 0, true, true, 0, aip.clock()`, s.ID, s.Capability, s.Tenant)
}

func endedAction(t *testing.T, store *postgres.Store, name string) action.Record {
	t.Helper()
	id, err := fleet.ParseActionID("act_" + name)
	if err != nil {
		t.Fatal(err)
	}
	tenant, err := fleet.ParseTenantID("acme")
	if err != nil {
		t.Fatal(err)
	}
	capability, err := fleet.ParseCapabilityID("desk:open")
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := store.Submit(t.Context(), action.Submission{
		ID: id, Tenant: tenant, Capability: capability, Principal: "alice", Owner: "owner-1", Input: json.RawMessage(`{"canary":"secret-input"}`),
		Mode: "sync", Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	next, err := r.Finish(action.Completed, []byte(`{"canary":"secret-result"}`), fleet.Digest{}, true)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = store.Advance(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestArchive_G38_NothingInQuestionIsArchived: what the registry still holds or asks about
// keeps its action, whatever the action's own state says; afterwards nothing of input and
// result is left.
func TestArchive_G38_NothingInQuestionIsArchived(t *testing.T) {
	pool, admin := open(t)
	store := postgres.New(pool, time.Now)
	reserved, asked, free := endedAction(t, store, "reserved"), endedAction(t, store, "asked"), endedAction(t, store, "free")
	exec(t, admin, "UPDATE aip.action_state SET updated_at = updated_at - interval '2 hours'")
	exec(t, admin, "INSERT INTO aip.reservation VALUES ('act_reserved', 1, 'crepl_x', 1, aip.clock())")
	exec(t, admin, `INSERT INTO aip.reconciliation (action_id, fence, tenant_id, capability_id, instance_id, replica_id, state, cause, opened_at, next_probe_at)
		VALUES ('act_asked', 1, 'acme', 'desk:open', 'cinst_x', 'crepl_x', 'operator', 'test', aip.clock(), aip.clock())`)
	if n, led, err := store.Archive(t.Context(), time.Hour, 10); n != 1 || !led || err != nil {
		t.Fatalf("archived %d, led %v, %v", n, led, err)
	}
	if _, err := store.Get(t.Context(), free.Tenant, free.ID); fleet.CodeOf(err) != action.CodeArchived {
		t.Errorf("the free one: %v", err)
	}
	for _, r := range []action.Record{reserved, asked} {
		if _, err := store.Get(t.Context(), r.Tenant, r.ID); err != nil {
			t.Errorf("%s: %v", r.ID, err)
		}
	}
	exec(t, admin, "DELETE FROM aip.reservation")
	exec(t, admin, "UPDATE aip.reconciliation SET state = 'resolved'")
	if n, _, err := store.Archive(t.Context(), time.Hour, 10); n != 2 || err != nil {
		t.Errorf("archived %d, %v", n, err)
	}
	conn, err := pgx.Connect(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var left, verdicts int
	err = conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM aip.action WHERE length(input) > 0) + (SELECT count(*) FROM aip.action_result)
		+ (SELECT count(*) FROM aip.action_state), (SELECT count(*) FROM aip.action_archive WHERE result_digest LIKE 'sha256:%' AND told_at IS NOT NULL)`).
		Scan(&left, &verdicts)
	if err != nil || left != 0 || verdicts != 3 {
		t.Errorf("%d rows of content are left, %d verdicts, %v", left, verdicts, err)
	}
}

// TestArchive_G44_ARepeatRacesWithTheEnd: submissions of an action that is being archived
// get its record or hear that it is archived; none of them makes it new.
func TestArchive_G44_ARepeatRacesWithTheEnd(t *testing.T) {
	pool, admin := open(t)
	store := postgres.New(pool, time.Now)
	for round := range 10 {
		r := endedAction(t, store, fmt.Sprint("race", round))
		exec(t, admin, "UPDATE aip.action_state SET updated_at = updated_at - interval '2 hours'")
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				for range 20 {
					got, created, err := store.Submit(t.Context(), r.Submission)
					if created || err == nil && got.State != action.Completed || err != nil && fleet.CodeOf(err) != action.CodeArchived {
						t.Errorf("created %v in state %s, %v", created, got.State, err)
					}
				}
			})
		}
		callers.Go(func() {
			if _, _, err := store.Archive(t.Context(), time.Hour, 10); err != nil {
				t.Error(err)
			}
		})
		callers.Wait()
		if _, err := store.Get(t.Context(), r.Tenant, r.ID); fleet.CodeOf(err) != action.CodeArchived {
			t.Errorf("not archived: %v", err)
		}
	}
}
