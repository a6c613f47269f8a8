package envelope_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/envelope"
)

// Each vector is NAME.in.json, its canonical form NAME.out.json, and for
// those whose numbers are in the form of RFC 8785 already, NAME.jcs.json: what
// RFC 8785 makes of the same input, which must be the same bytes.
func TestCanonical_G27_GoldenVectors(t *testing.T) {
	inputs, err := filepath.Glob("testdata/canonical/*.in.json")
	if err != nil || len(inputs) < 6 {
		t.Fatalf("vectors: %v %v", inputs, err)
	}
	jcs := 0
	for _, input := range inputs {
		name := strings.TrimSuffix(input, ".in.json")
		t.Run(filepath.Base(name), func(t *testing.T) {
			v, err := envelope.ParseStrict(read(t, input), envelope.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			got := string(v.Canonical())
			if want := string(read(t, name+".out.json")); got != want {
				t.Errorf("canonical form\n got %s\nwant %s", got, want)
			}
			if want, err := os.ReadFile(name + ".jcs.json"); err == nil {
				jcs++
				if got != string(want) {
					t.Errorf("RFC 8785\n got %s\nwant %s", got, want)
				}
			}
		})
	}
	if jcs < 3 {
		t.Errorf("%d vectors compare with RFC 8785, want at least 3", jcs)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestCanonical_G27_NumbersKeepTheirToken(t *testing.T) {
	for _, token := range []string{"9007199254740993", "18446744073709551615", "1.10", "1E5", "-0", "0.1e-7"} {
		v, err := envelope.ParseStrict([]byte("[ "+token+" ]"), envelope.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(v.Canonical()); got != "["+token+"]" {
			t.Errorf("%s became %s", token, got)
		}
	}
}

func TestCanonicalOf_G27_MarshalsAndCanonicalises(t *testing.T) {
	doc := map[string]any{"b": json.RawMessage(`{"z":1.50,"a":"<&>"}`), "a": uint64(1) << 63}
	got, err := envelope.CanonicalOf(doc)
	if err != nil || string(got) != `{"a":9223372036854775808,"b":{"a":"<&>","z":1.50}}` {
		t.Fatalf("got %s, %v", got, err)
	}
	if envelope.DigestOf([]byte("abc")).Hex() != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Error("the digest of abc is not its SHA-256")
	}
	if _, err := envelope.CanonicalOf(func() {}); err == nil {
		t.Error("a function was marshalled")
	}
	if _, err := envelope.CanonicalOf(json.RawMessage(`{"a":1,"a":2}`)); err == nil {
		t.Error("a raw document with a duplicate passed")
	}
}
