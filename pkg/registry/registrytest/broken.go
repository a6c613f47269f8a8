package registrytest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

// Each type below is the sound registry with one promise broken.

// entire is every contract of one registry.
type entire struct {
	registry.Catalog
	registry.Router
	registry.Reader
	registry.Publisher
	registry.Fleet
	registry.Uncertain
	registry.Custody
}

type router struct{ registry.Router }

type publisher struct{ registry.Publisher }

type leases struct{ registry.Fleet }

type catalogue struct{ registry.Catalog }

type reader struct{ registry.Reader }

type uncertainty struct{ registry.Uncertain }

type custody struct{ registry.Custody }

// takesAnyJournal accepts by itself whatever journal a host comes with.
type takesAnyJournal struct {
	leases
	registry.Custody
}

func (b takesAnyJournal) Register(ctx context.Context, reg registry.Registration) (registry.Lease, error) {
	l, err := b.leases.Fleet.Register(ctx, reg)
	if fleet.CodeOf(err) != "lease.journal_changed" {
		return l, err
	}
	_, _ = b.AcceptJournal(ctx, registry.JournalAcceptance{Replica: reg.Replica, Journal: reg.Journal, Actor: "nobody", Reason: "none"})
	return b.leases.Fleet.Register(ctx, reg)
}

// forgetsQuestions closes what a retired replica leaves open.
type forgetsQuestions struct {
	custody
	registry.Reader
	registry.Uncertain
}

func (b forgetsQuestions) Retire(ctx context.Context, t registry.Retirement) (registry.Retired, error) {
	done, err := b.custody.Custody.Retire(ctx, t)
	if err == nil {
		open, _ := b.List(ctx, registry.Selection{Noun: registry.Reconciliations, Replica: t.Replica, State: "operator"})
		for _, u := range open.Reconciliations {
			_, _ = b.Decide(ctx, registry.ReconciliationKey{Action: u.Action, Fence: u.Fence},
				registry.Decision{Resolution: fleet.ResolvedNotStarted, By: t.Actor, Evidence: digest("retired")})
		}
	}
	return done, err
}

type forgetsTenant struct{ router }

func (b forgetsTenant) Lookup(ctx context.Context, _ fleet.TenantID, a fleet.ActionID) (registry.RouteRecord, error) {
	if r, err := b.Router.Lookup(ctx, acme(), a); err == nil {
		return r, nil
	}
	return b.Router.Lookup(ctx, globex(), a)
}

type movesRoutes struct{ router }

func (b movesRoutes) Resolve(ctx context.Context, req registry.RouteRequest) (fleet.Assignment, error) {
	a, err := b.Router.Resolve(ctx, req)
	if fleet.CodeOf(err) != "resolve.pinned_unavailable" {
		return a, err
	}
	req.Action = actionID(req.Action.String() + "-moved")
	a, err = b.Router.Resolve(ctx, req)
	a.Route.Action = actionID(strings.TrimPrefix(strings.TrimSuffix(req.Action.String(), "-moved"), "act_act_"))
	return a, err
}

type settlesAnything struct{ router }

func (b settlesAnything) Settle(ctx context.Context, a fleet.Assignment, s fleet.Settlement) (registry.Receipt, error) {
	if r, err := b.Lookup(ctx, a.Route.Tenant, a.Route.Action); err == nil {
		a = r.Assignment()
	}
	return b.Router.Settle(ctx, a, s)
}

type releasesTwice struct {
	router
	registry.Reader
}

func (b releasesTwice) Settle(ctx context.Context, a fleet.Assignment, s fleet.Settlement) (registry.Receipt, error) {
	r, err := b.router.Router.Settle(ctx, a, s)
	if err == nil && !r.First {
		rec, _ := b.List(ctx, registry.Selection{Noun: registry.Routes, Reserved: true, Limit: 1})
		for _, other := range rec.Routes {
			_, _ = b.router.Router.Settle(ctx, other.Assignment(), s)
		}
	}
	return r, err
}

type reportsTheSecond struct{ router }

func (b reportsTheSecond) Settle(ctx context.Context, a fleet.Assignment, s fleet.Settlement) (registry.Receipt, error) {
	r, err := b.Router.Settle(ctx, a, s)
	r.Settlement.Outcome = s.Outcome
	return r, err
}

type ignoresPeerFaults struct{ router }

func (b ignoresPeerFaults) Settle(ctx context.Context, a fleet.Assignment, s fleet.Settlement) (registry.Receipt, error) {
	s.PeerFault = false
	return b.Router.Settle(ctx, a, s)
}

type explainReserves struct{ router }

func (b explainReserves) Explain(ctx context.Context, req registry.RouteRequest) (routing.Explanation, error) {
	e, err := b.Router.Explain(ctx, req)
	_, _ = b.Resolve(ctx, req)
	return e, err
}

type ignoresTopology struct{ router }

func (b ignoresTopology) Resolve(ctx context.Context, req registry.RouteRequest) (fleet.Assignment, error) {
	req.Topology = fleet.TopologyPreference{}
	return b.Router.Resolve(ctx, req)
}

type sharesAnswers struct {
	router
	kept map[fleet.ActionID]registry.RouteRecord
}

func (b sharesAnswers) Lookup(ctx context.Context, t fleet.TenantID, a fleet.ActionID) (registry.RouteRecord, error) {
	r, err := b.Router.Lookup(ctx, t, a)
	if err != nil {
		return r, err
	}
	if old, ok := b.kept[a]; ok && len(old.Attempts) == len(r.Attempts) {
		return old, nil
	}
	b.kept[a] = r
	return r, nil
}

type batchFailsTogether struct{ router }

func (b batchFailsTogether) ResolveBatch(ctx context.Context, all []registry.RouteRequest) []registry.RouteResult {
	results := b.Router.ResolveBatch(ctx, all)
	for _, r := range results {
		if r.Err != nil {
			return make([]registry.RouteResult, len(all))
		}
	}
	return results
}

type publishesParts struct{ publisher }

func (b publishesParts) Apply(ctx context.Context, set registry.ChangeSet, at uint64) (registry.Publication, error) {
	p, err := b.Publisher.Apply(ctx, set, at)
	if err != nil && len(set.Types) > 0 {
		_, _ = b.Publisher.Apply(ctx, registry.ChangeSet{Actor: set.Actor, Reason: set.Reason, Types: set.Types}, at)
	}
	return p, err
}

type ignoresExpectedRevision struct {
	publisher
	registry.Reader
}

func (b ignoresExpectedRevision) Apply(ctx context.Context, set registry.ChangeSet, _ uint64) (registry.Publication, error) {
	s, _ := b.Status(ctx)
	return b.Publisher.Apply(ctx, set, s.Revision)
}

type previewWrites struct {
	publisher
	registry.Reader
}

func (b previewWrites) Preview(ctx context.Context, set registry.ChangeSet) (registry.Publication, error) {
	s, _ := b.Status(ctx)
	return b.Apply(ctx, set, s.Revision)
}

type acceptsOldBeats struct{ leases }

func (b acceptsOldBeats) Renew(ctx context.Context, beat registry.Beat) (registry.Lease, error) {
	l, err := b.Fleet.Renew(ctx, beat)
	for fleet.CodeOf(err) == "lease.sequence" {
		beat.Sequence++
		l, err = b.Fleet.Renew(ctx, beat)
	}
	return l, err
}

type revivesLeases struct {
	leases
}

func (b revivesLeases) Renew(ctx context.Context, beat registry.Beat) (registry.Lease, error) {
	l, err := b.Fleet.Renew(ctx, beat)
	if fleet.CodeOf(err) != "lease.expired" {
		return l, err
	}
	return registry.Lease{Replica: beat.Replica, Epoch: beat.Epoch, Sequence: beat.Sequence}, nil
}

// believesEveryHost takes a registration for readiness.
type believesEveryHost struct{ leases }

func (b believesEveryHost) Register(ctx context.Context, reg registry.Registration) (registry.Lease, error) {
	reg.Starting = false
	return b.Fleet.Register(ctx, reg)
}

type beatEndsDrain struct{ leases }

func (b beatEndsDrain) Renew(ctx context.Context, beat registry.Beat) (registry.Lease, error) {
	if beat.Ready && !beat.Draining {
		_, _ = b.Intend(ctx, registry.Intent{Replica: beat.Replica, Want: fleet.IntentRun, Actor: "beat", Reason: "beat"})
	}
	return b.Fleet.Renew(ctx, beat)
}

type beatMovesRevision struct {
	leases
	registry.Publisher
	registry.Reader
}

func (b beatMovesRevision) Renew(ctx context.Context, beat registry.Beat) (registry.Lease, error) {
	s, _ := b.Status(ctx)
	q := quota("beats", keep)
	q.Revision = s.Revision + 1
	_, _ = b.Apply(ctx, registry.ChangeSet{Actor: "beat", Quotas: []fleet.QuotaPolicy{q}}, s.Revision)
	return b.leases.Fleet.Renew(ctx, beat)
}

type forgetsClaims struct {
	leases
	n *atomic.Int64
}

func (b forgetsClaims) Register(ctx context.Context, r registry.Registration) (registry.Lease, error) {
	r.Claim.ID = fmt.Sprintf("%s-%d", r.Claim.ID, b.n.Add(1))
	return b.Fleet.Register(ctx, r)
}

type neverExpires struct{ leases }

func (b neverExpires) Expire(context.Context, int) (registry.Expiry, error) {
	return registry.Expiry{}, nil
}

type mixesRevisions struct{ catalogue }

func (b mixesRevisions) Query(ctx context.Context, t fleet.TenantID, q registry.CatalogQuery) (registry.CatalogPage, error) {
	p, err := b.Catalog.Query(ctx, t, q)
	if fleet.Is(err, fleet.StaleCursor) {
		q.Cursor = ""
		return b.Catalog.Query(ctx, t, q)
	}
	return p, err
}

type trustsCursors struct{ catalogue }

func (b trustsCursors) Query(ctx context.Context, t fleet.TenantID, q registry.CatalogQuery) (registry.CatalogPage, error) {
	p, err := b.Catalog.Query(ctx, t, q)
	if fleet.CodeOf(err) == "catalog.cursor" {
		q.Cursor = ""
		return b.Catalog.Query(ctx, t, q)
	}
	return p, err
}

type ignoresPageSize struct{ catalogue }

func (b ignoresPageSize) Query(ctx context.Context, t fleet.TenantID, q registry.CatalogQuery) (registry.CatalogPage, error) {
	if q.Limit > 0 {
		q.Limit = registry.MaxPageItems
	}
	return b.Catalog.Query(ctx, t, q)
}

type losesQuestions struct{ reader }

func (b losesQuestions) Snapshot(ctx context.Context) (registry.Snapshot, error) {
	s, err := b.Reader.Snapshot(ctx)
	s.Reconciliations = nil
	return s, err
}

type losesArchived struct{ reader }

func (b losesArchived) List(ctx context.Context, s registry.Selection) (registry.Records, error) {
	rec, err := b.Reader.List(ctx, s)
	rec.Archived = nil
	return rec, err
}

type ignoresTimes struct{ reader }

func (b ignoresTimes) List(ctx context.Context, s registry.Selection) (registry.Records, error) {
	s.Since, s.Until = time.Time{}, time.Time{}
	return b.Reader.List(ctx, s)
}

type decidesTwice struct{ uncertainty }

func (b decidesTwice) Decide(ctx context.Context, k registry.ReconciliationKey, d registry.Decision) (fleet.Reconciliation, error) {
	u, err := b.Uncertain.Decide(ctx, k, d)
	if fleet.CodeOf(err) == "reconcile.decided" {
		return fleet.Reconciliation{}, nil
	}
	return u, err
}

type handsOutTwice struct{ uncertainty }

func (b handsOutTwice) Due(ctx context.Context, limit int, _ time.Duration) ([]fleet.Reconciliation, error) {
	return b.Uncertain.Due(ctx, limit, time.Nanosecond)
}

// broken names each defect, the case that must catch it, and how to make it.
func broken() []struct {
	name, caughtBy string
	breakIt        func(r entire, s *Subject)
} {
	return []struct {
		name, caughtBy string
		breakIt        func(r entire, s *Subject)
	}{
		{"forgets the tenant", "G18/foreign_action_is_like_none", func(r entire, s *Subject) { s.Router = forgetsTenant{router{r}} }},
		{"moves a route on retry", "G09/retry_never_moves", func(r entire, s *Subject) { s.Router = movesRoutes{router{r}} }},
		{"settles with any fence", "G06/older_fence_is_refused", func(r entire, s *Subject) { s.Router = settlesAnything{router{r}} }},
		{"settles with any field", "G07/every_field_of_the_assignment_is_compared", func(r entire, s *Subject) { s.Router = settlesAnything{router{r}} }},
		{"releases twice", "G04/random_histories_agree_with_a_model", func(r entire, s *Subject) { s.Router = releasesTwice{router{r}, r} }},
		{"reports the second settlement", "G07/second_settlement_reports_the_first", func(r entire, s *Subject) { s.Router = reportsTheSecond{router{r}} }},
		{"ignores peer faults", "G08/peer_fault_counts_under_any_outcome", func(r entire, s *Subject) { s.Router = ignoresPeerFaults{router{r}} }},
		{"reserves when explaining", "G10/explain_agrees_with_resolve_and_reserves_nothing", func(r entire, s *Subject) { s.Router = explainReserves{router{r}} }},
		{"ignores topology", "G10/winner_is_that_of_routing_on_random_fleets", func(r entire, s *Subject) { s.Router = ignoresTopology{router{r}} }},
		{"shares its answers", "G02/answers_are_copies", func(r entire, s *Subject) {
			s.Router = sharesAnswers{router{r}, map[fleet.ActionID]registry.RouteRecord{}}
		}},
		{"fails a batch together", "G13/batch_items_are_independent", func(r entire, s *Subject) { s.Router = batchFailsTogether{router{r}} }},
		{"publishes parts", "G13/refused_set_changes_nothing", func(r entire, s *Subject) { s.Publisher = publishesParts{publisher{r}} }},
		{"ignores the expected revision", "G13/moved_revision_is_refused", func(r entire, s *Subject) { s.Publisher = ignoresExpectedRevision{publisher{r}, r} }},
		{"writes on preview", "G13/preview_is_apply_without_the_write", func(r entire, s *Subject) { s.Publisher = previewWrites{publisher{r}, r} }},
		{"accepts old beats", "G22/old_beats_are_refused", func(r entire, s *Subject) { s.Fleet = acceptsOldBeats{leases{r}} }},
		{"revives ended leases", "G22/ended_epoch_cannot_renew", func(r entire, s *Subject) { s.Fleet = revivesLeases{leases{r}} }},
		{"routes to a host that is starting", "G08/starting_host_gets_nothing_yet", func(r entire, s *Subject) { s.Fleet = believesEveryHost{leases{r}} }},
		{"ends a drain by a beat", "G23/no_beat_ends_a_drain", func(r entire, s *Subject) { s.Fleet = beatEndsDrain{leases{r}} }},
		{"moves the revision by a beat", "G15/leases_do_not_move_the_revision", func(r entire, s *Subject) { s.Fleet = beatMovesRevision{leases{r}, r, r} }},
		{"forgets claims", "G22/repeated_request_gets_its_first_answer", func(r entire, s *Subject) { s.Fleet = forgetsClaims{leases{r}, new(atomic.Int64)} }},
		{"never expires", "G12/ended_leases_release_what_they_held", func(r entire, s *Subject) { s.Fleet = neverExpires{leases{r}} }},
		{"ignores the cursor's revision", "G14/cursor_of_another_revision_is_stale", func(r entire, s *Subject) { s.Catalog = mixesRevisions{catalogue{r}} }},
		{"trusts cursors", "G14/altered_cursor_is_refused", func(r entire, s *Subject) { s.Catalog = trustsCursors{catalogue{r}} }},
		{"ignores the page size", "G16/page_holds_its_bounds", func(r entire, s *Subject) { s.Catalog = ignoresPageSize{catalogue{r}} }},
		{"loses questions", "G42/every_expiry_opens_a_record", func(r entire, s *Subject) { s.Reader = losesQuestions{reader{r}} }},
		{"loses what is archived", "G01/archived_actions_are_listed", func(r entire, s *Subject) { s.Reader = losesArchived{reader{r}} }},
		{"ignores times", "G16/lists_filter_by_time", func(r entire, s *Subject) { s.Reader = ignoresTimes{reader{r}} }},
		{"decides twice", "G38/first_decision_stands", func(r entire, s *Subject) { s.Uncertain = decidesTwice{uncertainty{r}} }},
		{"takes any journal", "G25/another_journal_needs_an_operator", func(r entire, s *Subject) { s.Fleet = takesAnyJournal{leases{r}, r} }},
		{"forgets questions of the retired", "G38/retired_with_unknowns_forgets_none", func(r entire, s *Subject) {
			s.Custody = forgetsQuestions{custody{r}, r, r}
		}},
		{"hands a question out twice", "G38/due_claims_for_a_while", func(r entire, s *Subject) { s.Uncertain = handsOutTwice{uncertainty{r}} }},
	}
}

// RunBroken proves that the suite's cases can fail on a registry: each defect is caught by
// the case named for the guarantee that it breaks, and that case passes on the sound
// registry. newSubject may be called several times by one test, each time for an empty
// registry; only the last one is used.
func RunBroken(t *testing.T, newSubject func(t *testing.T) Subject) {
	for _, b := range broken() {
		t.Run(b.caughtBy+"/"+strings.ReplaceAll(b.name, " ", "_"), func(t *testing.T) {
			c := caseNamed(t, b.caughtBy)
			ok := func() Subject { return newSubject(t) }
			if f := failuresOf(t.Context(), c, ok); len(f) > 0 {
				t.Fatalf("the case fails on the sound registry: %s", f[0])
			}
			f := failuresOf(t.Context(), c, func() Subject {
				s := newSubject(t)
				b.breakIt(entire{s.Catalog, s.Router, s.Reader, s.Publisher, s.Fleet, s.Uncertain, s.Custody}, &s)
				return s
			})
			if len(f) == 0 {
				t.Fatalf("a registry that %s passes the case", b.name)
			}
			t.Logf("caught: %s", f[0])
		})
	}
}

func caseNamed(t *testing.T, name string) Case {
	t.Helper()
	for _, c := range Cases() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no case %s", name)
	return Case{}
}
