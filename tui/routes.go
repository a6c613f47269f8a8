package tui

import (
	"strconv"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// routeItem is a route and where the question about its newest attempt stands.
type routeItem struct {
	registry.RouteRecord
	question string // "", open, operator, or the resolution
}

// routeColumns is the routes screen. The names are those of aipctl get routes.
func routeColumns() []column[routeItem] {
	type r = routeItem
	return []column[r]{
		{name: "action", title: "ACTION", width: 40, floor: 18, ident: true, text: routeKey},
		{name: "state", title: "STATE", width: 17, sign: true, text: func(x *r) string { return routeState(x.RouteRecord) }},
		{name: "uncertain", title: "ANSWER", width: 14, rank: 5, text: func(x *r) string { return x.question }},
		{name: "fence", title: "FENCE", width: 5, rank: 6, right: true, text: func(x *r) string { return strconv.Itoa(len(x.Attempts)) },
			count: func(x *r) float64 { return float64(len(x.Attempts)) }},
		{name: "replica", title: "REPLICA", width: 40, floor: 16, rank: 1, ident: true, text: func(x *r) string { return x.Route.Replica.String() }},
		{name: "assigned", title: "AGE", width: 6, at: func(x *r) time.Time { return x.Route.AssignedAt }},
		{name: "capability", title: "CAPABILITY", width: 32, floor: 12, rank: 2, text: func(x *r) string { return x.Route.Capability.String() }},
		{name: "tenant", title: "TENANT", width: 20, floor: 8, rank: 3, text: func(x *r) string { return x.Route.Tenant.String() }},
		{name: "code", title: "CODE", width: 28, floor: 12, rank: 7, text: func(x *r) string { return lastCode(x.RouteRecord) }},
		{name: "took", title: "TOOK", width: 6, rank: 4, right: true, text: tookText, count: took},
		{name: "zone", title: "ZONE", width: 12, rank: 8, text: func(x *r) string { return x.Route.Topology.Zone }},
		{name: "instance", title: "INSTANCE", width: 40, floor: 14, rank: 9, ident: true, text: func(x *r) string { return x.Route.Instance.String() }},
		{name: "version", title: "VERSION", width: 40, floor: 14, rank: 10, ident: true, text: func(x *r) string { return x.Route.Version.String() }},
		{name: "revision", text: func(x *r) string { return strconv.FormatUint(x.Route.CatalogRevision, 10) },
			count: func(x *r) float64 { return float64(x.Route.CatalogRevision) }},
		{name: "credential", text: func(x *r) string { return x.Route.CredentialRevisionRef }},
	}
}

func routeKey(x *routeItem) string { return x.Route.Action.String() }

// routeState is the state of the newest attempt, in the words of the registry.
func routeState(r registry.RouteRecord) string {
	switch {
	case len(r.Attempts) == 0:
		return "unreserved"
	case r.Current().Settled():
		return string(r.Current().Settlement.Outcome)
	}
	return "reserved"
}

func lastCode(r registry.RouteRecord) string {
	if len(r.Attempts) > 0 && r.Current().Settled() {
		return r.Current().Settlement.Code
	}
	return ""
}

// took is how many seconds the newest attempt was held.
func took(x *routeItem) float64 {
	if len(x.Attempts) == 0 || !x.Current().Settled() {
		return 0
	}
	return x.Current().Settlement.SettledAt.Sub(x.Current().ReservedAt).Seconds()
}

func tookText(x *routeItem) string {
	if len(x.Attempts) == 0 || !x.Current().Settled() {
		return ""
	}
	return span(time.Duration(took(x) * float64(time.Second)))
}

// question says where an uncertain attempt stands, in one word.
func question(u fleet.Reconciliation) string {
	if u.State == fleet.ReconcileResolved {
		return string(u.Resolution)
	}
	return string(u.State)
}

// routeItems joins routes with the newest question of each.
func routeItems(routes []registry.RouteRecord, questions []fleet.Reconciliation) []routeItem {
	newest := make(map[fleet.ActionID]fleet.Reconciliation, len(questions))
	for _, u := range questions {
		if old, ok := newest[u.Action]; !ok || u.Fence > old.Fence {
			newest[u.Action] = u
		}
	}
	items := make([]routeItem, len(routes))
	for i, r := range routes {
		items[i].RouteRecord = r
		if u, ok := newest[r.Route.Action]; ok {
			items[i].question = question(u)
		}
	}
	return items
}

// routeSelection asks the registry for what the filter names exactly.
func routeSelection(f filter, fields []string) registry.Selection {
	s := registry.Selection{Noun: registry.Routes, State: f.exact(fields, "state")}
	if s.State == "reserved" {
		s.State, s.Reserved = "", true
	}
	narrowIDs(&s, f, fields)
	return s
}

// veiled is the route without the tokens of its fences, which are between the
// registry and the host (G06).
func veiled(r registry.RouteRecord) registry.RouteRecord {
	attempts := append([]fleet.Attempt(nil), r.Attempts...)
	for i := range attempts {
		attempts[i].Fence.Token = ""
	}
	r.Attempts = attempts
	return r
}
