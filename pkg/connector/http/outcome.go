package http

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

// statuses is a set of HTTP statuses.
type statuses map[int]bool

func parseStatuses(all []string) (statuses, error) {
	out := statuses{}
	for _, s := range all {
		if len(s) != 3 || s[0] < '1' || s[0] > '5' {
			return nil, fmt.Errorf("%q is not a status such as 404 or 4xx", s)
		}
		if strings.HasSuffix(s, "xx") {
			for n := range 100 {
				out[100*int(s[0]-'0')+n] = true
			}
			continue
		}
		n, ok := index(s)
		if !ok {
			return nil, fmt.Errorf("%q is not a status such as 404 or 4xx", s)
		}
		out[n] = true
	}
	return out, nil
}

// overlap is a status in both sets, or 0.
func (s statuses) overlap(other statuses) int {
	for n := range s {
		if other[n] {
			return n
		}
	}
	return 0
}

// within reports whether every status has one of the first digits.
func (s statuses) within(digits ...int) bool {
	for n := range s {
		if !slices.Contains(digits, n/100) {
			return false
		}
	}
	return true
}

// outcome says what each status means. What is in none of the sets is unknown.
type outcome struct{ succeeded, failed, notStarted statuses }

func readOutcome(doc outcomeDocument) (outcome, error) {
	var o outcome
	var errs [3]error
	o.succeeded, errs[0] = parseStatuses(doc.Succeeded)
	o.failed, errs[1] = parseStatuses(doc.Failed)
	o.notStarted, errs[2] = parseStatuses(doc.NotStarted)
	if err := errors.Join(errs[:]...); err != nil {
		return o, err
	}
	switch {
	case len(o.succeeded) == 0 || !o.succeeded.within(2):
		return o, errors.New("success is one or more of 2xx")
	case !o.failed.within(4, 5):
		return o, errors.New("a failure is one of 4xx and 5xx")
	case !o.notStarted.within(4, 5):
		return o, errors.New("not started is one of 4xx and 5xx")
	}
	if n := o.failed.overlap(o.notStarted); n != 0 {
		return o, fmt.Errorf("status %d means two things", n)
	}
	return o, nil
}

// pointer is a JSON pointer (RFC 6901); nil points at the whole document.
type pointer []string

func parsePointer(s string) (pointer, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' || len(s) > 1024 {
		return nil, errors.New("it is not a JSON pointer such as /items/0/id")
	}
	var p pointer
	for part := range strings.SplitSeq(s[1:], "/") {
		p = append(p, strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~"))
	}
	return p, nil
}

// find follows the pointer; false when there is nothing, or null.
func (p pointer) find(v envelope.Value) (envelope.Value, bool) {
	if len(p) == 0 {
		return v, v.Kind() != envelope.Invalid && v.Kind() != envelope.Null
	}
	return scope{"": v}.get(ref{path: p})
}

// conclude says what an answer means.
func (r *request) conclude(a peer.Answer) connector.Result {
	doc := readAnswer(a)
	switch {
	case r.outcome.succeeded[a.Status]:
		return r.success(a, doc)
	case r.outcome.failed[a.Status]:
		return connector.Result{Class: connector.Failed, Failure: r.refusal(a, doc)}
	case r.outcome.notStarted[a.Status]:
		return connector.Result{Class: connector.NotStarted, Why: fmt.Sprintf("the product refused before it acted: status %d", a.Status)}
	}
	return connector.Result{Class: connector.Unknown, Why: fmt.Sprintf("the product answered status %d, of which the template says nothing", a.Status)}
}

// readAnswer is the body as strict JSON; Invalid when it is not that.
func readAnswer(a peer.Answer) envelope.Value {
	kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") || a.Header.Get("Content-Encoding") != "" {
		return envelope.Value{}
	}
	v, err := envelope.ParseStrict(a.Body, envelope.Limits{})
	if err != nil {
		return envelope.Value{}
	}
	return v
}

// success keeps a success whatever its body looks like: the status decides.
func (r *request) success(a peer.Answer, doc envelope.Value) connector.Result {
	out := connector.Result{Class: connector.Succeeded}
	if v, ok := r.output.find(doc); ok {
		out.Output = v.Raw()
	} else {
		out.Output, _ = json.Marshal(map[string]any{"status": a.Status, "text": fleet.Printable(string(a.Body), maxText)})
	}
	if v, ok := r.operation.find(doc); ok && len(r.operation) > 0 {
		out.Operation = v.Raw()
	}
	return out
}

// maxText bounds what a product's own words may add.
const maxText = 2000

func (r *request) refusal(a peer.Answer, doc envelope.Value) *connector.Failure {
	f := &connector.Failure{Code: fmt.Sprintf("provider.status_%d", a.Status), Message: fmt.Sprintf("the product refused: status %d", a.Status)}
	if v, ok := r.code.find(doc); ok && len(r.code) > 0 {
		if text, err := scalar(v); err == nil {
			f.Code = "provider." + fleet.Printable(text, 100)
		}
	}
	if v, ok := r.message.find(doc); ok && len(r.message) > 0 {
		if text, err := scalar(v); err == nil {
			f.Message = fleet.Printable(text, maxText)
		}
	}
	return f
}
