package registrytest

import (
	"fmt"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func tenancyCases() []Case {
	return []Case{
		{Name: "G18/foreign_action_is_like_none", Why: "a different answer tells that the action exists", Run: tenancyLookup},
		{Name: "G18/foreign_capability_is_like_none", Why: "a different answer tells what another tenant has", Run: tenancyCapability},
		{Name: "G18/lists_hold_to_their_tenant", Why: "an operator of one tenant must not page through another", Run: tenancyLists},
		{Name: "G18/answers_do_not_depend_on_other_tenants", Why: "whatever another tenant does must not show", Run: tenancyNonInterference},
		{Name: "G18/refusals_name_no_foreign_identity", Why: "an error text is an answer too", Run: tenancyErrors},
		{Name: "G18/foreign_settlement_is_refused", Why: "an assignment re-labelled with another tenant must not settle", Run: tenancySettle},
		{Name: "G18/same_capability_on_two_accounts_never_mixes", Why: "one tenant's action must never run under another's credentials", Run: tenancyNeverMixes},
		{Name: "G18/tenant_limits_are_separate", Why: "one tenant at its limit must not stop another", Run: tenancyLimits},
	}
}

func tenancyLookup(w *World) {
	w.standard()
	w.resolve("one")
	_, foreign := w.Router.Lookup(w.ctx(), globex(), actionID("one"))
	w.refused(foreign, fleet.NotFound, "route.action")
	_, none := w.Router.Lookup(w.ctx(), globex(), actionID("two"))
	w.refused(none, fleet.NotFound, "route.action")
	w.expect(strings.ReplaceAll(foreign.Error(), "act_one", "act_two") == none.Error(), "foreign: %q, none: %q", foreign, none)
}

func tenancyCapability(w *World) {
	w.standard()
	_, foreign := w.Catalog.Get(w.ctx(), globex(), read())
	_, none := w.Catalog.Get(w.ctx(), globex(), parsed(fleet.ParseCapabilityID("desk:rexd")))
	w.refused(foreign, fleet.NotFound, "catalog.capability")
	w.expect(strings.ReplaceAll(foreign.Error(), "read", "rexd") == none.Error(), "foreign: %q, none: %q", foreign, none)
	p, err := w.Catalog.Query(w.ctx(), globex(), registry.CatalogQuery{})
	w.must(err, "query")
	w.expect(len(p.Items) == 1 && p.Items[0].Definition.ID == open(), "globex sees %v", ids(p))
	req := request("one")
	req.Tenant, req.Capability = globex(), read()
	_, err = w.Router.Resolve(w.ctx(), req)
	w.refused(err, fleet.BindingUnavailable, "")
}

func tenancyLists(w *World) {
	w.standard()
	w.settle(w.resolve("one"), fleet.OutcomeUnknown)
	for _, noun := range []registry.Noun{registry.Instances, registry.Replicas, registry.Bindings, registry.Routes, registry.Reconciliations, registry.Tenants, registry.Capabilities} {
		all, err := w.Reader.List(w.ctx(), registry.Selection{Noun: noun, Tenant: globex()})
		w.must(err, "list")
		w.expect(!strings.Contains(text(all), "acme"), "%s of globex hold %s", noun, text(all))
		all, err = w.Reader.List(w.ctx(), registry.Selection{Noun: noun, Tenant: acme()})
		w.must(err, "list")
		w.expect(!strings.Contains(text(all), "globex"), "%s of acme hold %s", noun, text(all))
		w.expect(strings.Contains(text(all), "desk:") || strings.Contains(text(all), "acme"), "%s of acme are empty", noun)
	}
	foreign, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Routes, Tenant: globex(), IDs: []string{"act_one"}})
	w.must(err, "list")
	w.expect(len(foreign.Routes) == 0, "a foreign route is listed by its id")
}

// tenancyNonInterference asks everything that acme can ask, before and after globex
// works, and expects the same answers.
func tenancyNonInterference(w *World) {
	w.standard()
	w.settle(w.resolve("one"), fleet.OutcomeCompleted)
	ask := func() string {
		var b strings.Builder
		say := func(v any, err error) { fmt.Fprintln(&b, text(v), err) }
		say(w.Catalog.Query(w.ctx(), acme(), registry.CatalogQuery{}))
		say(w.Catalog.Get(w.ctx(), acme(), open()))
		say(w.Router.Lookup(w.ctx(), acme(), actionID("one")))
		say(w.Router.Lookup(w.ctx(), acme(), actionID("none")))
		e, err := w.Router.Explain(w.ctx(), request("new"))
		e.At = w.now
		say(e, err)
		for _, noun := range []registry.Noun{registry.Instances, registry.Replicas, registry.Bindings, registry.Routes, registry.Reconciliations} {
			say(w.Reader.List(w.ctx(), registry.Selection{Noun: noun, Tenant: acme()}))
		}
		return b.String()
	}
	before := ask()
	for i := range 3 {
		req := request(fmt.Sprintf("g%d", i))
		req.Tenant = globex()
		a, err := w.Router.Resolve(w.ctx(), req)
		w.must(err, "resolve for globex")
		if i > 0 {
			w.settle(a, fleet.OutcomeUnknown)
		}
	}
	w.depart(replicaID(globex(), "a"), false)
	w.expect(ask() == before, "after globex worked, acme is answered\n%s\nbefore\n%s", ask(), before)
}

func tenancyErrors(w *World) {
	w.standard()
	req := request("g")
	req.Tenant = globex()
	_, err := w.Router.Resolve(w.ctx(), req)
	w.must(err, "resolve for globex")
	_, err = w.Router.Resolve(w.ctx(), request("g"))
	for _, word := range []string{"globex", "crepl", "cinst"} {
		e := fleet.AsError(err, "")
		w.expect(!strings.Contains(e.Error()+e.Next+e.Scope, word), "a conflict with a foreign action says %q", e.Error())
	}
}

func tenancySettle(w *World) {
	w.standard()
	a := w.resolve("one")
	a.Route.Tenant = globex()
	_, err := w.Router.Settle(w.ctx(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
	w.refused(err, fleet.FenceLost, "settle.fence_lost")
	w.expect(!w.lookup("one").Current().Settled(), "it was settled")
}

func tenancyNeverMixes(w *World) {
	w.standard()
	for i := range 4 {
		a := w.resolve(fmt.Sprintf("a%d", i))
		req := request(fmt.Sprintf("g%d", i))
		req.Tenant = globex()
		g, err := w.Router.Resolve(w.ctx(), req)
		w.must(err, "resolve for globex")
		w.expect(a.Route.Instance == instanceID(acme()) && g.Route.Instance == instanceID(globex()), "acme got %s, globex %s", a.Route.Instance, g.Route.Instance)
	}
}

func tenancyLimits(w *World) {
	w.standard()
	w.tighten(keep, func(q *fleet.QuotaPolicy) { q.Tenant = limit(1) })
	w.resolve("one")
	_, err := w.try("two")
	w.refused(err, fleet.CapacityExceeded, "")
	req := request("g")
	req.Tenant = globex()
	_, err = w.Router.Resolve(w.ctx(), req)
	w.must(err, "resolve for globex while acme is full")
}
