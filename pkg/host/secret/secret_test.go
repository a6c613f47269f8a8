package secret_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/secret"
)

const value = "tok-3141592653"

func TestSecret_G21_NeverPrints(t *testing.T) {
	s := secret.New(value)
	holder := struct{ S secret.Secret }{s}
	hidden := struct{ s secret.Secret }{s}
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "secret", s, "holder", holder)
	marshalled, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{logged.String(), string(marshalled)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		all = append(all, fmt.Sprintf(verb, s), fmt.Sprintf(verb, holder), fmt.Sprintf(verb, &holder), fmt.Sprintf(verb, hidden))
	}
	for _, text := range all {
		if strings.Contains(text, value) || strings.Contains(text, fmt.Sprintf("%x", value)) {
			t.Errorf("the credential was shown: %s", text)
		}
	}
	if s.Reveal() != value {
		t.Error("Reveal does not give the credential")
	}
}

func TestProviders_G21_RefuseWhatIsNotPrivateOrNotThere(t *testing.T) {
	dir := t.TempDir()
	private, open := filepath.Join(dir, "private"), filepath.Join(dir, "open")
	for path, mode := range map[string]os.FileMode{private: 0o600, open: 0o644} {
		if err := os.WriteFile(path, []byte(value+"\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	files := secret.Files{"default": private, "open": open, "gone": filepath.Join(dir, "gone")}
	env := secret.Env{Names: map[string]string{"fromenv": "TOKEN", "empty": "EMPTY"}, Lookup: func(name string) (string, bool) {
		return map[string]string{"TOKEN": value}[name], name == "TOKEN"
	}}
	chain := secret.Chain{files, env}
	for ref, code := range map[string]string{
		"default": "", "fromenv": "", "open": secret.CodeSource, "gone": secret.CodeSource,
		"empty": secret.CodeSource, "other": secret.CodeUnknown,
	} {
		got, err := chain.Get(context.Background(), ref)
		if code == "" && (err != nil || got.Reveal() != value) {
			t.Errorf("%s: %v", ref, err)
		}
		if code != "" && (err == nil || !strings.Contains(codeOf(err), code) || strings.Contains(err.Error(), value)) {
			t.Errorf("%s: got %v, want %s", ref, err, code)
		}
	}
}

func codeOf(err error) string { return fleet.CodeOf(err) }
