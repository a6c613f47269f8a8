package app

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Config is the file of named targets. It holds no secret, only where one is kept.
type Config struct {
	Current  string            `yaml:"current,omitempty" json:"current,omitempty"`
	Contexts map[string]Target `yaml:"contexts,omitempty" json:"contexts,omitempty"`
}

// Target is one named fleet.
type Target struct {
	Name        string      `yaml:"-" json:"name"`
	Aipd        AipdRef     `yaml:"aipd,omitempty" json:"aipd,omitzero"`
	Registry    RegistryRef `yaml:"registry,omitempty" json:"registry,omitzero"`
	OperatorKey string      `yaml:"operator_key,omitempty" json:"operator_key,omitempty"` // file of a PKCS#8 key
	Production  bool        `yaml:"production,omitempty" json:"production,omitempty"`
}

// AipdRef says where aipd listens and where the bearer token is kept.
type AipdRef struct {
	URL       string `yaml:"url,omitempty" json:"url,omitempty"`
	TokenFile string `yaml:"token_file,omitempty" json:"token_file,omitempty"`
	TokenEnv  string `yaml:"token_env,omitempty" json:"token_env,omitempty"`
}

// RegistryRef says where the database URLs of the roles are kept.
type RegistryRef struct {
	ControlURLFile  string `yaml:"control_url_file,omitempty" json:"control_url_file,omitempty"`
	ControlURLEnv   string `yaml:"control_url_env,omitempty" json:"control_url_env,omitempty"`
	ReadonlyURLFile string `yaml:"readonly_url_file,omitempty" json:"readonly_url_file,omitempty"`
	ReadonlyURLEnv  string `yaml:"readonly_url_env,omitempty" json:"readonly_url_env,omitempty"`
	MigrateURLFile  string `yaml:"migrate_url_file,omitempty" json:"migrate_url_file,omitempty"`
	MigrateURLEnv   string `yaml:"migrate_url_env,omitempty" json:"migrate_url_env,omitempty"`
	AdminURLFile    string `yaml:"admin_url_file,omitempty" json:"admin_url_file,omitempty"`
	AdminURLEnv     string `yaml:"admin_url_env,omitempty" json:"admin_url_env,omitempty"`
}

const maxConfigBytes = 1 << 20

// ConfigPath is $AIPCTL_CONFIG, or aipctl/config.yaml under the user's configuration directory.
func (a *App) ConfigPath() string {
	if p := a.Env("AIPCTL_CONFIG"); p != "" {
		return p
	}
	base := a.Env("XDG_CONFIG_HOME")
	if base == "" {
		base = filepath.Join(a.Env("HOME"), ".config")
	}
	return filepath.Join(base, "aipctl", "config.yaml")
}

// Config reads the file of targets; a missing file is an empty one. Unknown
// fields are refused.
func (a *App) Config() (Config, error) {
	path := a.ConfigPath()
	data, err := readBounded(path, maxConfigBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, nil
	}
	if err != nil {
		return Config{}, Usagef("context.file", "the configuration %s cannot be read", path).Because("%v", err)
	}
	var c Config
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && len(bytes.TrimSpace(data)) > 0 {
		return Config{}, Usagef("context.file", "the configuration %s is not valid", path).Because("%s", yamlError(err))
	}
	for name, t := range c.Contexts {
		t.Name = name
		c.Contexts[name] = t
	}
	return c, nil
}

// SaveConfig replaces the file of targets, readable by its owner alone.
func (a *App) SaveConfig(c Config) error {
	path := a.ConfigPath()
	data, err := yaml.Marshal(c)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = writeReplace(path, data)
	}
	if err != nil {
		return fleet.Errorf(fleet.Unavailable, "context.file", "the configuration %s cannot be written", path).Because("%v", err)
	}
	return nil
}

// Target returns the named target in force: --context, $AIPCTL_CONTEXT, or the current one.
func (a *App) Target() (Target, error) {
	c, err := a.Config()
	if err != nil {
		return Target{}, err
	}
	name := a.Context
	if name == "" {
		name = a.Env("AIPCTL_CONTEXT")
	}
	if name == "" {
		name = c.Current
	}
	if name == "" {
		return Target{}, Usagef("context.none", "no target is chosen").
			Because("%s names no current context", a.ConfigPath()).Advise("aipctl context set NAME --aipd-url URL --control-url-file FILE, then aipctl context use NAME")
	}
	t, ok := c.Contexts[name]
	if !ok {
		return Target{}, Unknown("context.unknown", "context", name, slices.Sorted(maps.Keys(c.Contexts)))
	}
	return t, nil
}

// DatabaseURL follows the target's reference for a role. The value is a secret:
// it is never printed.
func (a *App) DatabaseURL(t Target, access Access) (string, error) {
	r := t.Registry
	refs := map[Access][2]string{
		Control:  {r.ControlURLFile, r.ControlURLEnv},
		ReadOnly: {r.ReadonlyURLFile, r.ReadonlyURLEnv},
		Migrate:  {r.MigrateURLFile, r.MigrateURLEnv},
		Admin:    {r.AdminURLFile, r.AdminURLEnv},
	}
	ref := refs[access]
	v, err := a.reference(ref[0], ref[1])
	if err != nil {
		return "", Usagef("context.registry", "context %s has no usable %s database URL", t.Name, access).
			Because("%v", err).Advise("aipctl context set %s --%s-url-file FILE", t.Name, access)
	}
	return v, nil
}

// Token follows the target's reference to the bearer token of aipd.
func (a *App) Token(t Target) (string, error) {
	v, err := a.reference(t.Aipd.TokenFile, t.Aipd.TokenEnv)
	if err != nil {
		return "", Usagef("context.token", "context %s has no usable token for aipd", t.Name).
			Because("%v", err).Advise("aipctl context set %s --token-file FILE", t.Name)
	}
	return v, nil
}

// OperatorSigner loads the key with which this operator signs decisions.
func (a *App) OperatorSigner() (envelope.Signer, error) {
	t, err := a.Target()
	if err != nil {
		return envelope.Signer{}, err
	}
	if t.OperatorKey == "" {
		return envelope.Signer{}, Usagef("context.operator_key", "context %s names no operator key", t.Name).
			Advise("aipctl context set %s --operator-key FILE", t.Name)
	}
	return envelope.LoadSigner(t.OperatorKey)
}

// reference reads a secret from a file or an environment variable.
func (a *App) reference(file, env string) (string, error) {
	switch {
	case file != "":
		data, err := readBounded(file, 64<<10)
		if err != nil {
			return "", err
		}
		if v := strings.TrimSpace(string(data)); v != "" {
			return v, nil
		}
		return "", errors.New("the file " + file + " is empty")
	case env != "":
		if v := strings.TrimSpace(a.Env(env)); v != "" {
			return v, nil
		}
		return "", errors.New("the environment variable " + env + " is not set")
	}
	return "", errors.New("neither a file nor an environment variable is named")
}
