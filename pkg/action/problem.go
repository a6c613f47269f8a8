package action

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Problem is an error as aipd writes it in JSON: in its error answers, and in an
// action that is retryable, uncertain or failed.
type Problem struct {
	Kind         fleet.Kind `json:"kind"`
	Code         string     `json:"code"`
	Message      string     `json:"message"`
	Why          string     `json:"why,omitempty"`
	Next         string     `json:"next,omitempty"`
	Scope        string     `json:"scope,omitempty"`
	RetryAfterMS int64      `json:"retry_after_ms,omitempty"`
}

// ProblemOf describes an error. Errors of other kinds than *fleet.Error become
// internal, and their text is not shown to clients.
func ProblemOf(err error) *Problem {
	e := fleet.AsError(err, "internal")
	why := e.Why
	if why == "" && e.Kind != fleet.Internal && e.Unwrap() != nil {
		why = fleet.Printable(e.Unwrap().Error(), 512)
	}
	return &Problem{
		Kind: e.Kind, Code: e.Code, Message: e.What, Why: why, Next: e.Next,
		Scope: e.Scope, RetryAfterMS: e.RetryAfter.Milliseconds(),
	}
}

// Error is the problem as an error of its kind.
func (p *Problem) Error() *fleet.Error {
	return &fleet.Error{
		Kind: p.Kind, Code: p.Code, What: p.Message, Why: p.Why, Next: p.Next, Scope: p.Scope,
		RetryAfter: time.Duration(p.RetryAfterMS) * time.Millisecond,
	}
}
