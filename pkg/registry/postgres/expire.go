package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// expireBatch bounds one transaction of maintenance: its locks must stay far below
// the server's lock table.
const expireBatch = 500

// claimsKept is how long a request's repeat is recognised: well past the freshness
// that a signed message needs.
const claimsKept = 15 * time.Minute

// Expire implements registry.Fleet. Marking replicas and settling attempts are
// separate transactions, in batches, so that none holds many locks for long.
func (r *Registry) Expire(ctx context.Context, limit int) (registry.Expiry, error) {
	if limit < 1 {
		return registry.Expiry{}, fleet.Invalidf("expire.limit", "a maintenance pass handles at least 1, not %d", limit)
	}
	p, err := r.dataPool()
	if err != nil {
		return registry.Expiry{}, err
	}
	var done registry.Expiry
	for _, step := range []struct {
		count     *int
		statement string
	}{
		{&done.Offline, "SELECT aip.mark_offline($1::integer)"},
		{&done.Expired, "SELECT aip.expire_attempts($1::integer, false)::bigint"},
		{&done.Overdue, "SELECT aip.expire_attempts($1::integer, true)::bigint"},
	} {
		if *step.count, err = r.batches(ctx, p, step.statement, limit); err != nil {
			return done, refused("expire.unavailable", "the maintenance pass could not be finished", err)
		}
	}
	done.More = max(done.Offline, done.Expired, done.Overdue) >= limit
	return done, nil
}

// batches repeats a statement until it finds no more, or the limit is reached.
func (r *Registry) batches(ctx context.Context, p *pool, statement string, limit int) (int, error) {
	total := 0
	for try := 0; total < limit && try < maxTries; {
		size := min(expireBatch, limit-total)
		var n *int64 // null: another session leads
		err := p.row(ctx, statement, []any{size}, &n)
		switch {
		case err != nil && r.retryable(err):
			if try++; !pause(ctx, try) {
				return total, err
			}
			continue
		case err != nil:
			return total, err
		case n == nil:
			return total, nil
		}
		if total += int(*n); int(*n) < size {
			return total, nil
		}
	}
	return total, nil
}

// ForgetClaims drops the answers of lifecycle requests that are too old to be
// repeated, and returns how many. The lifecycle daemon calls it now and then.
func (r *Registry) ForgetClaims(ctx context.Context) (int, error) {
	p, err := r.lifecyclePool()
	if err != nil {
		return 0, err
	}
	var n int
	err = p.use(ctx, func(conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, "DELETE FROM aip.lifecycle_replay WHERE claimed_at < aip.clock() - $1::bigint * interval '1 microsecond'", claimsKept.Microseconds())
		n = int(tag.RowsAffected())
		return err
	})
	if err != nil {
		return 0, refused("lease.unavailable", "old requests could not be forgotten", err)
	}
	return n, nil
}
