package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/envelope/mutationtest"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// sealFull signs a message with every optional part of an envelope.
func (r *rig) sealFull(a ask) []byte {
	r.t.Helper()
	env := must(protocol.NewMessage(a.doc, a.id, time.Now()))
	to := r.cfg.Signer.DID()
	env.SessionID, env.CorrelationID, env.IdempotencyKey = "session-1", "correlation-1", "key-1"
	env.InResponseTo = fleet.NewMessageID(time.Now())
	env.From = &envelope.Principal{ID: "gateway.test", Kind: "service", DID: r.gateway.DID(), TrustDomain: "test"}
	env.To = &envelope.Principal{ID: "host.a", Kind: "service", DID: to, TrustDomain: "test"}
	env.Trace = json.RawMessage(`{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`)
	env.Extensions = map[string]json.RawMessage{"x_note": json.RawMessage(`{"n":1}`)}
	env.Security = &envelope.Security{Route: must(a.route.Raw())}
	return must(envelope.Seal(env, envelope.Dispatch, r.gateway, to))
}

// orderFull is a dispatch with every member of an action and of its coordinates, in a
// second attempt that an operator's decision allows.
func (r *rig) orderFull(id fleet.ActionID) ask {
	a := r.order(id, 2)
	a.route.BindingPolicyRevision, a.route.QuotaPolicyRef, a.route.QuotaPolicyRevision = 2, "quota-1", 3
	a.route.EarlierVerdicts = []fleet.AttemptEnd{{Fence: 1, Verdict: fleet.VerdictUnknown, Journal: r.cfg.Journal.ID()}}
	a.route.Decision = r.decision(r.operator, id, 1, fleet.ResolvedDidNotHappen)
	a.route.Approval = json.RawMessage(`{"by":"olga"}`)
	doc := a.doc.(protocol.Action)
	doc.Mode, doc.IdempotencyKey, doc.TimeoutMS = protocol.ModeSync, "key-1", 60_000
	doc.Identity, doc.Approval = json.RawMessage(`{"user":"alice"}`), json.RawMessage(`{"id":"approval-1"}`)
	doc.Transaction = json.RawMessage(`{"transaction_id":"txn_1"}`)
	doc.Callback, doc.Observability = json.RawMessage(`{"url":"https://example.test"}`), json.RawMessage(`{"level":"high"}`)
	a.doc = doc
	return a
}

// TestMutation_G19_EveryPartOfEveryMessageToAHost sends each kind of message that a host
// takes with any one part changed: the host refuses it with the code of check 1 or 2,
// says which bytes it refused, and does and remembers nothing. The unchanged message is
// then accepted.
func TestMutation_G19_EveryPartOfEveryMessageToAHost(t *testing.T) {
	r, l := newLedger(t)
	done := newAction()
	r.send(r.order(done, 1)).wantResult(t, protocol.ResultCompleted)
	result := func(s said) { s.wantResult(t, protocol.ResultCompleted) }
	for _, kind := range []struct {
		name     string
		make     func(fleet.ActionID) ask
		accepted func(said)
	}{
		{"execute", r.orderFull, result},
		{"plan and commit", func(id fleet.ActionID) ask { return r.order(id, 1) }, result},
		{"compensate", func(id fleet.ActionID) ask { return r.undo(id, done) }, result},
		{"cancel", func(id fleet.ActionID) ask { return r.cancel(id, 1) }, func(s said) { s.wantState(t, protocol.StateCancelled) }},
		{"status", func(id fleet.ActionID) ask { return r.question(id, 1) }, func(s said) { s.wantState(t, protocol.StateNotStarted) }},
		{"settled", r.settled, func(s said) { s.wantAck(t) }},
	} {
		t.Run(kind.name, func(t *testing.T) {
			id := newAction()
			a := kind.make(id)
			good, other := r.sealFull(a), r.sealFull(kind.make(newAction()))
			refused := map[string]int{}
			for _, m := range mutationtest.Of(t, good, 11) {
				refused[r.refusedUnread(m)]++
			}
			for _, m := range mutationtest.Grafts(t, good, other) {
				if code := r.refusedUnread(m); code != host.CodeSignature {
					t.Errorf("%s: %s, though only the signature is wrong", m.What, code)
				}
				refused["graft"]++
			}
			if refused[host.CodeSignature] < 300 || refused[host.CodeMalformed] < 300 || refused["graft"] < 5 {
				t.Errorf("too little was tried: %v", refused)
			}
			if _, known, err := r.cfg.Journal.Get(id); known || err != nil {
				t.Errorf("the journal has heard of it: %v", err)
			}
			r.wantCalls(id, 0)
			kind.accepted(r.post(good, a.id))
		})
	}
	if held, _ := l.counts(); held != 0 {
		t.Errorf("%d plans are held", held)
	}
}

// refusedUnread sends a changed message and returns the code by which it was refused
// before anything in it was believed.
func (r *rig) refusedUnread(m mutationtest.Mutant) string {
	r.t.Helper()
	resp, err := http.Post(r.server.URL+protocol.PathMessages, protocol.ContentType, bytes.NewReader(m.Text))
	if err != nil {
		r.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		r.t.Fatal(err)
	}
	var got struct {
		Body struct {
			Error protocol.Error `json:"error"`
		} `json:"body"`
		Error protocol.Error `json:"error"` // of an answer that nobody can be named for
	}
	if err := json.Unmarshal(body, &got); err != nil {
		r.t.Fatalf("%s: answered %s", m.What, body)
	}
	no, ok := got.Body.Error.Refusal()
	if !ok {
		no, ok = got.Error.Refusal()
	}
	status := map[string]int{host.CodeMalformed: http.StatusBadRequest, host.CodeSignature: http.StatusUnauthorized}[no.Code]
	if !ok || status == 0 || status != resp.StatusCode || no.Message != fleet.DigestBytes(m.Text) {
		r.t.Errorf("%s: answered %d %s", m.What, resp.StatusCode, body)
	}
	return no.Code
}

// TestMutation_G19_TheMessagesHoldEveryField: a member that is added to a signed
// document must be in a message of the table above.
func TestMutation_G19_TheMessagesHoldEveryField(t *testing.T) {
	r := newRig(t)
	a := r.orderFull(newAction())
	for _, doc := range []any{a.route, a.doc.(protocol.Action), must(envelopeOf(r.sealFull(a)))} {
		v := reflect.ValueOf(doc)
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%T.%s is in no message that is changed", doc, v.Type().Field(i).Name)
			}
		}
	}
}

func envelopeOf(data []byte) (envelope.Envelope, error) {
	var env envelope.Envelope
	return env, json.Unmarshal(data, &env)
}

// TestMutation_G25_EveryPartOfADecision changes an operator's decision inside dispatches
// that the gateway signs: even the gateway cannot bend what an operator said.
func TestMutation_G25_EveryPartOfADecision(t *testing.T) {
	r := newRig(t)
	id := newAction()
	r.product.act = func(context.Context, connector.Call) (connector.Result, error) {
		return connector.Result{Class: connector.Unknown}, nil
	}
	r.send(r.order(id, 1)).wantState(t, protocol.StateUnknown)
	r.product.set(func(c *counter) { c.act = nil })
	good := r.decision(r.operator, id, 1, fleet.ResolvedDidNotHappen)
	other := r.decision(r.operator, newAction(), 1, fleet.ResolvedHappened)
	carry := func(decision []byte) said {
		a := r.order(id, 2)
		a.route.Decision = decision
		return r.send(a)
	}
	tried := 0
	for _, m := range append(mutationtest.Parts(t, good), mutationtest.Grafts(t, good, other)...) {
		if string(m.Text) == "null" {
			continue // no decision at all
		}
		tried++
		got := carry(m.Text)
		if got.no == nil || got.no.Code != host.CodeJournalGap || got.no.Class != protocol.ClassUnknown || got.http != http.StatusConflict {
			t.Errorf("%s: answered %d %s", m.What, got.http, got.bytes)
		}
	}
	if tried < 150 {
		t.Errorf("only %d changes were tried", tried)
	}
	r.wantCalls(id, 1)
	carry(good).wantResult(t, protocol.ResultCompleted)
	r.wantCalls(id, 2)
}
