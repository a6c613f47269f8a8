package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
)

// Digest is a SHA-256 digest, written "sha256:" and 64 lower-case hex digits.
// Upper case, other algorithms and other lengths are refused. The zero value is
// "no digest". Only parsing and hashing make one.
type Digest struct{ text string }

// ParseDigest parses the written form.
func ParseDigest(s string) (Digest, error) {
	hexPart, ok := strings.CutPrefix(s, "sha256:")
	if !ok || len(hexPart) != 64 || strings.Trim(hexPart, "0123456789abcdef") != "" {
		return Digest{}, Invalidf("id.digest", "digest %q is not sha256: and 64 lower-case hex digits", printable(s, 80))
	}
	return Digest{text: s}, nil
}

// DigestBytes hashes data.
func DigestBytes(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest{text: "sha256:" + hex.EncodeToString(sum[:])}
}

// DigestReader hashes everything r gives.
func DigestReader(r io.Reader) (Digest, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return Digest{}, err
	}
	return Digest{text: "sha256:" + hex.EncodeToString(h.Sum(nil))}, nil
}

// String returns the written form, or "" for none.
func (d Digest) String() string { return d.text }

// Hex returns the 64 hex digits without the algorithm.
func (d Digest) Hex() string { return strings.TrimPrefix(d.text, "sha256:") }

// IsZero reports whether there is no digest.
func (d Digest) IsZero() bool { return d.text == "" }

// MarshalText writes the digest.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.text), nil }

// UnmarshalText parses the digest; "" is the zero digest.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = Digest{}
		return nil
	}
	parsed, err := ParseDigest(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}
