// Command notebook answers: how small can a connector be that is Go code?
//
// It keeps a notebook in one file. A note is written once for each idempotency key,
// can be found again by it, and can be struck out by a later action. The program is
// its own host: it is started with the configuration of aiphost, and is itself the
// artifact of its release.
//
//	notebook run --config host.yaml
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/hostmain"
)

func main() {
	hostmain.Main(func(s hostmain.Setup) (connector.Connector, error) {
		path := s.Account["notebook"]
		if path == "" {
			return nil, fleet.Invalidf("notebook.config", "connector.account.notebook names no file")
		}
		return &desk{book: &book{path: path, now: time.Now}}, nil
	})
}

// desk is the connector.
type desk struct{ book *book }

// The tools, with the schemas of their inputs. Looking and striking out are asked for
// by the host alone, so that their inputs are nobody's business.
func tools() map[string]string {
	return map[string]string{
		"write":  `{"type":"object","properties":{"text":{"type":"string","minLength":1,"maxLength":1000}},"required":["text"],"additionalProperties":false}`,
		"read":   `{"type":"object","additionalProperties":false}`,
		"find":   `{}`,
		"strike": `{}`,
	}
}

// Discover implements connector.Connector.
func (d *desk) Discover(context.Context) ([]connector.Offer, error) {
	var all []connector.Offer
	for name, schema := range tools() {
		all = append(all, connector.Offer{Tool: name, InputSchema: json.RawMessage(schema)})
	}
	return all, nil
}

// Health implements connector.Connector.
func (d *desk) Health(context.Context) error { return nil }

// Invoke implements connector.Connector. A note that could not be written for certain
// is unknown, and found or not found later by its key.
func (d *desk) Invoke(_ context.Context, call connector.Call) (connector.Result, error) {
	if call.Capability.String() == "notebook:read" {
		notes, err := d.book.notes()
		return succeeded(map[string]any{"notes": notes}, err)
	}
	var input struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(call.Input, &input); err != nil {
		return connector.Result{Class: connector.Failed, Failure: &connector.Failure{Code: "notebook.input", Message: "the note cannot be read"}}, nil
	}
	n, err := d.book.write(call.IdempotencyKey, input.Text)
	return succeeded(n, err)
}

// Reconcile implements connector.Reconciler.
func (d *desk) Reconcile(_ context.Context, q connector.Query) (connector.Finding, error) {
	n, found, err := d.book.find(q.IdempotencyKey)
	if err != nil || !found {
		return connector.Finding{}, err
	}
	result, err := succeeded(n, nil)
	return connector.Finding{Found: true, Result: result}, err
}

// Release implements connector.Compensator: nothing is ever planned.
func (d *desk) Release(context.Context, connector.Query, json.RawMessage) (connector.Result, error) {
	return connector.Result{Class: connector.Succeeded}, nil
}

// Compensate implements connector.Compensator: the note stays, struck out.
func (d *desk) Compensate(_ context.Context, call connector.Call, done connector.Done) (connector.Result, error) {
	n, err := d.book.strike(call.IdempotencyKey, done.IdempotencyKey)
	return succeeded(n, err)
}

func succeeded(output any, err error) (connector.Result, error) {
	if err != nil {
		return connector.Result{Class: connector.Unknown, Why: err.Error()}, nil
	}
	raw, err := json.Marshal(output)
	if err != nil {
		return connector.Result{}, fmt.Errorf("the answer cannot be written: %w", err)
	}
	return connector.Result{Class: connector.Succeeded, Output: raw}, nil
}
