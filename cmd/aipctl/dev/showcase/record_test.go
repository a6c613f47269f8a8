package showcase

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the tests' own constants
	}
	return v
}

// routeOf is a route of acme with one settled attempt.
func routeOf(n int, outcome fleet.Outcome) registry.RouteRecord {
	id := must(fleet.ParseActionID(fmt.Sprintf("act_%d", n)))
	return registry.RouteRecord{
		Route: fleet.RouteAssignment{
			Action: id, Tenant: must(fleet.ParseTenantID("acme")), Replica: must(fleet.ParseReplicaID("crepl_a")),
			Capability: must(fleet.ParseCapabilityID("ticketdesk:open_ticket")),
		},
		Attempts: []fleet.Attempt{{
			Action: id, Fence: fleet.Fence{Number: 1}, ReservedAt: noon.Add(time.Duration(n) * time.Minute),
			Settlement: &fleet.Settlement{Outcome: outcome, SettledAt: noon.Add(time.Duration(n)*time.Minute + 30*time.Second)},
		}},
	}
}

// sound is a record of n actions with which nothing is wrong; the first one was
// unknown and is reconciled, and the replica was drained while it ran.
func sound(n int) record {
	r := record{journals: map[string][]journal.Record{}}
	r.snapshot.At = noon.Add(time.Hour * 24)
	for i := range n {
		outcome := fleet.OutcomeCompleted
		if i == 0 {
			outcome = fleet.OutcomeUnknown
			r.snapshot.Reconciliations = []fleet.Reconciliation{{State: fleet.ReconcileResolved}}
		}
		route := routeOf(i, outcome)
		id := route.Route.Action.String()
		r.snapshot.Routes = append(r.snapshot.Routes, route)
		r.actions = append(r.actions, storedAction{id, "acme", "ticketdesk:open_ticket", "completed"})
		r.effects = append(r.effects, desk.Effect{OperationID: "op_" + id, Account: "acme", ActionID: id, IdempotencyKey: id})
		r.journals["crepl_a"] = append(r.journals["crepl_a"], journal.Record{Action: route.Route.Action, State: journal.Result, Calls: 1})
	}
	r.events = []registry.Event{
		{Sequence: 1, Kind: "intent", Subject: "crepl_a", Detail: "drain", At: noon.Add(10 * time.Second)},
		{Sequence: 2, Kind: "intent", Subject: "crepl_a", Detail: "run", At: noon.Add(50 * time.Second)},
	}
	return r
}

// judged runs the end of a demonstration over a record. Audit is not asked: the
// records here are only as complete as the counts need.
func judged(r record) (Summary, []string) {
	s := &show{Options: Options{Now: func() time.Time { return noon }, Say: func(string, ...any) {}}, record: r, inspection: json.RawMessage(`{}`)}
	sum := Summary{
		Actions: len(r.actions), Routes: len(r.snapshot.Routes), ProviderEffects: len(r.effects), Unknown: r.unknown(),
		Reconciled: r.reconciled(), Drained: r.drained(), Duplicates: r.duplicates(),
	}
	s.judge(sum)
	var failed []string
	for _, c := range s.checks {
		if !c.OK {
			failed = append(failed, c.Detail)
		}
	}
	return sum, failed
}

func TestSummary_G39_ASoundRecordPasses(t *testing.T) {
	sum, failed := judged(sound(60))
	if len(failed) > 0 || sum.Unknown != 1 || sum.Reconciled != 1 || sum.Drained != 1 || sum.Duplicates != 0 || sum.ProviderEffects != 60 {
		t.Errorf("%+v, failed: %v", sum, failed)
	}
}

// Whatever goes wrong in one of the stores, the demonstration fails and says what.
func TestSummary_G39_EachKindOfLossOrDoublingFails(t *testing.T) {
	for _, row := range []struct {
		name, says string
		spoil      func(r *record)
	}{
		{"an effect twice", "happened twice", func(r *record) { r.effects = append(r.effects, r.effects[3]) }},
		{"an effect under another key", "happened twice", func(r *record) { e := r.effects[3]; e.IdempotencyKey = "k"; r.effects = append(r.effects, e) }},
		{"an effect lost", "effects in the provider's stores", func(r *record) { r.effects = r.effects[1:] }},
		{"an action lost", "routes: one for each", func(r *record) { r.actions = r.actions[1:] }},
		{"too few actions", "50 or more", func(r *record) { r.actions = r.actions[:10] }},
		{"an unknown never closed", "closed by evidence", func(r *record) { r.snapshot.Reconciliations[0].State = fleet.ReconcileOpen }},
		{"no unknown at all", "closed by evidence", func(r *record) {
			r.snapshot.Routes[0].Attempts[0].Settlement.Outcome = fleet.OutcomeCompleted
			r.snapshot.Reconciliations = nil
		}},
		{"an effect in another's account", "no route of that tenant", func(r *record) { r.effects[3].Account = "globex" }},
		{"a route of another tenant", "differ", func(r *record) { r.actions[3].Tenant = "globex" }},
		{"work on another host", "not pinned", func(r *record) { r.journals["crepl_b"] = r.journals["crepl_a"][:1] }},
		{"two calls of the provider", "after 2 calls", func(r *record) { r.journals["crepl_a"][3].Calls = 2 }},
		{"a host that does not know", "as unknown", func(r *record) { r.journals["crepl_a"][3].State = journal.Unknown }},
		{"a drain that cut work off", "0 drains", func(r *record) { r.snapshot.Routes[0].Attempts[0].Settlement.SettledAt = noon.Add(55 * time.Second) }},
		{"a drain with nothing to wait for", "0 drains", func(r *record) { r.snapshot.Routes[0].Attempts[0].Settlement.SettledAt = noon.Add(5 * time.Second) }},
		{"an attempt still open at the drain's end", "0 drains", func(r *record) { r.snapshot.Routes[0].Attempts[0].Settlement = nil }},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := sound(60)
			row.spoil(&r)
			_, failed := judged(r)
			if !slices.ContainsFunc(failed, func(f string) bool { return strings.Contains(f, row.says) }) {
				t.Errorf("failed: %v; want one with %q", failed, row.says)
			}
		})
	}
}

// One failed check is a failed demonstration.
func TestSummary_G40_TheVerdictNamesTheFirstFailure(t *testing.T) {
	s := &show{}
	sum := Summary{Checks: []Check{{OK: true}, {Detail: "first"}, {Detail: "second"}}}
	sum.OK = false
	if err := s.verdict(sum); err == nil || !strings.Contains(err.Error(), "2 of 3") {
		t.Errorf("verdict = %v", err)
	}
	if err := s.verdict(Summary{OK: true}); err != nil {
		t.Errorf("verdict of a good one = %v", err)
	}
}

func TestFindings_G33_CodesAreFoundWhereverTheyAre(t *testing.T) {
	text := `{"items":[{"findings":[{"code":"a.b","satisfy":"x"}]},{"code":"not.a.finding"}]}
{"error":{"code":"a.b","details":[{"code":"c.d","satisfy":"y"}]}}`
	if got := findingCodes([]byte(text)); !slices.Equal(got, []string{"a.b", "c.d"}) {
		t.Errorf("codes = %v", got)
	}
}
