// Package secret answers: where does a host get a credential from, and how does it
// keep it from being shown?
//
// A [Secret] prints as a fixed text in every way in which Go prints, marshals or
// logs a value (G21). Only Reveal gives the credential, for the one call that
// needs it. A [Provider] resolves a reference; references are configuration and
// are never secret.
//
// The package does not own which credential an action uses; the instance's
// reference, declared by the operator, does.
package secret

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Codes of the refusals.
const (
	CodeUnknown = "secret.unknown" // nothing is configured for the reference
	CodeSource  = "secret.source"  // the configured place cannot be used
)

// MaxBytes bounds one credential.
const MaxBytes = 64 << 10

const redacted = "[redacted]"

// Secret is one credential. The zero Secret holds none. The value is behind a
// pointer, so that printing a struct with an unexported Secret shows an address.
type Secret struct{ value *string }

// New wraps a credential.
func New(value string) Secret { return Secret{value: &value} }

// Reveal returns the credential.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether there is no credential.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// Format hides the credential from every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// String hides the credential.
func (s Secret) String() string { return redacted }

// GoString hides the credential from %#v.
func (s Secret) GoString() string { return redacted }

// MarshalText hides the credential from JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue hides the credential from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// Provider resolves references to credentials. It reads its source each time, so
// that a credential can roll without a restart of the host.
type Provider interface {
	Get(ctx context.Context, ref string) (Secret, error)
}

// Files reads each credential from a file: reference to path. A final line break
// is not part of it. A file that others can read is refused.
type Files map[string]string

// Get implements Provider.
func (f Files) Get(_ context.Context, ref string) (Secret, error) {
	path, ok := f[ref]
	if !ok {
		return Secret{}, unknown(ref)
	}
	value, err := readPrivate(path)
	if err != nil {
		return Secret{}, err
	}
	return nonEmpty(ref, strings.TrimRight(value, "\r\n"))
}

func readPrivate(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", source("the credential file %s cannot be opened", path).Caused(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return "", source("the credential file %s cannot be read", path).Caused(err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return "", source("the credential file %s is not private", path).
			Because("its mode is %s", info.Mode()).Advise("chmod 600 %s", path)
	}
	data, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	if err != nil || len(data) > MaxBytes {
		return "", source("the credential file %s cannot be read, or is too large", path)
	}
	return string(data), nil
}

// Env reads each credential from an environment variable: reference to name. It is
// for development.
type Env struct {
	Names  map[string]string
	Lookup func(name string) (string, bool)
}

// Get implements Provider.
func (e Env) Get(_ context.Context, ref string) (Secret, error) {
	name, ok := e.Names[ref]
	if !ok {
		return Secret{}, unknown(ref)
	}
	value, _ := e.Lookup(name)
	return nonEmpty(ref, value)
}

// Chain asks providers in order and takes the first that knows the reference.
type Chain []Provider

// Get implements Provider.
func (c Chain) Get(ctx context.Context, ref string) (Secret, error) {
	for _, p := range c {
		s, err := p.Get(ctx, ref)
		if fleet.CodeOf(err) != CodeUnknown {
			return s, err
		}
	}
	return Secret{}, unknown(ref)
}

func nonEmpty(ref, value string) (Secret, error) {
	if value == "" {
		return Secret{}, source("the credential of %s is empty", fleet.Printable(ref, 200))
	}
	return New(value), nil
}

func unknown(ref string) *fleet.Error {
	return fleet.Errorf(fleet.NotFound, CodeUnknown, "no credential is configured for %s", fleet.Printable(ref, 200)).
		Advise("add the reference to the host's configuration")
}

func source(format string, args ...any) *fleet.Error {
	return fleet.Errorf(fleet.Unavailable, CodeSource, format, args...)
}
