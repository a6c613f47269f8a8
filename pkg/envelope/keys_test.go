package envelope_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

func TestKeyFile_G21_GeneratedOnceAndLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.key")
	made, err := envelope.GenerateKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := envelope.LoadSigner(path)
	if err != nil || loaded.DID() != made.DID() || made.DID().IsZero() {
		t.Fatalf("loaded %v, made %v: %v", loaded, made, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v, want 0600", info.Mode(), err)
	}
	if _, err := envelope.GenerateKeyFile(path); fleet.CodeOf(err) != envelope.CodeKeyFile {
		t.Errorf("an existing key was replaced: %v", err)
	}
	if again, err := envelope.LoadSigner(path); err != nil || again.DID() != made.DID() {
		t.Errorf("the existing key changed: %v", err)
	}
}

func TestKeyFile_G21_ReachableByOthersIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.key")
	if _, err := envelope.GenerateKeyFile(path); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o644, 0o610, 0o602} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := envelope.LoadSigner(path); fleet.CodeOf(err) != envelope.CodeKeyFile {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := envelope.LoadSigner(path); err != nil {
		t.Errorf("mode 0400: %v", err)
	}
}

func TestKeyFile_G21_OtherContentIsRefused(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	if _, err := envelope.GenerateKeyFile(good); err != nil {
		t.Fatal(err)
	}
	text := string(read(t, good))
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(other)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		"empty": "", "not PEM": "hello", "two keys": text + text, "other label": strings.ReplaceAll(text, "PRIVATE KEY", "PUBLIC KEY"),
		"P-256 key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"broken":    string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der[:20]})),
		"huge":      text + strings.Repeat("\n", 20<<10),
	}
	for name, content := range cases {
		path := filepath.Join(dir, "case")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := envelope.LoadSigner(path); fleet.CodeOf(err) != envelope.CodeKeyFile {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := envelope.LoadSigner(dir); fleet.CodeOf(err) != envelope.CodeKeyFile {
		t.Errorf("a directory: %v", err)
	}
	if _, err := envelope.LoadSigner(filepath.Join(dir, "absent")); fleet.CodeOf(err) != envelope.CodeKeyFile {
		t.Errorf("an absent file: %v", err)
	}
}

func TestSigner_G21_PrintingShowsNoKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	s, err := envelope.GenerateKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(read(t, path))
	seed := block.Bytes[len(block.Bytes)-32:]
	bytes := strings.Trim(fmt.Sprint(seed), "[]")
	holder := struct{ Key envelope.Signer }{s}
	hidden := struct{ key envelope.Signer }{s}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, value := range []any{s, &s, holder, hidden, &hidden} {
			out := fmt.Sprintf(verb, value)
			if strings.Contains(out, bytes) || strings.Contains(out, hex.EncodeToString(seed)) {
				t.Errorf("%s shows the key", verb)
			}
		}
	}
}

func TestKeySet_G19_WindowsOverlapSoThatKeysRoll(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	older, newer, other := signer(1).DID(), signer(2).DID(), signer(3).DID()
	set := envelope.KeySet{
		{DID: older, NotAfter: start.Add(10 * day)},
		{DID: newer, NotBefore: start.Add(9 * day), NotAfter: start.Add(20 * day)},
	}
	cases := []struct {
		did  envelope.DID
		at   time.Duration
		want bool
	}{
		{older, 0, true}, {older, 9*day + 1, true}, {older, 10*day - 1, true}, {older, 10 * day, false},
		{newer, 9*day - 1, false}, {newer, 9 * day, true}, {newer, 20*day - 1, true}, {newer, 20 * day, false},
		{other, 9 * day, false}, {envelope.DID{}, 9 * day, false},
	}
	for _, c := range cases {
		if got := set.Trusts(c.did, start.Add(c.at)); got != c.want {
			t.Errorf("%v after %v: %v, want %v", c.did, c.at, got, c.want)
		}
	}
	if (envelope.KeySet{{}}).Trusts(envelope.DID{}, start) {
		t.Error("a set with the zero identity trusts it")
	}
}

func TestKeySet_G19_FileIsReadStrictly(t *testing.T) {
	did := signer(1).DID().String()
	good := `{"keys":[{"did":"` + did + `","not_before":"2026-01-01T00:00:00Z"}]}`
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, []byte(good), 0o644); err != nil {
		t.Fatal(err)
	}
	set, err := envelope.LoadKeySet(path)
	if err != nil || len(set) != 1 || set[0].DID != signer(1).DID() {
		t.Fatalf("set %v: %v", set, err)
	}
	bad := map[string]string{
		"empty set": `{"keys":[]}`, "no set": `{}`, "unknown member": `{"keys":[{"did":"` + did + `","notafter":"2026-01-01T00:00:00Z"}]}`,
		"case variant": `{"Keys":[{"did":"` + did + `"}]}`, "duplicate": `{"keys":[],"keys":[{"did":"` + did + `"}]}`,
		"no identity": `{"keys":[{}]}`, "bad identity": `{"keys":[{"did":"did:key:z6Mk"}]}`, "empty window": `{"keys":[{"did":"` + did + `","not_before":"2026-01-02T00:00:00Z","not_after":"2026-01-01T00:00:00Z"}]}`,
	}
	for name, doc := range bad {
		if _, err := envelope.ParseKeySet([]byte(doc)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, err := envelope.LoadKeySet(path + ".absent"); fleet.CodeOf(err) != envelope.CodeKeySet {
		t.Errorf("an absent file: %v", err)
	}
}
