package protocol_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	schemajson "github.com/aipfleet/aipfleet/schema/json"
)

func seedSigner(seed byte) envelope.Signer {
	return envelope.NewSigner(ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize)))
}

// spoiled is, per document, changes that make it wrong: member path (dots) to a
// JSON value, or "" to remove the member. Go and schema must both refuse.
func spoiled() map[string]map[string]string {
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	return map[string]map[string]string{
		"action": {
			"id": ``, "capability_id": `"a b"`, "input": ``, "mode": `"later"`, "idempotency_key": long(257),
			"timeout_ms": `86400001`, "timeout_ms ": `-1`,
		},
		"action_result": {"action_id": `"action"`, "status": `"done"`, "status ": `"failed"`, "error": `{"code":"a","message":"","category":"b"}`},
		"ack":           {"message_id": ``, "digest": `"sha256:ABC"`},
		"cancel":        {"action_id": ``, "reason": `"a\u0000b"`, "reason ": long(2049)},
		"error":         {"code": `""`, "category": ``, "message": `"\u001b[31m"`, "retry_after_ms": `-1`, "retryable": `"yes"`},
		"stream_chunk":  {"action_id": ``, "kind": `"noise"`, "sequence": `-1`},
		"action_status_request": {
			"action_id": ``, "action_id ": `"act_"`, "action_id  ": `"act_` + strings.Repeat("a", 97) + `"`,
		},
		"action_result_request": {"action_id": ``},
		"action_status": {
			"state": `"maybe"`, "result": ``, "state ": `"running"`, "result.status": `"pending_approval"`, "journal_id": `"1"`,
		},
		"register": {
			"replica_id": ``, "manifest_digest": ``, "artifact_digest": `"md5:0"`, "tenant_id": `""`, "secret_provider_ref": long(2049),
			"capability_count": `0`, "capability_count ": `513`, "capacity": `0`, "capacity ": `4294967296`, "journal_id": ``,
		},
		"heartbeat": {"replica_id": ``, "epoch": `0`, "sequence": `0`, "in_flight": `-1`, "ready": `1`},
		"drain":     {"replica_id": ``, "epoch": `0`, "sequence": ``, "reason": long(2049)},
		"offline":   {"replica_id": ``, "epoch": ``, "sequence": `0`},
		"lease": {
			"ttl_ms": `300001`, "ttl_ms ": `0`, "expires_at": ``, "operator_intent": `"stop"`, "status": `"asleep"`, "status ": `"offline"`,
		},
		"decision": {
			"fence": `0`, "outcome": `"completed"`, "evidence_digest": ``, "reason": `""`, "decided_by": ``, "decided_at": ``,
		},
		"manifest_response":     {"manifest_digest": ``, "manifest.aip_version": `"2.0"`, "manifest.capabilities": `[]`},
		"event_stream_response": {"events": ``},
	}
}

func TestDocuments_G40_SpoiledOnesAreRefusedByGoAndSchema(t *testing.T) {
	c := compiler(t)
	all := documents()
	for name, changes := range spoiled() {
		for path, value := range changes {
			t.Run(name+"/"+path+"="+fmt.Sprintf("%.20s", value), func(t *testing.T) {
				data := spoil(t, all[name], strings.Split(strings.TrimSpace(path), "."), value)
				if err := readAs(all[name], data); !fleet.Is(err, fleet.Invalid) {
					t.Errorf("Go takes %s: %v", data, err)
				}
				if conforms(t, c.MustCompile(schemajson.URN(name)), data) == nil {
					t.Errorf("the schema takes %s", data)
				}
			})
		}
	}
}

// readAs is ReadBody for a document known only as a value.
func readAs(like protocol.Document, data []byte) error {
	back := reflect.New(reflect.TypeOf(like))
	if err := envelope.DecodeStrict(data, envelope.Limits{}, back.Interface()); err != nil {
		return err
	}
	doc, _ := back.Elem().Interface().(protocol.Document)
	return doc.Validate()
}

func spoil(t *testing.T, doc any, path []string, value string) []byte {
	t.Helper()
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		t.Fatal(err)
	}
	switch {
	case len(path) > 1:
		members[path[0]] = spoil(t, members[path[0]], path[1:], value)
	case value == "":
		delete(members, path[0])
	default:
		members[path[0]] = json.RawMessage(value)
	}
	out, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMessage_G19_SealedDocumentOpensAndConforms(t *testing.T) {
	gateway, host := seedSigner(1), seedSigner(2)
	c := compiler(t)
	for name, doc := range documents() {
		env, err := protocol.NewMessage(doc, message, at)
		if err != nil {
			t.Fatal(err)
		}
		route, err := protocol.CoordinatesOf(assignment(), protocol.ModeSync, at).Raw()
		if err != nil {
			t.Fatal(err)
		}
		env.Security = &envelope.Security{Route: route}
		env.From = &protocol.Principal{ID: "gateway", Kind: "service", DID: gateway.DID()}
		data, err := envelope.Seal(env, envelope.Dispatch, gateway, host.DID())
		if err != nil {
			t.Fatal(err)
		}
		if err := conforms(t, c.MustCompile(schemajson.URN("envelope")), data); err != nil {
			t.Errorf("%s: the message does not conform: %v", name, err)
		}
		o, err := envelope.Open(data, envelope.Expect{Purpose: envelope.Dispatch, Audience: host.DID(), Peer: gateway.DID(), Now: at})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if o.BodyKey() != name || o.Envelope().MessageType != doc.MessageType() {
			t.Errorf("%s arrived as %s in %s", name, o.BodyKey(), o.Envelope().MessageType)
		}
		if read, err := protocol.ReadRoute(o.Route()); err != nil || read.Validate() != nil {
			t.Errorf("%s: route %+v %v", name, read, err)
		}
	}
}

func TestRead_G19_OtherDocumentsAreNotTaken(t *testing.T) {
	gateway, host := seedSigner(1), seedSigner(2)
	open := func(env envelope.Envelope) envelope.Opened {
		data, err := envelope.Seal(env, envelope.Dispatch, gateway, host.DID())
		if err != nil {
			t.Fatal(err)
		}
		o, err := envelope.Open(data, envelope.Expect{Purpose: envelope.Dispatch, Audience: host.DID(), Peer: gateway.DID(), Now: at})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	env := must(protocol.NewMessage(protocol.Cancel{ActionID: action}, message, at))
	if got, err := protocol.Read[protocol.Cancel](open(env)); err != nil || got.ActionID != action {
		t.Fatalf("cancel: %+v %v", got, err)
	}
	if _, err := protocol.Read[protocol.ActionStatusRequest](open(env)); fleet.CodeOf(err) != "protocol.action_status_request" {
		t.Errorf("a cancel read as a status request: %v", err)
	}
	env.MessageType = protocol.TypeActionStatusRequest
	if _, err := protocol.Read[protocol.ActionStatusRequest](open(env)); fleet.CodeOf(err) != "protocol.action_status_request" {
		t.Errorf("a cancel under another type: %v", err)
	}
	if _, err := protocol.NewMessage(protocol.Cancel{}, message, at); fleet.CodeOf(err) != "protocol.cancel" {
		t.Errorf("an invalid document was wrapped: %v", err)
	}
}

func TestAction_G27_InputDigestIgnoresFormAndSeesEveryValue(t *testing.T) {
	of := func(input string) fleet.Digest {
		return must(protocol.Action{Input: json.RawMessage(input)}.InputDigest())
	}
	base := of(`{"a":1,"b":[1.50,"é"]}`)
	if of(` {"b" : [1.50, "\u00e9"], "a":1}`) != base {
		t.Error("white space, order or escapes changed the digest")
	}
	for _, other := range []string{`{"a":2,"b":[1.50,"é"]}`, `{"a":1,"b":["é",1.50]}`, `{"a":1}`, `{"a":"1","b":[1.50,"é"]}`} {
		if of(other) == base {
			t.Errorf("%s has the same digest", other)
		}
	}
	if _, err := (protocol.Action{Input: json.RawMessage(`{"a":1,"a":2}`)}).InputDigest(); err == nil {
		t.Error("a duplicate member has a digest")
	}
	if got := (protocol.Action{TimeoutMS: 1500}).Timeout(time.Hour); got != 1500*time.Millisecond {
		t.Errorf("timeout %v", got)
	}
	if got := (protocol.Action{}).Timeout(time.Hour); got != time.Hour {
		t.Errorf("absent timeout %v", got)
	}
}
