package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// config is the configuration file. Paths may be relative to it.
type config struct {
	Replica  fleet.ReplicaID  `yaml:"replica"`
	Instance fleet.InstanceID `yaml:"instance"`
	Tenant   fleet.TenantID   `yaml:"tenant"`
	Version  fleet.VersionID  `yaml:"version"`

	Listen      string          `yaml:"listen"`
	TLS         tlsConfig       `yaml:"tls"`
	StateDir    string          `yaml:"state_dir"`
	IdentityKey string          `yaml:"identity_key"`
	Release     string          `yaml:"release"` // package directory
	Lifecycle   lifecycleConfig `yaml:"lifecycle"`
	Gateways    string          `yaml:"gateways"`  // key set: who may send actions
	Operators   string          `yaml:"operators"` // key set: who may sign decisions

	Capacity            int                 `yaml:"capacity"`
	ConfigRevision      uint64              `yaml:"config_revision"`
	SecretProviderRef   string              `yaml:"secret_provider_ref"`
	Secrets             secretsConfig       `yaml:"secrets"`
	CredentialRevisions credentialRevisions `yaml:"credential_revisions"`
	Connector           connectorConfig     `yaml:"connector"`
}

// tlsConfig is needed when the declared endpoint is not loopback.
type tlsConfig struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

type lifecycleConfig struct {
	URL string       `yaml:"url"`
	DID envelope.DID `yaml:"did"`
	// AllowRanges are address ranges beyond public and loopback ones.
	AllowRanges []string `yaml:"allow_ranges"`
}

// secretsConfig says where references lead to; env is for development.
type secretsConfig struct {
	File map[string]string `yaml:"file"`
	Env  map[string]string `yaml:"env"`
}

type credentialRevisions struct {
	Current  string   `yaml:"current"`
	Previous []string `yaml:"previous"`
}

type connectorConfig struct {
	Args []string          `yaml:"args"`
	Env  map[string]string `yaml:"env"`
	// SecretEnv gives the connector credentials: variable to reference. The
	// reference "default" is the instance's own, secret_provider_ref.
	SecretEnv map[string]string `yaml:"secret_env"`
	// Interpreters says where the interpreters are that releases name.
	Interpreters map[string]string `yaml:"interpreters"`
}

const codeConfig = "aiphost.config"

// maxConfigBytes is far above any configuration.
const maxConfigBytes = 1 << 20

func loadConfig(path string) (config, error) {
	var cfg config
	f, err := os.Open(path)
	if err != nil {
		return cfg, fleet.Errorf(fleet.NotFound, codeConfig, "the configuration cannot be opened").Caused(err)
	}
	defer func() { _ = f.Close() }()
	dec := yaml.NewDecoder(io.LimitReader(f, maxConfigBytes))
	dec.KnownFields(true)
	if err := dec.Decode(&cfg); err != nil {
		return cfg, fleet.Invalidf(codeConfig, "the configuration %s cannot be read", path).Caused(err)
	}
	if err := dec.Decode(new(config)); !errors.Is(err, io.EOF) {
		return cfg, fleet.Invalidf(codeConfig, "the configuration %s holds more than one document", path)
	}
	cfg.resolve(filepath.Dir(path))
	return cfg, cfg.check()
}

// resolve makes paths relative to the file's directory.
func (c *config) resolve(dir string) {
	below := func(p *string) {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	for _, p := range []*string{&c.StateDir, &c.IdentityKey, &c.Release, &c.Gateways, &c.Operators, &c.TLS.Cert, &c.TLS.Key} {
		below(p)
	}
	for ref, p := range c.Secrets.File {
		below(&p)
		c.Secrets.File[ref] = p
	}
}

func (c *config) check() error {
	for _, need := range []struct {
		name string
		is   bool
	}{
		{"replica", !c.Replica.IsZero()}, {"instance", !c.Instance.IsZero()}, {"tenant", !c.Tenant.IsZero()},
		{"version", !c.Version.IsZero()}, {"listen", c.Listen != ""}, {"state_dir", c.StateDir != ""},
		{"identity_key", c.IdentityKey != ""}, {"release", c.Release != ""}, {"lifecycle.url", c.Lifecycle.URL != ""},
		{"lifecycle.did", !c.Lifecycle.DID.IsZero()}, {"gateways", c.Gateways != ""},
		{"capacity (1 or more)", c.Capacity > 0}, {"tls (cert and key, or neither)", (c.TLS.Cert == "") == (c.TLS.Key == "")},
	} {
		if !need.is {
			return fleet.Invalidf(codeConfig, "the configuration lacks %s", need.name)
		}
	}
	return nil
}
