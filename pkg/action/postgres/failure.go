package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// readError turns a failed read into one of ours, without statement or values.
func readError(code, what string, err error) error {
	if err == nil {
		return nil
	}
	var ours *fleet.Error
	if errors.As(err, &ours) {
		return ours
	}
	e := fleet.Errorf(fleet.Unavailable, code, "%s", what).Advise("try again; if it lasts, look at the database")
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return byState(e, pg.Code)
	}
	if errors.Is(err, errNoConnection) {
		return e.Because("no connection to it was free for %s", acquirePatience).Advise("try again; if it lasts, look at aipd_database_connection_waits_total")
	}
	return e.Because("the database does not answer")
}

// byState judges an answer of the server. Overload and lost races pass; anything
// else is a defect, or a database that is not the one this binary expects.
func byState(e *fleet.Error, state string) error {
	switch state[:2] {
	case "40", "55":
		e.Kind = fleet.Contended
	case "57", "53", "08": // stays unavailable
	case "28": // so does this, for a process that was let in before
		e = e.Advise("give the daemon the URL file that was written last, and restart it; aipctl explain registry.password")
	case "42":
		e.Kind = fleet.Denied
		e = e.Advise("aipctl registry verify")
	default:
		e.Kind = fleet.Internal
	}
	return e.Because("the database answered %s", state)
}

// writeError is readError for a statement that commits by itself: unless the server
// refused it, or it was never sent, it may have been done.
func writeError(code, what string, err error) error {
	if err == nil {
		return nil
	}
	if notDone(err) {
		return readError(code, what, err)
	}
	var ours *fleet.Error
	if errors.As(err, &ours) {
		return ours
	}
	return fleet.Errorf(fleet.Unknown, code, "%s, or it was and the answer was lost", what).
		Because("the connection to the database failed").Advise("ask again with the same action id")
}

// notDone reports a failure of what commits by itself that proves that nothing was
// committed: the server refused it, or it was never sent.
func notDone(err error) bool {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	refused := errors.As(err, &pg) && pg.Severity != "FATAL" && pg.Severity != "PANIC"
	return refused || errors.Is(err, errNoConnection) || errors.As(err, &connect) || pgconn.SafeToRetry(err)
}
