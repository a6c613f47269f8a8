package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Tokens are development tokens. Only their hashes are known here, so the file
// that lists them gives nobody access.
type Tokens struct {
	byHash map[string]token
	now    func() time.Time
}

type token struct {
	identity Identity
	expires  time.Time
}

// tokensFile is the file format:
//
//	tokens:
//	  - sha256: "<64 hex digits: SHA-256 of the token text>"
//	    principal: alice
//	    tenant: tenant-a
//	    expires: 2027-01-01T00:00:00Z   # optional
type tokensFile struct {
	Tokens []struct {
		SHA256    string    `yaml:"sha256"`
		Principal string    `yaml:"principal"`
		Tenant    string    `yaml:"tenant"`
		Expires   time.Time `yaml:"expires"`
	} `yaml:"tokens"`
}

// HashToken is what a tokens file keeps of a token.
func HashToken(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// LoadTokens reads a tokens file strictly.
func LoadTokens(path string, now func() time.Time) (*Tokens, error) {
	var file tokensFile
	if err := loadYAML(path, &file); err != nil {
		return nil, err
	}
	t := &Tokens{byHash: map[string]token{}, now: now}
	for i, entry := range file.Tokens {
		hash := strings.TrimPrefix(entry.SHA256, "sha256:")
		if raw, err := hex.DecodeString(hash); err != nil || len(raw) != sha256.Size || hash != strings.ToLower(hash) {
			return nil, fileError(path, "tokens[%d].sha256 is not 64 lower-case hex digits", i)
		}
		identity, err := NewIdentity(entry.Principal, entry.Tenant)
		if err != nil {
			return nil, fileError(path, "tokens[%d]: %s", i, err.Error())
		}
		if _, twice := t.byHash[hash]; twice {
			return nil, fileError(path, "tokens[%d] is the same token as another", i)
		}
		t.byHash[hash] = token{identity: identity, expires: entry.Expires}
	}
	return t, nil
}

// Authenticate implements Authenticator. Looking a hash up in a map takes a time
// that says nothing about the token: its preimage is what a caller controls.
func (t *Tokens) Authenticate(_ context.Context, credential string) (Identity, bool, error) {
	known, ok := t.byHash[HashToken(credential)]
	if !ok {
		return Identity{}, false, nil
	}
	if !known.expires.IsZero() && !t.now().Before(known.expires) {
		return Identity{}, false, credentialError("it has expired")
	}
	return known.identity, true, nil
}

// maxFileBytes bounds configuration files.
const maxFileBytes = 4 << 20

// CodeFile is the code of a configuration file that is refused.
const CodeFile = "gateway.file"

func fileError(path, format string, args ...any) *fleet.Error {
	return fleet.Invalidf(CodeFile, "the file %s cannot be used", fleet.Printable(path, 200)).Because(format, args...)
}

// loadYAML reads one strict YAML document: unknown fields are refused.
func loadYAML(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return fileError(path, "%s", err.Error())
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || info.Size() > maxFileBytes {
		return fileError(path, "it is larger than 4 MiB, or cannot be read")
	}
	dec := yaml.NewDecoder(f)
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil {
		return fileError(path, "%s", fleet.Printable(err.Error(), 500))
	}
	return nil
}
