package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Exit codes beside those of the table of error kinds ([fleet.KindInfo]).
const (
	ExitUsage       = 2
	ExitTimeout     = 6   // still running; waiting ended
	ExitUncertain   = 7   // it may have happened
	ExitPartial     = 8   // some of it was done
	ExitChanges     = 10  // the plan has changes, asked for with --exit-code
	ExitRefused     = 11  // a confirmation was refused or could not be asked for
	ExitInterrupted = 130 // by a signal
)

// exit is an error with an exit code of its own. Without an error inside, the
// result is printed already and only the code is left to say.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

// Exit ends a command whose result is printed already with an exit code.
func Exit(code int) error { return exit{code: code} }

// WithExit gives an error an exit code other than that of its kind.
func WithExit(err error, code int) error { return exit{code: code, err: err} }

// Usagef is a refusal of the command line itself: exit code 2.
func Usagef(code, format string, args ...any) *fleet.Error {
	return fleet.Errorf(fleet.Invalid, code, format, args...)
}

// ExitCode returns the exit code for an error.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	var e exit
	if errors.As(err, &e) {
		return e.code
	}
	return fleet.KindOf(err).Info().ExitCode
}

func isCancellation(err error) bool {
	return errors.Is(err, context.Canceled) || ExitCode(err) != ExitUncertain
}

// errorDoc is an error as -o json shows it.
type errorDoc struct {
	Kind         fleet.Kind `json:"kind"`
	Code         string     `json:"code"`
	Message      string     `json:"message"`
	Cause        string     `json:"cause,omitempty"`
	Next         string     `json:"next,omitempty"`
	Scope        string     `json:"scope,omitempty"`
	RetryAfterMS int64      `json:"retry_after_ms,omitempty"`
	ExitCode     int        `json:"exit_code"`
}

func (a *App) describeError(err error) errorDoc {
	e := fleet.AsError(err, "aipctl.internal")
	doc := errorDoc{
		Kind: e.Kind, Code: e.Code, Message: e.What, Cause: e.Why, Next: e.Next, Scope: e.Scope,
		RetryAfterMS: e.RetryAfter.Milliseconds(), ExitCode: ExitCode(err),
	}
	if inner := e.Unwrap(); inner != nil && (doc.Cause == "" || a.Verbose) {
		doc.Cause = strings.TrimPrefix(doc.Cause+": "+inner.Error(), ": ")
	}
	return doc
}

// printError writes error[code], cause and next to stderr, or one JSON document
// in the machine formats.
func (a *App) printError(err error) {
	var e exit
	if errors.As(err, &e) && e.err == nil {
		return
	}
	doc := a.describeError(err)
	if a.machine() {
		data, merr := json.Marshal(map[string]any{"apiVersion": APIVersion, "kind": "Error", "error": doc})
		if merr == nil {
			_, _ = a.Err.Write(append(escapeJSON(data), '\n'))
		}
		return
	}
	a.Sayf("error[%s]: %s", doc.Code, doc.Message)
	if doc.Cause != "" {
		a.Sayf("cause: %s", doc.Cause)
	}
	if doc.Next != "" {
		a.Sayf("next: %s", doc.Next)
	}
}

// Sayf writes one line to stderr. Text in it is made printable.
func (a *App) Sayf(format string, args ...any) {
	_, _ = fmt.Fprintln(a.Err, printableLine(fmt.Sprintf(format, args...)))
}

// Progressf writes one line of progress to stderr unless --quiet.
func (a *App) Progressf(format string, args ...any) {
	if !a.Quiet {
		a.Sayf(format, args...)
	}
}

const maxLine = 64 << 10

func printableLine(s string) string { return fleet.Printable(s, maxLine) }
