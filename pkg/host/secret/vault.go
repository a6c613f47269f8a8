package secret

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

// VaultRef says where a credential is in a Vault: one field of one secret of a KV
// engine, version 2.
type VaultRef struct {
	Mount   string // of the engine; "" means "secret"
	Path    string // of the secret
	Field   string // "" means "value"
	Version uint64 // 0 means the newest
}

// AppRole is a way to log in. Both files are read anew for each login, and must be
// private.
type AppRole struct {
	Mount        string // of the auth method; "" means "approle"
	RoleIDFile   string
	SecretIDFile string
}

// VaultConfig of a provider. Address, Client, Refs and Now, and one of TokenFile and
// AppRole, are required.
type VaultConfig struct {
	Address   peer.Endpoint
	Client    Requester
	Namespace string
	TokenFile string // read anew for each request: an agent may renew it
	AppRole   *AppRole
	Refs      map[string]VaultRef
	Now       func() time.Time
}

// Requester sends one request; *peer.Client is one.
type Requester interface {
	Do(ctx context.Context, endpoint peer.Endpoint, r peer.Request) (peer.Answer, error)
}

// Vault reads credentials over the HTTP API of Vault and of what is compatible with it.
type Vault struct {
	cfg VaultConfig

	mu    sync.Mutex
	token Secret
	until time.Time // the token is used before this; zero: it does not expire
}

// NewVault makes a provider. It asks nothing yet.
func NewVault(cfg VaultConfig) (*Vault, error) {
	if cfg.Address.IsZero() || cfg.Client == nil || cfg.Now == nil || (cfg.TokenFile == "") == (cfg.AppRole == nil) {
		return nil, fleet.Invalidf("secret.config", "the vault needs an address and one way to log in: a token file, or an AppRole")
	}
	return &Vault{cfg: cfg}, nil
}

// Get implements Provider.
func (v *Vault) Get(ctx context.Context, ref string) (Secret, error) {
	at, ok := v.cfg.Refs[ref]
	if !ok {
		return Secret{}, unknown(ref)
	}
	token, fresh, err := v.login(ctx, false)
	if err != nil {
		return Secret{}, err
	}
	answer, err := v.read(ctx, at, token)
	if err == nil && answer.Status == http.StatusForbidden && !fresh {
		// The token may have been revoked before its time.
		if token, _, err = v.login(ctx, true); err != nil {
			return Secret{}, err
		}
		answer, err = v.read(ctx, at, token)
	}
	if err != nil {
		return Secret{}, source("the vault did not answer").Caused(err)
	}
	return at.take(ref, answer)
}

func (v *Vault) read(ctx context.Context, at VaultRef, token Secret) (peer.Answer, error) {
	r := peer.Request{
		Method: http.MethodGet, Path: "/v1/" + segments(or(at.Mount, "secret")) + "/data/" + segments(at.Path),
		Header: v.header(token),
	}
	if at.Version > 0 {
		r.Query = "version=" + strconv.FormatUint(at.Version, 10)
	}
	return v.cfg.Client.Do(ctx, v.cfg.Address, r)
}

// segments escapes each part of a path.
func segments(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (v *Vault) header(token Secret) http.Header {
	h := http.Header{"X-Vault-Request": {"true"}, "Accept": {"application/json"}}
	if !token.IsZero() {
		h.Set("X-Vault-Token", token.Reveal())
	}
	if v.cfg.Namespace != "" {
		h.Set("X-Vault-Namespace", v.cfg.Namespace)
	}
	return h
}

// take reads the field out of an answer. Nothing of the answer's text goes into an
// error: it comes from elsewhere and may hold what it must not.
func (at VaultRef) take(ref string, a peer.Answer) (Secret, error) {
	shown := fleet.Printable(ref, 200)
	switch a.Status {
	case http.StatusOK:
	case http.StatusNotFound:
		return Secret{}, source("the vault has no credential for %s", shown).Because("it was deleted, or its path or version is wrong")
	default:
		return Secret{}, source("the vault refused the credential of %s", shown).Because("it answered %d", a.Status)
	}
	var said struct {
		Data struct {
			Data map[string]json.RawMessage `json:"data"`
		} `json:"data"`
	}
	if err := envelope.DecodeStrict(a.Body, envelope.Limits{}, &said); err != nil {
		return Secret{}, source("the vault's answer for %s cannot be read", shown)
	}
	raw, ok := said.Data.Data[or(at.Field, "value")]
	var value string
	if !ok || json.Unmarshal(raw, &value) != nil || len(value) > MaxBytes {
		return Secret{}, source("the vault's secret for %s has no such field of text", shown)
	}
	return nonEmpty(ref, value)
}

// tokenMargin is how long before its end a token is not used any more.
const tokenMargin = 10 * time.Second

// login gives a token, from a file or by logging in; fresh says that it was made by
// this call. With again an earlier login does not count.
func (v *Vault) login(ctx context.Context, again bool) (token Secret, fresh bool, err error) {
	if v.cfg.AppRole == nil {
		value, err := readPrivate(v.cfg.TokenFile)
		if err != nil {
			return Secret{}, false, err
		}
		token, err = nonEmpty("the vault's token", strings.TrimSpace(value))
		return token, true, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	valid := !v.token.IsZero() && (v.until.IsZero() || v.cfg.Now().Before(v.until))
	if valid && !again {
		return v.token, false, nil
	}
	token, lease, err := v.enter(ctx)
	if err != nil {
		return Secret{}, false, err
	}
	v.token, v.until = token, time.Time{}
	if lease > 0 {
		v.until = v.cfg.Now().Add(max(lease-tokenMargin, lease/2))
	}
	return token, true, nil
}

// enter logs in by AppRole.
func (v *Vault) enter(ctx context.Context) (Secret, time.Duration, error) {
	var ids [2]string
	for i, path := range []string{v.cfg.AppRole.RoleIDFile, v.cfg.AppRole.SecretIDFile} {
		value, err := readPrivate(path)
		if err != nil {
			return Secret{}, 0, err
		}
		ids[i] = strings.TrimSpace(value)
	}
	body, err := json.Marshal(map[string]string{"role_id": ids[0], "secret_id": ids[1]})
	if err != nil {
		return Secret{}, 0, source("the vault's role cannot be written").Caused(err)
	}
	header := v.header(Secret{})
	header.Set("Content-Type", "application/json")
	answer, err := v.cfg.Client.Do(ctx, v.cfg.Address, peer.Request{
		Method: http.MethodPost, Path: "/v1/auth/" + segments(or(v.cfg.AppRole.Mount, "approle")) + "/login", Header: header, Body: body,
	})
	if err != nil {
		return Secret{}, 0, source("the vault did not answer the login").Caused(err)
	}
	if answer.Status != http.StatusOK {
		return Secret{}, 0, source("the vault refused the login").Because("it answered %d", answer.Status)
	}
	var said struct {
		Auth struct {
			Token string `json:"client_token"`
			Lease int64  `json:"lease_duration"` // seconds
		} `json:"auth"`
	}
	if err := envelope.DecodeStrict(answer.Body, envelope.Limits{}, &said); err != nil || said.Auth.Token == "" {
		return Secret{}, 0, source("the vault's answer to the login cannot be read")
	}
	return New(said.Auth.Token), time.Duration(said.Auth.Lease) * time.Second, nil
}
