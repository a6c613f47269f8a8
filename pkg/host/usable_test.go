package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

const picture = `{"data":"cG5n","mimeType":"image/png","type":"image"}`

func says(c connector.Class, output string, content ...string) connector.Result {
	r := connector.Result{Class: c}
	if output != "" {
		r.Output = json.RawMessage(output)
	}
	for _, part := range content {
		r.Content = append(r.Content, json.RawMessage(part))
	}
	if c == connector.Failed {
		r.Failure = &connector.Failure{Code: "provider.tool_error", Message: strings.Repeat("no ", 700)}
	}
	return r
}

func nested(levels int) string {
	return strings.Repeat(`{"a":`, levels-1) + `{}` + strings.Repeat("}", levels-1)
}

// TestExecute_G39_ContentTravelsWithItsOutput: every part arrives as it came, in its
// order, in the first answer, in a repeat, in a status, and after a restart; all within
// the one document that is kept and signed.
func TestExecute_G39_ContentTravelsWithItsOutput(t *testing.T) {
	r := newRig(t)
	const text = `{"text":"big 9007199254740993 <b>","type":"text","n":9007199254740993}`
	for _, class := range []connector.Class{connector.Succeeded, connector.Failed} {
		r.product.set(func(c *counter) {
			c.act = func(context.Context, connector.Call) (connector.Result, error) {
				return says(class, `{"n":1.10}`, text, picture), nil
			}
		})
		id := newAction()
		first := r.send(r.order(id, 1))
		if first.result == nil || len(first.result.Content) != 2 || string(first.result.Output) != `{"n":1.10}` {
			t.Fatalf("%s", first.bytes)
		}
		if string(first.result.Content[1]) != picture || !bytes.Contains(first.result.Content[0], []byte(`"n":9007199254740993,"text":"big 9007199254740993 <b>"`)) {
			t.Errorf("%s", first.raw)
		}
		r.restart()
		if again := r.send(r.order(id, 1)); !bytes.Equal(again.raw, first.raw) {
			t.Errorf("a repeat got %s", again.raw)
		}
		asked := r.send(r.question(id, 1))
		asked.wantState(t, protocol.StateCompleted)
		if doc, err := envelope.CanonicalOf(asked.status.Result); err != nil || !bytes.Equal(doc, first.raw) {
			t.Errorf("the status query gives another document: %s", doc)
		}
	}
}

// TestExecute_G40_WhatCannotBeCarriedIsSaid is the table of answers that are too large,
// too deep or not strict. The effect's definite end is kept, and so is the output.
func TestExecute_G40_WhatCannotBeCarriedIsSaid(t *testing.T) {
	r := newRig(t)
	large := func(n int) string { return `{"data":"` + strings.Repeat("A", n-11) + `"}` }
	const bound, deepest = 3 << 20, envelope.DefaultMaxDepth - 4
	for name, c := range map[string]struct {
		said   connector.Result
		status protocol.ResultStatus
		code   string // of the connector's failure
		output bool   // it is kept
		parts  int
	}{
		"at the bound":           {says(connector.Succeeded, `{}`, large(bound-2)), protocol.ResultCompleted, "", true, 1},
		"above the bound":        {says(connector.Succeeded, `{}`, large(bound-1)), protocol.ResultFailed, host.CodeContentTooLarge, true, 0},
		"many above the bound":   {says(connector.Succeeded, `{}`, large(bound/2), large(bound/2)), protocol.ResultFailed, host.CodeContentTooLarge, true, 0},
		"output above the bound": {says(connector.Succeeded, large(bound+1), picture), protocol.ResultFailed, host.CodeOutputTooLarge, false, 0},
		"deepest":                {says(connector.Succeeded, nested(deepest), nested(deepest-1)), protocol.ResultCompleted, "", true, 1},
		"part too deep":          {says(connector.Succeeded, `{}`, picture, nested(deepest)), protocol.ResultFailed, host.CodeContentMalformed, true, 0},
		"output too deep":        {says(connector.Succeeded, nested(deepest+1)), "", "", false, 0},
		"part not an object":     {says(connector.Succeeded, `{}`, `"text"`), protocol.ResultFailed, host.CodeContentMalformed, true, 0},
		"part not strict":        {says(connector.Succeeded, `{}`, `{"a":1,"a":2}`), protocol.ResultFailed, host.CodeContentMalformed, true, 0},
		"refusal too large":      {says(connector.Failed, `{}`, large(bound)), protocol.ResultFailed, "provider.tool_error", true, 0},
		"refusal's output":       {says(connector.Failed, large(bound+1), picture), protocol.ResultFailed, "provider.tool_error", false, 0},
		"refusal not strict":     {says(connector.Failed, `{"a":1,"a":2}`, picture), protocol.ResultFailed, "provider.tool_error", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r.product.set(func(p *counter) {
				p.act = func(context.Context, connector.Call) (connector.Result, error) { return c.said, nil }
			})
			id := newAction()
			got := r.send(r.order(id, 1))
			if c.status == "" {
				got.wantState(t, protocol.StateUnknown)
				return
			}
			got.wantResult(t, c.status)
			r.send(r.question(id, 1)).wantState(t, protocol.StateCompleted)
			if (len(got.result.Output) > 0) != c.output || len(got.result.Content) != c.parts {
				t.Errorf("output of %d bytes, %d parts", len(got.result.Output), len(got.result.Content))
			}
			if c.status != protocol.ResultFailed {
				return
			}
			if !bytes.Contains(got.result.Error.Details, []byte(c.code)) || !strings.HasSuffix(got.result.Error.Message, "dropped") {
				t.Errorf("it says %s: %s", got.result.Error.Details, got.result.Error.Message)
			}
			if happened := strings.Contains(got.result.Error.Message, "the effect happened"); happened != (c.said.Class == connector.Succeeded) {
				t.Errorf("it says %s", got.result.Error.Message)
			}
		})
	}
}

// TestCancel_G40_EvidenceIsBoundedToo: what a cancel brings goes through the same bounds.
func TestCancel_G40_EvidenceIsBoundedToo(t *testing.T) {
	r := newRig(t)
	entered, hold := make(chan struct{}, 1), make(chan struct{})
	id := newAction()
	r.product.set(func(p *counter) {
		p.act = blocking(r.product, entered, hold)
		p.stop = func(connector.Query) connector.Result {
			return says(connector.Succeeded, `{"n":1}`, `{"data":"`+strings.Repeat("A", 3<<20)+`"}`)
		}
	})
	answer := r.later(r.order(id, 1))
	<-entered
	got := r.send(r.cancel(id, 1))
	close(hold)
	got.wantState(t, protocol.StateCompleted)
	if got.status.Result.Status != protocol.ResultFailed || !bytes.Contains(got.status.Result.Error.Details, []byte(host.CodeContentTooLarge)) {
		t.Errorf("%s", got.bytes)
	}
	(<-answer).wantResult(t, protocol.ResultFailed)
	r.wantCalls(id, 1)
}
