package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Members of a call's _meta.
const (
	metaAction   = "aip/action_id"
	metaKey      = "aip/idempotency_key"
	metaDeadline = "aip/deadline"
)

// maxFailureText bounds what a tool's refusal may say to a client.
const maxFailureText = 2000

// Invoke implements connector.Connector.
func (a *Adapter) Invoke(ctx context.Context, call connector.Call) (connector.Result, error) {
	implementation, ok := a.byCap[call.Capability]
	if !ok {
		return notStarted("no tool implements the capability"), nil
	}
	return a.invoke(ctx, call, &sdk.CallToolParams{Name: implementation.Tool, Arguments: call.Input, Meta: metaOf(call)}), nil
}

func metaOf(call connector.Call) sdk.Meta {
	meta := sdk.Meta{metaAction: call.Action.String(), metaKey: call.IdempotencyKey}
	if !call.Deadline.IsZero() {
		meta[metaDeadline] = call.Deadline.UTC().Format(time.RFC3339Nano)
	}
	return meta
}

// invoke makes one call of a tool for an action.
func (a *Adapter) invoke(ctx context.Context, call connector.Call, params *sdk.CallToolParams) connector.Result {
	l, health := a.current()
	if l == nil || health != nil {
		return notStarted(health.Error())
	}
	a.redact.Add(call.Credential)
	return l.fly(ctx, call.Action, &wire{remote: l.server == nil, credential: call.Credential}, params)
}

func notStarted(why string) connector.Result {
	return connector.Result{Class: connector.NotStarted, Why: why}
}

func unknown(why string) connector.Result {
	return connector.Result{Class: connector.Unknown, Why: why}
}

// call makes one call and reads what is known of it from the wire rather than from
// the client's decoded answer, which rounds large numbers.
func (l *link) call(ctx context.Context, w *wire, params *sdk.CallToolParams) connector.Result {
	if ctx.Err() != nil {
		return notStarted("the deadline had passed")
	}
	_, err := l.session.CallTool(withWire(ctx, w), params)
	return l.redact.Result(w.conclude(err))
}

// conclude says what is known when the client has returned.
func (w *wire) conclude(err error) connector.Result {
	if !w.wasWritten() {
		return notStarted("the call was not written: " + text(err))
	}
	if raw, answered := w.answer(); answered {
		return read(raw)
	}
	if why := w.turnedAway(); why != "" {
		return notStarted(why)
	}
	var refusal *jsonrpc.Error
	if errors.As(err, &refusal) {
		return refused(refusal)
	}
	return unknown("the call was written and did not come back: " + text(err))
}

func text(err error) string {
	if err == nil {
		return "no answer"
	}
	return fleet.Printable(err.Error(), 300)
}

// refused tells apart what the protocol refuses before a tool runs from errors
// that promise nothing.
func refused(e *jsonrpc.Error) connector.Result {
	early := []int64{jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams}
	message := fleet.Printable(e.Message, maxFailureText)
	if slices.Contains(early, e.Code) {
		return connector.Result{Class: connector.Failed, Failure: &connector.Failure{Code: "connector.refused", Message: message}}
	}
	return unknown("the connector reports an error of its own: " + message)
}

// answer is what a tool call answers, as far as it is used.
type answer struct {
	Content    []content       `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
	ResultType string          `json:"resultType"`
}

// content is one part of an answer: a text, or an image, a sound, a resource or a link
// to one, which goes on as it came.
type content struct {
	kind, text string
	more       bool // it has members beside these two
	raw        json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(data []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	c.raw = slices.Clone(data)
	for name, value := range members {
		var err error
		switch {
		case name == "type":
			err = json.Unmarshal(value, &c.kind)
		case name == "text":
			err = json.Unmarshal(value, &c.text)
		case string(value) != "null":
			c.more = true
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// output is what an action gets of an answer that is not structured: its texts, and all
// of its parts when some are not plain texts.
type output struct {
	Text    string            `json:"text"`
	Content []json.RawMessage `json:"content,omitempty"`
}

func read(raw json.RawMessage) connector.Result {
	var got answer
	if err := json.Unmarshal(raw, &got); err != nil {
		return unknown("the tool's answer cannot be read")
	}
	switch {
	case got.ResultType != "" && got.ResultType != "complete":
		return unknown("the tool asks for more before it answers")
	case got.IsError:
		return got.failure()
	case got.structured():
		return connector.Result{Class: connector.Succeeded, Output: got.Structured, Content: got.beside()}
	}
	out, err := json.Marshal(got.output())
	if err != nil {
		return unknown("the tool's answer cannot be read")
	}
	return connector.Result{Class: connector.Succeeded, Output: out}
}

func (a answer) structured() bool { return len(a.Structured) > 0 && string(a.Structured) != "null" }

// failure is a tool's refusal: its texts are the message. All of its parts go with it
// when the message does not say everything.
func (a answer) failure() connector.Result {
	texts := a.texts()
	message := fleet.Printable(texts, maxFailureText)
	failed := connector.Result{Class: connector.Failed, Failure: &connector.Failure{Code: "provider.tool_error", Message: message}}
	if message != texts || !a.plain() {
		failed.Content = a.parts()
	}
	if a.structured() {
		failed.Output = a.Structured
	}
	return failed
}

// beside is what an answer says beside its structure. Servers repeat the structure as a
// text for clients that know only texts: where that text is all, nothing is beside it.
func (a answer) beside() []json.RawMessage {
	if len(a.Content) == 1 && a.plain() && sameValue([]byte(a.Content[0].text), a.Structured) {
		return nil
	}
	return a.parts()
}

// sameValue compares two documents; numbers are the same when they are written so.
func sameValue(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	one, err := envelope.ParseStrict(a, envelope.Limits{})
	if err != nil {
		return false
	}
	other, err := envelope.ParseStrict(b, envelope.Limits{})
	return err == nil && bytes.Equal(one.Canonical(), other.Canonical())
}

func (a answer) output() output {
	out := output{Text: a.texts()}
	if !a.plain() {
		out.Content = a.parts()
	}
	return out
}

// plain reports whether the texts are all that the parts say.
func (a answer) plain() bool {
	return !slices.ContainsFunc(a.Content, func(c content) bool { return c.kind != "text" || c.more })
}

func (a answer) parts() []json.RawMessage {
	var parts []json.RawMessage
	for _, c := range a.Content {
		parts = append(parts, c.raw)
	}
	return parts
}

func (a answer) texts() string {
	var parts []string
	for _, c := range a.Content {
		if c.kind == "text" {
			parts = append(parts, c.text)
		}
	}
	return strings.Join(parts, "\n")
}

// Reconcile implements connector.Reconciler through the capability's reconcile tool.
func (a *Adapter) Reconcile(ctx context.Context, q connector.Query) (connector.Finding, error) {
	implementation, ok := a.byCap[q.Capability]
	if !ok || implementation.ReconcileTool == "" {
		return connector.Finding{}, fleet.Errorf(fleet.NotFound, "connector.reconcile", "the capability cannot be reconciled").
			Because("no reconcile tool was admitted for it")
	}
	l, health := a.current()
	if l == nil || health != nil {
		return connector.Finding{}, health
	}
	arguments, err := json.Marshal(map[string]string{"idempotency_key": q.IdempotencyKey})
	if err != nil {
		return connector.Finding{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Patience)
	defer cancel()
	look := &sdk.CallToolParams{Name: implementation.ReconcileTool, Arguments: json.RawMessage(arguments)}
	got := l.fly(ctx, fleet.ActionID{}, &wire{remote: l.server == nil}, look)
	return findingOf(got)
}

func findingOf(got connector.Result) (connector.Finding, error) {
	if got.Class != connector.Succeeded {
		why := got.Why
		if got.Failure != nil {
			why = got.Failure.Message
		}
		return connector.Finding{}, fleet.Errorf(fleet.Unavailable, "connector.reconcile", "the reconcile tool did not answer").Because("%s", why)
	}
	var said struct {
		Found  bool            `json:"found"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(got.Output, &said); err != nil {
		return connector.Finding{}, fleet.Errorf(fleet.Unavailable, "connector.reconcile", "the reconcile tool's answer cannot be read").Caused(err)
	}
	f := connector.Finding{Found: said.Found, Evidence: got.Output}
	if said.Found {
		f.Result = connector.Result{Class: connector.Succeeded, Output: said.Result, Content: got.Content}
	}
	return f, nil
}
