package hostmain

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/secret"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

// secretsConfig says where references lead to; env is for development.
type secretsConfig struct {
	File  map[string]string   `yaml:"file"`
	Env   map[string]string   `yaml:"env"`
	Exec  map[string][]string `yaml:"exec"` // a command, its absolute path first
	Vault *vaultConfig        `yaml:"vault"`
	// CacheFor is how long a credential is remembered, such as 30s; 0 asks each time.
	CacheFor time.Duration `yaml:"cache_for"`
}

// vaultConfig is a Vault, or what is compatible with its HTTP API.
type vaultConfig struct {
	Address     string                `yaml:"address"`
	AllowRanges []string              `yaml:"allow_ranges"` // beyond public and loopback ones
	CAFile      string                `yaml:"ca_file"`
	Namespace   string                `yaml:"namespace"`
	TokenFile   string                `yaml:"token_file"`
	AppRole     *appRoleConfig        `yaml:"app_role"`
	Refs        map[string]vaultEntry `yaml:"refs"`
}

type appRoleConfig struct {
	Mount        string `yaml:"mount"`
	RoleIDFile   string `yaml:"role_id_file"`
	SecretIDFile string `yaml:"secret_id_file"`
}

type vaultEntry struct {
	Mount   string `yaml:"mount"`
	Path    string `yaml:"path"`
	Field   string `yaml:"field"`
	Version uint64 `yaml:"version"`
}

func (c *secretsConfig) paths() []*string {
	if c.Vault == nil {
		return nil
	}
	all := []*string{&c.Vault.CAFile, &c.Vault.TokenFile}
	if c.Vault.AppRole != nil {
		all = append(all, &c.Vault.AppRole.RoleIDFile, &c.Vault.AppRole.SecretIDFile)
	}
	return all
}

func (c *secretsConfig) check() error {
	for ref, command := range c.Exec {
		if len(command) == 0 || !filepath.IsAbs(command[0]) {
			return fleet.Invalidf(codeConfig, "the credential program of %s needs an absolute path", fleet.Printable(ref, 200))
		}
	}
	return nil
}

// none reports that no credential is configured at all.
func (c *secretsConfig) none() bool {
	return len(c.File) == 0 && len(c.Env) == 0 && len(c.Exec) == 0 && c.Vault == nil
}

// provider makes what the configuration says.
func (c *secretsConfig) provider(lookup func(string) (string, bool), now func() time.Time) (secret.Provider, error) {
	all := secret.Chain{
		secret.Files(c.File), secret.Exec{Commands: c.Exec, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}},
		secret.Env{Names: c.Env, Lookup: lookup},
	}
	if c.Vault != nil {
		vault, err := c.Vault.provider(now)
		if err != nil {
			return nil, err
		}
		all = append(all, vault)
	}
	if c.CacheFor <= 0 {
		return all, nil
	}
	return &secret.Cached{From: all, For: c.CacheFor, Now: now}, nil
}

func (c *vaultConfig) provider(now func() time.Time) (*secret.Vault, error) {
	address, err := peer.ParseEndpoint(c.Address)
	if err != nil {
		return nil, err
	}
	client, err := reach(peer.LoopbackPolicy(), c.AllowRanges, c.CAFile)
	if err != nil {
		return nil, err
	}
	cfg := secret.VaultConfig{
		Address: address, Client: peer.NewClient(client), Namespace: c.Namespace, TokenFile: c.TokenFile, Now: now,
		Refs: make(map[string]secret.VaultRef, len(c.Refs)),
	}
	if r := c.AppRole; r != nil {
		cfg.AppRole = &secret.AppRole{Mount: r.Mount, RoleIDFile: r.RoleIDFile, SecretIDFile: r.SecretIDFile}
	}
	for ref, e := range c.Refs {
		cfg.Refs[ref] = secret.VaultRef{Mount: e.Mount, Path: e.Path, Field: e.Field, Version: e.Version}
	}
	return secret.NewVault(cfg)
}

// reach is how something beyond the fleet is reached: the ranges that are allowed
// besides the policy's own, and whose certificates are taken.
func reach(policy peer.AddressPolicy, ranges []string, caFile string) (peer.Config, error) {
	more, err := peer.ParseAllow(ranges)
	if err != nil {
		return peer.Config{}, err
	}
	policy.Allow = append(policy.Allow, more.Allow...)
	cfg := peer.Config{Addresses: policy}
	if caFile == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return cfg, fleet.Invalidf(codeConfig, "the certificates cannot be read").Caused(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return cfg, fleet.Invalidf(codeConfig, "%s holds no certificate", caFile)
	}
	cfg.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return cfg, nil
}

// switched is a provider that a reload exchanges.
type switched struct {
	mu  sync.Mutex
	now secret.Provider
}

func (s *switched) set(p secret.Provider) { s.mu.Lock(); defer s.mu.Unlock(); s.now = p }

// Get implements secret.Provider.
func (s *switched) Get(ctx context.Context, ref string) (secret.Secret, error) {
	s.mu.Lock()
	p := s.now
	s.mu.Unlock()
	return p.Get(ctx, ref)
}
