package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
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

// JWT accepts signed tokens of one issuer for one audience. Its key set is read again
// when the file changes, so that keys roll without a restart; a file that cannot be used
// leaves the last good set in force.
type JWT struct {
	config  JWTConfig
	keys    atomic.Pointer[jose.JSONWebKeySet]
	watcher func(error)

	reading sync.Mutex
	seen    os.FileInfo
	looked  time.Time
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
	j := &JWT{config: c, watcher: func(error) {}, looked: c.Now()}
	if err := j.read(); err != nil {
		return nil, err
	}
	return j, nil
}

// Watch sets who is told of every reading of a changed file: nil, or why the last good
// keys stay. It is called before the first Authenticate.
func (j *JWT) Watch(f func(error)) { j.watcher = f }

// Bounds of the key set's file.
const (
	maxKeySet   = 1 << 20
	maxKeys     = 256
	betweenLook = time.Second // between looks at whether it changed
)

// read takes the file as it is now.
func (j *JWT) read() error {
	path := j.config.JWKSFile
	f, err := os.Open(path)
	if err != nil {
		return fileError(path, "%s", err.Error())
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return fileError(path, "%s", err.Error())
	}
	j.seen = info
	data, err := io.ReadAll(io.LimitReader(f, maxKeySet+1))
	switch {
	case err != nil:
		return fileError(path, "%s", err.Error())
	case len(data) > maxKeySet:
		return fileError(path, "it is above 1 MiB")
	}
	keys, err := parseKeySet(path, data)
	if err == nil {
		j.keys.Store(keys)
	}
	return err
}

func parseKeySet(path string, data []byte) (*jose.JSONWebKeySet, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fileError(path, "it is not a JSON Web Key Set")
	}
	if len(set.Keys) == 0 || len(set.Keys) > maxKeys {
		return nil, fileError(path, "it holds no key, or more than %d", maxKeys)
	}
	for _, k := range set.Keys {
		if !k.Valid() || !k.IsPublic() {
			return nil, fileError(path, "key %q is not a valid public key", k.KeyID)
		}
		if k.Use != "" && k.Use != "sig" {
			return nil, fileError(path, "key %q is not for signatures", k.KeyID)
		}
	}
	return &set, nil
}

// look reads the file again if it is another one than was read, at most once a second
// and by one caller; the others go on with the keys there are.
func (j *JWT) look() {
	if !j.reading.TryLock() {
		return
	}
	defer j.reading.Unlock()
	now := j.config.Now()
	if since := now.Sub(j.looked); since >= 0 && since < betweenLook {
		return
	}
	j.looked = now
	info, err := os.Stat(j.config.JWKSFile)
	if err == nil && j.seen != nil && os.SameFile(info, j.seen) && info.ModTime().Equal(j.seen.ModTime()) && info.Size() == j.seen.Size() {
		return
	}
	if err != nil {
		if j.seen != nil { // said once
			j.seen = nil
			j.watcher(fileError(j.config.JWKSFile, "%s", err.Error()))
		}
		return
	}
	j.watcher(j.read())
}

// Authenticate implements Authenticator. Anything of three dotted parts is a JWT.
func (j *JWT) Authenticate(_ context.Context, credential string) (Identity, bool, error) {
	if strings.Count(credential, ".") != 2 {
		return Identity{}, false, nil
	}
	j.look()
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
	for _, k := range j.keys.Load().Keys {
		if header.KeyID != "" && k.KeyID != header.KeyID || k.Algorithm != "" && k.Algorithm != header.Algorithm {
			continue
		}
		if parsed.Claims(k.Key, into...) == nil {
			return nil
		}
	}
	return errNoKey
}
