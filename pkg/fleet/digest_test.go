package fleet

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

const emptyDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestDigest_G34_OnlyTheWrittenFormIsAccepted(t *testing.T) {
	d, err := ParseDigest(emptyDigest)
	if err != nil || d.String() != emptyDigest || d != DigestBytes(nil) || d.Hex() != emptyDigest[7:] {
		t.Fatalf("parsed %v, %v", d, err)
	}
	for _, bad := range []string{
		"", emptyDigest[7:], strings.ToUpper(emptyDigest), "sha256:" + strings.ToUpper(emptyDigest[7:]), "SHA256:" + emptyDigest[7:],
		emptyDigest + "0", emptyDigest[:70], "sha512:" + emptyDigest[7:], " " + emptyDigest, emptyDigest + "\n", "sha256:" + strings.Repeat("g", 64),
	} {
		if d, err := ParseDigest(bad); !Is(err, Invalid) || !d.IsZero() {
			t.Errorf("%q was accepted as %v (%v)", bad, d, err)
		}
	}
}

func TestDigest_G34_ReaderAndBytesAgree(t *testing.T) {
	d, err := DigestReader(strings.NewReader("artifact"))
	if err != nil || d != DigestBytes([]byte("artifact")) || d == DigestBytes([]byte("Artifact")) {
		t.Errorf("digest %v, %v", d, err)
	}
	if d, err := DigestReader(iotest.ErrReader(errors.New("gone"))); err == nil || !d.IsZero() {
		t.Errorf("a failed read gave %v", d)
	}
}

func TestDigest_G34_JSON(t *testing.T) {
	var d Digest
	if err := json.Unmarshal([]byte(`"`+emptyDigest+`"`), &d); err != nil || d != DigestBytes(nil) {
		t.Errorf("decoded %v, %v", d, err)
	}
	if err := json.Unmarshal([]byte(`""`), &d); err != nil || !d.IsZero() {
		t.Errorf("no digest decoded as %v, %v", d, err)
	}
	if err := json.Unmarshal([]byte(`"sha256:E3"`), &d); err == nil {
		t.Error("a malformed digest was decoded")
	}
}

func FuzzDigest_G34(f *testing.F) {
	f.Add(emptyDigest)
	f.Add("sha256:")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDigest(s)
		if err == nil && (d.String() != s || len(s) != 71 || strings.ToLower(s) != s) {
			t.Fatalf("%q was accepted as %q", s, d)
		}
		if DigestBytes([]byte(s)).IsZero() {
			t.Fatal("a hash is zero")
		}
	})
}
