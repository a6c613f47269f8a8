package host

import (
	"encoding/json"
	"fmt"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Bounds of what a connector says, so that the answer that carries it can be signed
// here and read by its asker.
const (
	// maxOutput bounds output and content together; it leaves room for the envelope in
	// an answer of 4 MiB.
	maxOutput = 3 << 20
	// around is how deep an output lies in an answer: in the envelope, its body, a
	// status and the result. A part of the content lies in a list besides.
	around = 4
)

// Codes of a definite result whose connector said more than an answer carries.
const (
	CodeOutputTooLarge   = "connector.output_too_large"
	CodeContentTooLarge  = "connector.content_too_large"
	CodeContentMalformed = "connector.content_malformed"
)

// usable makes sure that what the connector says can be signed and read again. What
// cannot be carried is dropped, and the result says so: it is a failure from then on,
// which tells whether the effect happened, and keeps the output where only the content
// was the trouble.
func usable(r connector.Result) connector.Result {
	if !r.Class.Definite() {
		return r
	}
	if len(r.Output) > maxOutput {
		return without(r, CodeOutputTooLarge, fmt.Sprintf("its output of %d bytes is above 3 MiB and was dropped", len(r.Output)))
	}
	if r.Output != nil && !strict(r.Output, around) {
		if r.Class == connector.Succeeded {
			return connector.Result{Class: connector.Unknown, Why: "the output is not strict JSON, or is nested too deeply"}
		}
		r.Output = nil
		return without(r, CodeContentMalformed, "what was said about it is not strict JSON and was dropped")
	}
	size := len(r.Output)
	for i, part := range r.Content {
		if size += len(part); !object(part) {
			return without(r, CodeContentMalformed, fmt.Sprintf("part %d of its content is not a strict JSON object and the content was dropped", i+1))
		}
	}
	if size > maxOutput {
		return without(r, CodeContentTooLarge, fmt.Sprintf("its output and content of %d bytes in %d parts are above 3 MiB together and the content was dropped", size, len(r.Content)))
	}
	return r
}

// without is the result without its content, and without an output that is itself too
// large. A failure stays the connector's own.
func without(r connector.Result, code, why string) connector.Result {
	r.Content = nil
	if len(r.Output) > maxOutput {
		r.Output = nil
	}
	if r.Class == connector.Succeeded {
		r.Class, r.Failure = connector.Failed, &connector.Failure{Code: code, Message: "the effect happened; " + why}
		return r
	}
	said := connector.Failure{Code: code}
	if r.Failure != nil {
		said = *r.Failure
	}
	said.Message = fleet.Printable(said.Message, maxFailure-len(why)-len("…; ")) + "; " + why
	r.Failure = &said
	return r
}

func strict(doc json.RawMessage, levels int) bool {
	_, err := envelope.ParseStrict(doc, envelope.Limits{MaxDepth: envelope.DefaultMaxDepth - levels})
	return err == nil
}

func object(part json.RawMessage) bool {
	v, err := envelope.ParseStrict(part, envelope.Limits{MaxDepth: envelope.DefaultMaxDepth - around - 1})
	return err == nil && v.Kind() == envelope.Object
}
