package showcase

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// record is everything that was stored about the demonstration, by whom it may.
type record struct {
	actions  []storedAction              // the central store
	snapshot registry.Snapshot           // the registry
	events   []registry.Event            // its journal, oldest first
	journals map[string][]journal.Record // by replica: what each host knows
	effects  []desk.Effect               // the provider's own stores
}

// storedAction is a row of the central store.
type storedAction struct {
	ID, Tenant, Capability, State string
}

// read reads all of it; the hosts must have ended.
func (s *show) read(ctx context.Context) (record, error) {
	var r record
	var err error
	if r.actions, err = s.readActions(ctx); err != nil {
		return r, err
	}
	if err := s.readRegistry(ctx, &r); err != nil {
		return r, err
	}
	r.journals = map[string][]journal.Record{}
	for _, h := range s.fleet.Hosts() {
		if r.journals[h.Replica], err = s.readJournal(h); err != nil {
			return r, err
		}
	}
	for _, tenant := range localfleet.Tenants() {
		effects, err := desk.ReadEffects(s.fleet.Place().Account(tenant))
		if err != nil {
			return r, err
		}
		r.effects = append(r.effects, effects...)
	}
	return r, nil
}

// readActions reads the central store under the readonly role.
func (s *show) readActions(ctx context.Context) ([]storedAction, error) {
	url, err := os.ReadFile(s.fleet.Place().Secret("readonly.url"))
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, strings.TrimSpace(string(url)))
	if err != nil {
		return nil, fleet.Errorf(fleet.Unavailable, "demo.read", "the central store cannot be read").Caused(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	rows, err := conn.Query(ctx, `SELECT action_id, tenant_id, capability_id, state FROM aip.action JOIN aip.action_state USING (action_id)`)
	if err != nil {
		return nil, fleet.Errorf(fleet.Unavailable, "demo.read", "the central store cannot be read").Caused(err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[storedAction])
}

func (s *show) readRegistry(ctx context.Context, r *record) error {
	reg, err := s.Registry(ctx)
	if err != nil {
		return err
	}
	defer reg.Close()
	if r.snapshot, err = reg.Snapshot(ctx); err != nil {
		return err
	}
	after := ""
	for {
		page, err := reg.List(ctx, registry.Selection{Noun: registry.Events, After: after, Limit: registry.MaxListItems})
		if err != nil {
			return err
		}
		r.events = append(r.events, page.Events...)
		if after = page.Next; after == "" {
			return nil
		}
	}
}

func (s *show) readJournal(h localfleet.Host) (all []journal.Record, err error) {
	j, err := journal.Open(filepath.Join(s.fleet.Place().HostState(h.Replica), "journal.db"), journal.Options{Now: s.Now})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	var after fleet.ActionID
	for {
		page, err := j.List(after, 500)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all, after = append(all, page...), page[len(page)-1].Action
	}
}

func (r record) effectsByTenant() map[string]int {
	n := map[string]int{}
	for _, e := range r.effects {
		n[e.Account]++
	}
	return n
}

// calls sums the calls that the hosts began.
func (r record) calls() int {
	n := 0
	for _, list := range r.journals {
		for _, rec := range list {
			n += int(rec.Calls)
		}
	}
	return n
}

// unknown counts attempts that were released without a definite answer.
func (r record) unknown() int {
	n := 0
	for _, route := range r.snapshot.Routes {
		for _, a := range route.Attempts {
			if a.Settlement != nil && !a.Settlement.Outcome.Definite() {
				n++
			}
		}
	}
	return n
}

// reconciled counts records that were closed.
func (r record) reconciled() int {
	n := 0
	for _, rec := range r.snapshot.Reconciliations {
		if rec.State == fleet.ReconcileResolved {
			n++
		}
	}
	return n
}

// duplicates counts effects beyond the first of one action.
func (r record) duplicates() int {
	n, seen := desk.Count(r.effects).Duplicates, map[string]bool{}
	for _, e := range r.effects {
		if seen[e.ActionID] {
			n++
		}
		seen[e.ActionID] = true
	}
	return n
}

// drained counts the drains of replicas that ended well: between the operator's wish
// and its end, no attempt that was reserved on the replica stayed unsettled.
func (r record) drained() int {
	n := 0
	for _, e := range r.events {
		if e.Kind == "intent" && e.Detail == string(fleet.IntentDrain) && r.emptied(e) {
			n++
		}
	}
	return n
}

func (r record) emptied(drain registry.Event) bool {
	end := r.snapshot.At
	for _, e := range r.events {
		if e.Kind == "intent" && e.Subject == drain.Subject && e.Sequence > drain.Sequence && e.At.Before(end) {
			end = e.At
		}
	}
	finished := 0
	for _, route := range r.snapshot.Routes {
		if route.Route.Replica.String() != drain.Subject {
			continue
		}
		for _, a := range route.Attempts {
			if a.ReservedAt.After(end) {
				continue
			}
			if a.Settlement == nil || a.Settlement.SettledAt.After(end) {
				return false
			}
			if within(a.Settlement.SettledAt, drain.At, end) {
				finished++
			}
		}
	}
	return finished > 0 // it had something to wait for
}

func within(t, from, to time.Time) bool { return !t.Before(from) && !t.After(to) }

// mutates lists the tools that have an effect.
func mutates(capability string) bool {
	_, tool, _ := strings.Cut(capability, ":")
	return tool == desk.OpenTicketTool || tool == desk.CommentTicketTool || tool == desk.CloseTicketTool
}

// completedEffects counts completed actions that must have had an effect.
func (r record) completedEffects() int {
	n := 0
	for _, a := range r.actions {
		if a.State == "completed" && mutates(a.Capability) {
			n++
		}
	}
	return n
}

// flaws compares the stores with each other, action by action.
func (r record) flaws() []string {
	var flaws []string
	routes := map[string]fleet.RouteAssignment{}
	for _, route := range r.snapshot.Routes {
		routes[route.Route.Action.String()] = route.Route
	}
	for _, a := range r.actions {
		if route, ok := routes[a.ID]; ok && (route.Tenant.String() != a.Tenant || route.Capability.String() != a.Capability) {
			flaws = append(flaws, fmt.Sprintf("action %s and its route differ", a.ID))
		}
	}
	for _, e := range r.effects {
		route, ok := routes[e.ActionID]
		if !ok || route.Tenant.String() != e.Account {
			flaws = append(flaws, fmt.Sprintf("effect %s of account %s has no route of that tenant", e.OperationID, e.Account))
		}
	}
	for replica, list := range r.journals {
		for _, rec := range list {
			if route, ok := routes[rec.Action.String()]; !ok || route.Replica.String() != replica {
				flaws = append(flaws, fmt.Sprintf("%s has %s in its journal, which is not pinned to it", replica, rec.Action))
			}
			if rec.State == journal.Unknown || int(rec.Calls) > 1+len(rec.Decisions) {
				flaws = append(flaws, fmt.Sprintf("%s ended %s as %s after %d calls", replica, rec.Action, rec.State, rec.Calls))
			}
		}
	}
	return flaws
}
