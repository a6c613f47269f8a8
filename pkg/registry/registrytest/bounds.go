package registrytest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func boundsCases() []Case {
	return []Case{
		{Name: "G16/lists_page_by_keyset", Why: "an unbounded list of a large fleet fills its reader", Run: boundsLists},
		{Name: "G16/list_pages_hold_their_bytes", Why: "a thousand large documents in one page fill their reader too", Run: boundsBytes},
		{Name: "G16/list_limits_are_enforced", Why: "a limit that the caller enforces is none", Run: boundsLimits},
		{Name: "G16/lists_filter", Why: "an operator asks for one thing and must not get another", Run: boundsFilters},
		{Name: "G16/lists_filter_by_time", Why: "who asks for yesterday must not read through the years before", Run: boundsTimes},
		{Name: "G01/archived_actions_are_listed", Why: "an id that is taken for ever must be found again, with what it was taken for", Run: boundsArchived},
		{Name: "G16/unknown_ids_are_absent", Why: "a bulk read must not fail for one id that is gone", Run: boundsUnknown},
		{Name: "G16/status_is_an_aggregate", Why: "what is polled often must stay small, and must be right", Run: boundsStatus},
		{Name: "G16/empty_registry_answers", Why: "the first question comes before the first publication", Run: boundsEmpty},
	}
}

// counts is how many records each noun shows, and their ids in order, page by page.
func (w *World) walk(s registry.Selection) (list []string) {
	w.Helper()
	for range 50 {
		rec, err := w.Reader.List(w.ctx(), s)
		w.must(err, "list "+string(s.Noun))
		page := idsOf(rec)
		w.expect(len(page) <= s.Limit || s.Limit == 0, "a page of %s has %d records, limit %d", s.Noun, len(page), s.Limit)
		list = append(list, page...)
		if s.After = rec.Next; s.After == "" {
			return list
		}
	}
	w.Fatalf("paging through %s does not end", s.Noun)
	return nil
}

func idsOf(r registry.Records) (list []string) {
	for _, t := range r.Types {
		list = append(list, t.ID.String())
	}
	for _, v := range r.Versions {
		list = append(list, v.ID.String())
	}
	for _, i := range r.Instances {
		list = append(list, i.ID.String())
	}
	for _, x := range r.Replicas {
		list = append(list, x.ID.String())
	}
	for _, b := range r.Bindings {
		list = append(list, fmt.Sprintf("%s|%s|%s", b.Tenant, b.Capability, b.Instance))
	}
	for _, q := range r.Quotas {
		list = append(list, q.Ref)
	}
	for _, c := range r.Capabilities {
		list = append(list, fmt.Sprintf("%s|%s", c.Definition.ID, c.Version))
	}
	for _, t := range r.Tenants {
		list = append(list, t.Tenant.String())
	}
	for _, x := range r.Routes {
		list = append(list, x.Route.Action.String())
	}
	for _, a := range r.Admissions {
		list = append(list, a.Version.String())
	}
	for _, x := range r.Reconciliations {
		list = append(list, fmt.Sprintf("%s#%d", x.Action, x.Fence))
	}
	for _, t := range r.Trust {
		list = append(list, fmt.Sprint(t.Number))
	}
	for _, l := range r.Revocations {
		list = append(list, fmt.Sprint(l.Number))
	}
	for _, e := range r.Events {
		list = append(list, fmt.Sprint(e.Sequence))
	}
	for _, a := range r.Archived {
		list = append(list, a.Action.String())
	}
	return list
}

func boundsLists(w *World) {
	w.standard()
	w.tighten(keep, keep)
	for i := range 3 {
		w.settle(w.resolve(fmt.Sprintf("n%d", i)), fleet.OutcomeUnknown)
		w.archive(fmt.Sprintf("gone%d", i))
	}
	want := map[registry.Noun]int{
		registry.Types: 1, registry.Versions: 1, registry.Instances: 2, registry.Replicas: 3, registry.Bindings: 3,
		registry.Quotas: 2, registry.Capabilities: 2, registry.Tenants: 2, registry.Routes: 3, registry.Admissions: 1,
		registry.Reconciliations: 3, registry.TrustRevisions: 1, registry.Revocations: 0, registry.Events: 0,
		registry.Archived: 3,
	}
	w.expect(len(want) == len(registry.Nouns()), "a noun is not tested")
	for noun, n := range want {
		whole := w.walk(registry.Selection{Noun: noun, Limit: 1000})
		paged := w.walk(registry.Selection{Noun: noun, Limit: 1})
		w.expect(slices.Equal(whole, paged), "%s in one page are %v, one by one %v", noun, whole, paged)
		w.expect(n == 0 || len(whole) == n, "there are %d %s, want %d: %v", len(whole), noun, n, whole)
		switch noun {
		case registry.Routes, registry.Events, registry.Reconciliations, registry.Archived, registry.TrustRevisions, registry.Revocations:
		default:
			w.expect(slices.IsSorted(whole), "%s are not ordered by id: %v", noun, whole)
		}
	}
	w.expect(len(w.walk(registry.Selection{Noun: registry.Events, Limit: 2})) >= 4, "events are missing")
}

func boundsBytes(w *World) {
	sizes := []int{1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 5 << 20, 1 << 10}
	for i, size := range sizes {
		doc := json.RawMessage(`{"roots":["` + strings.Repeat("x", size) + `"]}`)
		w.publish(registry.ChangeSet{Trust: &registry.TrustRevision{
			Number: uint64(i + 1), Digest: fleet.DigestBytes(doc), Document: doc, Actor: "suite", Reason: "test"}})
	}
	var pages [][]string
	for s := (registry.Selection{Noun: registry.TrustRevisions, Limit: registry.MaxListItems}); ; {
		rec, err := w.Reader.List(w.ctx(), s)
		w.must(err, "list")
		pages = append(pages, idsOf(rec))
		if s.After = rec.Next; s.After == "" || len(pages) > len(sizes) {
			break
		}
	}
	w.expect(fmt.Sprint(pages) == "[[1 2 3] [4 5] [6] [7]]", "the pages are %v", pages)
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.TrustRevisions, IDs: []string{"1", "2", "3", "4", "5"}})
	w.must(err, "list")
	w.expect(len(rec.Trust) == 5 && rec.Next == "", "asked by id are %v", idsOf(rec))
}

func boundsLimits(w *World) {
	w.standard()
	for _, s := range []registry.Selection{
		{Noun: registry.Replicas, Limit: -1}, {Noun: registry.Replicas, Limit: registry.MaxListItems + 1}, {Noun: "everything"}, {},
	} {
		_, err := w.Reader.List(w.ctx(), s)
		w.refused(err, fleet.Invalid, "")
	}
	_, err := w.Uncertain.Due(w.ctx(), 0, 1)
	w.refused(err, fleet.Invalid, "")
}

func boundsFilters(w *World) {
	w.standard()
	w.resolve("held")
	w.settle(w.resolve("done"), fleet.OutcomeCompleted)
	w.depart(replicaID(acme(), "b"), true)
	for what, c := range map[string]struct {
		s    registry.Selection
		want int
	}{
		"replicas of an instance":  {registry.Selection{Noun: registry.Replicas, Instance: instanceID(acme())}, 2},
		"replicas of a version":    {registry.Selection{Noun: registry.Replicas, Version: versionID(1)}, 3},
		"replicas that are ready":  {registry.Selection{Noun: registry.Replicas, State: "ready"}, 2},
		"offline ones of a tenant": {registry.Selection{Noun: registry.Replicas, State: "offline", Tenant: acme()}, 1},
		"reserved routes":          {registry.Selection{Noun: registry.Routes, Reserved: true}, 1},
		"routes of the other":      {registry.Selection{Noun: registry.Routes, Instance: instanceID(globex())}, 0},
		"active versions":          {registry.Selection{Noun: registry.Versions, State: "active"}, 1},
		"revoked versions":         {registry.Selection{Noun: registry.Versions, State: "revoked"}, 0},
		"bindings of an instance":  {registry.Selection{Noun: registry.Bindings, Instance: instanceID(acme())}, 2},
		"two by id":                {registry.Selection{Noun: registry.Routes, IDs: []string{"act_held", "act_done"}}, 2},
	} {
		rec, err := w.Reader.List(w.ctx(), c.s)
		w.must(err, "list")
		w.expect(len(idsOf(rec)) == c.want, "%s are %v, want %d", what, idsOf(rec), c.want)
	}
}

// archive has an action completed and its route moved away.
func (w *World) archive(name string) registry.RouteRecord {
	w.Helper()
	a := w.resolve(name)
	w.settle(a, fleet.OutcomeCompleted)
	record, err := w.Router.Lookup(w.ctx(), a.Route.Tenant, a.Route.Action)
	w.must(err, "lookup")
	w.must(w.Archive(w.ctx(), a.Route.Action), "archive")
	return record
}

func boundsTimes(w *World) {
	w.standard()
	w.tighten(keep, keep)
	w.advance(time.Second)
	start := w.now
	for i := range 3 {
		w.settle(w.resolve(fmt.Sprintf("n%d", i)), fleet.OutcomeUnknown)
		w.archive(fmt.Sprintf("gone%d", i))
		w.advance(time.Second)
	}
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	for noun, want := range map[registry.Noun][]string{
		registry.Routes: {"act_n2", "act_n1", "act_n0"}, registry.Reconciliations: {"act_n2#1", "act_n1#1", "act_n0#1"},
		registry.Archived: {"act_gone2", "act_gone1", "act_gone0"},
	} {
		for name, c := range map[string]struct {
			s    registry.Selection
			want []string
		}{
			"since the second":         {registry.Selection{Since: at(1)}, want[:2]},
			"until the second":         {registry.Selection{Until: at(1)}, want[2:]},
			"of the second":            {registry.Selection{Since: at(1), Until: at(2)}, want[1:2]},
			"after all":                {registry.Selection{Since: at(3)}, nil},
			"of the tenant":            {registry.Selection{Since: at(0), Tenant: acme()}, want},
			"of the other":             {registry.Selection{Since: at(0), Tenant: globex()}, nil},
			"by id, outside the times": {registry.Selection{Since: at(2), IDs: []string{"act_n0", "act_gone0"}}, nil},
		} {
			c.s.Noun, c.s.Limit = noun, 1
			got := w.walkOf(c.s)
			w.expect(slices.Equal(got, c.want), "%s %s are %v, want %v", noun, name, got, c.want)
		}
	}
	events := w.walk(registry.Selection{Noun: registry.Events, Limit: 2})
	old := w.walk(registry.Selection{Noun: registry.Events, Limit: 2, Until: start})
	fresh := w.walk(registry.Selection{Noun: registry.Events, Limit: 2, Since: start})
	w.expect(len(old) > 0 && slices.Equal(slices.Concat(fresh, old), events), "events are %v and %v of %v", fresh, old, events)
	for _, noun := range []registry.Noun{registry.Types, registry.Replicas, registry.Bindings} {
		w.expect(len(w.walk(registry.Selection{Noun: noun, Since: start})) == 0, "%s have no time, and match one", noun)
	}
}

// walkOf walks pages, or reads what is asked by id, which is never paged.
func (w *World) walkOf(s registry.Selection) []string {
	w.Helper()
	if len(s.IDs) > 0 {
		s.Limit = 0
	}
	return w.walk(s)
}

func boundsArchived(w *World) {
	w.standard()
	first := w.archive("gone0")
	at := w.now
	w.advance(10 * time.Second)
	w.archive("gone1")
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Archived, IDs: []string{"act_gone0", "act_none"}})
	w.must(err, "list")
	w.expect(len(rec.Archived) == 1, "listed are %s", text(rec.Archived))
	a := rec.Archived[0]
	w.expect(a.Action == first.Route.Action && a.Tenant == acme() && a.Capability == first.Route.Capability && near(a.ArchivedAt, at),
		"it is listed as %s", text(a))
	w.expect(a.Content == nil && a.Route != nil && a.Route.ArchivedAt.Equal(a.ArchivedAt) && a.Route.Record != nil, "its route is listed as %s", text(a))
	w.expect(text(*a.Route.Record) == text(first), "its route was %s, and is kept as %s", text(first), text(*a.Route.Record))
	for s, want := range map[string]registry.Selection{
		"[act_gone1 act_gone0]": {}, "[act_gone1]": {Since: a.ArchivedAt.Add(time.Microsecond)},
		"[act_gone0]": {Since: a.ArchivedAt, Until: a.ArchivedAt.Add(time.Microsecond)}, "[]": {Tenant: globex()},
	} {
		want.Noun = registry.Archived
		w.expect(fmt.Sprint(w.walk(want)) == s, "listed are %v, want %s", w.walk(want), s)
	}
	rec.Archived[0].Route.Record.Attempts[0].Settlement.Code = "changed by its reader"
	again, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Archived, IDs: []string{"act_gone0"}})
	w.must(err, "list")
	w.expect(text(*again.Archived[0].Route.Record) == text(first), "a reader changed what is archived")
}

// near allows for a clock that runs on.
func near(t, at time.Time) bool { return !t.Before(at) && t.Before(at.Add(5*time.Second)) }

func boundsUnknown(w *World) {
	w.standard()
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Replicas, IDs: []string{"crepl_acme_a", "crepl_gone", "no id at all"}})
	w.must(err, "list")
	w.expect(len(rec.Replicas) == 1 && rec.Next == "", "listed are %v", idsOf(rec))
}

func boundsStatus(w *World) {
	w.standard()
	w.resolve("one")
	w.settle(w.resolve("two"), fleet.OutcomeUnknown)
	w.depart(replicaID(acme(), "b"), true)
	w.intend(replicaID(globex(), "a"), fleet.IntentDrain)
	s, err := w.Reader.Status(w.ctx())
	w.must(err, "status")
	w.expect(s.Revision == 3 && s.ReplicasDeclared == 3 && s.Instances == 2 && s.Bindings == 3 && s.Routes == 2, "status is %s", text(s))
	w.expect(s.Replicas[fleet.ReplicaReady] == 2 && s.Replicas[fleet.ReplicaOffline] == 1 && s.DrainIntent == 1, "replicas are %s", text(s))
	w.expect(s.Capacity == 8 && s.Active == 1 && s.Versions[fleet.VersionActive] == 1 && s.Uncertain[fleet.ReconcileOpen] == 1, "status is %s", text(s))
	w.expect(s.LeasesEnding == 0 && s.CircuitsOpen == 0 && s.Unhealthy == 0, "status is %s", text(s))
	w.advance(leaseTTL - 5e9)
	s, err = w.Reader.Status(w.ctx())
	w.must(err, "status")
	w.expect(s.LeasesEnding == 2 && s.OldestUncertain >= leaseTTL-5e9, "later the status is %s", text(s))
}

func boundsEmpty(w *World) {
	p, err := w.Catalog.Query(w.ctx(), acme(), registry.CatalogQuery{})
	w.must(err, "query")
	w.expect(p.Revision == 0 && len(p.Items) == 0 && p.Next == "", "the empty catalog is %s", text(p))
	_, err = w.try("one")
	w.refused(err, fleet.BindingUnavailable, "")
	_, err = w.Router.Lookup(w.ctx(), acme(), actionID("one"))
	w.refused(err, fleet.NotFound, "")
	for _, noun := range registry.Nouns() {
		w.expect(len(w.walk(registry.Selection{Noun: noun})) == 0, "%s are not empty", noun)
	}
	w.expect(w.expire() == registry.Expiry{}, "an empty registry has something to expire")
}
