package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Seams for tests that hold a transaction open in the middle of a verb.

// ResolveIn runs one resolve inside the test's own transaction and gives its status. It
// looks at scopes first, as the second call of a resolve does: their counters may not
// exist yet, which ends the transaction of a first call.
func (r *Registry) ResolveIn(ctx context.Context, tx pgx.Tx, req registry.RouteRequest) (status string, a fleet.Assignment, err error) {
	req, err = req.Checked()
	if err != nil {
		return "", a, err
	}
	var v verdict
	t := req.Topology
	err = tx.QueryRow(ctx, resolveSQL, req.Action.String(), req.Tenant.String(), req.Capability.String(),
		t.Region, t.Zone, t.CapacityClass, t.ForbidCrossRegion, r.ring.Action(req.Action), r.ring.Draw(req.Action), newToken(),
		(req.TimeToLive+registry.SettleGrace).Microseconds(), true, false).Scan(&v.status, &v.detail, &v.route, &v.attempt, &v.earlier)
	if err == nil && (v.status == "assigned" || v.status == "reserved") {
		a, err = assignmentOf(v.route, v.attempt, v.earlier)
	}
	return v.status, a, err
}

// SettleIn runs one settlement inside the test's own transaction.
func (r *Registry) SettleIn(ctx context.Context, tx pgx.Tx, a fleet.Assignment, s fleet.Settlement) (status string, err error) {
	args, err := settleArgs(a, s, r.issued.holds(a) && plain(a, s))
	if err != nil {
		return "", err
	}
	var v settled
	err = tx.QueryRow(ctx, settleSQL, args...).Scan(v.columns()...)
	if v.status == "plain" { // settled, and told in fewer words
		v.status = "settled"
	}
	return v.status, err
}

// LockPublication is the statement that takes the publication lock alone.
const LockPublication = "SELECT pg_advisory_xact_lock(" + lockPublication + ")"

// Queued is how many calls wait for a tick.
func (r *Registry) Queued() int {
	r.shared.mu.Lock()
	defer r.shared.mu.Unlock()
	return len(r.shared.queue)
}

// ReadRoute and ReadAttempt decode a row in the form in which it came.
func ReadRoute(form []byte) (route fleet.RouteAssignment, err error) {
	r, err := routeOf(fieldsOf(form))
	if err == nil {
		route, err = r.route()
	}
	return route, err
}

func ReadAttempt(form []byte) (attempt fleet.Attempt, err error) {
	r, err := attemptOf(fieldsOf(form))
	if err == nil {
		attempt, err = r.attempt()
	}
	return attempt, err
}

// ListQuery is the statement that reads one page, with its arguments.
func ListQuery(s registry.Selection) (string, []any, error) { return archivedListing().query(s) }
