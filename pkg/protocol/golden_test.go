package protocol_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	schemajson "github.com/aipfleet/aipfleet/schema/json"
)

var update = flag.Bool("update", false, "rewrite the golden documents")

var at = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var (
	action     = must(fleet.ParseActionID("act_1"))
	message    = must(fleet.ParseMessageID("msg_1"))
	replica    = must(fleet.ParseReplicaID("crepl_a"))
	journal    = must(fleet.ParseJournalID("jrnl_1"))
	tenant     = must(fleet.ParseTenantID("Büro Nord"))
	capability = must(fleet.ParseCapabilityID("ticket:create"))
	digest     = fleet.DigestBytes([]byte("abc"))
)

func failed() *protocol.Error {
	return &protocol.Error{
		Code: "AIP_CONFLICT", Message: "the desk is closed", Category: "conflict", Retryable: true, RetryAfterMS: 1500,
		Details: json.RawMessage(`{"desk":7}`), Source: "provider",
	}
}

func refusal() protocol.HostRefusal {
	return protocol.HostRefusal{Check: 8, Code: "host.draining", Class: protocol.ClassNotStarted, Action: action, Fence: 2}
}

func assignment() fleet.Assignment {
	return fleet.Assignment{
		Route: fleet.RouteAssignment{
			Action: action, Capability: capability, Tenant: tenant,
			Instance: must(fleet.ParseInstanceID("cinst_a")), Replica: replica, Version: must(fleet.ParseVersionID("cver_1")),
			ManifestDigest: digest, ArtifactDigest: digest, CatalogRevision: 7, BindingPolicyRevision: 3,
			CredentialRevisionRef: "cred-4", QuotaPolicyRef: "fleet", QuotaPolicyRevision: 1, AssignedAt: at,
		},
		Attempt: fleet.Attempt{
			Action: action, Fence: fleet.Fence{Number: 3, Token: "00112233445566778899aabbccddeeff"}, LeaseEpoch: 5, Journal: journal,
		},
		Earlier: []fleet.AttemptEnd{
			{Fence: 1, Verdict: fleet.VerdictNeverSent, Journal: journal}, {Fence: 2, Verdict: fleet.VerdictUnknown, Journal: journal},
		},
	}
}

func manifest() fleet.Manifest {
	return fleet.Manifest{
		AIPVersion: "1.0", Name: "ticket-desk", Version: "1.2.0",
		Capabilities: []fleet.CapabilityDefinition{{
			ID: capability, Name: "Create a ticket", Kind: "tool", Description: "Opens a ticket.", Risk: "low",
			InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: json.RawMessage(`{"type":"object"}`),
			Contract: fleet.Contract{
				SideEffects: fleet.EffectWrite, Idempotency: fleet.IdempotencyProviderKey, SLA: json.RawMessage(`{"p99_ms":800}`),
			},
		}},
		Implementations: []fleet.Implementation{{
			Capability: capability, Adapter: "mcp", Tool: "create_ticket", ReconcileTool: "find_ticket", PlanTool: "hold_ticket",
			CompensateTool: "undo_ticket", Profiles: []string{"aip.core.v1"},
		}},
	}
}

// documents is one full value of every document, by schema name.
func documents() map[string]protocol.Document {
	result := protocol.ActionResult{
		ActionID: action, Status: protocol.ResultCompleted, Output: json.RawMessage(`{"ticket":9007199254740993}`),
		Content: []json.RawMessage{json.RawMessage(`{"data":"cG5n","mimeType":"image/png","type":"image"}`)},
		Usage:   json.RawMessage(`{"calls":1}`), Receipt: json.RawMessage(`{"provider_id":"t-1"}`),
	}
	return map[string]protocol.Document{
		"action": protocol.Action{
			ID: action, Capability: capability, Input: json.RawMessage(`{"price":12.50,"title":"a"}`), Mode: protocol.ModeAsync,
			IdempotencyKey: "k", TimeoutMS: 5000, Identity: json.RawMessage(`{}`), Approval: json.RawMessage(`{}`),
			Transaction: json.RawMessage(`{}`), Callback: json.RawMessage(`{}`), Observability: json.RawMessage(`{}`),
		},
		"action_result":         result,
		"ack":                   protocol.Ack{MessageID: message, ActionID: action, Digest: digest},
		"cancel":                protocol.Cancel{ActionID: action, Reason: "no longer needed"},
		"error":                 *failed(),
		"stream_chunk":          protocol.StreamChunk{ActionID: action, Sequence: 4, Kind: protocol.ChunkProgress, Data: json.RawMessage(`{"percent":40}`)},
		"action_status_request": protocol.ActionStatusRequest{ActionID: action},
		"action_result_request": protocol.ActionResultRequest{ActionID: action},
		"action_status": protocol.ActionStatus{
			ActionID: action, State: protocol.StateCompleted, Fence: 3, Journal: journal, Result: &result, Evidence: json.RawMessage(`{"by":"journal"}`),
		},
		"register": protocol.Register{
			Replica: replica, ManifestDigest: digest, ArtifactDigest: digest, Tenant: tenant, ConfigRevision: 2,
			SecretProviderRef: "file:desk", CapabilityCount: 1, Capacity: 8, Journal: journal, LastEpoch: 4, Starting: true,
		},
		"heartbeat": protocol.Heartbeat{Replica: replica, Epoch: 5, Sequence: 2, InFlight: 3, Ready: true},
		"drain":     protocol.Drain{Replica: replica, Epoch: 5, Sequence: 3, Reason: "upgrade"},
		"offline":   protocol.Offline{Replica: replica, Epoch: 5, Sequence: 4, Reason: "stopped"},
		"lease": protocol.Lease{
			Replica: replica, Epoch: 5, Sequence: 2, ExpiresAt: at, TTLMS: 30_000, Intent: fleet.IntentRun, Status: fleet.ReplicaReady,
		},
		"decision": protocol.Decision{
			ActionID: action, Fence: 2, Replica: replica, Outcome: fleet.ResolvedDidNotHappen, EvidenceDigest: digest,
			Reason: "the provider has no such ticket", DecidedBy: "alice", DecidedAt: at,
		},
		"action_settled":        protocol.ActionSettled{ActionID: action},
		"manifest_request":      protocol.ManifestRequest{},
		"manifest_response":     protocol.ManifestResponse{Manifest: manifest(), Digest: digest},
		"event_stream_response": protocol.EventStreamResponse{Events: []json.RawMessage{json.RawMessage(`{"id":"evt_1"}`)}, Next: "c2"},
	}
}

// others is one full value of what is not a message body.
func others() map[string]any {
	return map[string]any{
		"route":        protocol.CoordinatesOf(assignment(), protocol.ModeSync, at),
		"host_refusal": refusal(),
		"manifest":     manifest(),
		"key_set":      map[string]any{"keys": envelope.KeySet{{DID: seedSigner(1).DID(), NotBefore: at, NotAfter: at.Add(time.Hour)}}},
	}
}

func golden(t *testing.T, name string, value any) []byte {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".json")
	canonical, err := envelope.CanonicalOf(value)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, canonical, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(canonical, want) {
		t.Errorf("the wire form changed\n got %s\nwant %s", canonical, want)
	}
	return want
}

func compiler(t *testing.T) *jsonschema.Compiler {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, name := range schemajson.Names() {
		text, err := schemajson.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := c.AddResource(schemajson.URN(name), doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return c
}

func conforms(t *testing.T, schema *jsonschema.Schema, data []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(v)
}

func TestSchemas_G40_AllCompileAndSayWhoTheyAre(t *testing.T) {
	c := compiler(t)
	covered := map[string]bool{"words": true, "envelope": true, "security": true}
	for name := range documents() {
		covered[name] = true
	}
	for name := range others() {
		covered[name] = true
	}
	for _, name := range schemajson.Names() {
		if _, err := c.Compile(schemajson.URN(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !covered[name] {
			t.Errorf("%s has no golden document", name)
		}
		var head struct {
			ID    string `json:"$id"`
			Title string `json:"title"`
		}
		text, _ := schemajson.Read(name)
		if err := json.Unmarshal(text, &head); err != nil || head.ID != schemajson.URN(name) || head.Title == "" {
			t.Errorf("%s: $id %q title %q %v", name, head.ID, head.Title, err)
		}
	}
}

func TestDocuments_G40_GoldenFormConformsAndReadsBack(t *testing.T) {
	c := compiler(t)
	for name, doc := range documents() {
		t.Run(name, func(t *testing.T) {
			data := golden(t, name, doc)
			if err := conforms(t, c.MustCompile(schemajson.URN(name)), data); err != nil {
				t.Errorf("the Go encoding does not conform: %v", err)
			}
			if doc.BodyKey() != name {
				t.Errorf("body key %s, want %s", doc.BodyKey(), name)
			}
			back := reflect.New(reflect.TypeOf(doc))
			if err := envelope.DecodeClosed(data, envelope.Limits{}, back.Interface()); err != nil {
				t.Fatal(err)
			}
			if got := back.Elem().Interface(); !reflect.DeepEqual(got, doc) {
				t.Errorf("read back\n got %+v\nwant %+v", got, doc)
			}
			if err := doc.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
	for name, value := range others() {
		t.Run(name, func(t *testing.T) {
			if err := conforms(t, c.MustCompile(schemajson.URN(name)), golden(t, name, value)); err != nil {
				t.Errorf("the Go encoding does not conform: %v", err)
			}
		})
	}
}
