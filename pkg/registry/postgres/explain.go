package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
	"github.com/aipfleet/aipfleet/pkg/settlement"
)

// Explain implements registry.Router. It reads every candidate in one snapshot and
// lets package routing judge them, outside the hot path and without a lock.
func (r *Registry) Explain(ctx context.Context, req registry.RouteRequest) (routing.Explanation, error) {
	req, err := req.Checked()
	if err != nil {
		return routing.Explanation{}, err
	}
	p, err := r.explainPool()
	if err != nil {
		return routing.Explanation{}, err
	}
	var e routing.Explanation
	err = p.snapshot(ctx, func(tx pgx.Tx) error {
		e, err = r.explainIn(ctx, tx, req)
		return err
	})
	if err != nil {
		return routing.Explanation{}, refused("explain.unavailable", "the candidates could not be read", err)
	}
	return e, nil
}

// explainPool needs the ring key, which only control and data may read.
func (r *Registry) explainPool() (*pool, error) { return needs("data", r.data, r.control) }

func (r *Registry) explainIn(ctx context.Context, tx pgx.Tx, req registry.RouteRequest) (routing.Explanation, error) {
	f, err := r.gather(ctx, tx, req)
	if err != nil {
		return routing.Explanation{}, err
	}
	e := routing.Explain(f.question, f.candidates)
	e.Action, e.Capability, e.Revision = req.Action, req.Capability, f.revision
	err = r.explainOutcome(ctx, tx, &e, f, req)
	var refusal *fleet.Error
	if errors.As(err, &refusal) {
		e.Winner = fleet.ReplicaID{}
		e.Refusal = &routing.Refusal{Kind: refusal.Kind, Code: refusal.Code, What: refusal.Error()}
		return e, nil
	}
	return e, err
}

// explainOutcome finds what resolve would answer, without its effects.
func (r *Registry) explainOutcome(ctx context.Context, tx pgx.Tx, e *routing.Explanation, f field, req registry.RouteRequest) error {
	var tenant, capability string
	err := tx.QueryRow(ctx, "SELECT tenant_id, capability_id FROM aip.tombstone WHERE action_id = $1::text", req.Action.String()).Scan(&tenant, &capability)
	switch {
	case err == nil && (tenant != req.Tenant.String() || capability != req.Capability.String()):
		return taken(req.Action)
	case err == nil:
		return archived(req.Action)
	case !errors.Is(err, pgx.ErrNoRows):
		return err
	}
	var route, attempts []byte
	err = tx.QueryRow(ctx, "SELECT to_json(r), "+attemptsOf+" FROM aip.route r WHERE r.action_id = $1::text", req.Action.String()).Scan(&route, &attempts)
	if errors.Is(err, pgx.ErrNoRows) {
		return f.decide(ctx, tx)
	}
	if err != nil {
		return err
	}
	record, err := recordOf(route, attempts)
	if err != nil {
		return err
	}
	if record.Route.Tenant != req.Tenant || record.Route.Capability != req.Capability {
		return taken(req.Action)
	}
	return explainPinned(ctx, tx, e, record)
}

// decide says why a new route would be refused; nil when it would not.
func (f field) decide(ctx context.Context, tx pgx.Tx) error {
	if f.valid == 0 {
		return noBinding()
	}
	ordered, removed := routing.Pick(f.question, f.candidates)
	if len(ordered) == 0 {
		return nobody(f.candidates, removed)
	}
	return fullScope(ctx, tx, ordered[0].Chain, nil)
}

// fullScope refuses when a counter of the chain's set is at its limit. A retry also
// needs the retry scope; before names its older attempt, whose counters are put back
// first when it is not settled yet.
func fullScope(ctx context.Context, tx pgx.Tx, c routing.Chain, before *fleet.Attempt) error {
	var kind string
	kinds, keys := []string{}, []string{}
	if before != nil && !before.Settled() {
		for _, s := range before.Scopes {
			kinds, keys = append(kinds, string(s.Kind)), append(keys, s.Key)
		}
	}
	b := c.Binding
	err := tx.QueryRow(ctx, `SELECT s.kind FROM aip.quota_effective q, aip.quota_effective d,
		LATERAL aip.scopes_of(NULL::aip.attempt, $1::text, $2::text, $3::text, $4::text, q, d, $6::boolean) a,
		LATERAL unnest(a.scope_kinds, a.scope_keys, a.scope_limits) WITH ORDINALITY AS s (kind, key, bound, at)
		WHERE q.ref = $5::text AND d.ref = 'deployment'
			AND COALESCE((SELECT c.current FROM aip.scope_counter c WHERE c.kind = s.kind AND c.key = s.key), 0)
				- (SELECT count(*) FROM unnest($7::text[], $8::text[]) AS h (kind, key) WHERE h.kind = s.kind AND h.key = s.key) >= s.bound
		ORDER BY s.at LIMIT 1`,
		b.Tenant.String(), b.Capability.String(), b.Instance.String(), c.Type.String(), b.QuotaPolicyRef, before != nil, kinds, keys).Scan(&kind)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return exceeded(fleet.ScopeKind(kind))
}

// pinnedSQL reads the one replica of a route with the chain that leads to it now.
const pinnedSQL = `SELECT i.enabled, t.enabled, i.type_id, s.status, b.quota_policy_ref,
	q.circuit_threshold, q.circuit_open_millis, q.circuit_probes, to_json(l), aip.clock()
	FROM aip.connector_instance i
	JOIN aip.connector_type t ON t.id = i.type_id
	JOIN aip.version_status s ON s.version_id = $3::text
	JOIN aip.binding b ON b.tenant_id = i.tenant_id AND b.capability_id = $2::text AND b.instance_id = i.id
	JOIN aip.quota_effective q ON q.ref = b.quota_policy_ref
	JOIN aip.replica_live l ON l.replica_id = $4::text
	WHERE i.id = $1::text`

func explainPinned(ctx context.Context, tx pgx.Tx, e *routing.Explanation, record registry.RouteRecord) error {
	route := record.Route
	c := routing.Candidate{Chain: routing.Chain{
		Binding: fleet.CapabilityBinding{BindingKey: fleet.BindingKey{Tenant: route.Tenant, Capability: route.Capability, Instance: route.Instance}},
		Version: route.Version,
	}}
	var status, typ string
	var live []byte
	var now time.Time
	k := &c.Chain
	err := tx.QueryRow(ctx, pinnedSQL, route.Instance.String(), route.Capability.String(), route.Version.String(), route.Replica.String()).
		Scan(&k.Enabled, &k.TypeEnabled, &typ, &status, &k.Binding.QuotaPolicyRef,
			&k.Circuit.FailureThreshold, &k.Circuit.OpenMillis, &k.Circuit.HalfOpenProbes, &live, &now)
	if err != nil {
		return err
	}
	var p reading
	k.Type, k.Status = read(&p, fleet.ParseTypeID, typ), fleet.VersionStatus(status)
	var row liveRow
	if err := errors.Join(p.err, json.Unmarshal(live, &row)); err != nil {
		return malformed(err)
	}
	if c.Live, err = row.live(); err != nil {
		return malformed(err)
	}
	c.Replica = fleet.Replica{ID: route.Replica, Capacity: row.Capacity}
	return judgePinned(ctx, tx, e, pinning{record, c, now.UTC()})
}

type pinning struct {
	record    registry.RouteRecord
	candidate routing.Candidate
	now       time.Time
}

func judgePinned(ctx context.Context, tx pgx.Tx, e *routing.Explanation, p pinning) error {
	current, c := p.record.Current(), p.candidate
	out := &routing.PinnedExplanation{Replica: c.Replica.ID, Reserved: !current.Settled()}
	e.Pinned, e.Winner = out, c.Replica.ID
	if !current.Settled() && lease.Current(c.Live, current.LeaseEpoch, p.now) {
		if c.Chain.Status == fleet.VersionRevoked {
			out.Removed = routing.VersionStatus
			return pinnedRefusal(out.Removed)
		}
		return nil
	}
	if !current.Settled() { // resolve would release it first
		released := fleet.Settlement{Outcome: fleet.OutcomeLeaseExpired, Code: settlement.CodeLeaseExpired}
		c.Live.Active--
		c.Live.Circuit = settlement.Circuit(current.CircuitUsed, c.Live.Circuit, current, released, current.ReservedAt)
	}
	out.Removed = routing.Repin(p.now, c)
	done, err := definite(ctx, tx, current.Action)
	switch {
	case err != nil:
		return err
	case done:
		return completed(current.Action)
	case out.Removed == routing.Retired:
		return retiredRefusal(ctx, tx, current.Action)
	case out.Removed != routing.Eligible:
		return pinnedRefusal(out.Removed)
	}
	return fullScope(ctx, tx, c.Chain, &current)
}

// retiredRefusal is what a retry gets whose replica is retired: for ever, unless an
// attempt is still in question.
func retiredRefusal(ctx context.Context, tx pgx.Tx, action fleet.ActionID) error {
	var open bool
	err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM aip.reconciliation WHERE action_id = $1::text AND state <> 'resolved')", action.String()).Scan(&open)
	switch {
	case err != nil:
		return err
	case open:
		return pinnedRefusal(routing.Retired)
	}
	return registry.RouteLost(action)
}

// definite reports whether any attempt of the action has a definite result (G44).
func definite(ctx context.Context, tx pgx.Tx, action fleet.ActionID) (done bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM aip.attempt_settlement WHERE action_id = $1::text AND outcome = 'completed')
		OR EXISTS (SELECT FROM aip.reconciliation WHERE action_id = $1::text AND resolution IN ('completed', 'happened'))`,
		action.String()).Scan(&done)
	return done, err
}

// nobody explains that no candidate may serve: when one was passed over only because
// a scope is full, that is lack of capacity; else no replica is available.
func nobody(candidates []routing.Candidate, removed map[int]routing.Reason) error {
	counts := map[routing.Reason]int{}
	for i, c := range candidates {
		if removed[i] == routing.ScopeFull {
			return exceeded(fleet.ScopeKind(c.Chain.FullScope))
		}
		counts[removed[i]]++
	}
	e := fleet.Errorf(fleet.ReplicaUnavailable, "resolve.replica_unavailable", "no replica may take the action now").
		Because("%s", countsText(counts)).Advise("ask why with: aipctl route explain")
	e.RetryAfter = retryAfter
	return e
}

func countsText(counts map[routing.Reason]int) string {
	if len(counts) == 0 {
		return "none is declared"
	}
	parts := []string{}
	for _, why := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", why, counts[why]))
	}
	return strings.Join(parts, ", ")
}

// nobody counts, after a resolve found nothing eligible, why. When the world has
// changed in between, there may be somebody: then the caller may try again.
func (r *Registry) nobody(ctx context.Context, req registry.RouteRequest) error {
	p, err := r.dataPool()
	if err != nil {
		return err
	}
	var refusal error
	err = p.snapshot(ctx, func(tx pgx.Tx) error {
		f, err := r.gather(ctx, tx, req)
		if err != nil {
			return err
		}
		if ordered, removed := routing.Pick(f.question, f.candidates); len(ordered) == 0 {
			refusal = nobody(f.candidates, removed)
		}
		return nil
	})
	switch {
	case err != nil:
		e := fleet.Errorf(fleet.ReplicaUnavailable, "resolve.replica_unavailable", "no replica may take the action now")
		e.RetryAfter = retryAfter
		return e
	case refusal == nil:
		return contended()
	}
	return refusal
}
