package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// tickTimeout ends a tick that the server does not answer, after the server's own
// statement timeout should have.
const tickTimeout = 8 * time.Second

type resolveCall struct {
	request    registry.RouteRequest
	token      string
	ring, draw int64
}

type settleCall struct {
	route, attempt string // as rows
	settlement     fleet.Settlement
}

// tickRow is one line of a tick's answer.
type tickRow struct {
	kind           string
	item           int64
	at, opened     *time.Time
	route, attempt *string
}

const tickSQL = `SELECT o_kind, o_item, o_at, o_opened, o_route, o_attempt FROM aip.tick(
	$1::text[], $2::text[]::aip.route[], $3::text[]::aip.attempt[], $4::text[], $5::text[], $6::text[], $7::text[],
	$8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::boolean[],
	$15::bigint[], $16::bigint[], $17::text[], $18::bigint[], $19::boolean)`

// tickArgs are the columns of both kinds of calls.
type tickArgs struct {
	settle, routes, attempts, outcomes, codes, verdicts, evidence []string
	actions, tenants, capabilities, regions, zones, classes       []string
	forbids                                                       []bool
	rings, draws, lives                                           []int64
	tokens                                                        []string
}

func (t *tickArgs) add(one *call) {
	if s := one.settle; s != nil {
		t.settle, t.routes, t.attempts = append(t.settle, one.action), append(t.routes, s.route), append(t.attempts, s.attempt)
		t.outcomes, t.codes = append(t.outcomes, string(s.settlement.Outcome)), append(t.codes, s.settlement.Code)
		t.verdicts = append(t.verdicts, string(s.settlement.Verdict))
		t.evidence = append(t.evidence, s.settlement.EvidenceDigest.String())
		return
	}
	req := one.resolve.request
	t.actions, t.tenants = append(t.actions, one.action), append(t.tenants, req.Tenant.String())
	t.capabilities = append(t.capabilities, req.Capability.String())
	t.regions, t.zones = append(t.regions, req.Topology.Region), append(t.zones, req.Topology.Zone)
	t.classes, t.forbids = append(t.classes, req.Topology.CapacityClass), append(t.forbids, req.Topology.ForbidCrossRegion)
	t.rings, t.draws = append(t.rings, one.resolve.ring), append(t.draws, one.resolve.draw)
	t.tokens = append(t.tokens, one.resolve.token)
	t.lives = append(t.lives, (req.TimeToLive + registry.SettleGrace).Microseconds())
}

// list gives the arguments in order; no array is null.
func (t *tickArgs) list(wait bool) []any {
	args := []any{}
	texts := func(all ...[]string) {
		for _, one := range all {
			args = append(args, append([]string{}, one...))
		}
	}
	texts(t.settle, t.routes, t.attempts, t.outcomes, t.codes, t.verdicts, t.evidence)
	texts(t.actions, t.tenants, t.capabilities, t.regions, t.zones, t.classes)
	args = append(args, append([]bool{}, t.forbids...), append([]int64{}, t.rings...), append([]int64{}, t.draws...))
	texts(t.tokens)
	return append(args, append([]int64{}, t.lives...), wait)
}

// sendTick runs one tick and tells every call what became of it. On an error nobody
// was told.
func (r *Registry) sendTick(calls []*call, wait bool) error {
	var t tickArgs
	var settles, resolves []*call
	for _, one := range calls {
		t.add(one)
		if one.settle != nil {
			settles = append(settles, one)
		} else {
			resolves = append(resolves, one)
		}
	}
	// The tick belongs to all its callers: none of their contexts may end it.
	ctx, cancel := context.WithTimeout(context.Background(), tickTimeout)
	defer cancel()
	var rows []tickRow
	err := r.data.use(ctx, func(conn *pgxpool.Conn) error {
		found, err := conn.Query(ctx, tickSQL, t.list(wait)...)
		if err != nil {
			return err
		}
		rows, err = pgx.CollectRows(found, func(row pgx.CollectableRow) (l tickRow, err error) {
			return l, row.Scan(&l.kind, &l.item, &l.at, &l.opened, &l.route, &l.attempt)
		})
		return err
	})
	if err != nil {
		r.retryable(err) // counted
		return err
	}
	r.deliver(rows, settles, resolves)
	return nil
}

func (r *Registry) deliver(rows []tickRow, settles, resolves []*call) {
	told := map[*call]bool{}
	var busy []*call
	for _, row := range rows {
		of := resolves
		if row.kind == "settled" {
			of = settles
		}
		one := of[row.item-1]
		told[one] = true
		if row.kind == "busy" {
			busy = append(busy, one)
			continue
		}
		r.shared.counts.calls.Add(1)
		one.answer <- answer{done: true, tick: row}
	}
	if len(busy) > 0 {
		r.retries.contended.Add(uint64(len(busy)))
		r.shared.again(busy)
	}
	for _, all := range [][]*call{settles, resolves} {
		for _, one := range all {
			if !told[one] {
				r.shared.counts.alone.Add(1)
				one.answer <- answer{}
			}
		}
	}
}

// resolveShared resolves in a tick, or alone when the tick leaves it out.
func (r *Registry) resolveShared(ctx context.Context, req registry.RouteRequest, token string) (fleet.Assignment, error) {
	a, err := r.shared.ask(ctx, &call{
		action: req.Action.String(), answer: make(chan answer, 1),
		resolve: &resolveCall{request: req, token: token, ring: r.ring.Action(req.Action), draw: r.ring.Draw(req.Action)},
	})
	switch {
	case err != nil:
		return fleet.Assignment{}, refused("resolve.unavailable", "the route could not be decided", err)
	case a.answeredAlone():
		return r.resolveAlone(ctx, req, token)
	case a.cause != nil:
		return r.afterFailure(ctx, req, token, a.cause)
	}
	return assignmentOf(*a.tick.route, *a.tick.attempt, nil)
}

// settleShared settles in a tick. It reports false when the call has to go alone: left
// out, or in a tick whose fate is not known, as repeating a settlement is harmless.
func (r *Registry) settleShared(ctx context.Context, given fleet.Assignment, s fleet.Settlement) (receipt registry.Receipt, done bool, err error) {
	a, err := r.shared.ask(ctx, &call{
		action: given.Route.Action.String(), answer: make(chan answer, 1),
		settle: &settleCall{route: rowOfRoute(given.Route).text(), attempt: rowOfAttempt(given.Attempt).text(), settlement: s},
	})
	if err != nil {
		return receipt, true, refused("settle.unavailable", "the attempt could not be settled", err)
	}
	if !a.done {
		if a.cause != nil {
			r.retries.unknown.Add(1)
		}
		return receipt, false, nil
	}
	s.SettledAt = a.tick.at.UTC()
	circuit := fleet.Circuit{State: fleet.CircuitClosed, OpenedAt: instant(*a.tick.opened)}
	return registry.Receipt{Settlement: s, First: true, Circuit: circuit}, true, nil
}
