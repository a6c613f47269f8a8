package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// ended stores an action that completed at a time, as the store of actions has it.
func (d *database) ended(t *testing.T, name, tenant string, at time.Time) {
	t.Helper()
	d.exec(t, `INSERT INTO aip.action (action_id, tenant_id, capability_id, principal, input, mode, content_digest, created_at)
		VALUES ($1, $2, $3, 'test', '', 'sync', 'sha256:' || repeat('a', 64), $4)`, "act_"+name, tenant, capabilityID().String(), at)
	d.exec(t, `INSERT INTO aip.action_state (action_id, revision, state, runs, fence, unsettled, cancel_requested, owner, timeout_us,
		deadline, evidence_digest, problem, updated_at) VALUES ($1, 1, 'completed', 1, 1, false, false, '', 1, $2, 'sha256:' || repeat('b', 64), '', $2)`, "act_"+name, at)
	d.exec(t, "INSERT INTO aip.action_result (action_id, document) VALUES ($1, '{}')", "act_"+name)
}

// giveUp archives the content of what ended an hour ago and more.
func (d *database) giveUp(t *testing.T, want int) {
	t.Helper()
	var n int
	if err := d.admin.QueryRow(t.Context(), "SELECT aip.archive_actions(3600000000, 1000)").Scan(&n); err != nil || n != want {
		t.Fatalf("%d actions were given up, want %d: %v", n, want, err)
	}
}

func archived(t *testing.T, r registry.Reader, s registry.Selection) (all []registry.ArchivedAction, names []string) {
	t.Helper()
	s.Noun = registry.Archived
	for {
		page, err := r.List(t.Context(), s)
		if err != nil {
			t.Fatalf("list: %v (%s)", err, fleet.CodeOf(err))
		}
		for _, a := range page.Archived {
			all, names = append(all, a), append(names, a.Action.String())
		}
		if s.After = page.Next; s.After == "" {
			return all, names
		}
	}
}

// TestArchived_G44_BothArchivesAreOneList: an action is listed once, where it was first
// archived, with what each archive has of it, under the two roles of the operator's tool.
func TestArchived_G44_BothArchivesAreOneList(t *testing.T) {
	t.Parallel()
	d := small(t)
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	d.exec(t, "UPDATE aip.replica_live SET lease_expires_at = $1", at.Add(365*day))
	d.setNow(t, at)
	owner := request("both", 0).Tenant.String()
	for _, name := range []string{"both", "moved", "content"} {
		d.settle(t, d.resolve(t, name, 0))
	}
	d.ended(t, "both", owner, at)
	d.ended(t, "unrouted", "elsewhere", at)
	d.setNow(t, at.Add(day))
	d.giveUp(t, 2) // both, unrouted
	d.exec(t, "UPDATE aip.action_archive SET told_at = $1, tells = 3 WHERE action_id = 'act_both'", at.Add(day+time.Minute))
	d.setNow(t, at.Add(2*day))
	for _, name := range []string{"both", "moved", "content"} {
		if err := d.archive(t.Context(), request(name, 0).Action); err != nil {
			t.Fatal(err)
		}
	}
	d.ended(t, "content", owner, at) // its route went first
	d.setNow(t, at.Add(3*day))
	d.giveUp(t, 1)
	d.exec(t, "DELETE FROM aip.archive WHERE action_id = 'act_moved'") // exported, and deleted as the owner
	all, names := archived(t, d.read, registry.Selection{})
	if want := []string{"act_content", "act_moved", "act_both", "act_unrouted"}; !slices.Equal(names, want) {
		t.Fatalf("listed are %v, want %v", names, want)
	}
	content, moved, both, unrouted := all[0], all[1], all[2], all[3]
	if c := both.Content; c == nil || c.State != "completed" || !c.EndedAt.Equal(at) || !c.ArchivedAt.Equal(at.Add(day)) || c.Tells != 3 ||
		!c.ToldAt.Equal(at.Add(day+time.Minute)) || c.Evidence.IsZero() || c.Result != fleet.DigestBytes([]byte("{}")) {
		t.Errorf("the content of both is %+v", c)
	}
	if r := both.Route; r == nil || !r.ArchivedAt.Equal(at.Add(2*day)) || r.Record == nil || r.Record.Current().Settlement == nil || !both.ArchivedAt.Equal(at.Add(day)) {
		t.Errorf("both is %+v", both)
	}
	if !content.ArchivedAt.Equal(at.Add(2*day)) || !content.Content.ArchivedAt.Equal(at.Add(3*day)) || !content.Content.ToldAt.Equal(at.Add(3*day)) {
		t.Errorf("what lost its route first is %+v", content)
	}
	if moved.Route == nil || moved.Route.Record != nil || moved.Content != nil || moved.Tenant.String() != owner || moved.Capability != capabilityID() {
		t.Errorf("what was exported is %+v", moved)
	}
	if unrouted.Route != nil || unrouted.Content == nil || unrouted.Tenant.String() != "elsewhere" {
		t.Errorf("what never had a route is %+v", unrouted)
	}
	elsewhere := unrouted.Tenant
	for name, c := range map[string]struct {
		s    registry.Selection
		want []string
	}{
		"pages of one":        {registry.Selection{Limit: 1}, names},
		"one tenant":          {registry.Selection{Limit: 2, Tenant: both.Tenant}, names[:3]},
		"the other":           {registry.Selection{Limit: 1, Tenant: elsewhere}, names[3:]},
		"the second day":      {registry.Selection{Limit: 1, Since: at.Add(2 * day), Until: at.Add(3 * day)}, names[:2]},
		"what was given up":   {registry.Selection{Limit: 1, State: "completed"}, []string{"act_content", "act_both", "act_unrouted"}},
		"what failed":         {registry.Selection{State: "failed"}, nil},
		"by id, in both":      {registry.Selection{IDs: []string{"act_both", "act_none"}}, names[2:3]},
		"of a replica: never": {registry.Selection{Replica: replicaID(0, 0)}, nil},
	} {
		if _, got := archived(t, d.read, c.s); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if _, got := archived(t, d.control, c.s); !slices.Equal(got, c.want) {
			t.Errorf("%s, as aip_control: %v, want %v", name, got, c.want)
		}
	}
}

// TestArchived_G16_APageCostsTheSameHoweverMuchThereIs reads no table and no index from
// end to end, wherever the page is, and sorts nothing.
func TestArchived_G16_APageCostsTheSameHoweverMuchThereIs(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	const many = 20000
	d.exec(t, fmt.Sprintf(`INSERT INTO aip.tombstone SELECT 'act_' || lpad(n::text, 8, '0'), 'tenant', 'desk:open', '2030-01-01'::timestamptz + n * interval '1 second'
		FROM generate_series(1, %d) n`, many))
	d.exec(t, fmt.Sprintf(`INSERT INTO aip.action_archive SELECT 'act_' || lpad(n::text, 8, '0'), 'completed', '', '', '2029-01-01', '2029-12-01'::timestamptz + n * interval '1 second', 0, '2030-01-01', NULL
		FROM generate_series(1, %d, 2) n`, many))
	d.exec(t, fmt.Sprintf(`INSERT INTO aip.action SELECT 'act_' || lpad(n::text, 8, '0'), 'tenant', 'desk:open', 'test', '', NULL, 'sync', 'sha256:' || repeat('a', 64), '2029-01-01'
		FROM generate_series(1, %d) n`, many))
	page, err := d.read.List(t.Context(), registry.Selection{Noun: registry.Archived, Limit: 100})
	if err != nil || len(page.Archived) != 100 || page.Next == "" {
		t.Fatalf("%d records, next %q: %v", len(page.Archived), page.Next, err)
	}
	d.exec(t, "INSERT INTO aip.archive SELECT action_id, '{}' FROM aip.tombstone")
	d.exec(t, "ANALYZE")
	day1 := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	for name, s := range map[string]registry.Selection{
		"first page": {Limit: 100}, "next page": {Limit: 100, After: page.Next}, "of a tenant": {Limit: 100, Tenant: request("x", 0).Tenant}, "of an end": {Limit: 100, State: "failed"},
		"of a time": {Limit: 100, Since: day1, Until: day1.Add(time.Hour)},
	} {
		statement, args, err := postgres.ListQuery(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			plan := d.explain(t, mode, statement, args)
			if !strings.Contains(plan, "Merge Append") || !strings.Contains(plan, "tombstone_newest") || !strings.Contains(plan, "action_archive_newest") ||
				strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "->  Sort") {
				t.Errorf("%s, %s:\n%s", name, mode, plan)
			}
		}
	}
}

// explain gives the plan of a statement as the role of a reader gets it.
func (d *database) explain(t *testing.T, mode, statement string, args []any) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url(t, d.name, "aip_readonly"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), "SET plan_cache_mode = "+mode+"; PREPARE page AS "+statement); err != nil {
		t.Fatal(err)
	}
	places := make([]string, len(args))
	for i := range args {
		places[i] = fmt.Sprintf("$%d", i+1)
	}
	rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE page("+strings.Join(places, ", ")+")", append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
