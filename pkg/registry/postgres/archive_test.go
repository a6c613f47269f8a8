package postgres_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

const day = 24 * time.Hour

// aged is a fleet with five archivable routes and one of each kind that must stay.
func aged(t *testing.T) *database {
	t.Helper()
	d := small(t)
	start := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	d.exec(t, "UPDATE aip.replica_live SET lease_expires_at = $1", start.Add(365*day))
	d.setNow(t, start)
	for n := range 5 {
		d.settle(t, d.resolve(t, fmt.Sprintf("old%d", n), 0))
	}
	d.released(t, "held")
	asked := d.resolve(t, "asked", 0)
	if _, err := d.data.Settle(t.Context(), asked, fleet.Settlement{Outcome: fleet.OutcomeUnknown}); err != nil {
		t.Fatal(err)
	}
	d.released(t, "again")
	d.released(t, "retryable")
	d.exec(t, `INSERT INTO aip.action_state (action_id, revision, state, runs, fence, unsettled, cancel_requested, owner, timeout_us,
		deadline, evidence_digest, problem, updated_at) VALUES ('act_retryable', 1, 'retryable', 1, 1, false, false, '', 1, now(), '', '', now())`)
	d.setNow(t, start.Add(9*day))
	again := d.resolve(t, "again", 0) // an old route with a new attempt
	d.settle(t, again)
	d.settle(t, d.resolve(t, "young", 0))
	d.setNow(t, start.Add(10*day))
	d.resolve(t, "held", 0)
	return d
}

// TestArchive_G01_OnlyWhatIsOverAndTheIdStaysTaken: a dry run counts, a run moves just
// those, in bounded batches; a second run finds nothing; the ids stay taken.
func TestArchive_G01_OnlyWhatIsOverAndTheIdStaysTaken(t *testing.T) {
	t.Parallel()
	d := aged(t)
	owner := url(t, d.name, "aip_migrate")
	plan := migrate.ArchivePlan{OlderThan: 5 * day, Batch: 2, DryRun: true}
	kept := map[string]int{"reserved": 1, "uncertain": 1, "unfinished": 1, "recent": 1}
	tried, err := migrate.Archive(t.Context(), owner, plan)
	if err != nil || tried.Archived != 5 || tried.Seen != 9 || tried.Batches != 5 || !maps.Equal(tried.Kept, kept) {
		t.Fatalf("the dry run says %+v, %v", tried, err)
	}
	if s := d.audit(t); len(s.Routes) != 10 {
		t.Fatalf("after a dry run there are %d routes", len(s.Routes))
	}
	plan.DryRun = false
	done, err := migrate.Archive(t.Context(), owner, plan)
	if err != nil || done.Archived != 5 || !maps.Equal(done.Kept, kept) {
		t.Fatalf("it did %+v, %v", done, err)
	}
	again, err := migrate.Archive(t.Context(), owner, plan)
	if err != nil || again.Archived != 0 || again.Seen != 4 {
		t.Errorf("once more it did %+v, %v", again, err)
	}
	if s := d.audit(t); len(s.Routes) != 5 {
		t.Errorf("%d routes are left", len(s.Routes))
	}
	_, err = d.data.Resolve(t.Context(), request("old0", 0))
	if fleet.CodeOf(err) != "route.archived" || !fleet.Is(err, fleet.Conflict) {
		t.Errorf("an archived action id gave %v", err)
	}
	foreign := request("old0", 0)
	foreign.Tenant = tenantID(7)
	if _, err = d.data.Resolve(t.Context(), foreign); !fleet.Is(err, fleet.Conflict) || fleet.CodeOf(err) == "route.archived" {
		t.Errorf("another tenant's request for an archived action id gave %v", err)
	}
	var documents int
	if err := d.admin.QueryRow(t.Context(), `SELECT count(*) FROM aip.archive a JOIN aip.tombstone b USING (action_id)
		WHERE a.document->'route'->>'action_id' = action_id AND json_array_length(a.document->'settlements') = 1`).Scan(&documents); err != nil || documents != 5 {
		t.Errorf("%d documents and tombstones: %v", documents, err)
	}
}

// TestArchive_G12_BusyActionsAreLeft: an action that somebody holds is not waited for.
func TestArchive_G12_BusyActionsAreLeft(t *testing.T) {
	t.Parallel()
	d := aged(t)
	s := d.begin(t, "aip_data")
	if status, _, err := d.data.ResolveIn(t.Context(), s.tx, request("old1", 0)); err != nil || status != "completed" {
		t.Fatal(status, err)
	}
	plan := migrate.ArchivePlan{OlderThan: 5 * day}
	done, err := migrate.Archive(t.Context(), url(t, d.name, "aip_migrate"), plan)
	if err != nil || done.Archived != 4 || done.Kept["busy"] != 1 {
		t.Errorf("it did %+v, %v", done, err)
	}
	s.end(t, true)
	if done, err = migrate.Archive(t.Context(), url(t, d.name, "aip_migrate"), plan); err != nil || done.Archived != 1 {
		t.Errorf("the next run did %+v, %v", done, err)
	}
}

// TestArchive_G20_OnlyTheOwnerMay: no daemon's role can archive, by the command or by
// the function, and plans out of bounds are refused.
func TestArchive_G20_OnlyTheOwnerMay(t *testing.T) {
	t.Parallel()
	d := aged(t)
	for _, role := range []string{"aip_control", "aip_data", "aip_lifecycle", "aip_readonly"} {
		if _, err := migrate.Archive(t.Context(), url(t, d.name, role), migrate.ArchivePlan{OlderThan: 5 * day}); err == nil {
			t.Errorf("%s archived", role)
		}
		conn, err := pgx.Connect(t.Context(), url(t, d.name, role))
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{
			"SELECT aip.archive_action('act_old0')", "SELECT aip.archive_batch('infinity', '-infinity', '', 1, false)", "SELECT aip.archivable('act_old0', 'infinity')",
		} {
			if _, err := conn.Exec(t.Context(), call); err == nil {
				t.Errorf("%s may %s", role, call)
			}
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, plan := range []migrate.ArchivePlan{{OlderThan: time.Hour}, {OlderThan: 5 * day, Batch: 5000}, {OlderThan: 5 * day, Batch: -1}, {OlderThan: 5 * day, Limit: -1}} {
		if _, err := migrate.Archive(t.Context(), url(t, d.name, "aip_migrate"), plan); !fleet.Is(err, fleet.Invalid) {
			t.Errorf("%+v gave %v", plan, err)
		}
	}
	limited, err := migrate.Archive(t.Context(), url(t, d.name, "aip_migrate"), migrate.ArchivePlan{OlderThan: 5 * day, Batch: 2, Limit: 3})
	if err != nil || limited.Archived != 3 || !limited.More {
		t.Errorf("a limit of 3 gave %+v, %v", limited, err)
	}
}
