package gateway_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/gateway"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// issuer signs tokens with one key of a set of two.
type issuer struct {
	key jose.JSONWebKey
	set string // file
}

func newIssuer(t *testing.T) issuer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	key := jose.JSONWebKey{Key: private, KeyID: "k1", Algorithm: string(jose.EdDSA), Use: "sig"}
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public(), {Key: other.Public(), KeyID: "k2", Algorithm: string(jose.ES256), Use: "sig"}}}
	return issuer{key: key, set: file(t, string(must(json.Marshal(set))))}
}

func (i issuer) sign(key any, alg jose.SignatureAlgorithm, claims map[string]any) string {
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil))
	return must(jwt.Signed(signer).Claims(claims).Serialize())
}

func TestJWT_G18_OnlyTheIssuersTokensForUs(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	i := newIssuer(t)
	auth := must(gateway.NewJWT(gateway.JWTConfig{
		Issuer: "https://issuer", Audience: "aipd", JWKSFile: i.set, TenantClaim: "tenant", Now: func() time.Time { return now },
	}))
	good := func() map[string]any {
		return map[string]any{"iss": "https://issuer", "aud": "aipd", "sub": "alice", "tenant": "acme", "exp": now.Add(time.Hour).Unix(), "nbf": now.Add(-time.Hour).Unix()}
	}
	with := func(name string, value any) string {
		claims := good()
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
		return i.sign(i.key, jose.EdDSA, claims)
	}
	valid := with("jti", "1")
	got, mine, err := auth.Authenticate(t.Context(), valid)
	if err != nil || !mine || got.Principal != "alice" || got.Tenant.String() != "acme" {
		t.Fatalf("a valid token: %+v %v %v", got, mine, err)
	}
	public := i.key.Public()
	parts := strings.Split(valid, ".")
	forgedBody := base64.RawURLEncoding.EncodeToString(must(json.Marshal(map[string]any{"iss": "https://issuer", "aud": "aipd", "sub": "alice", "tenant": "globex", "exp": now.Add(time.Hour).Unix()})))
	_, stranger, _ := ed25519.GenerateKey(rand.Reader)
	for name, token := range map[string]string{
		"expired":               with("exp", now.Add(-time.Hour).Unix()),
		"never expires":         with("exp", nil),
		"not yet valid":         with("nbf", now.Add(time.Hour).Unix()),
		"another issuer":        with("iss", "https://other"),
		"no issuer":             with("iss", nil),
		"another audience":      with("aud", "other"),
		"no audience":           with("aud", nil),
		"no subject":            with("sub", nil),
		"no tenant":             with("tenant", nil),
		"several tenants":       with("tenant", []string{"acme", "globex"}),
		"empty tenant":          with("tenant", ""),
		"control in tenant":     with("tenant", "ac\nme"),
		"unsigned":              base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".",
		"public key as secret":  i.sign([]byte(public.Key.(ed25519.PublicKey)), jose.HS256, good()),
		"another body":          parts[0] + "." + forgedBody + "." + parts[2],
		"signature cut":         valid[:len(valid)-8],
		"a stranger's key":      i.sign(jose.JSONWebKey{Key: stranger, KeyID: "k1"}, jose.EdDSA, good()),
		"a key id of the other": i.sign(jose.JSONWebKey{Key: i.key.Key, KeyID: "k2"}, jose.EdDSA, good()),
	} {
		if got, _, err := auth.Authenticate(t.Context(), token); !fleet.Is(err, fleet.Denied) || fleet.CodeOf(err) != gateway.CodeCredential {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, mine, err := auth.Authenticate(t.Context(), "opaque-token"); mine || err != nil {
		t.Errorf("an opaque token is a JWT: %v", err)
	}
}

func TestJWT_G21_KeySetsWithSecretsAreRefused(t *testing.T) {
	i := newIssuer(t)
	private := string(must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.key}})))
	symmetric := string(must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte("0123456789abcdef"), KeyID: "s", Algorithm: "HS256"}}})))
	for name, text := range map[string]string{"private": private, "symmetric": symmetric, "empty": `{"keys":[]}`, "text": "hello"} {
		_, err := gateway.NewJWT(gateway.JWTConfig{Issuer: "i", Audience: "a", TenantClaim: "t", JWKSFile: file(t, text), Now: time.Now})
		if fleet.CodeOf(err) != gateway.CodeFile {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestJWT_G18_KeysRollWithoutARestart: a changed file is read again, a key that was taken
// away signs for nobody any more, and a file that cannot be used leaves the last good keys.
func TestJWT_G18_KeysRollWithoutARestart(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	old, next := newIssuer(t), newIssuer(t)
	path := filepath.Join(t.TempDir(), "jwks.json")
	put := func(text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	set := func(keys ...jose.JSONWebKey) string {
		return string(must(json.Marshal(jose.JSONWebKeySet{Keys: keys})))
	}
	put(set(old.key.Public()))
	auth := must(gateway.NewJWT(gateway.JWTConfig{
		Issuer: "https://issuer", Audience: "aipd", JWKSFile: path, TenantClaim: "tenant", Now: func() time.Time { return now },
	}))
	var said []error
	auth.Watch(func(err error) { said = append(said, err) })
	accepts := func(what string, i issuer, want bool) {
		t.Helper()
		token := i.sign(i.key, jose.EdDSA, map[string]any{"iss": "https://issuer", "aud": "aipd", "sub": "alice", "tenant": "acme", "exp": now.Add(time.Hour).Unix()})
		if _, _, err := auth.Authenticate(t.Context(), token); (err == nil) != want {
			t.Errorf("%s: %v", what, err)
		}
	}
	next.key.KeyID = "k3"
	accepts("the only key", old, true)
	accepts("a key that is not there yet", next, false)
	put(set(old.key.Public(), next.key.Public()))
	accepts("both", old, true)
	accepts("both", next, true)
	put(set(next.key.Public()))
	accepts("the old one, taken away", old, false)
	accepts("the new one", next, true)
	for _, bad := range []string{"hello", `{"keys":[]}`, set(old.key), strings.Repeat(" ", 1<<20) + set(old.key.Public())} {
		put(bad)
		accepts("the last good one", next, true)
		accepts("one from before", old, false)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		now = now.Add(time.Minute)
		accepts("without a file", next, true)
	}
	put(set(old.key.Public()))
	accepts("a good one again", old, true)
	failures := 0
	for _, err := range said {
		if err != nil {
			failures++
		}
	}
	if len(said) != 8 || failures != 5 {
		t.Errorf("%d readings, %d failed: %v", len(said), failures, said)
	}
}

func TestTokens_G21_OnlyHashesAreKeptAndExpiryHolds(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	path := file(t, fmt.Sprintf("tokens:\n- sha256: sha256:%s\n  principal: alice\n  tenant: acme\n- sha256: %s\n  principal: bob\n  tenant: acme\n  expires: 2026-06-01T12:00:00Z\n",
		gateway.HashToken("good"), gateway.HashToken("old")))
	tokens := must(gateway.LoadTokens(path, func() time.Time { return now }))
	if got, mine, err := tokens.Authenticate(t.Context(), "good"); err != nil || !mine || got.Principal != "alice" {
		t.Errorf("good: %+v %v %v", got, mine, err)
	}
	if _, _, err := tokens.Authenticate(t.Context(), "old"); !fleet.Is(err, fleet.Denied) {
		t.Errorf("expired: %v", err)
	}
	if _, mine, err := tokens.Authenticate(t.Context(), gateway.HashToken("good")); mine || err != nil {
		t.Errorf("the hash is taken for the token: %v", err)
	}
	for name, text := range map[string]string{
		"upper case hash": "tokens: [{sha256: " + strings.ToUpper(gateway.HashToken("x")) + ", principal: a, tenant: t}]",
		"short hash":      "tokens: [{sha256: abcd, principal: a, tenant: t}]",
		"unknown field":   "tokens: [{sha256: " + gateway.HashToken("x") + ", principal: a, tenant: t, admin: true}]",
		"no tenant":       "tokens: [{sha256: " + gateway.HashToken("x") + ", principal: a}]",
		"twice":           "tokens: [{sha256: " + gateway.HashToken("x") + ", principal: a, tenant: t}, {sha256: " + gateway.HashToken("x") + ", principal: b, tenant: u}]",
	} {
		if _, err := gateway.LoadTokens(file(t, text), time.Now); fleet.CodeOf(err) != gateway.CodeFile {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func identity(principal, tenant string) gateway.Identity {
	return must(gateway.NewIdentity(principal, tenant))
}

func capability(id, risk string, effects fleet.SideEffects) fleet.CapabilityDefinition {
	return fleet.CapabilityDefinition{ID: must(fleet.ParseCapabilityID(id)), Risk: risk, Contract: fleet.Contract{SideEffects: effects}}
}

func TestPolicy_G40_WhatNoRuleAllowsIsDenied(t *testing.T) {
	p := must(gateway.LoadPolicy(file(t, `rules:
- {effect: allow, principals: [alice, "svc-*"], tenants: [acme], capabilities: ["desk:*"], side_effects: [none, read, write], risk: [low, medium]}
- {effect: deny, principals: ["svc-guest"]}
`)))
	open := capability("desk:open", "low", fleet.EffectWrite)
	for _, c := range []struct {
		name string
		who  gateway.Identity
		what fleet.CapabilityDefinition
		want bool
	}{
		{"named", identity("alice", "acme"), open, true},
		{"by prefix", identity("svc-billing", "acme"), open, true},
		{"deny outweighs", identity("svc-guest", "acme"), open, false},
		{"nobody named", identity("bob", "acme"), open, false},
		{"a longer name", identity("alice2", "acme"), open, false},
		{"another tenant", identity("alice", "globex"), open, false},
		{"another capability", identity("alice", "acme"), capability("mail:send", "low", fleet.EffectWrite), false},
		{"too destructive", identity("alice", "acme"), capability("desk:wipe", "low", fleet.EffectDestructive), false},
		{"too risky", identity("alice", "acme"), capability("desk:open", "high", fleet.EffectWrite), false},
		{"risk not stated", identity("alice", "acme"), capability("desk:open", "", fleet.EffectWrite), false},
		{"effects not stated", identity("alice", "acme"), capability("desk:open", "low", ""), false},
	} {
		if got := p.Allows(c.who, c.what); got != c.want {
			t.Errorf("%s: allowed %v", c.name, got)
		}
		if err := p.Check(c.who, c.what); (err == nil) != c.want || err != nil && fleet.CodeOf(err) != gateway.CodePolicy {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if (gateway.Policy{}).Allows(identity("alice", "acme"), open) {
		t.Error("the empty policy allows")
	}
}

func TestPolicy_G40_UnclearRulesAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no effect":       `rules: [{principals: [a]}]`,
		"unknown effect":  `rules: [{effect: maybe, principals: [a]}]`,
		"no condition":    `rules: [{effect: allow}]`,
		"star inside":     `rules: [{effect: allow, principals: ["a*b"]}]`,
		"unknown field":   `rules: [{effect: allow, principal: a}]`,
		"unknown effects": `rules: [{effect: allow, side_effects: [writes]}]`,
		"unknown risk":    `rules: [{effect: allow, risk: [tiny]}]`,
	} {
		if _, err := gateway.LoadPolicy(file(t, text)); fleet.CodeOf(err) != gateway.CodeFile {
			t.Errorf("%s: %v", name, err)
		}
	}
}
