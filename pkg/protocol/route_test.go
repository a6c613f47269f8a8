package protocol_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

func coordinates() protocol.RouteCoordinates {
	return protocol.CoordinatesOf(assignment(), protocol.ModeSync, at)
}

func TestRoute_G25_CarriesTheWholeDecision(t *testing.T) {
	c := coordinates()
	raw := must(c.Raw())
	back, err := protocol.ReadRoute(raw)
	if err != nil || !reflect.DeepEqual(back, c) {
		t.Fatalf("read back %+v\nwant %+v\n%v", back, c, err)
	}
	a := assignment()
	if c.Fence != a.Attempt.Fence || c.LeaseEpoch != a.Attempt.LeaseEpoch || c.RegisteredJournal != journal || len(c.EarlierVerdicts) != 2 {
		t.Errorf("the attempt is not whole: %+v", c)
	}
	// Every field of the coordinates is filled from the assignment, but for the
	// two documents that others sign.
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if v.Field(i).IsZero() && name != "Decision" && name != "Approval" {
			t.Errorf("%s is not carried", name)
		}
	}
}

func TestRoute_G40_EveryMissingCoordinateIsNamed(t *testing.T) {
	needed := map[string]bool{ // by member; true if cancel and status need it too
		"action_id": true, "capability_id": true, "tenant_id": true, "instance_id": true, "replica_id": true, "version_id": true,
		"manifest_digest": true, "artifact_digest": true,
		"lease_epoch": false, "fence": false, "deadline": false, "mode": false, "registered_journal_id": false,
	}
	for member, pinned := range needed {
		raw := spoil(t, coordinates(), []string{member}, "")
		c, err := protocol.ReadRoute(raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Validate(); fleet.CodeOf(err) != "protocol.route" || !strings.Contains(err.Error(), member) {
			t.Errorf("dispatch without %s: %v", member, err)
		}
		if err := c.ValidatePinned(); (err != nil) != pinned {
			t.Errorf("cancel without %s: %v", member, err)
		}
	}
}

func TestRoute_G06_EarlierFencesGrowBelowTheCurrent(t *testing.T) {
	end := func(n uint64, v fleet.Verdict) fleet.AttemptEnd {
		return fleet.AttemptEnd{Fence: n, Verdict: v, Journal: journal}
	}
	bad := [][]fleet.AttemptEnd{
		{end(0, fleet.VerdictUnknown)}, {end(3, fleet.VerdictUnknown)}, {end(4, fleet.VerdictUnknown)},
		{end(2, fleet.VerdictUnknown), end(1, fleet.VerdictUnknown)}, {end(1, fleet.VerdictUnknown), end(1, fleet.VerdictNotStarted)},
		{end(1, "fine")}, {end(1, "")},
	}
	for _, earlier := range bad {
		c := coordinates()
		c.EarlierVerdicts = earlier
		if err := c.Validate(); fleet.CodeOf(err) != "protocol.route" {
			t.Errorf("%v: %v", earlier, err)
		}
	}
}

func TestRoute_G40_UnknownOrUnsafeCoordinatesAreRefused(t *testing.T) {
	raw := must(coordinates().Raw())
	for name, doc := range map[string]string{
		"absent": "", "unknown member": `{"zone":"a",` + string(raw[1:]), "case variant": strings.Replace(string(raw), "tenant_id", "Tenant_id", 1),
		"duplicate":    `{"tenant_id":"other",` + string(raw[1:]),
		"unsafe count": strings.Replace(string(raw), `"catalog_revision":7`, `"catalog_revision":9007199254740993`, 1),
	} {
		if _, err := protocol.ReadRoute(json.RawMessage(doc)); !fleet.Is(err, fleet.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, token := range []string{"", "00112233445566778899aabbccddeef", "00112233445566778899AABBCCDDEEFF"} {
		c := coordinates()
		c.Fence.Token = token
		if c.Validate() == nil {
			t.Errorf("fence token %q passed", token)
		}
	}
}

func TestRefusal_G41_TravelsInTheDetails(t *testing.T) {
	cause := fleet.Errorf(fleet.ReplicaUnavailable, "host.draining", "the host is draining").Advise("resolve again")
	doc := refusal().Refuse(cause)
	if err := doc.Validate(); err != nil {
		t.Fatal(err)
	}
	back, err := protocol.ReadBody[protocol.Error]("error", must(envelope.CanonicalOf(doc)))
	if err != nil {
		t.Fatal(err)
	}
	got, ok := back.Refusal()
	if !ok || got != refusal() || back.Category != "routing" || !back.Retryable {
		t.Errorf("%+v %v from %+v", got, ok, back)
	}
	for name, details := range map[string]string{
		"none": "", "other details": `{"desk":7}`, "unknown class": `{"check":1,"code":"host.x","class":"perhaps"}`,
		"check out of range": `{"check":13,"code":"host.x","class":"unknown"}`, "duplicate": `{"check":1,"check":1,"code":"host.x","class":"not_started"}`,
		"case variant": `{"check":1,"code":"host.x","Class":"not_started"}`, "not an object": `[]`,
	} {
		if _, ok := (protocol.Error{Details: json.RawMessage(details)}).Refusal(); ok {
			t.Errorf("%s was read as a refusal", name)
		}
	}
	if _, ok := protocol.ErrorOf(cause, "gateway").Refusal(); ok {
		t.Error("an error of the gateway was read as a host's refusal")
	}
}

func TestManifest_G34_ReadStrictly(t *testing.T) {
	good := must(envelope.CanonicalOf(manifest()))
	m, canonical, err := protocol.ReadManifest([]byte(" " + string(good) + "\n"))
	if err != nil || string(canonical) != string(good) || !reflect.DeepEqual(m, manifest()) {
		t.Fatalf("%+v %s %v", m, canonical, err)
	}
	def := must(json.Marshal(manifest().Capabilities[0]))
	impl := must(json.Marshal(manifest().Implementations[0]))
	replaced := func(from, to string) string { return strings.Replace(string(good), from, to, 1) }
	for name, doc := range map[string]string{
		"unknown member": replaced(`"aip_version"`, `"extra":1,"aip_version"`), "duplicate": replaced(`"aip_version"`, `"name":"x","aip_version"`),
		"case variant": replaced(`"side_effects"`, `"Side_effects"`), "unknown effect": replaced(`"write"`, `"some"`),
		"unknown idempotency": replaced(`"provider_key"`, `"sure"`), "unknown risk": replaced(`"risk":"low"`, `"risk":"lowish"`),
		"schema not an object": replaced(`"input_schema":{"type":"object"}`, `"input_schema":true`), "no schema": replaced(`"input_schema":{"type":"object"},`, ``),
		"capability twice":          replaced(string(must(envelope.CanonicalOf(json.RawMessage(def)))), string(def)+","+string(def)),
		"implementation of nothing": replaced(`"capability_id":"ticket:create"`, `"capability_id":"ticket:other"`),
		"implementation twice":      replaced(`"implementations":[`, `"implementations":[`+string(impl)+","),
		"adapter in capitals":       replaced(`"adapter":"mcp"`, `"adapter":"MCP"`), "no tool": replaced(`"tool":"create_ticket"`, `"tool":""`),
		"huge definition": replaced("Opens a ticket.", strings.Repeat("x", fleet.MaxDefinitionBytes)), "other version": replaced(`"1.0"`, `"1.1"`),
		"unsafe number": replaced(`"p99_ms":800`, `"p99_ms":9007199254740993`), "kind in capitals": replaced(`"kind":"tool"`, `"kind":"Tool"`),
	} {
		if doc == string(good) {
			t.Fatalf("%s changes nothing", name)
		}
		if _, _, err := protocol.ReadManifest([]byte(doc)); !fleet.Is(err, fleet.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestErrorOf_G18_TheCauseStaysHere(t *testing.T) {
	cause := errors.New("select secret from other_tenant")
	err := fleet.Errorf(fleet.CapacityExceeded, "resolve.capacity", "no room").Caused(cause).Advise("wait")
	err.RetryAfter = 2 * time.Second
	doc := protocol.ErrorOf(err, "gateway")
	text := string(must(json.Marshal(doc)))
	if strings.Contains(text, "secret") || doc.Message != "no room" || doc.RetryAfterMS != 2000 || doc.Source != "gateway" {
		t.Errorf("%s", text)
	}
	if !strings.Contains(text, `"resolve.capacity"`) || !strings.Contains(text, `"wait"`) {
		t.Errorf("the stable code or the next step is missing: %s", text)
	}
	long := fleet.Invalidf("a.b", "%s", strings.Repeat("é\x1b", 5000))
	if err := protocol.ErrorOf(long, "host").Validate(); err != nil {
		t.Errorf("a long text with control characters: %v", err)
	}
}
