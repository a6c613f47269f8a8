package envelope

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// maxKeyFileBytes is far above a PKCS#8 Ed25519 key in PEM.
const maxKeyFileBytes = 16 << 10

// CodeKeyFile is the code of every refusal to load or make a key file.
const CodeKeyFile = "envelope.key_file"

// Signer holds a private key and never shows it: every way of printing a Signer
// prints its DID (G21). The zero Signer cannot sign.
type Signer struct {
	did DID
	// make holds the key in a closure: printing a struct that holds a signer in
	// an unexported field, where fmt calls no method, shows an address.
	make func(message []byte) []byte
}

// NewSigner makes a signer of a 64-byte private key; any other length gives the
// zero Signer.
func NewSigner(priv ed25519.PrivateKey) Signer {
	if len(priv) != ed25519.PrivateKeySize {
		return Signer{}
	}
	pub, _ := priv.Public().(ed25519.PublicKey)
	did := DIDFromPublic(pub)
	if did.IsZero() {
		return Signer{}
	}
	priv = slices.Clone(priv)
	return Signer{did: did, make: func(message []byte) []byte { return ed25519.Sign(priv, message) }}
}

// DID is the public identity of the signer.
func (s Signer) DID() DID { return s.did }

// IsZero reports whether there is no key.
func (s Signer) IsZero() bool { return s.make == nil }

// String is the DID, so that printing a signer shows no key.
func (s Signer) String() string { return s.did.String() }

// Format prints the DID whatever the verb is.
func (s Signer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.did.String()) }

func (s Signer) sign(message []byte) []byte { return s.make(message) }

// LoadSigner reads one PKCS#8 Ed25519 key in PEM. It refuses a file that group
// or others can read or write, anything but a regular file, and any bytes
// beside the one block. Code envelope.key_file.
func LoadSigner(path string) (Signer, error) {
	f, err := os.Open(path)
	if err != nil {
		return Signer{}, keyFileError(path, err.Error())
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return Signer{}, keyFileError(path, err.Error())
	}
	if !info.Mode().IsRegular() {
		return Signer{}, keyFileError(path, "it is not a regular file")
	}
	if info.Mode().Perm()&0o077 != 0 {
		e := keyFileError(path, "its mode is "+info.Mode().Perm().String()+": others can reach the key")
		return Signer{}, e.Advise("chmod 600 %s", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFileBytes+1))
	if err != nil || len(data) > maxKeyFileBytes {
		return Signer{}, keyFileError(path, "it cannot be read as a key")
	}
	return signerFromPEM(path, data)
}

func signerFromPEM(path string, data []byte) (Signer, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" || len(block.Headers) != 0 {
		return Signer{}, keyFileError(path, "it is not a PKCS#8 private key in PEM")
	}
	if strings.TrimSpace(string(rest)) != "" {
		return Signer{}, keyFileError(path, "something follows the key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Signer{}, keyFileError(path, "it is not a PKCS#8 private key in PEM")
	}
	priv, ok := key.(ed25519.PrivateKey)
	if !ok {
		return Signer{}, keyFileError(path, "it is not an Ed25519 key")
	}
	s := NewSigner(priv)
	if s.IsZero() {
		return Signer{}, keyFileError(path, "it is not a usable Ed25519 key")
	}
	return s, nil
}

// GenerateKeyFile makes a key and writes it to a new file with mode 0600. An
// existing file is never replaced.
func GenerateKeyFile(path string) (Signer, error) {
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Signer{}, keyFileError(path, err.Error())
	}
	der, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		return Signer{}, keyFileError(path, err.Error())
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := writeNew(path, text); err != nil {
		return Signer{}, keyFileError(path, err.Error())
	}
	return NewSigner(priv), nil
}

func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(path)
	}
	return err
}

func keyFileError(path, why string) *fleet.Error {
	return fleet.Invalidf(CodeKeyFile, "the key file %s cannot be used", fleet.Printable(path, 200)).Because("%s", why)
}
