package fleet

import (
	"errors"
	"fmt"
	"time"
)

// Error is the one error type that crosses a package boundary of the fleet.
// Its texts never hold a secret, SQL, or another tenant's identities.
type Error struct {
	Kind       Kind          // closed set; decides status, exit code and retry
	Code       string        // stable, dotted: "resolve.replica_unavailable" (G40)
	What       string        // what was refused or failed
	Why        string        // the cause, when known
	Next       string        // what to do about it, when known
	Scope      string        // for CapacityExceeded: which scope is full
	RetryAfter time.Duration // hint; zero means none
	cause      error
}

// Error implements error: "what: why".
func (e *Error) Error() string {
	text := e.What
	if e.Why != "" {
		text += ": " + e.Why
	} else if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap returns the cause given to Caused.
func (e *Error) Unwrap() error { return e.cause }

// Because returns a copy with the cause in words.
func (e *Error) Because(format string, args ...any) *Error {
	c := *e
	c.Why = fmt.Sprintf(format, args...)
	return &c
}

// Advise returns a copy with the next step in words.
func (e *Error) Advise(format string, args ...any) *Error {
	c := *e
	c.Next = fmt.Sprintf(format, args...)
	return &c
}

// Caused returns a copy that wraps err.
func (e *Error) Caused(err error) *Error {
	c := *e
	c.cause = err
	return &c
}

// Errorf makes an error of the given kind and code.
func Errorf(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, What: fmt.Sprintf(format, args...)}
}

// Invalidf makes an error of kind Invalid.
func Invalidf(code, format string, args ...any) *Error {
	return Errorf(Invalid, code, format, args...)
}

// KindOf returns the kind of err: that of the first *Error in its chain, or
// Internal. KindOf(nil) is meaningless and returns Internal.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// CodeOf returns the code of the first *Error in the chain of err, or "".
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Is reports whether err is a fleet error of kind k.
func Is(err error, k Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == k
}

// AsError returns err as *Error, wrapping a foreign error as Internal under code.
func AsError(err error, code string) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return Errorf(Internal, code, "unexpected failure").Caused(err)
}
