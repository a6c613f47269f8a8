package registrytest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func catalogCases() []Case {
	return []Case{
		{Name: "G14/pages_join_without_gap_or_double", Why: "a page boundary must not lose or repeat a capability", Run: catalogPages},
		{Name: "G14/cursor_of_another_revision_is_stale", Why: "pages of two revisions joined are a catalog that never was", Run: catalogStale},
		{Name: "G14/cursor_is_bound_to_tenant_and_filter", Why: "a cursor carried to another query reads from the wrong place, or of the wrong tenant", Run: catalogCursorBound},
		{Name: "G14/altered_cursor_is_refused", Why: "an unauthenticated cursor is an input that the client writes", Run: catalogCursorForged},
		{Name: "G16/page_holds_its_bounds", Why: "one tenant's large catalog must not fill a process's memory", Run: catalogBounds},
		{Name: "G16/query_limits_are_the_registry's", Why: "a limit that the caller enforces is none", Run: catalogLimits},
		{Name: "G08/visible_is_what_a_valid_chain_offers", Why: "a capability that is shown and cannot be routed, or the reverse, is a lie", Run: catalogVisible},
		{Name: "G14/search_is_literal_and_folded", Why: "a wildcard in search text reads more than was asked", Run: catalogSearch},
		{Name: "G14/exact_and_profile_filter", Why: "filters are judged in the registry, and alike for Get and Query", Run: catalogFilters},
		{Name: "G18/query_without_tenant_is_empty", Why: "no tenant must not mean every tenant", Run: catalogNoTenant},
		{Name: "G34/oldest_contract_is_shown_during_a_rollout", Why: "while two versions serve, the caller must be told what both accept", Run: catalogRollout},
	}
}

func (w *World) query(q registry.CatalogQuery) registry.CatalogPage {
	w.Helper()
	p, err := w.Catalog.Query(w.ctx(), acme(), q)
	w.must(err, "query")
	return p
}

func ids(p registry.CatalogPage) []string {
	out := []string{}
	for _, i := range p.Items {
		out = append(out, i.Definition.ID.String())
	}
	return out
}

// wide publishes a version with n capabilities, each definition with padding of the
// given size, all bound for acme.
func (w *World) wide(n, padding int) {
	w.Helper()
	v := deskVersion(1)
	var definitions []fleet.CapabilityDefinition
	var bindings []fleet.CapabilityBinding
	for i := range n {
		d := definition(parsed(fleet.ParseCapabilityID(fmt.Sprintf("wide:%c%03d", "aB~_"[i%4], i))), fleet.EffectRead)
		d.InputSchema = json.RawMessage(`{"type":"object","description":"` + strings.Repeat("x", padding) + `"}`)
		definitions = append(definitions, d)
		bindings = append(bindings, deskBinding(acme(), d.ID))
	}
	v.Manifest = manifestOf(v.Version, definitions...)
	w.publish(registry.ChangeSet{Types: []fleet.ConnectorType{deskType()}, Trust: trustOne()})
	w.admit(v)
	w.publish(registry.ChangeSet{Instances: []fleet.ConnectorInstance{deskInstance(acme())}, Bindings: bindings})
}

func catalogPages(w *World) {
	w.wide(25, 10)
	var got []string
	q := registry.CatalogQuery{Limit: 4}
	for range 10 {
		p := w.query(q)
		w.expect(p.Revision == w.revision(), "the page is of revision %d", p.Revision)
		got = append(got, ids(p)...)
		if q.Cursor = p.Next; q.Cursor == "" {
			break
		}
	}
	w.expect(len(got) == 25, "the pages hold %d capabilities, want 25", len(got))
	w.expect(slices.IsSorted(got), "they are not ordered bytewise: %v", got)
	w.expect(len(slices.Compact(slices.Clone(got))) == len(got), "one is listed twice: %v", got)
}

func catalogStale(w *World) {
	w.wide(6, 10)
	p := w.query(registry.CatalogQuery{Limit: 2})
	w.publish(registry.ChangeSet{Quotas: []fleet.QuotaPolicy{quota("other", func(*fleet.QuotaPolicy) {})}})
	_, err := w.Catalog.Query(w.ctx(), acme(), registry.CatalogQuery{Limit: 2, Cursor: p.Next})
	w.refused(err, fleet.StaleCursor, "")
}

func catalogCursorBound(w *World) {
	w.wide(6, 10)
	p := w.query(registry.CatalogQuery{Limit: 2, Search: "wide"})
	for what, q := range map[string]registry.CatalogQuery{
		"search":  {Limit: 2, Cursor: p.Next},
		"exact":   {Limit: 2, Search: "wide", Exact: open(), Cursor: p.Next},
		"profile": {Limit: 2, Search: "wide", Profile: "aip.core.v1", Cursor: p.Next},
		"unbound": {Limit: 2, Search: "wide", Unbound: true, Cursor: p.Next},
	} {
		_, err := w.Catalog.Query(w.ctx(), acme(), q)
		w.expect(fleet.Is(err, fleet.Invalid), "cursor carried to another %s: %v", what, err)
	}
	_, err := w.Catalog.Query(w.ctx(), globex(), registry.CatalogQuery{Limit: 2, Search: "wide", Cursor: p.Next})
	w.refused(err, fleet.Invalid, "")
	next := w.query(registry.CatalogQuery{Limit: 3, Search: "wide", Cursor: p.Next})
	w.expect(len(next.Items) == 3, "another page size was refused or cut: %v", ids(next))
}

func catalogCursorForged(w *World) {
	w.wide(6, 10)
	p := w.query(registry.CatalogQuery{Limit: 2})
	for i := range len(p.Next) {
		forged := []byte(p.Next)
		if forged[i] = 'A'; p.Next[i] == 'A' {
			forged[i] = 'B'
		}
		_, err := w.Catalog.Query(w.ctx(), acme(), registry.CatalogQuery{Limit: 2, Cursor: string(forged)})
		w.expect(fleet.Is(err, fleet.Invalid), "character %d altered: %v", i, err)
	}
	for _, forged := range []string{"!", p.Next + "A", p.Next[:len(p.Next)-2], strings.Repeat("A", 5000)} {
		_, err := w.Catalog.Query(w.ctx(), acme(), registry.CatalogQuery{Limit: 2, Cursor: forged})
		w.expect(fleet.Is(err, fleet.Invalid), "cursor of %d characters: %v", len(forged), err)
	}
}

func catalogBounds(w *World) {
	w.wide(15, 250<<10)
	q, seen := registry.CatalogQuery{Limit: 200}, 0
	for range 20 {
		p := w.query(q)
		size := 0
		for _, i := range p.Items {
			raw, _ := json.Marshal(i.Definition)
			size += len(raw)
		}
		w.expect(size <= registry.MaxPageBytes, "a page has %d bytes", size)
		w.expect(len(p.Items) > 0, "an empty page has a next one")
		seen += len(p.Items)
		if q.Cursor = p.Next; q.Cursor == "" {
			break
		}
	}
	w.expect(seen == 15, "the pages hold %d capabilities, want 15", seen)
	w.expect(len(w.query(registry.CatalogQuery{Limit: 3}).Items) == 3, "a page of 3 has another size")
}

func catalogLimits(w *World) {
	w.standard()
	for what, q := range map[string]registry.CatalogQuery{
		"limit above the most": {Limit: registry.MaxPageItems + 1},
		"negative limit":       {Limit: -1},
		"long search":          {Search: strings.Repeat("x", registry.MaxSearchBytes+1)},
	} {
		_, err := w.Catalog.Query(w.ctx(), acme(), q)
		w.expect(fleet.Is(err, fleet.Invalid), "%s: %v", what, err)
	}
	w.expect(len(w.query(registry.CatalogQuery{}).Items) == 2, "the default limit hides something")
}

// visible reports what Get, Query and Resolve say about acme's desk:open; they must agree.
func (w *World) visible(action string) bool {
	w.Helper()
	_, getErr := w.Catalog.Get(w.ctx(), acme(), open())
	listed := slices.Contains(ids(w.query(registry.CatalogQuery{})), open().String())
	w.expect((getErr == nil) == listed, "Get says %v, Query lists it: %v", getErr, listed)
	if getErr != nil {
		w.refused(getErr, fleet.NotFound, "catalog.capability")
	}
	_, err := w.try(action)
	w.expect((err == nil) == listed, "it is listed: %v, resolve says %v", listed, err)
	if !listed {
		w.expect(fleet.Is(err, fleet.BindingUnavailable), "resolve of a hidden capability: %v", err)
	}
	return listed
}

func catalogVisible(w *World) {
	w.standard()
	w.expect(w.visible("v0"), "the standard fleet's capability is not visible")
	steps := []struct {
		name string
		off  registry.ChangeSet
	}{
		{"binding", registry.ChangeSet{Bindings: []fleet.CapabilityBinding{deskBinding(acme(), open())}}},
		{"instance", registry.ChangeSet{Instances: []fleet.ConnectorInstance{deskInstance(acme())}}},
		{"type", registry.ChangeSet{Types: []fleet.ConnectorType{deskType()}}},
	}
	for i, s := range steps {
		w.publish(toggled(s.off, false, uint64(2*i+2)))
		w.expect(!w.visible(fmt.Sprintf("off%d", i)), "it is visible with its %s disabled", s.name)
		w.publish(toggled(s.off, true, uint64(2*i+3)))
		w.expect(w.visible(fmt.Sprintf("on%d", i)), "it is hidden with its %s enabled again", s.name)
	}
	for i, s := range []struct {
		to   fleet.VersionStatus
		want bool
	}{{fleet.VersionQuarantined, false}, {fleet.VersionActive, true}, {fleet.VersionDeprecated, true}, {fleet.VersionRevoked, false}} {
		w.transition(versionID(1), s.to)
		w.expect(w.visible(fmt.Sprintf("status%d", i)) == s.want, "with a version that is %s, visible is not %v", s.to, s.want)
	}
}

// toggled sets enabled on the set's records, with grown revisions.
func toggled(s registry.ChangeSet, on bool, revision uint64) registry.ChangeSet {
	s.Bindings, s.Instances, s.Types = slices.Clone(s.Bindings), slices.Clone(s.Instances), slices.Clone(s.Types)
	for i := range s.Bindings {
		s.Bindings[i].Enabled, s.Bindings[i].PolicyRevision = on, revision
	}
	for i := range s.Instances {
		s.Instances[i].Enabled, s.Instances[i].ConfigRevision = on, revision
	}
	for i := range s.Types {
		s.Types[i].Enabled = on
	}
	return s
}

func catalogSearch(w *World) {
	w.standard()
	for text, want := range map[string]int{
		"DESK:OPEN": 1, "name OF desk": 2, "What": 2, "desk": 2, "%": 0, "d_sk": 0, "desk%": 0, `\`: 0, "'": 0, "": 2,
	} {
		got := len(w.query(registry.CatalogQuery{Search: text}).Items)
		w.expect(got == want, "search %q finds %d, want %d", text, got, want)
	}
}

func catalogFilters(w *World) {
	w.standard()
	for what, c := range map[string]struct {
		q    registry.CatalogQuery
		want int
	}{
		"exact":           {registry.CatalogQuery{Exact: read()}, 1},
		"exact, unknown":  {registry.CatalogQuery{Exact: parsed(fleet.ParseCapabilityID("desk:none"))}, 0},
		"profile":         {registry.CatalogQuery{Profile: "aip.core.v1"}, 2},
		"unknown profile": {registry.CatalogQuery{Profile: "aip.core.v2"}, 0},
		"both":            {registry.CatalogQuery{Exact: read(), Search: "read", Profile: "aip.core.v1"}, 1},
	} {
		got := len(w.query(c.q).Items)
		w.expect(got == c.want, "%s finds %d, want %d", what, got, c.want)
	}
}

func catalogNoTenant(w *World) {
	w.standard()
	p, err := w.Catalog.Query(w.ctx(), fleet.TenantID{}, registry.CatalogQuery{})
	w.must(err, "query without tenant")
	w.expect(len(p.Items) == 0 && p.Next == "", "without a tenant %d are listed", len(p.Items))
	_, err = w.Catalog.Get(w.ctx(), fleet.TenantID{}, open())
	w.refused(err, fleet.NotFound, "catalog.capability")
	p, err = w.Catalog.Query(w.ctx(), fleet.TenantID{}, registry.CatalogQuery{Unbound: true})
	w.must(err, "unbound query")
	w.expect(len(p.Items) == 2, "administration sees %d definitions, want 2", len(p.Items))
}

func catalogRollout(w *World) {
	w.standard()
	v2 := deskVersion(2)
	v2.Manifest.Capabilities[0].InputSchema = json.RawMessage(
		`{"type":"object","properties":{"title":{"type":"string"},"note":{"type":"string"}},"required":["title"]}`)
	w.admit(v2)
	i := deskInstance(acme())
	i.ConfigRevision = 2
	i.Serving = []fleet.ServingVersion{{Version: versionID(1), Weight: 50}, {Version: versionID(2), Weight: 50}}
	w.publish(registry.ChangeSet{Instances: []fleet.ConnectorInstance{i}})
	shows := func(note bool, when string) {
		l, err := w.Catalog.Get(w.ctx(), acme(), open())
		w.must(err, "get")
		w.expect(strings.Contains(string(l.Definition.InputSchema), "note") == note, "%s the schema is %s", when, l.Definition.InputSchema)
		w.expect(!l.ContractDigest.IsZero() && l.Revision == w.revision(), "the listing lacks digest or revision: %+v", l)
	}
	shows(false, "while both serve")
	i.ConfigRevision, i.Serving[0].Weight = 3, 0
	w.publish(registry.ChangeSet{Instances: []fleet.ConnectorInstance{i}})
	shows(true, "with the old one at weight 0")
}
