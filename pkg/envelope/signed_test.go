package envelope_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"slices"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// signTree signs any message with the gateway's key, as a peer would that does
// not keep the rules of Seal.
func signTree(t *testing.T, spoil func(message, security map[string]any)) []byte {
	t.Helper()
	var message map[string]any
	if err := envelope.DecodeStrict(sealed(t), envelope.Limits{}, &message); err != nil {
		t.Fatal(err)
	}
	security, _ := message["security"].(map[string]any)
	delete(security, "signature")
	spoil(message, security)
	unsigned, err := envelope.CanonicalOf(message)
	if err != nil {
		t.Fatal(err)
	}
	priv := ed25519.NewKeyFromSeed(slices.Repeat([]byte{gatewaySeed}, ed25519.SeedSize))
	security["signature"] = base64.StdEncoding.EncodeToString(ed25519.Sign(priv, unsigned))
	signed, err := envelope.CanonicalOf(message)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// A right signature does not make a wrong message right.
func TestOpen_G40_WellSignedButWrongIsRefused(t *testing.T) {
	if _, err := envelope.Open(signTree(t, func(_, _ map[string]any) {}), expect()); err != nil {
		t.Fatalf("the unspoilt message: %v", err)
	}
	other := signer(otherSeed).DID().String()
	cases := map[string]struct {
		code  string
		spoil func(message, security map[string]any)
	}{
		"from another identity":     {envelope.CodeKey, func(m, _ map[string]any) { m["from"].(map[string]any)["did"] = other }},
		"to another identity":       {envelope.CodeAudience, func(m, _ map[string]any) { m["to"].(map[string]any)["did"] = other }},
		"another signer named":      {envelope.CodeKey, func(_, s map[string]any) { s["signer"] = other }},
		"no signer named":           {envelope.CodeKey, func(_, s map[string]any) { delete(s, "signer") }},
		"another audience":          {envelope.CodeAudience, func(_, s map[string]any) { s["audience"] = other }},
		"no audience":               {envelope.CodeAudience, func(_, s map[string]any) { delete(s, "audience") }},
		"no purpose":                {envelope.CodePurpose, func(_, s map[string]any) { delete(s, "purpose") }},
		"a purpose in capitals":     {envelope.CodePurpose, func(_, s map[string]any) { s["purpose"] = "Dispatch" }},
		"an unknown member":         {envelope.CodeSchema, func(m, _ map[string]any) { m["priority"] = 1 }},
		"a member that is null":     {envelope.CodeSchema, func(m, _ map[string]any) { m["session_id"] = nil }},
		"an unsafe counter":         {envelope.CodeSchema, func(_, s map[string]any) { s["route"] = json.RawMessage(`{"a":[{"n":9007199254740993}]}`) }},
		"a body of two members":     {envelope.CodeSchema, func(m, _ map[string]any) { m["body"].(map[string]any)["cancel"] = 1 }},
		"no body":                   {envelope.CodeSchema, func(m, _ map[string]any) { delete(m, "body") }},
		"another version":           {envelope.CodeSchema, func(m, _ map[string]any) { m["aip_version"] = "2.0" }},
		"security as text":          {envelope.CodeSchema, func(m, _ map[string]any) { m["security"] = "none" }},
		"a time without a zone":     {envelope.CodeSchema, func(m, _ map[string]any) { m["sent_at"] = "2026-03-01T12:00:00" }},
		"a message id of a replica": {envelope.CodeSchema, func(m, _ map[string]any) { m["message_id"] = "crepl_1" }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := envelope.Open(signTree(t, c.spoil), expect())
			if fleet.CodeOf(err) != c.code {
				t.Errorf("err = %v (%s), want %s", err, fleet.CodeOf(err), c.code)
			}
		})
	}
}

// A trusted key is trusted with its own messages only.
func TestOpen_G19_EachSignerSignsForItself(t *testing.T) {
	want := expect()
	want.Keys = append(want.Keys, envelope.Key{DID: signer(otherSeed).DID()})
	data := signTree(t, func(m, s map[string]any) {
		delete(m["from"].(map[string]any), "did")
		s["signer"] = signer(otherSeed).DID().String() // signed with the gateway's key all the same
	})
	if _, err := envelope.Open(data, want); fleet.CodeOf(err) != envelope.CodeSignature {
		t.Errorf("err = %v, want %s", err, envelope.CodeSignature)
	}
}
