package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// settleCall is a settlement of an assignment that this process holds as it was issued.
type settleCall struct {
	attempt    fleet.Attempt
	settlement fleet.Settlement
}

// tickRow is one line of a tick's answer.
type tickRow struct {
	kind           string
	item           int64
	at, opened     *time.Time
	route, attempt row
}

const tickSQL = `SELECT o_kind, o_item, o_at, o_opened, o_route, o_attempt FROM aip.tick(
	$1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[],
	$10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::boolean[],
	$17::bigint[], $18::bigint[], $19::text[], $20::bigint[])`

// tickArgs are the columns of both kinds of calls, and of the counters that the
// settlements give back.
type tickArgs struct {
	settle, outcomes, codes, verdicts, evidence             []string
	givenKinds, givenKeys                                   []string
	actions, tenants, capabilities, regions, zones, classes []string
	forbids                                                 []bool
	fences, givenItems, rings, draws, lives                 []int64
	tokens                                                  []string
}

func (t *tickArgs) add(one *call) {
	if s := one.settle; s != nil {
		t.settle, t.fences = append(t.settle, one.action), append(t.fences, int64(s.attempt.Fence.Number))
		t.outcomes, t.codes = append(t.outcomes, string(s.settlement.Outcome)), append(t.codes, s.settlement.Code)
		t.verdicts = append(t.verdicts, string(s.settlement.Verdict))
		t.evidence = append(t.evidence, s.settlement.EvidenceDigest.String())
		for _, scope := range s.attempt.Scopes {
			t.givenItems = append(t.givenItems, int64(len(t.settle)))
			t.givenKinds, t.givenKeys = append(t.givenKinds, string(scope.Kind)), append(t.givenKeys, scope.Key)
		}
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

// list gives the arguments in order. Only of a patient tick the first array is null, which
// lets it wait for a publication.
func (t *tickArgs) list(patient bool) []any {
	texts, numbers := orEmpty[string], orEmpty[int64]
	settle := texts(t.settle)
	if patient {
		settle = nil
	}
	return []any{
		binaryRows, settle, numbers(t.fences), texts(t.outcomes), texts(t.codes), texts(t.verdicts), texts(t.evidence),
		numbers(t.givenItems), texts(t.givenKinds), texts(t.givenKeys),
		texts(t.actions), texts(t.tenants), texts(t.capabilities), texts(t.regions), texts(t.zones), texts(t.classes),
		orEmpty(t.forbids), numbers(t.rings), numbers(t.draws), texts(t.tokens), numbers(t.lives),
	}
}

func orEmpty[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// sendTick runs one tick and tells every call what became of it. On an error nobody
// was told.
func (r *Registry) sendTick(calls []*call) error {
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
	patient := !slices.ContainsFunc(calls, func(one *call) bool { return !one.early() })
	var rows []tickRow
	err := r.data.use(ctx, func(conn *pgxpool.Conn) error {
		found, err := conn.Query(ctx, tickSQL, t.list(patient)...)
		if err != nil {
			return err
		}
		rows, err = pgx.CollectRows(found, func(row pgx.CollectableRow) (l tickRow, err error) {
			return l, row.Scan(&l.kind, &l.item, &l.at, &l.opened, &l.route, &l.attempt)
		})
		return err
	})
	if fateUnknown(err) {
		return r.outlast(calls, err)
	}
	if err != nil {
		r.retryable(err) // counted
		return err
	}
	r.deliver(rows, settles, resolves)
	return nil
}

// outlast returns once a tick whose answer was lost can have no effect any more: while it
// waits on the server for its first actions it holds none of the later ones, so each caller
// alone would find nothing and be told so too early. Taking all of its actions in its order
// comes after it. Without that, errUndecided says that what is not there may still come.
func (r *Registry) outlast(calls []*call, cause error) error {
	actions := make([]string, len(calls))
	for i, one := range calls {
		actions[i] = one.action
	}
	ctx, cancel := context.WithTimeout(context.Background(), tickTimeout)
	defer cancel()
	for try := range maxTries {
		var passed int64
		if r.data.row(ctx, outlastSQL, []any{actions}, &passed) == nil {
			return cause
		}
		if !pause(ctx, try) {
			break
		}
	}
	return fmt.Errorf("%w: %w", errUndecided, cause)
}

const outlastSQL = `SELECT count(*) FROM (SELECT pg_advisory_xact_lock(k.key) FROM (
	SELECT DISTINCT hashtextextended(u.id, 0) AS key FROM unnest($1::text[]) AS u (id) ORDER BY 1) k OFFSET 0) l`

// errUndecided marks a tick that may still commit.
var errUndecided = errors.New("the transaction may still be running")

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
		action: req.Action.String(), tenant: req.Tenant.String(), answer: make(chan answer, 1),
		resolve: &resolveCall{request: req, token: token, ring: r.ring.Action(req.Action), draw: r.ring.Draw(req.Action)},
	})
	switch {
	case err != nil:
		return fleet.Assignment{}, refused("resolve.unavailable", "the route could not be decided", err)
	case a.answeredAlone():
		return r.resolveAlone(ctx, req, token)
	case a.cause != nil:
		assigned, err := r.afterFailure(ctx, req, token, a.cause)
		if err != nil && errors.Is(a.cause, errUndecided) {
			err = undecided(req.Action)
		}
		return assigned, err
	}
	return r.issue(assignmentOf(a.tick.route, a.tick.attempt, nil))
}

// ending is what is known of a settlement after its tick.
type ending int

const (
	answered ending = iota // the caller has its answer
	leftOut                // nothing was done: it goes alone
	inDoubt                // the tick may have settled: it goes alone, and a refusal then proves nothing
)

// settleShared settles in a tick. A call that was left out, or whose tick's fate is not
// known, has to go alone: repeating a settlement is harmless.
func (r *Registry) settleShared(ctx context.Context, given fleet.Assignment, s fleet.Settlement) (receipt registry.Receipt, e ending, err error) {
	a, err := r.shared.ask(ctx, &call{
		action: given.Route.Action.String(), tenant: given.Route.Tenant.String(), answer: make(chan answer, 1),
		settle: &settleCall{attempt: given.Attempt, settlement: s},
	})
	switch {
	case err != nil:
		return receipt, answered, refused("settle.unavailable", "the attempt could not be settled", err)
	case a.answeredAlone(), !a.done && !fateUnknown(a.cause):
		return receipt, leftOut, nil
	case !a.done:
		r.retries.unknown.Add(1)
		return receipt, inDoubt, nil
	}
	r.issued.forget(given)
	return plainReceipt(s, *a.tick.at, *a.tick.opened), answered, nil
}
