package envelope_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

var sentAt = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

const (
	gatewaySeed = 1
	hostSeed    = 2
	otherSeed   = 3
)

// dispatch is a message with every member an envelope may have.
func dispatch(t testing.TB) envelope.Envelope {
	t.Helper()
	body, err := envelope.NewBody("action", map[string]any{
		"id": "act_1", "capability_id": "ticket:create", "mode": "sync", "timeout_ms": 5000,
		"input": json.RawMessage(`{"title":"déjà vu","amount":9007199254740993,"price":12.50,"tags":["a","b"],"urgent":true,"none":null}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return envelope.Envelope{
		AIPVersion: envelope.Version, MessageType: "aip.core.v1.action", MessageID: messageID(t, "msg_1"),
		SentAt: sentAt, Body: body, SessionID: "s", CorrelationID: "c", InResponseTo: messageID(t, "msg_0"), IdempotencyKey: "k",
		From:       &envelope.Principal{ID: "gateway", Kind: "service", DID: signer(gatewaySeed).DID(), TrustDomain: "example.test"},
		To:         &envelope.Principal{ID: "host", Kind: "service", DID: signer(hostSeed).DID()},
		Trace:      json.RawMessage(`{"traceparent":"00-1-2-01"}`),
		Extensions: map[string]json.RawMessage{"x.test": json.RawMessage(`{"n":1}`)},
		Security: &envelope.Security{Route: json.RawMessage(
			`{"action_id":"act_1","fence":{"number":2,"token":"00ff"},"earlier_verdicts":[{"fence":1,"verdict":"not_started"}]}`)},
	}
}

func messageID(t testing.TB, s string) fleet.MessageID {
	t.Helper()
	id, err := fleet.ParseMessageID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func sealed(t testing.TB) []byte {
	t.Helper()
	data, err := envelope.Seal(dispatch(t), envelope.Dispatch, signer(gatewaySeed), signer(hostSeed).DID())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// expect is what the host wants of a dispatch, a second after it was sent.
func expect() envelope.Expect {
	return envelope.Expect{
		Purpose: envelope.Dispatch, Audience: signer(hostSeed).DID(), Keys: envelope.KeySet{{DID: signer(gatewaySeed).DID()}},
		Now: sentAt.Add(time.Second), MessageTypes: []string{"aip.core.v1.cancel", "aip.core.v1.action"},
	}
}

func TestOpen_G19_ReturnsWhatWasSealed(t *testing.T) {
	data := sealed(t)
	o, err := envelope.Open(data, expect())
	if err != nil {
		t.Fatal(err)
	}
	env := o.Envelope()
	if o.BodyKey() != "action" || o.Signer() != signer(gatewaySeed).DID() || !env.SentAt.Equal(sentAt) || env.MessageID.String() != "msg_1" {
		t.Errorf("opened %+v", env)
	}
	if !strings.Contains(string(o.Body()), `"amount":9007199254740993`) || !strings.Contains(string(o.Body()), `"price":12.50`) {
		t.Errorf("numbers changed on the way: %s", o.Body())
	}
	if !bytes.Equal(o.Raw(), data) || o.Digest() != fleet.DigestBytes(data) {
		t.Errorf("digest %s of %s", o.Digest(), o.Raw())
	}
	if !strings.HasPrefix(string(o.Route()), `{"action_id":"act_1"`) {
		t.Errorf("route %s", o.Route())
	}
	pinned := expect()
	pinned.Keys, pinned.Peer = nil, signer(gatewaySeed).DID()
	if _, err := envelope.Open(data, pinned); err != nil {
		t.Errorf("by pinned peer: %v", err)
	}
}

func TestOpen_G19_WhiteSpaceAndOrderDoNotMatter(t *testing.T) {
	data := sealed(t)
	first, err := envelope.Open(data, expect())
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, data, " ", "\t"); err != nil {
		t.Fatal(err)
	}
	escaped := strings.Replace(string(data), "déjà", `d\u00e9j\u00E0`, 1)
	for name, copied := range map[string][]byte{"indented": indented.Bytes(), "escaped": []byte(escaped), "reversed": reversed(t, data)} {
		if bytes.Equal(copied, data) {
			t.Fatalf("%s: the copy does not differ", name)
		}
		o, err := envelope.Open(copied, expect())
		if err != nil || o.Digest() != first.Digest() || !bytes.Equal(o.Raw(), copied) {
			t.Errorf("%s: %v, digest %s, want %s", name, err, o.Digest(), first.Digest())
		}
	}
}

// reversed writes the top-level members in the opposite order.
func reversed(t *testing.T, data []byte) []byte {
	t.Helper()
	v, err := envelope.ParseStrict(data, envelope.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, m := range v.Members() {
		parts = append([]string{`"` + m.Name + `":` + string(m.Value.Raw())}, parts...)
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

func TestOpen_G40_EveryCheckHasItsCode(t *testing.T) {
	stranger := signer(otherSeed)
	cases := []struct {
		name, code string
		kind       fleet.Kind
		want       func(*envelope.Expect)
	}{
		{"too large", envelope.CodeSize, fleet.Invalid, func(w *envelope.Expect) { w.Limits.MaxBytes = 10 }},
		{"too deep", envelope.CodeMalformed, fleet.Invalid, func(w *envelope.Expect) { w.Limits.MaxDepth = 2 }},
		{"unknown key", envelope.CodeKey, fleet.Denied, func(w *envelope.Expect) { w.Keys = envelope.KeySet{{DID: stranger.DID()}} }},
		{"other peer pinned", envelope.CodeKey, fleet.Denied, func(w *envelope.Expect) { w.Peer = stranger.DID() }},
		{"no keys", envelope.CodeKey, fleet.Denied, func(w *envelope.Expect) { w.Keys = nil }},
		{"key not valid yet", envelope.CodeKey, fleet.Denied, func(w *envelope.Expect) { w.Keys[0].NotBefore = w.Now.Add(1) }},
		{"key no longer valid", envelope.CodeKey, fleet.Denied, func(w *envelope.Expect) { w.Keys[0].NotAfter = w.Now }},
		{"other purpose", envelope.CodePurpose, fleet.Denied, func(w *envelope.Expect) { w.Purpose = envelope.Response }},
		{"no purpose", envelope.CodePurpose, fleet.Denied, func(w *envelope.Expect) { w.Purpose = "" }},
		{"other type", envelope.CodePurpose, fleet.Denied, func(w *envelope.Expect) { w.MessageTypes = []string{"aip.core.v1.cancel"} }},
		{"other audience", envelope.CodeAudience, fleet.Denied, func(w *envelope.Expect) { w.Audience = stranger.DID() }},
		{"no audience", envelope.CodeAudience, fleet.Denied, func(w *envelope.Expect) { w.Audience = envelope.DID{} }},
		{"too old", envelope.CodeStale, fleet.Denied, func(w *envelope.Expect) { w.Now = sentAt.Add(envelope.DefaultMaxAge + 1) }},
		{"from the future", envelope.CodeStale, fleet.Denied, func(w *envelope.Expect) { w.Now = sentAt.Add(-envelope.DefaultMaxAhead - 1) }},
		{"no clock", envelope.CodeStale, fleet.Denied, func(w *envelope.Expect) { w.Now = time.Time{} }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			want := expect()
			c.want(&want)
			_, err := envelope.Open(sealed(t), want)
			if fleet.CodeOf(err) != c.code || !fleet.Is(err, c.kind) {
				t.Errorf("err = %v (%s), want %s", err, fleet.CodeOf(err), c.code)
			}
		})
	}
	for _, edge := range []time.Duration{envelope.DefaultMaxAge, -envelope.DefaultMaxAhead} {
		want := expect()
		want.Now = sentAt.Add(edge)
		if _, err := envelope.Open(sealed(t), want); err != nil {
			t.Errorf("%v after sending: %v", edge, err)
		}
	}
}

// The order of the checks decides which code a message with several faults gets.
func TestOpen_G40_ChecksComeInOrder(t *testing.T) {
	want := expect()
	want.Limits.MaxBytes, want.Keys, want.Purpose, want.Audience, want.Now = 10, nil, envelope.Response, envelope.DID{}, time.Time{}
	tampered := bytes.Replace(sealed(t), []byte(`"urgent":true`), []byte(`"urgent":true,"urgent":true`), 1)
	steps := []struct {
		code string
		heal func()
	}{
		{envelope.CodeSize, func() { want.Limits.MaxBytes = 0 }},
		{envelope.CodeMalformed, func() { tampered = bytes.Replace(sealed(t), []byte(`"k"`), []byte(`7`), 1) }},
		{envelope.CodeSchema, func() { tampered = bytes.Replace(sealed(t), []byte(`"urgent":true`), []byte(`"urgent":null`), 1) }},
		{envelope.CodeKey, func() { want.Keys = expect().Keys }},
		{envelope.CodeSignature, func() { tampered = sealed(t) }},
		{envelope.CodePurpose, func() { want.Purpose = envelope.Dispatch }},
		{envelope.CodeAudience, func() { want.Audience = expect().Audience }},
		{envelope.CodeStale, func() { want.Now = expect().Now }},
	}
	for _, s := range steps {
		if _, err := envelope.Open(tampered, want); fleet.CodeOf(err) != s.code {
			t.Fatalf("err = %v (%s), want %s", err, fleet.CodeOf(err), s.code)
		}
		s.heal()
	}
	if _, err := envelope.Open(tampered, want); err != nil {
		t.Fatalf("all healed: %v", err)
	}
}

func TestOpen_G19_PurposesAreNotInterchangeable(t *testing.T) {
	purposes := []envelope.Purpose{
		envelope.Dispatch, envelope.Response, envelope.Lifecycle, envelope.LifecycleResponse, envelope.Event,
		envelope.Callback, envelope.Plan, envelope.Decision, envelope.Publication, envelope.Native,
	}
	for _, given := range purposes {
		data, err := envelope.Seal(dispatch(t), given, signer(gatewaySeed), signer(hostSeed).DID())
		if err != nil {
			t.Fatal(err)
		}
		for _, asked := range purposes {
			want := expect()
			want.Purpose = asked
			if _, err := envelope.Open(data, want); (err == nil) != (given == asked) {
				t.Errorf("signed for %s, opened for %s: %v", given, asked, err)
			}
		}
	}
}

func TestOpen_G19_UnsignedIsRefused(t *testing.T) {
	env := dispatch(t)
	for name, security := range map[string]*envelope.Security{
		"no security":  nil,
		"no signature": {Purpose: envelope.Dispatch, Signer: signer(gatewaySeed).DID(), Audience: signer(hostSeed).DID()},
		"empty":        {},
	} {
		env.Security = security
		data, err := envelope.CanonicalOf(env)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := envelope.Open(data, expect()); !fleet.Is(err, fleet.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeal_G19_RefusesWhatWouldNotOpen(t *testing.T) {
	host, gateway := signer(hostSeed).DID(), signer(gatewaySeed)
	cases := map[string]func() ([]byte, error){
		"no key":          func() ([]byte, error) { return envelope.Seal(dispatch(t), envelope.Dispatch, envelope.Signer{}, host) },
		"no audience":     func() ([]byte, error) { return envelope.Seal(dispatch(t), envelope.Dispatch, gateway, envelope.DID{}) },
		"unknown purpose": func() ([]byte, error) { return envelope.Seal(dispatch(t), "everything", gateway, host) },
		"from another": func() ([]byte, error) {
			return envelope.Seal(dispatch(t), envelope.Dispatch, signer(otherSeed), host)
		},
		"to another": func() ([]byte, error) {
			return envelope.Seal(dispatch(t), envelope.Dispatch, gateway, signer(otherSeed).DID())
		},
		"no envelope": func() ([]byte, error) { return envelope.Seal(envelope.Envelope{}, envelope.Dispatch, gateway, host) },
	}
	for name, seal := range cases {
		if data, err := seal(); err == nil || data != nil {
			t.Errorf("%s was sealed: %s", name, data)
		}
	}
}

func TestEnvelope_G40_ValidateNamesTheMember(t *testing.T) {
	long := strings.Repeat("x", 257)
	cases := map[string]func(*envelope.Envelope){
		"aip_version":       func(e *envelope.Envelope) { e.AIPVersion = "1.1" },
		"message_type":      func(e *envelope.Envelope) { e.MessageType = "Action" },
		"message_id":        func(e *envelope.Envelope) { e.MessageID = fleet.MessageID{} },
		"sent_at":           func(e *envelope.Envelope) { e.SentAt = time.Time{} },
		"session_id":        func(e *envelope.Envelope) { e.SessionID = long },
		"correlation_id":    func(e *envelope.Envelope) { e.CorrelationID = "a\nb" },
		"idempotency_key":   func(e *envelope.Envelope) { e.IdempotencyKey = long },
		"from.id":           func(e *envelope.Envelope) { e.From.ID = "" },
		"to.kind":           func(e *envelope.Envelope) { e.To.Kind = "Service" },
		"from.trust_domain": func(e *envelope.Envelope) { e.From.TrustDomain = long },
		"body":              func(e *envelope.Envelope) { e.Body = json.RawMessage(`{"a":1,"b":2}`) },
	}
	for member, spoil := range cases {
		env := dispatch(t)
		spoil(&env)
		if err := env.Validate(); fleet.CodeOf(err) != envelope.CodeSchema || !strings.Contains(err.Error(), member+":") {
			t.Errorf("%s: %v", member, err)
		}
	}
	for _, body := range []string{"", "null", "[]", "{}", `{"Action":1}`, `{"a-b":1}`, `{"_a":1}`} {
		env := dispatch(t)
		env.Body = json.RawMessage(body)
		if env.Validate() == nil {
			t.Errorf("body %q passed", body)
		}
	}
	for _, kind := range []string{"", "aip", "aip..v1", ".aip", "aip.", "9aip.v1", "aip.V1", "aip.v 1"} {
		env := dispatch(t)
		env.MessageType = kind
		if env.Validate() == nil {
			t.Errorf("message type %q passed", kind)
		}
	}
	if err := dispatch(t).Validate(); err != nil {
		t.Error(err)
	}
	if _, err := envelope.NewBody("Action", 1); err == nil {
		t.Error("a body name in upper case passed")
	}
}

// FuzzOpen checks that whatever opens is the message that was sealed.
func FuzzOpen(f *testing.F) {
	good := sealed(f)
	f.Add(good)
	f.Add(bytes.Replace(good, []byte("action"), []byte("Action"), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := envelope.Open(data, expect())
		if err != nil {
			return
		}
		if o.Digest() != fleet.DigestBytes(good) {
			t.Fatalf("opened a message that nobody sealed: %q", data)
		}
	})
}
