package serve

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fairness"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// Config is the configuration file of aipd serve. Unknown fields are refused. A
// relative path is relative to the file's own directory. What weakens a check cannot
// be set here: it is a flag whose name ends in -unsafe.
type Config struct {
	Listen          string          `yaml:"listen"`   // host:port
	TLSCert         string          `yaml:"tls_cert"` // PEM, with tls_key; without them only loopback is served
	TLSKey          string          `yaml:"tls_key"`
	Registry        string          `yaml:"registry"`          // postgres or memory
	DatabaseURL     string          `yaml:"database_url"`      // of aip_data
	DatabaseURLFile string          `yaml:"database_url_file"` // a file that holds it
	Coalesce        CoalesceConfig  `yaml:"coalesce"`          // postgres: how calls share transactions
	Publication     string          `yaml:"publication"`       // memory: the signed publication
	IdentityKey     string          `yaml:"identity_key"`      // PKCS#8 PEM, mode 0600
	Principal       string          `yaml:"principal"`         // who this gateway is
	Auth            AuthConfig      `yaml:"auth"`
	PolicyFile      string          `yaml:"policy_file"`
	Operators       string          `yaml:"operators"` // key set: who may sign decisions and publications
	Topology        TopologyConfig  `yaml:"topology"`
	AllowRanges     []string        `yaml:"allow_ranges"` // address ranges that hosts may have beside public ones
	Fairness        FairnessConfig  `yaml:"fairness"`
	Workers         int             `yaml:"workers"` // actions in flight; overrides fairness.in_flight
	Reconcile       ReconcileConfig `yaml:"reconcile"`
	Retention       RetentionConfig `yaml:"retention"`
	OwnerLease      time.Duration   `yaml:"owner_lease"` // 15s: how long a silent aipd keeps its actions
	Grace           time.Duration   `yaml:"grace"`       // 20s: how long a stop waits for running actions
	LeaseTTL        time.Duration   `yaml:"lease_ttl"`   // memory: of hosts' leases
}

// CoalesceConfig says how resolves, settlements and changes of actions share
// transactions when many are under way (postgres.Coalesce of the registry, and
// postgres.Sharing of the action store). What is left out is the default: direct 2, ticks 2,
// batch 64.
type CoalesceConfig struct {
	Direct *int `yaml:"direct"` // calls under way that go alone
	Ticks  *int `yaml:"ticks"`  // shared transactions at a time; 0 turns sharing off
	Batch  *int `yaml:"batch"`  // calls of one transaction, at most 128
}

func (c CoalesceConfig) limits() postgres.Coalesce {
	limits := postgres.DefaultCoalesce()
	for _, one := range []struct{ from, into *int }{{c.Direct, &limits.Direct}, {c.Ticks, &limits.Ticks}, {c.Batch, &limits.Batch}} {
		if one.from != nil {
			*one.into = *one.from
		}
	}
	return limits
}

func (c CoalesceConfig) check() error {
	l := c.limits()
	if l.Direct < 0 || l.Ticks < 0 || l.Ticks > 32 || l.Batch < 1 || l.Batch > 128 {
		return configError("coalesce wants direct from 0, ticks from 0 to 32, batch from 1 to 128")
	}
	return nil
}

// AuthConfig says which credentials are accepted. At least one kind is needed.
type AuthConfig struct {
	JWT        *JWTConfig `yaml:"jwt"`
	TokensFile string     `yaml:"tokens_file"`
}

// JWTConfig accepts tokens of one issuer.
type JWTConfig struct {
	Issuer      string `yaml:"issuer"`
	Audience    string `yaml:"audience"`
	JWKSFile    string `yaml:"jwks_file"`
	TenantClaim string `yaml:"tenant_claim"`
}

// TopologyConfig is what this deployment prefers, and insists on.
type TopologyConfig struct {
	Region            string `yaml:"region"`
	Zone              string `yaml:"zone"`
	CapacityClass     string `yaml:"capacity_class"`
	ForbidCrossRegion bool   `yaml:"forbid_cross_region"`
}

// FairnessConfig bounds what waits and runs; zero means the default.
type FairnessConfig struct {
	InFlight       int            `yaml:"in_flight"`
	InFlightTenant int            `yaml:"in_flight_tenant"`
	Queued         int            `yaml:"queued"`
	QueuedTenant   int            `yaml:"queued_tenant"`
	QueuedBytes    int64          `yaml:"queued_bytes"`
	RequestBytes   int64          `yaml:"request_bytes"`
	QueueAge       time.Duration  `yaml:"queue_age"`
	Weights        map[string]int `yaml:"weights"` // by tenant; 1 for the others
}

// ReconcileConfig paces reconciliation; zero means the default.
type ReconcileConfig struct {
	Every       time.Duration `yaml:"every"`
	ExpireEvery time.Duration `yaml:"expire_every"`
	FirstPause  time.Duration `yaml:"first_pause"`
	LastPause   time.Duration `yaml:"last_pause"`
	Age         time.Duration `yaml:"age"` // when an operator must decide
}

// RetentionConfig says how long ended actions are kept: input, result and state. Their
// ids, keys and verdicts stay for ever.
type RetentionConfig struct {
	Actions time.Duration `yaml:"actions"` // after the end; 0 keeps them for ever, else at least 1m
	Every   time.Duration `yaml:"every"`   // 1m: between looks
}

func (f FairnessConfig) bounds(workers int) fairness.Bounds {
	b := fairness.Bounds{
		InFlight: f.InFlight, InFlightTenant: f.InFlightTenant, Queued: f.Queued, QueuedTenant: f.QueuedTenant,
		QueuedBytes: f.QueuedBytes, RequestBytes: f.RequestBytes, QueueAge: f.QueueAge,
	}
	if workers > 0 {
		b.InFlight = workers
	}
	return b
}

func (f FairnessConfig) weight(tenant fleet.TenantID) int { return f.Weights[tenant.String()] }

// codeConfig is the code of every refusal of the configuration.
const codeConfig = "aipd.config"

func configError(format string, args ...any) *fleet.Error {
	return fleet.Invalidf(codeConfig, "the configuration of aipd serve cannot be used").Because(format, args...)
}

// LoadConfig reads a configuration file strictly; "" is the empty configuration, for
// flags alone.
func LoadConfig(path string) (Config, error) {
	var c Config
	if path == "" {
		return c, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return c, configError("%s", err.Error())
	}
	defer func() { _ = f.Close() }()
	dec := yaml.NewDecoder(f)
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return c, configError("%s: %s", path, err.Error())
	}
	c.anchor(filepath.Dir(path))
	return c, nil
}

func (c *Config) anchor(dir string) {
	paths := []*string{&c.DatabaseURLFile, &c.Publication, &c.IdentityKey, &c.Auth.TokensFile, &c.PolicyFile, &c.Operators, &c.TLSCert, &c.TLSKey}
	if c.Auth.JWT != nil {
		paths = append(paths, &c.Auth.JWT.JWKSFile)
	}
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
}

// check says what is missing before anything is opened.
func (c *Config) check() error {
	if c.Registry == "" {
		c.Registry = "postgres"
	}
	switch {
	case c.Registry != "postgres" && c.Registry != "memory":
		return configError("registry is postgres or memory, not %q", fleet.Printable(c.Registry, 32))
	case c.Listen == "":
		return configError("listen is missing")
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return configError("tls_cert and tls_key belong together")
	case c.TLSCert == "" && !loopback(c.Listen):
		return fleet.Invalidf(codeConfig, "aipd does not listen on %s without TLS", fleet.Printable(c.Listen, 64)).
			Because("bearer tokens would cross the network in the clear").
			Advise("set tls_cert and tls_key, or listen on 127.0.0.1 behind a proxy on this machine")
	case c.IdentityKey == "":
		return configError("identity_key is missing").Advise("make one with: aipctl dev up, or set an Ed25519 PKCS#8 key")
	case c.Principal == "":
		return configError("principal is missing")
	case c.PolicyFile == "":
		return configError("policy_file is missing").Advise("without a rule that allows something, everything is denied")
	case c.Auth.JWT == nil && c.Auth.TokensFile == "":
		return configError("auth accepts no credential").Advise("set auth.jwt or auth.tokens_file")
	case c.Retention.Actions != 0 && c.Retention.Actions < action.MinKeep:
		return configError("retention.actions is 0, or at least %s", action.MinKeep)
	case c.Registry == "memory" && (c.Publication == "" || c.Operators == ""):
		return configError("registry memory needs publication and operators")
	}
	return c.Coalesce.check()
}

func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// databaseURL comes from the file, the configuration or AIPD_DATABASE_URL.
func (c *Config) databaseURL(getenv func(string) string) (string, error) {
	if c.DatabaseURLFile != "" {
		data, err := os.ReadFile(c.DatabaseURLFile)
		if err != nil {
			return "", configError("%s", err.Error())
		}
		return strings.TrimSpace(string(data)), nil
	}
	if c.DatabaseURL != "" {
		return c.DatabaseURL, nil
	}
	if url := getenv("AIPD_DATABASE_URL"); url != "" {
		return url, nil
	}
	return "", configError("there is no database URL").Advise("set database_url_file, or AIPD_DATABASE_URL")
}
