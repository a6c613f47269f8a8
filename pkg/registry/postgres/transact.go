package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// transact runs f in one transaction, and again when the server rolled it back
// because of others. A commit whose fate is not known is settled by asking the server
// what became of the transaction; only when that fails the answer is Unknown.
func (r *Registry) transact(ctx context.Context, p *pool, code string, f func(tx pgx.Tx) error) error {
	var err error
	for try := range maxTries {
		var xid string
		err = p.use(ctx, func(conn *pgxpool.Conn) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				if err := f(tx); err != nil {
					return err
				}
				return tx.QueryRow(ctx, "SELECT COALESCE(pg_current_xact_id_if_assigned()::text, '')").Scan(&xid)
			})
		})
		var ours *fleet.Error
		if err == nil || errors.As(err, &ours) {
			return err
		}
		if xid != "" && fateUnknown(err) {
			r.retries.unknown.Add(1)
			if committed, known := fate(ctx, p, xid); known && committed {
				return nil
			} else if !known {
				return fleet.Errorf(fleet.Unknown, code, "it is not known whether the change was made").
					Because("the database went away before it answered").Advise("look before trying again")
			}
		}
		if !r.retryable(err) || !pause(ctx, try) {
			break
		}
	}
	return refused(code, "the change could not be made", err)
}

// fate asks what became of a transaction.
func fate(ctx context.Context, p *pool, xid string) (committed, known bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*acquireTimeout)
	defer cancel()
	for try := range 4 * maxTries {
		var status *string
		err := p.row(ctx, "SELECT pg_xact_status($1::text::xid8)", []any{xid}, &status)
		if err == nil && status != nil && *status != "in progress" {
			return *status == "committed", true
		}
		if !pause(ctx, try) {
			break
		}
	}
	return false, false
}

// event is one entry of the journal, written in the transaction that it tells of.
type event struct{ kind, subject, actor, reason, detail string }

func leaseEvent(id fleet.ReplicaID, what, detail string) event {
	return event{kind: "lease", subject: id.String(), actor: id.String(), reason: what, detail: detail}
}

func insertEvent(ctx context.Context, tx pgx.Tx, e event) error {
	_, err := tx.Exec(ctx, `INSERT INTO aip.event (at, revision, kind, subject, actor, reason, detail)
		SELECT aip.clock(), revision, $1::text, $2::text, $3::text, $4::text, $5::text FROM aip.catalog_revision`,
		e.kind, e.subject, e.actor, e.reason, e.detail)
	return err
}
