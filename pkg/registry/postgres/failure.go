package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// SQLSTATEs that the registry treats apart.
const (
	stateDeadlock      = "40P01"
	stateSerialization = "40001"
	stateLockTimeout   = "55P03"
	stateUnique        = "23505"
	stateScope         = "AIP01" // aip.resolve_one met a counter that is missing or full
)

// StatePassword is the SQLSTATE of a login whose password is not the role's.
const StatePassword = "28P01"

// WrongPassword explains such a login: Denied, code registry.password. The server answers
// alike when there is no such role.
func WrongPassword(what string) *fleet.Error {
	return fleet.Errorf(fleet.Denied, "registry.password", "%s", what).
		Because("the password in the database URL is not the role's, or the server has no such role (%s); "+
			"roles belong to the whole PostgreSQL server, so a rotation for one of its databases changes them for all", StatePassword).
		Advise("use the URL file that was written last; when none is right, aipctl registry init --urls DIR " +
			"--rotate-passwords, which cuts off whoever has the old ones")
}

// refused turns an error of a read, or of a write that is known not to have
// committed, into one of ours: no statement, no value, no name of a table. A fleet
// error passes as it is.
func refused(code, what string, err error) error {
	var ours *fleet.Error
	if errors.As(err, &ours) {
		return ours
	}
	e := fleet.Errorf(fleet.Unavailable, code, "%s", what)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg):
		return serverRefused(e, pg)
	case errors.Is(err, context.Canceled):
		return e.Because("the request was given up").Caused(err)
	case errors.Is(err, context.DeadlineExceeded):
		return e.Because("the database did not answer in time").Caused(err)
	}
	return e.Because("the database does not answer").Advise("try again; if it lasts, look at the database")
}

// lockedOut is how a running process reports a login that is refused. Nothing of what was
// asked is denied: a host that hears it keeps its lease while it lasts, and a caller may
// ask again.
func lockedOut(e *fleet.Error) *fleet.Error {
	e.Kind = fleet.Unavailable
	return e.Advise("give the daemon the URL file that was written last, and restart it; aipctl explain registry.password")
}

func serverRefused(e *fleet.Error, pg *pgconn.PgError) *fleet.Error {
	if pg.Code == StatePassword {
		return lockedOut(WrongPassword(e.What))
	}
	switch pg.Code[:2] {
	case "28":
		return lockedOut(e.Because("the server does not let the role in (%s)", pg.Code))
	case "42": // privileges and names: the schema or the role is not the expected one
		e.Kind = fleet.Denied
		return e.Because("the database role may not do this, or the schema is another (%s)", pg.Code).Advise("aipctl registry verify")
	case "40", "55":
		e.Kind = fleet.Contended
		return e.Because("others hold the rows (%s)", pg.Code).Advise("try again")
	case "22": // out of range, or text that cannot be stored
		e.Kind = fleet.Invalid
		return e.Because("a value cannot be stored (%s)", pg.Code).Advise("numbers go to 2^63-1, text has no zero character")
	case "57", "53", "08":
		return e.Because("the database is overloaded, restarting or cut the statement short (%s)", pg.Code).Advise("try again")
	}
	e.Kind = fleet.Internal
	return e.Because("the database refused a statement (%s)", pg.Code)
}

// sqlState returns the SQLSTATE of err, or "".
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// fateUnknown reports whether a statement that commits by itself may have been
// committed although it gave an error: everything but an answer of the server, or a
// failure before anything was sent. Never ask the driver whether a COMMIT is safe to
// repeat.
func fateUnknown(err error) bool {
	var pg *pgconn.PgError
	var connecting *pgconn.ConnectError
	switch {
	case err == nil, errors.As(err, &connecting), errors.Is(err, errAcquire):
		return false
	case errors.As(err, &pg):
		// The server ends the session after these; whether it committed first is not said.
		return pg.Severity == "FATAL" || pg.Severity == "PANIC"
	}
	return true
}

// errAcquire marks a failure to get a connection: nothing was sent.
var errAcquire = errors.New("no connection")
