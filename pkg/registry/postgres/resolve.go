package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

// verdict is one answer of aip.resolve_one.
type verdict struct {
	status, detail string
	route, attempt row
	earlier        []byte
}

// Resolve implements registry.Router: one round trip, of its own or shared (Coalesce).
func (r *Registry) Resolve(ctx context.Context, req registry.RouteRequest) (fleet.Assignment, error) {
	req, err := req.Checked()
	if err != nil {
		return fleet.Assignment{}, err
	}
	if _, err := r.dataPool(); err != nil {
		return fleet.Assignment{}, err
	}
	token := newToken()
	if r.shared != nil {
		alone := r.shared.enter()
		defer r.shared.leave()
		if !alone {
			return r.resolveShared(ctx, req, token)
		}
	}
	return r.resolveAlone(ctx, req, token)
}

// resolveAlone repeats its one round trip while rows are busy.
func (r *Registry) resolveAlone(ctx context.Context, req registry.RouteRequest, token string) (fleet.Assignment, error) {
	look := false
	for try := range maxTries {
		v, err := r.resolveOnce(ctx, r.data, req, attemptOptions{token: token, look: look, wait: try >= 2})
		switch {
		case sqlState(err) == stateScope: // undone; with look it is told what it was
			look = true
			continue
		case err != nil && r.retryable(err):
		case err != nil:
			return r.afterFailure(ctx, req, token, err)
		case v.status == "again":
			continue // a stale reservation was settled; nothing is busy
		case v.status == "contended":
			r.retries.contended.Add(1)
			if v.detail == "scope" && !look {
				look = true
				continue
			}
		default:
			return r.answer(ctx, req, v)
		}
		if !pause(ctx, try) {
			break
		}
	}
	return fleet.Assignment{}, contended()
}

func contended() *fleet.Error {
	e := fleet.Errorf(fleet.Contended, "resolve.contended", "others hold the replicas or limits that the action needs").
		Because("it was tried %d times", maxTries).Advise("try again")
	e.RetryAfter = 50 * time.Millisecond
	return e
}

type attemptOptions struct {
	token string
	look  bool // pass over candidates whose own scopes look full
	wait  bool // wait for the best candidate when none can be locked at once
}

const resolveSQL = `SELECT o_status, o_detail, o_route, o_attempt, o_earlier FROM aip.resolve_one(
	$1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::boolean,
	$8::bigint, $9::bigint, $10::text, $11::bigint, $12::boolean, $13::boolean)`

// resolveOnce sends the request with the action's places on the ring. They are
// computed by package routing alone, in Go: SQL only compares them.
func (r *Registry) resolveOnce(ctx context.Context, p *pool, req registry.RouteRequest, o attemptOptions) (verdict, error) {
	var v verdict
	t := req.Topology
	err := p.row(ctx, resolveSQL, []any{
		binaryRows, req.Action.String(), req.Tenant.String(), req.Capability.String(),
		t.Region, t.Zone, t.CapacityClass, t.ForbidCrossRegion,
		r.ring.Action(req.Action), r.ring.Draw(req.Action), o.token,
		(req.TimeToLive + registry.SettleGrace).Microseconds(), o.look, o.wait,
	}, &v.status, &v.detail, &v.route, &v.attempt, &v.earlier)
	return v, err
}

// answer turns a verdict into the contract's answer.
func (r *Registry) answer(ctx context.Context, req registry.RouteRequest, v verdict) (fleet.Assignment, error) {
	var none fleet.Assignment
	switch v.status {
	case "assigned", "reserved":
		return r.issue(assignmentOf(v.route, v.attempt, v.earlier))
	case "conflict":
		return none, taken(req.Action)
	case "archived":
		return none, archived(req.Action)
	case "completed":
		return none, completed(req.Action)
	case "binding_unavailable":
		return none, noBinding()
	case "replica_unavailable":
		return none, r.nobody(ctx, req)
	case "capacity":
		return none, exceeded(fleet.ScopeKind(v.detail))
	case "lost":
		return none, registry.RouteLost(req.Action)
	case "pinned":
		return none, pinnedRefusal(routing.Reason(v.detail))
	}
	return none, fleet.Errorf(fleet.Internal, "resolve.status", "the database answered %q", v.status)
}

// afterFailure answers a resolve whose statement failed. When it may have been
// committed, the route is read by key: our own token proves that it was. A reservation
// that was made and has ended since, by a lease or by a newer attempt, is neither handed
// out nor denied.
func (r *Registry) afterFailure(ctx context.Context, req registry.RouteRequest, token string, cause error) (fleet.Assignment, error) {
	if !fateUnknown(cause) {
		return fleet.Assignment{}, refused("resolve.unavailable", "the route could not be decided", cause)
	}
	r.retries.unknown.Add(1)
	record, err := r.readAgain(ctx, req.Tenant, req.Action)
	switch {
	case fleet.Is(err, fleet.NotFound):
		return fleet.Assignment{}, refused("resolve.unavailable", "the route could not be decided", cause)
	case err != nil:
		return fleet.Assignment{}, undecided(req.Action)
	}
	ours := slices.IndexFunc(record.Attempts, func(t fleet.Attempt) bool { return t.Fence.Token == token })
	switch {
	case ours < 0:
		return fleet.Assignment{}, refused("resolve.unavailable", "the route could not be decided", cause)
	case ours < len(record.Attempts)-1 || record.Current().Settled():
		return fleet.Assignment{}, undecided(req.Action)
	}
	return record.Assignment(), nil
}

func undecided(action fleet.ActionID) *fleet.Error {
	return fleet.Errorf(fleet.Unknown, "resolve.unknown", "it is not known whether action %s got its route", action).
		Because("the database went away before it answered").Advise("ask again: the same action gets the same route")
}

// readAgain looks an action up after a lost answer, even when the caller has gone. A
// statement that is still running on the server holds the action's lock, so the read
// is only made once that lock could be had.
func (r *Registry) readAgain(ctx context.Context, tenant fleet.TenantID, action fleet.ActionID) (registry.RouteRecord, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), acquireTimeout)
	defer cancel()
	var record registry.RouteRecord
	var err error
	for try := range maxTries {
		if err = r.passAction(ctx, action); err == nil {
			if record, err = r.Lookup(ctx, tenant, action); err == nil || fleet.Is(err, fleet.NotFound) {
				return record, err
			}
		}
		if !pause(ctx, try) {
			break
		}
	}
	return record, err
}

// passAction waits until no transaction holds the action.
func (r *Registry) passAction(ctx context.Context, action fleet.ActionID) error {
	p, err := r.dataPool()
	if err != nil {
		return err
	}
	var passed bool
	return p.row(ctx, "SELECT true FROM (SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))) l", []any{action.String()}, &passed)
}

// batchWidth is how many requests of a batch are under way at once without sharing.
const batchWidth = 8

// ResolveBatch implements registry.Router.
func (r *Registry) ResolveBatch(ctx context.Context, requests []registry.RouteRequest) []registry.RouteResult {
	results := make([]registry.RouteResult, len(requests))
	next := make(chan int)
	var workers sync.WaitGroup
	width := batchWidth
	if r.shared != nil { // a tick takes many, and what waits for it holds no connection
		width = maxBatch
	}
	for range min(width, len(requests)) {
		workers.Go(func() {
			for i := range next {
				results[i].Assignment, results[i].Err = r.Resolve(ctx, requests[i])
			}
		})
	}
	for i := range requests {
		next <- i
	}
	close(next)
	workers.Wait()
	return results
}

func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand does not fail
	return hex.EncodeToString(b[:])
}

// retryAfter is when asking again is useful: about the time of a beat or a call.
const retryAfter = time.Second

func taken(action fleet.ActionID) *fleet.Error {
	return fleet.Errorf(fleet.Conflict, "route.conflict", "action %s is taken", action).Advise("use another action id")
}

func archived(action fleet.ActionID) *fleet.Error {
	return fleet.Errorf(fleet.Conflict, "route.archived", "action %s ended and is archived", action).Advise("use another action id")
}

func completed(action fleet.ActionID) *fleet.Error {
	return fleet.Errorf(fleet.Conflict, "route.completed", "action %s has its definite result", action).Advise("read the stored result")
}

func noBinding() *fleet.Error {
	return fleet.Errorf(fleet.BindingUnavailable, "resolve.binding_unavailable", "the tenant has no enabled chain to this capability").
		Advise("ask which are with: aipctl route explain")
}

func exceeded(kind fleet.ScopeKind) *fleet.Error {
	e := fleet.Errorf(fleet.CapacityExceeded, "resolve.capacity_exceeded", "the limit of the %s scope is reached", kind)
	e.Scope, e.RetryAfter = string(kind), retryAfter
	return e
}

func pinnedRefusal(why routing.Reason) *fleet.Error {
	e := fleet.Errorf(fleet.ReplicaUnavailable, "resolve.pinned_unavailable", "the replica that the action is pinned to may not take it now").
		Because("%s", why).Advise("an action never moves: wait for the replica, or reconcile the action")
	e.RetryAfter = retryAfter
	return e
}
