package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// JWTConfig says which tokens to accept. Every field is required.
type JWTConfig struct {
	Issuer      string
	Audience    string
	JWKSFile    string // public keys; private or symmetric ones are refused
	TenantClaim string // the claim that names the tenant
	Now         func() time.Time
}

// JWT accepts signed tokens of one issuer for one audience.
type JWT struct {
	config JWTConfig
	keys   jose.JSONWebKeySet
}

// algorithms is the allow list: asymmetric signatures only. "none" and the HMACs
// are not in it, so a public key is never taken for a shared secret.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.EdDSA, jose.ES256, jose.ES384, jose.ES512, jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}
}

// clockLeeway allows for clocks that differ.
const clockLeeway = 30 * time.Second

// NewJWT reads the key set.
func NewJWT(c JWTConfig) (*JWT, error) {
	if c.Issuer == "" || c.Audience == "" || c.TenantClaim == "" || c.JWKSFile == "" {
		return nil, fileError(c.JWKSFile, "auth.jwt needs issuer, audience, jwks_file and tenant_claim")
	}
	data, err := os.ReadFile(c.JWKSFile)
	if err != nil {
		return nil, fileError(c.JWKSFile, "%s", err.Error())
	}
	j := &JWT{config: c}
	if err := json.Unmarshal(data, &j.keys); err != nil {
		return nil, fileError(c.JWKSFile, "it is not a JSON Web Key Set")
	}
	if len(j.keys.Keys) == 0 {
		return nil, fileError(c.JWKSFile, "it holds no key")
	}
	for _, k := range j.keys.Keys {
		if !k.Valid() || !k.IsPublic() {
			return nil, fileError(c.JWKSFile, "key %q is not a valid public key", k.KeyID)
		}
		if k.Use != "" && k.Use != "sig" {
			return nil, fileError(c.JWKSFile, "key %q is not for signatures", k.KeyID)
		}
	}
	return j, nil
}

// Authenticate implements Authenticator. Anything of three dotted parts is a JWT.
func (j *JWT) Authenticate(_ context.Context, credential string) (Identity, bool, error) {
	if strings.Count(credential, ".") != 2 {
		return Identity{}, false, nil
	}
	parsed, err := jwt.ParseSigned(credential, algorithms())
	if err != nil || len(parsed.Headers) != 1 {
		return Identity{}, true, credentialError("it is not a token signed with an accepted algorithm")
	}
	var claims jwt.Claims
	custom := map[string]any{}
	if err := j.verify(parsed, &claims, &custom); err != nil {
		return Identity{}, true, credentialError("its signature fits no key of the issuer")
	}
	if claims.Expiry == nil {
		return Identity{}, true, credentialError("it never expires")
	}
	expected := jwt.Expected{Issuer: j.config.Issuer, AnyAudience: jwt.Audience{j.config.Audience}, Time: j.config.Now()}
	if err := claims.ValidateWithLeeway(expected, clockLeeway); err != nil {
		return Identity{}, true, credentialError(strings.TrimPrefix(err.Error(), "go-jose/go-jose/jwt: "))
	}
	tenant, _ := custom[j.config.TenantClaim].(string)
	identity, err := NewIdentity(claims.Subject, tenant)
	if err != nil {
		return Identity{}, true, credentialError("its subject or tenant is missing or not valid")
	}
	return identity, true, nil
}

var errNoKey = errors.New("no key verifies the token")

// verify tries the keys that the header may mean; a key that names an algorithm
// verifies only that one.
func (j *JWT) verify(parsed *jwt.JSONWebToken, into ...any) error {
	header := parsed.Headers[0]
	for _, k := range j.keys.Keys {
		if header.KeyID != "" && k.KeyID != header.KeyID || k.Algorithm != "" && k.Algorithm != header.Algorithm {
			continue
		}
		if parsed.Claims(k.Key, into...) == nil {
			return nil
		}
	}
	return errNoKey
}
