package localfleet

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// What the fleet's own issuer of tokens says, and what aipd serve expects.
const (
	issuer      = "https://issuer.dev.local"
	audience    = "aipd"
	tenantClaim = "tenant"
	keyIssuer   = "issuer"

	jwtLife = 30 * 24 * time.Hour // a fleet that stays up gets new ones at every start
)

// tokenFile is the bearer token of a tenant: acme has a development token, globex a
// signed one, so that both ways in are used.
func (p Place) tokenFile(tenant string) string { return p.Secret(tenant + ".token") }

func agentOf(tenant string) string { return "agent." + tenant }

// writeTokens makes the credentials of every tenant and what aipd serve checks them by.
func (p Place) writeTokens(now time.Time) error {
	if err := p.writeDevToken(Acme); err != nil {
		return err
	}
	return p.writeJWT(Globex, now)
}

func (p Place) tokensYAML() string { return p.Config("tokens.yaml") }
func (p Place) jwks() string       { return p.Config("jwks.json") }

func (p Place) writeDevToken(tenant string) error {
	token, err := writeOnce(p.tokenFile(tenant), func() ([]byte, error) { return randomText("dev_"), nil })
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(token))))
	text := fmt.Sprintf("tokens:\n  - sha256: %q\n    principal: %s\n    tenant: %s\n", hex.EncodeToString(sum[:]), agentOf(tenant), tenant)
	return writeFile(p.tokensYAML(), []byte(text), 0o644)
}

func (p Place) writeJWT(tenant string, now time.Time) error {
	data, err := writeOnce(p.keyFile(keyIssuer), newKeyPEM)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return unavailable("dev.keys", "the key file "+p.keyFile(keyIssuer)+" holds no key", nil)
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return unavailable("dev.keys", "the issuer's key cannot be read", err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: "dev-1", Algorithm: string(jose.EdDSA), Use: "sig"}
	text, err := signJWT(key, tenant, now)
	if err != nil {
		return unavailable("dev.token", "no token can be signed", err)
	}
	if err := writeFile(p.tokenFile(tenant), []byte(text+"\n"), 0o600); err != nil {
		return err
	}
	set, err := json.MarshalIndent(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}}, "", "  ")
	if err != nil {
		return unavailable("dev.token", "the issuer's key set cannot be written", err)
	}
	return writeFile(p.jwks(), append(set, '\n'), 0o644)
}

func signJWT(key jose.JSONWebKey, tenant string, now time.Time) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", err
	}
	claims := jwt.Claims{
		Issuer: issuer, Subject: agentOf(tenant), Audience: jwt.Audience{audience},
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(jwtLife)),
	}
	return jwt.Signed(signer).Claims(claims).Claims(map[string]any{tenantClaim: tenant}).Serialize()
}

// randomText is a secret of 192 bits.
func randomText(prefix string) []byte {
	var random [24]byte
	_, _ = rand.Read(random[:]) // does not fail
	return []byte(prefix + hex.EncodeToString(random[:]) + "\n")
}
