package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/action"
)

// acquirePatience is how long anybody waits for a connection: who gets none has sent
// nothing, and is told so while there is still time to ask again.
const acquirePatience = 5 * time.Second

// errNoConnection is of a statement that was not sent.
var errNoConnection = errors.New("no connection to the database was free")

// patient is a pool whose connections nobody waits for longer than acquirePatience.
type patient struct{ pool *pgxpool.Pool }

// use runs f on one connection.
func (p patient) use(ctx context.Context, f func(conn *pgxpool.Conn) error) error {
	waiting, stop := context.WithTimeout(ctx, acquirePatience)
	conn, err := p.pool.Acquire(waiting)
	stop()
	if err != nil {
		return fmt.Errorf("%w: %w", errNoConnection, err)
	}
	defer conn.Release()
	return f(conn)
}

// row runs a statement that gives one row.
func (p patient) row(ctx context.Context, statement string, args []any, into ...any) error {
	return p.use(ctx, func(conn *pgxpool.Conn) error { return conn.QueryRow(ctx, statement, args...).Scan(into...) })
}

// exec runs a statement that gives none.
func (p patient) exec(ctx context.Context, statement string, args ...any) error {
	return p.use(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, statement, args...)
		return err
	})
}

// collect runs a statement and turns each of its rows into a T.
func collect[T any](ctx context.Context, p patient, turn func(pgx.CollectableRow) (T, error), statement string, args ...any) (all []T, err error) {
	err = p.use(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, statement, args...)
		if err == nil {
			all, err = pgx.CollectRows(rows, turn)
		}
		return err
	})
	return all, err
}

// recordOf is what collect turns a row of a whole action into.
func recordOf(row pgx.CollectableRow) (action.Record, error) { return scan(row) }
