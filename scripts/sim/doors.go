package sim

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

// doors are everything that one run of an aipd reaches outside itself. At each door
// it may be killed before and after, the other side may be away, or its answer be lost.
type doors struct {
	w *world
	l *life
}

// Rates of the stores' faults, at each call.
const (
	awayRate  = 0.01
	quietRate = 0.01
)

// through passes a door: op is what the other side does.
func (d doors) through(step, subject string, op func() error) error {
	if err := d.w.cross(d.l, killAt("before "+step), subject); err != nil {
		return err
	}
	name := d.l.name + " " + step + " " + subject
	n := d.l.next(name)
	d.w.note("ask", name)
	time.Sleep(d.w.between(100*time.Microsecond, 3*time.Millisecond, "store", name, n))
	if d.w.stormy() && d.w.chance(awayRate, "away", name, n) {
		d.w.fault(storeAway, name)
		return fleet.Errorf(fleet.Unavailable, "sim.away", "the database is away")
	}
	err := op()
	if gone := d.w.cross(d.l, killAt("after "+step), subject); gone != nil {
		return gone
	}
	if err == nil && d.w.stormy() && d.w.chance(quietRate, "quiet", name, n) {
		d.w.fault(storeNoReply, name)
		return fleet.Errorf(fleet.Unknown, "sim.no_reply", "the database's answer was lost")
	}
	return err
}

// get is through for what returns a value. A lost answer has none.
func get[T any](d doors, step, subject string, op func() (T, error)) (T, error) {
	var out T
	err := d.through(step, subject, func() error {
		var err error
		out, err = op()
		return err
	})
	if err != nil && fleet.CodeOf(err) == "sim.no_reply" {
		var none T
		return none, err
	}
	return out, err
}

// read takes the time of a read. Reads change nothing and are not made to fail.
func (d doors) read(what string) error {
	name := d.l.name + " " + what
	if err := d.w.pass(d.l, name); err != nil {
		return err
	}
	n := d.l.next(name)
	d.w.note("read", name)
	time.Sleep(d.w.between(50*time.Microsecond, time.Millisecond, "read", name, n))
	return d.w.pass(d.l, name)
}

func first(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return " " + ids[0]
}

// Post implements dispatch.Sender.
func (d doors) Post(ctx context.Context, endpoint peer.Endpoint, path string, body []byte) (peer.Reply, error) {
	p := d.w.network.parcel(d.l.name, endpoint.String(), path, body)
	if d.w.cross(d.l, killAt("before send"), p.key) != nil {
		return peer.Reply{}, unreachable(nil)
	}
	reply, err := d.w.network.post(ctx, p)
	if d.w.cross(d.l, killAt("after send"), p.key) != nil {
		return peer.Reply{}, interrupted()
	}
	return reply, err
}

// Resolve implements registry.Router.
func (d doors) Resolve(ctx context.Context, r registry.RouteRequest) (fleet.Assignment, error) {
	a, err := get(d, "resolve", r.Action.String(), func() (fleet.Assignment, error) { return d.w.registry.Resolve(ctx, r) })
	if err == nil && d.w.options.Plant.NewTarget {
		a = d.w.elsewhere(ctx, a)
	}
	return a, err
}

// ResolveBatch implements registry.Router.
func (d doors) ResolveBatch(ctx context.Context, requests []registry.RouteRequest) []registry.RouteResult {
	return d.w.registry.ResolveBatch(ctx, requests)
}

// Lookup implements registry.Router.
func (d doors) Lookup(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID) (registry.RouteRecord, error) {
	return get(d, "lookup", id.String(), func() (registry.RouteRecord, error) { return d.w.registry.Lookup(ctx, tenant, id) })
}

// Settle implements registry.Router.
func (d doors) Settle(ctx context.Context, a fleet.Assignment, s fleet.Settlement) (registry.Receipt, error) {
	return get(d, "settle", a.Route.Action.String(), func() (registry.Receipt, error) { return d.w.registry.Settle(ctx, a, s) })
}

// Explain implements registry.Router.
func (d doors) Explain(ctx context.Context, r registry.RouteRequest) (routing.Explanation, error) {
	return d.w.registry.Explain(ctx, r)
}

// Due implements registry.Uncertain.
func (d doors) Due(ctx context.Context, limit int, hold time.Duration) ([]fleet.Reconciliation, error) {
	return get(d, "due", "", func() ([]fleet.Reconciliation, error) { return d.w.registry.Due(ctx, limit, hold) })
}

// Note implements registry.Uncertain.
func (d doors) Note(ctx context.Context, key registry.ReconciliationKey, p fleet.Probe, next time.Time, state fleet.ReconciliationState) error {
	return d.through("note", key.Action.String(), func() error {
		d.w.outcome("probe "+p.Answer, key.Action.String())
		return d.w.registry.Note(ctx, key, p, next, state)
	})
}

// Decide implements registry.Uncertain.
func (d doors) Decide(ctx context.Context, key registry.ReconciliationKey, decision registry.Decision) (fleet.Reconciliation, error) {
	return get(d, "decide", key.Action.String(), func() (fleet.Reconciliation, error) { return d.w.registry.Decide(ctx, key, decision) })
}

// List implements the readers of records.
func (d doors) List(ctx context.Context, s registry.Selection) (registry.Records, error) {
	if err := d.read("list " + string(s.Noun) + first(s.IDs)); err != nil {
		return registry.Records{}, err
	}
	return d.w.registry.List(ctx, s)
}

// Expire implements registry.Fleet's maintenance.
func (d doors) Expire(ctx context.Context, limit int) (registry.Expiry, error) {
	if err := d.read("expire"); err != nil {
		return registry.Expiry{}, err
	}
	done, err := d.w.registry.Expire(ctx, limit)
	for range done.Offline {
		d.w.fault(leaseExpired, "")
	}
	return done, err
}

// records is the action store behind the same doors. It tells the moves.
type records struct{ doors }

// Submit implements action.Store.
func (s records) Submit(ctx context.Context, submission action.Submission) (r action.Record, created bool, err error) {
	err = s.through("submit", submission.ID.String(), func() error {
		r, created, err = s.w.store.Submit(ctx, submission)
		return err
	})
	if err != nil {
		return action.Record{}, false, err
	}
	return r, created, nil
}

// Get implements action.Store.
func (s records) Get(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID) (action.Record, error) {
	if err := s.read("get " + id.String()); err != nil {
		return action.Record{}, err
	}
	return s.w.store.Get(ctx, tenant, id)
}

// Advance implements action.Store.
func (s records) Advance(ctx context.Context, next action.Record) (action.Record, error) {
	return get(s.doors, "advance", next.ID.String(), func() (action.Record, error) {
		old, err := s.w.store.Get(ctx, next.Tenant, next.ID)
		if err != nil {
			return old, err
		}
		stored, err := s.w.store.Advance(ctx, next)
		if err == nil && old.State != stored.State {
			s.w.move(move(old.State, stored.State), next.ID.String())
		}
		return stored, err
	})
}

// Claim implements action.Store.
func (s records) Claim(ctx context.Context, c action.Claim) ([]action.Record, error) {
	return get(s.doors, "claim", "", func() ([]action.Record, error) { return s.w.store.Claim(ctx, c) })
}

// List implements action.Store.
func (s records) List(ctx context.Context, selection action.Selection) (action.Page, error) {
	if err := s.read("list actions"); err != nil {
		return action.Page{}, err
	}
	return s.w.store.List(ctx, selection)
}

// elsewhere is the planted defect of a new target: once a connection was refused, the
// action is sent to another replica of its account.
func (w *world) elsewhere(ctx context.Context, a fleet.Assignment) fleet.Assignment {
	if len(a.Earlier) == 0 || a.Earlier[len(a.Earlier)-1].Verdict != fleet.VerdictNeverSent {
		return a
	}
	all, err := w.registry.List(ctx, registry.Selection{Noun: registry.Replicas, Instance: a.Route.Instance})
	if err != nil {
		return a
	}
	for _, r := range all.Replicas {
		if r.ID != a.Route.Replica {
			a.Route.Replica, a.Route.Endpoint, a.Route.Peer = r.ID, r.Endpoint, r.Peer
			a.Attempt.LeaseEpoch, a.Attempt.Journal = r.Live.LeaseEpoch, r.Live.Journal
			break
		}
	}
	return a
}
