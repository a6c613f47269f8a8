package hostmain

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
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
	Retention           retentionConfig     `yaml:"retention"`
	// DecisionMaxAge bounds how old an operator's decision may be when it first comes
	// in, such as 720h, the default.
	DecisionMaxAge time.Duration `yaml:"decision_max_age"`
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

type credentialRevisions struct {
	Current  string   `yaml:"current"`
	Previous []string `yaml:"previous"`
	Revoked  []string `yaml:"revoked"`
	// Refs gives revisions a secret reference of their own.
	Refs map[string]string `yaml:"refs"`
}

func (c credentialRevisions) policy() host.Credentials {
	return host.Credentials{Current: c.Current, Previous: c.Previous, Revoked: c.Revoked, Refs: c.Refs}
}

type connectorConfig struct {
	Args []string          `yaml:"args"` // of the program
	Env  map[string]string `yaml:"env"`  // of the program
	// SecretEnv gives an MCP server credentials: variable to reference. The reference
	// "default" is that of the current credential revision.
	SecretEnv map[string]string `yaml:"secret_env"`
	// Interpreters says where the interpreters are that releases name.
	Interpreters map[string]string `yaml:"interpreters"`
	// Account holds settings of the account, none of them secret.
	Account map[string]string `yaml:"account"`
	// AllowRanges are address ranges, beyond public ones, in which the product of a
	// connector that speaks over the network may be.
	AllowRanges []string `yaml:"allow_ranges"`
	CAFile      string   `yaml:"ca_file"` // certificates of the product, instead of the system's
}

// retentionConfig says how long ended actions are kept in full.
type retentionConfig struct {
	Keep        time.Duration `yaml:"keep"`        // once central confirmed; 0 means 720h
	Unconfirmed time.Duration `yaml:"unconfirmed"` // otherwise; 0 keeps them for ever
}

func (r retentionConfig) policy() journal.Retention {
	return journal.Retention{Keep: r.Keep, Unconfirmed: r.Unconfirmed}
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
	paths := []*string{&c.StateDir, &c.IdentityKey, &c.Release, &c.Gateways, &c.Operators, &c.TLS.Cert, &c.TLS.Key, &c.Connector.CAFile}
	for _, p := range append(paths, c.Secrets.paths()...) {
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
		{"retention of a day or more", (c.Retention.Keep == 0 || c.Retention.Keep >= minRetention) && (c.Retention.Unconfirmed == 0 || c.Retention.Unconfirmed >= minRetention)},
		{"decision_max_age of an hour or more", c.DecisionMaxAge == 0 || c.DecisionMaxAge >= time.Hour},
	} {
		if !need.is {
			return fleet.Invalidf(codeConfig, "the configuration lacks %s", need.name)
		}
	}
	if err := c.CredentialRevisions.policy().Validate(); err != nil {
		return err
	}
	return c.Secrets.check()
}

// minRetention keeps a typing mistake from destroying what a dispute would need.
const minRetention = 24 * time.Hour

// fixed is the part of a configuration that only a restart changes.
func (c config) fixed() config {
	c.Secrets, c.CredentialRevisions, c.Connector.SecretEnv = secretsConfig{}, credentialRevisions{}, nil
	return c
}
