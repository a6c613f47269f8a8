package admission

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"time"
)

// Key is one public key that the trust policy knows, with the window in which a
// signature by it counts. The time that must lie in the window is when somebody
// trusted saw the signature; without such an observer, that of the evaluation.
type Key struct {
	ID        string
	NotBefore time.Time // zero: always
	NotAfter  time.Time // first instant after the window; zero: for ever
	Root      string    // id of the root whose logs and timestamps count; "" for none
	public    crypto.PublicKey
	hint      string
}

// NewKey reads a PEM public key. Ed25519 and ECDSA P-256 are accepted, others
// are refused.
func NewKey(id, publicPEM string) (Key, error) {
	block, rest := pem.Decode([]byte(publicPEM))
	if block == nil || block.Type != "PUBLIC KEY" || strings.TrimSpace(string(rest)) != "" {
		return Key{}, errors.New("it is not exactly one PEM block PUBLIC KEY")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Key{}, errors.New("it is not a public key in PKIX form")
	}
	if !acceptable(public) {
		return Key{}, errors.New("only Ed25519 and ECDSA P-256 keys are accepted")
	}
	return Key{ID: id, public: public, hint: hintOf(block.Bytes)}, nil
}

func acceptable(public crypto.PublicKey) bool {
	switch k := public.(type) {
	case ed25519.PublicKey:
		return true
	case *ecdsa.PublicKey:
		return k.Curve == elliptic.P256()
	}
	return false
}

func hintOf(der []byte) string {
	sum := sha256.Sum256(der)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Public is the key itself.
func (k Key) Public() crypto.PublicKey { return k.public }

// Hint is base64(SHA-256(DER)): how a bundle names the key.
func (k Key) Hint() string { return k.hint }

// answersTo reports whether a bundle's hint names this key.
func (k Key) answersTo(hint string) bool { return hint != "" && (hint == k.hint || hint == k.ID) }
