package secret_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/secret"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

// vaultServer answers as Vault's HTTP API does for KV version 2 and AppRole.
type vaultServer struct {
	mu       sync.Mutex
	tokens   map[string]bool
	versions map[string][]map[string]string // mount/path to its versions, "" deleted
	logins   int
	lease    int
	answer   func(w http.ResponseWriter, r *http.Request) bool // replaces the ordinary one
	spaces   []string
}

func (v *vaultServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.spaces = append(v.spaces, r.Header.Get("X-Vault-Namespace"))
	if v.answer != nil && v.answer(w, r) {
		return
	}
	if r.Method == http.MethodPost && r.URL.Path == "/v1/auth/approle/login" {
		v.login(w, r)
		return
	}
	if !v.tokens[r.Header.Get("X-Vault-Token")] || r.Header.Get("X-Vault-Request") != "true" {
		fail(w, http.StatusForbidden, "permission denied")
		return
	}
	v.kv(w, r)
}

func fail(w http.ResponseWriter, status int, text ...string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": text})
}

func (v *vaultServer) login(w http.ResponseWriter, r *http.Request) {
	var said struct {
		Role   string `json:"role_id"`
		Secret string `json:"secret_id"`
	}
	if json.NewDecoder(r.Body).Decode(&said) != nil || said.Role != "role-1" || said.Secret != "secret-1" {
		fail(w, http.StatusBadRequest, "invalid role or secret ID")
		return
	}
	v.logins++
	token := fmt.Sprintf("hvs.login-%d", v.logins)
	v.tokens[token] = true
	_ = json.NewEncoder(w).Encode(map[string]any{
		"request_id": "x", "lease_id": "", "renewable": false, "lease_duration": 0, "data": nil, "warnings": nil,
		"auth": map[string]any{
			"client_token": token, "accessor": "a", "policies": []string{"default"}, "token_policies": []string{"default"},
			"metadata": map[string]string{"role_name": "r"}, "lease_duration": v.lease, "renewable": true, "token_type": "service",
		},
	})
}

func (v *vaultServer) kv(w http.ResponseWriter, r *http.Request) {
	mount, path, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/"), "/data/")
	all := v.versions[mount+"/"+path]
	if !ok || r.Method != http.MethodGet || len(all) == 0 {
		fail(w, http.StatusNotFound)
		return
	}
	version := len(all)
	if said := r.URL.Query().Get("version"); said != "" {
		version, _ = strconv.Atoi(said)
	}
	if version < 1 || version > len(all) {
		fail(w, http.StatusNotFound)
		return
	}
	metadata := map[string]any{"created_time": "2026-01-01T00:00:00Z", "custom_metadata": nil, "deletion_time": "", "destroyed": false, "version": version}
	if all[version-1] == nil {
		metadata["deletion_time"] = "2026-01-02T00:00:00Z"
		w.WriteHeader(http.StatusNotFound)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"request_id": "x", "lease_id": "", "renewable": false, "lease_duration": 0, "wrap_info": nil, "warnings": nil, "auth": nil,
		"data": map[string]any{"data": all[version-1], "metadata": metadata},
	})
}

func private(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newVault(t *testing.T, adjust func(*secret.VaultConfig)) (*vaultServer, *secret.Vault) {
	t.Helper()
	server := &vaultServer{
		tokens: map[string]bool{"hvs.file": true}, lease: 3600, versions: map[string][]map[string]string{
			"secret/desk/acme": {{"value": "old"}, {"value": value, "user": "u"}},
			"secret/gone":      {{"value": "x"}, nil},
			"kv/a b/c":         {{"password": "odd"}},
		},
	}
	http := httptest.NewServer(server)
	t.Cleanup(http.Close)
	address, err := peer.ParseEndpoint(http.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := peer.NewClient(peer.Config{Addresses: peer.LoopbackPolicy()})
	t.Cleanup(client.Close)
	cfg := secret.VaultConfig{
		Address: address, Client: client, Now: time.Now, TokenFile: private(t, "token", "hvs.file\n"), Refs: map[string]secret.VaultRef{
			"desk": {Path: "desk/acme"}, "desk.1": {Path: "desk/acme", Version: 1}, "desk.user": {Path: "desk/acme", Field: "user"},
			"odd": {Mount: "kv", Path: "a b/c", Field: "password"}, "gone": {Path: "gone"}, "none": {Path: "none"}, "field": {Path: "desk/acme", Field: "no"},
		},
	}
	if adjust != nil {
		adjust(&cfg)
	}
	vault, err := secret.NewVault(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return server, vault
}

func appRole(t *testing.T) func(*secret.VaultConfig) {
	return func(c *secret.VaultConfig) {
		c.TokenFile, c.Namespace = "", "team"
		c.AppRole = &secret.AppRole{RoleIDFile: private(t, "role", "role-1\n"), SecretIDFile: private(t, "id", "secret-1\n")}
	}
}

func TestVault_G21_ReadsFieldsAndVersions(t *testing.T) {
	_, vault := newVault(t, nil)
	for ref, want := range map[string]string{"desk": value, "desk.1": "old", "desk.user": "u", "odd": "odd"} {
		if got, err := vault.Get(context.Background(), ref); err != nil || got.Reveal() != want {
			t.Errorf("%s: %v %v", ref, got.Reveal(), err)
		}
	}
	for ref, code := range map[string]string{"gone": secret.CodeSource, "none": secret.CodeSource, "field": secret.CodeSource, "elsewhere": secret.CodeUnknown} {
		if _, err := vault.Get(context.Background(), ref); fleet.CodeOf(err) != code {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

func TestVault_G21_LogsInAgainWhenItsTokenIsGone(t *testing.T) {
	now := time.Now()
	server, vault := newVault(t, func(c *secret.VaultConfig) {
		appRole(t)(c)
		c.Now = func() time.Time { return now }
	})
	get := func(logins int) {
		t.Helper()
		if got, err := vault.Get(context.Background(), "desk"); err != nil || got.Reveal() != value {
			t.Fatalf("%v", err)
		}
		if server.logins != logins {
			t.Errorf("%d logins, want %d", server.logins, logins)
		}
	}
	get(1)
	get(1)
	server.tokens = map[string]bool{} // revoked before its time
	get(2)
	now = now.Add(3595 * time.Second) // within the margin of its end
	get(3)
	for _, space := range server.spaces {
		if space != "team" {
			t.Errorf("a request without the namespace: %v", server.spaces)
		}
	}
}

// TestVault_G21_NothingOfAHostileAnswerIsShown: errors name a status and nothing that
// the server wrote, and a redirect carries the token nowhere.
func TestVault_G21_NothingOfAHostileAnswerIsShown(t *testing.T) {
	server, vault := newVault(t, nil)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the token went elsewhere: %s", r.URL)
	}))
	defer elsewhere.Close()
	for name, answer := range map[string]func(w http.ResponseWriter){
		"echo":     func(w http.ResponseWriter) { fail(w, 403, "hvs.file "+value) },
		"sealed":   func(w http.ResponseWriter) { fail(w, 503, "Vault is sealed "+value) },
		"redirect": func(w http.ResponseWriter) { w.Header().Set("Location", elsewhere.URL); w.WriteHeader(307) },
		"not JSON": func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>" + value)) },
		"duplicates": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"data":{"data":{"value":"a","value":"` + value + `"}}}`))
		},
		"other case": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"DATA":{"data":{"value":"` + value + `"}}}`)) },
		"a number":   func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"data":{"data":{"value":3141592653}}}`)) },
		"empty":      func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"data":{"data":{"value":""}}}`)) },
		"huge": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"data":{"data":{"value":"` + strings.Repeat("x", 70_000) + `"}}}`))
		},
	} {
		server.answer = func(w http.ResponseWriter, _ *http.Request) bool { answer(w); return true }
		got, err := vault.Get(context.Background(), "desk")
		if fleet.CodeOf(err) != secret.CodeSource || !got.IsZero() {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, value) || strings.Contains(text, "hvs.") || strings.Contains(text, "314159") {
			t.Errorf("%s: the error shows too much: %s", name, text)
		}
	}
}

func TestVault_G40_NeedsOneWayToLogIn(t *testing.T) {
	_, vault := newVault(t, func(c *secret.VaultConfig) { appRole(t)(c); c.AppRole.SecretIDFile = private(t, "id", "wrong") })
	if _, err := vault.Get(context.Background(), "desk"); fleet.CodeOf(err) != secret.CodeSource || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong secret id: %v", err)
	}
	if _, err := secret.NewVault(secret.VaultConfig{}); fleet.CodeOf(err) != "secret.config" {
		t.Errorf("nothing configured: %v", err)
	}
}

func TestExec_G21_TakesOutputAndNothingElse(t *testing.T) {
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script} }
	p := secret.Exec{Env: []string{"PATH=/usr/bin:/bin"}, Commands: map[string][]string{
		"ok": sh("printf 'tok-3141592653\\n'; echo noise >&2"), "fails": sh("echo " + value + " >&2; echo " + value + "; exit 4"),
		"empty": sh("exit 0"), "missing": {"/nowhere"}, "long": sh("head -c 70000 /dev/zero"), "none": {},
	}}
	if got, err := p.Get(context.Background(), "ok"); err != nil || got.Reveal() != value {
		t.Errorf("%v", err)
	}
	for ref, code := range map[string]string{
		"fails": secret.CodeSource, "empty": secret.CodeSource, "missing": secret.CodeSource, "long": secret.CodeSource,
		"none": secret.CodeUnknown, "elsewhere": secret.CodeUnknown,
	} {
		if _, err := p.Get(context.Background(), ref); fleet.CodeOf(err) != code || strings.Contains(err.Error(), value) {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

func TestCached_G21_ForgetsWhenTold(t *testing.T) {
	now, calls := time.Now(), 0
	from := provide(func(context.Context, string) (secret.Secret, error) {
		calls++
		return secret.New(strconv.Itoa(calls)), nil
	})
	c := &secret.Cached{From: from, For: time.Minute, Now: func() time.Time { return now }}
	get := func(want string) {
		t.Helper()
		if got, err := c.Get(context.Background(), "a"); err != nil || got.Reveal() != want {
			t.Errorf("%s %v, want %s", got.Reveal(), err, want)
		}
	}
	get("1")
	get("1")
	c.Forget()
	get("2")
	now = now.Add(time.Minute)
	get("3")
}

type provide func(context.Context, string) (secret.Secret, error)

func (p provide) Get(ctx context.Context, ref string) (secret.Secret, error) { return p(ctx, ref) }
