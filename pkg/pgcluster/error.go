package pgcluster

import (
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Codes of the errors of this package.
const (
	CodeNotInstalled = "pgcluster.not_installed"   // fleet.Unavailable
	CodeNotRunning   = "pgcluster.not_running"     // fleet.NotFound
	CodeRunning      = "pgcluster.already_running" // fleet.Conflict
	CodeDirectory    = "pgcluster.directory"       // fleet.Unavailable
	CodeInit         = "pgcluster.init_failed"     // fleet.Unavailable
	CodeStart        = "pgcluster.start_failed"    // fleet.Unavailable
	CodeStop         = "pgcluster.stop_failed"     // fleet.Unknown: it may still be ending
	CodeDatabase     = "pgcluster.database"        // fleet.Unavailable
)

// fail makes the error of a code. An empty next gives no advice.
func fail(code, what string, cause error, next string) error {
	e := &fleet.Error{Kind: kindOf(code), Code: code, What: what, Next: next}
	if cause == nil {
		return e
	}
	return e.Because("%s", cause.Error()).Caused(cause)
}

func kindOf(code string) fleet.Kind {
	switch code {
	case CodeNotRunning:
		return fleet.NotFound
	case CodeRunning:
		return fleet.Conflict
	case CodeStop:
		return fleet.Unknown
	default:
		return fleet.Unavailable
	}
}

func errNotInstalled(refused []string) error {
	e := fleet.Errorf(fleet.Unavailable, CodeNotInstalled, "PostgreSQL %d or newer is not installed", MinVersion)
	e = e.Because("no directory of PATH or of the usual places holds initdb and postgres")
	if len(refused) > 0 {
		e = e.Because("too old: %s", strings.Join(refused, ", "))
	}
	return e.Advise("make setup")
}
